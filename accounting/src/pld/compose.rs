//! Composition on the grid by a Fourier transform, with a bound on its error.
//!
//! # The bound
//!
//! With the tilted, composed distribution p on multiples s of h, `M = Π E[e^{λL}]`, the tail of the composition is
//!
//! ```text
//! δ(ε) = M e^{−λε} Σ_{s>ε} p(s) κ(s − ε),    κ(y) = e^{−λy} (1 − e^{−y}) ≤ 1
//! ```
//!
//! - **Folding.** Multiples are taken modulo the length of the transform, which is exact. An entry is at least p. An
//!   upper bound reads up to a multiple `top`, and moves all mass above it to `top`. A lower bound subtracts the mass
//!   that may be folded into the part it reads, by Chernoff's bound on p.
//! - **Rounding.** A transform of length N errs by at most `E = t·log₂N` relative to its result in the 2-norm, with t
//!   the constant [`ERROR`] (below). Factors of a product are in the unit disc, and computed factors are scaled back
//!   into it, so `|Π a − Π b| ≤ Σ |a − b|`. With Parseval, the composed p has an error of at most
//!   `e = E·(1 + Σ_events ‖p_event‖₂) + u-terms` in the 2-norm. A sum over κ then has an error of at most `e·‖κ‖₂`,
//!   which is added to δ, or subtracted from it.
//!
//! # The constant of a transform
//!
//! For radix 2 in f64, let `u = 2⁻⁵³` be the unit roundoff and let twiddle factors have an error of at most μ. Then the
//! relative error in the 2-norm is at most `log₂N·η/(1 − log₂N·η)`, with `η = μ + γ₄(√2 + μ)` and `γ₄ = 4u/(1 − 4u)`
//! (Higham, "Accuracy and stability of numerical algorithms", 2nd edition, theorem 24.2). A pass of radix 2^k has the
//! additions of k such levels, and no more multiplications than these levels.
//!
//! - rustfft takes the cosine and sine of `(−2π/n)·j`. As n is a power of two, only the roundings of π (0.35u) and of
//!   the product (u) count, on an angle below 2π: 8.5u. The functions have an error below one unit in the last place,
//!   2u in modulus. So `μ ≤ 10.5u`.
//! - So `η ≤ 10.5u + 4u·√2 + O(u²) < 16.2u`. [`ERROR`] is 20u.
//! - A real transform of length N is a complex transform of length N/2, with `log₂N − 1` levels. A pass unpacks it by
//!   one twiddle factor and additions, which is one more level. The bound counts two further levels: for the division
//!   of values back into the disc, for the scaling by 1/N and for `1/(1 − log₂N·η)`.
//!
//! The tests compare transforms with sums of twice the precision, and compositions with convolutions of twice the
//! precision.

use super::bound::Bound;
use super::grid::Folded;
use libm::{exp, expm1, log, log1p, log2, sqrt};
use realfft::RealFftPlanner;
use realfft::num_complex::Complex;

/// A transform's relative error in the 2-norm per binary digit of its length.
const ERROR: f64 = 20.0 * f64::EPSILON / 2.0;
/// The relative rounding error of a product of complex numbers, and of a sum of four.
const ROUNDING: f64 = 8.0 * f64::EPSILON;
/// A frequency with a product below this is set to 0 from then on. Most frequencies are, because a composition is
/// smooth.
const VANISHED: f64 = 1e-30;

/// The transform of a distribution, a part of the events' mixtures.
struct Transformed {
    spectrum: Vec<Complex<f64>>,
    offset: f64,
    ln_moment: f64,
    norm: f64,
}

/// Transforms and composes distributions on one grid.
pub(super) struct Composer {
    len: usize,
    planner: RealFftPlanner<f64>,
    parts: Vec<Transformed>,
    product: Vec<Complex<f64>>,
    /// The frequencies at which the product has not vanished.
    live: Vec<usize>,
    offset: f64,
    /// `ln M`, and a bound on its rounding error.
    ln_moment: f64,
    ln_slack: f64,
    /// The 2-norm of the error of `product`, over √N.
    error: f64,
}

/// The tilted composition modulo the grid's length.
pub(super) struct Composed {
    mass: Vec<f64>,
    /// Offset of every multiple.
    pub offset: f64,
    /// `ln M`, and a bound on its rounding error.
    pub ln_moment: f64,
    pub ln_slack: f64,
    /// The 2-norm of the error of `mass`.
    error: f64,
}

impl Composer {
    /// A composer of distributions of `len` entries, a power of two.
    pub fn new(len: usize) -> Self {
        let product = vec![Complex::new(1.0, 0.0); len / 2 + 1];
        Self {
            len,
            planner: RealFftPlanner::new(),
            parts: Vec::new(),
            product,
            live: (0..=len / 2).collect(),
            offset: 0.0,
            ln_moment: 0.0,
            ln_slack: 0.0,
            error: VANISHED,
        }
    }

    /// Adds a distribution for the mixtures of events. Events refer to it by its index, from 0. Parts of one mixture
    /// have the same offset.
    pub fn part(&mut self, mut folded: Folded) {
        let mut spectrum = vec![Complex::new(0.0, 0.0); self.len / 2 + 1];
        let transform = self.planner.plan_fft_forward(self.len);
        // The lengths agree by construction, and a wrong length is the only possible error.
        let _ = transform.process(&mut folded.mass, &mut spectrum);
        for value in &mut spectrum {
            let size = value.norm();
            if size > 1.0 {
                *value /= size;
            }
        }
        self.parts.push(Transformed {
            spectrum,
            offset: folded.offset,
            ln_moment: folded.ln_moment,
            norm: folded.norm,
        });
    }

    /// Composes with `times` events. Each is the mixture of parts with these weights, which sum to 1.
    pub fn compose(&mut self, mixture: &[(usize, f64)], times: u64) {
        let times_f = times as f64;
        let most = mixture.iter().map(|(part, _)| self.parts[*part].ln_moment).fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = mixture.iter().map(|(part, weight)| weight * exp(self.parts[*part].ln_moment - most)).sum();
        let shares: Vec<(usize, f64)> = mixture
            .iter()
            .map(|(part, weight)| (*part, weight * exp(self.parts[*part].ln_moment - most) / total))
            .collect();
        let ln_moment = most + log(total);
        self.ln_moment += times_f * ln_moment;
        self.ln_slack += times_f * 16.0 * f64::EPSILON * (1.0 + ln_moment.abs());
        self.ln_slack += 2.0 * f64::EPSILON * self.ln_moment.abs();
        let norm = shares.iter().map(|(part, share)| share * self.parts[*part].norm).sum::<f64>();
        self.error += times_f * (self.transform_error() * norm + ROUNDING);

        // Rounding errors must not raise a lower bound.
        let offset = mixture.first().map_or(0.0, |(part, _)| self.parts[*part].offset);
        self.offset += times_f * offset - 2.0 * f64::EPSILON * (self.offset.abs() + times_f * offset.abs());

        let (parts, product, live) = (&self.parts, &mut self.product, &mut self.live);
        if let [(part, _)] = shares[..] {
            let part = &parts[part].spectrum;
            Self::multiply(product, live, |k| power(part[k], times));
        } else if let [(first, share), (second, other)] = shares[..] {
            // The case of most of a schedule's mixtures.
            let (first, second) = (&parts[first].spectrum, &parts[second].spectrum);
            Self::multiply(product, live, |k| power(first[k] * share + second[k] * other, times));
        } else {
            Self::multiply(product, live, |k| {
                power(shares.iter().map(|(part, share)| parts[*part].spectrum[k] * share).sum(), times)
            });
        }
    }

    /// Multiplies the product by a factor at each frequency.
    fn multiply(product: &mut [Complex<f64>], live: &mut Vec<usize>, factor: impl Fn(usize) -> Complex<f64>) {
        live.retain(|&k| {
            let value = product[k] * factor(k);
            let stays = value.norm_sqr() >= VANISHED * VANISHED;
            product[k] = if stays { value } else { Complex::new(0.0, 0.0) };
            stays
        });
    }

    fn transform_error(&self) -> f64 {
        ERROR * (log2(self.len as f64) + 2.0)
    }

    /// Returns the composition of all events.
    pub fn finish(mut self) -> Composed {
        let mut mass = vec![0.0; self.len];
        let transform = self.planner.plan_fft_inverse(self.len);
        // The transform requires the first and the last frequency to be real, and they are.
        let end = self.product.len() - 1;
        (self.product[0].im, self.product[end].im) = (0.0, 0.0);
        let _ = transform.process(&mut self.product, &mut mass);
        let scale = 1.0 / self.len as f64;
        mass.iter_mut().for_each(|mass| *mass = (*mass * scale).max(0.0));
        let error = self.error + self.transform_error() * (1.0 + self.error);
        Composed { mass, offset: self.offset, ln_moment: self.ln_moment, ln_slack: self.ln_slack, error }
    }
}

/// zⁿ by squaring.
fn power(z: Complex<f64>, n: u64) -> Complex<f64> {
    let (mut square, mut power, mut n) = (z, Complex::new(1.0, 0.0), n);
    loop {
        if n & 1 == 1 {
            power *= square;
        }
        n >>= 1;
        if n == 0 {
            return power;
        }
        square *= square;
    }
}

/// The range of the grid over which δ is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// The tilt.
    pub tilt: f64,
    /// The step.
    pub step: f64,
    /// The multiple at which reading ends.
    pub top: i64,
    /// The mass that a tilted distribution may fold into the part that is read. Used for a lower bound only.
    pub folded: f64,
}

impl Composed {
    /// Returns the ε in `[least, top]` at which the bound on δ, less `infinite`, equals δ. It is the smallest ε whose
    /// upper bound is at most δ, or the largest ε whose lower bound is at least δ. `None` if no such ε exists.
    pub fn epsilon(&self, window: &Window, bound: Bound, delta: f64, infinite: f64, least: f64) -> Option<f64> {
        let Window { tilt, step, top, folded } = *window;
        let room = delta - infinite;
        if room <= 0.0 || self.error > 1e-3 {
            return None;
        }
        let kernel = self.error * kernel_norm(tilt, step);
        let len = self.mass.len();
        let roundings = 8.0 * f64::EPSILON * (self.ln_moment.abs() + tilt * step * (top.abs() as f64) + 64.0);
        let slack = (self.ln_slack + roundings) * if bound == Bound::Upper { 1.0 } else { -1.0 };
        // The recurrence's terms are positive: each operation costs one unit, and a sum has at most `len` terms.
        let relative = (len as f64 + 64.0) * 4.0 * f64::EPSILON;
        let (down, decay, gain) = (exp(-tilt * step), exp(-(tilt + 1.0) * step), -expm1(-step));
        // The bound on δ·e^{λs}/M at s, and e^{λs}/M·Σ_{s'≥s} e^{s−s'}p.
        let (mut tail, mut sum) = if bound == Bound::Upper { (1.0, 1.0) } else { (0.0, 0.0) };
        let certified = |tail: f64, error: f64| match bound {
            Bound::Upper => tail * (1.0 + relative) + error,
            Bound::Lower => tail * (1.0 - relative) - error,
        };
        let error = kernel + folded;
        // The threshold at s: room·e^{λs}/M.
        let ln_room = |at: i64| log(room) - self.ln_moment - slack + tilt * (self.offset + at as f64 * step);
        let bottom = (((least - self.offset) / step).floor() as i64).max(top - len as i64 + 1);
        let mut at = top;
        while at > bottom {
            let mass = self.mass[at.rem_euclid(len as i64) as usize];
            sum = mass + decay * sum;
            let below = down * (tail + gain * sum);
            let value = certified(below, error);
            let threshold = exp(ln_room(at - 1));
            if value > threshold {
                // δ is linear in e^ε between multiples. The error's share is its value at the lower multiple.
                let here = exp(ln_room(at)) - certified(tail, error / down);
                let share = if bound == Bound::Upper {
                    here / (sum * (1.0 + relative))
                } else {
                    here / (sum * (1.0 - relative))
                };
                let within = if here > 0.0 { log1p(-share.min(1.0)).max(-step) } else { 0.0 };
                let epsilon = self.offset + at as f64 * step + within;
                let roundings = 4.0 * f64::EPSILON * (self.offset.abs() + epsilon.abs() + step);
                return Some(if bound == Bound::Upper { epsilon + roundings } else { epsilon - roundings });
            }
            tail = below;
            at -= 1;
        }
        match bound {
            Bound::Upper => Some(self.offset + bottom as f64 * step),
            Bound::Lower => None,
        }
    }

    /// Returns a bound on `ln δ` at `epsilon`, without the mass that is not on the grid. `None` if ε is outside of the
    /// window, or the bound is trivial.
    pub fn ln_delta(&self, window: &Window, bound: Bound, epsilon: f64) -> Option<f64> {
        let Window { tilt, step, top, folded } = *window;
        if self.error > 1e-3 {
            return None;
        }
        let sign = if bound == Bound::Upper { 1.0 } else { -1.0 };
        let len = self.mass.len();
        let roundings = 8.0 * f64::EPSILON * (self.ln_moment.abs() + tilt * step * (top.abs() as f64) + 64.0);
        let slack = sign * (self.ln_slack + roundings);
        let relative = (len as f64 + 64.0) * 4.0 * f64::EPSILON;
        let error = self.error * kernel_norm(tilt, step) + folded;
        // δ falls with ε, so a smaller ε is on the safe side of an upper bound.
        let epsilon = epsilon - sign * 4.0 * f64::EPSILON * (self.offset.abs() + epsilon.abs() + step);
        let upper = ((epsilon - self.offset) / step).floor() as i64 + 1;
        if upper > top || top - upper + 2 > len as i64 {
            return None;
        }
        let (down, decay, gain) = (exp(-tilt * step), exp(-(tilt + 1.0) * step), -expm1(-step));
        let (mut tail, mut sum) = if bound == Bound::Upper { (1.0, 1.0) } else { (0.0, 0.0) };
        let mut above = tail;
        for at in (upper..=top).rev() {
            sum = self.mass[at.rem_euclid(len as i64) as usize] + decay * sum;
            above = tail;
            tail = down * (tail + gain * sum);
        }
        // Both in units of M·e^{−λs} at the lower multiple s. Between the multiples, δ is linear in e^ε.
        let certified = |tail: f64| (tail * (1.0 + sign * relative) + sign * error).max(0.0);
        let place = self.offset + (upper - 1) as f64 * step;
        let share = (expm1(epsilon - place) / expm1(step)).clamp(0.0, 1.0);
        let value = certified(tail) * (1.0 - share) + certified(above) * down * share;
        let found = log(value) + self.ln_moment + slack - tilt * place + sign * 1e-13;
        (found.is_finite() || bound == Bound::Upper).then_some(found)
    }
}

/// `‖κ‖₂` on the grid: `κ² ≤ e^{−2λy} min(y, 1)²`, and a sum is at most the integral plus twice the largest term.
fn kernel_norm(tilt: f64, step: f64) -> f64 {
    let largest = exp(-tilt * log1p(1.0 / tilt)) / (tilt + 1.0);
    let integral = f64::min(1.0 / (4.0 * tilt * tilt * tilt), 1.0 / (2.0 * tilt));
    sqrt(integral / step + 2.0 * largest * largest)
}

#[cfg(test)]
mod tests;
