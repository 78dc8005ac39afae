//! Composition on the grid by a Fourier transform, with everything it may be off by.
//!
//! # The bound
//!
//! With the tilted, composed distribution p on multiples s of h, `M = Π E[e^{λL}]`, the tail of the composition is
//!
//! ```text
//! δ(ε) = M e^{−λε} Σ_{s>ε} p(s) κ(s − ε),    κ(y) = e^{−λy} (1 − e^{−y}) ≤ 1
//! ```
//!
//! - **Folding.** Multiples are taken modulo the length of the transform, an exact operation; what is read is at least p.
//!   An upper bound reads on up to a multiple `top` and takes all mass above it as if it lay there; a lower bound subtracts
//!   what may have been folded into the part it reads, by Chernoff's bound on p.
//! - **Rounding.** A transform of length N errs by at most `E = t·log₂N` relative to its result in the 2-norm, t being [`ERROR`] (below).
//!   Factors of a product lie in the unit disc (computed ones are put back into it), so `|Π a − Π b| ≤ Σ |a − b|`, and with
//!   Parseval the composed p is off by at most `e = E·(1 + Σ_events ‖p_event‖₂) + u-terms` in the 2-norm. A sum over κ is then off by
//!   at most `e·‖κ‖₂`, which is added to δ, or taken from it.
//!
//! # The constant of a transform
//!
//! For radix 2 in f64, with the unit roundoff `u = 2⁻⁵³` and twiddle factors off by at most μ, the relative error in the 2-norm is at most
//! `log₂N·η/(1 − log₂N·η)`, `η = μ + γ₄(√2 + μ)`, `γ₄ = 4u/(1 − 4u)` (Higham, "Accuracy and stability of numerical algorithms", 2nd edition,
//! theorem 24.2). A pass of radix 2^k has the additions of k such levels and no more multiplications than they.
//!
//! - rustfft takes the cosine and sine of `(−2π/n)·j`: n is a power of two, so that of its roundings only those of π (0.35u) and of the
//!   product (u) count, on an angle below 2π: 8.5u. The functions are off by less than a unit in the last place, 2u in modulus. So
//!   `μ ≤ 10.5u`.
//! - Hence `η ≤ 10.5u + 4u·√2 + O(u²) < 16.2u`. [`ERROR`] is 20u.
//! - A real transform of length N is a complex one of N/2, `log₂N − 1` levels, and a pass that unpacks it by one twiddle factor and
//!   additions, one level more. Two further levels are counted, for the division of values back into the disc, for the scaling by 1/N and for
//!   `1/(1 − log₂N·η)`.
//!
//! The tests compare transforms with sums of twice the precision, and compositions with convolutions of twice the precision.

use super::bound::Bound;
use super::grid::Folded;
use libm::{exp, expm1, log, log1p, log2, sqrt};
use realfft::RealFftPlanner;
use realfft::num_complex::Complex;

/// A transform's relative error in the 2-norm per binary digit of its length.
const ERROR: f64 = 20.0 * f64::EPSILON / 2.0;
/// Of a product of complex numbers, and of a sum of four.
const ROUNDING: f64 = 8.0 * f64::EPSILON;
/// A frequency whose product has become smaller is taken for 0 from then on: most are, for a composition is smooth.
const VANISHED: f64 = 1e-30;

/// A distribution that events are mixtures of, transformed.
struct Transformed {
    spectrum: Vec<Complex<f64>>,
    offset: f64,
    ln_moment: f64,
    norm: f64,
}

/// Transforms and composes, all on one grid.
pub(super) struct Composer {
    len: usize,
    planner: RealFftPlanner<f64>,
    parts: Vec<Transformed>,
    product: Vec<Complex<f64>>,
    /// The frequencies at which it has not vanished.
    live: Vec<usize>,
    offset: f64,
    /// `ln M`, and a bound on its rounding.
    ln_moment: f64,
    ln_slack: f64,
    /// The 2-norm of the error of `product`, over √N.
    error: f64,
}

/// The tilted composition modulo the grid's length.
pub(super) struct Composed {
    mass: Vec<f64>,
    /// Added to every multiple.
    pub offset: f64,
    /// `ln M`, and a bound on its rounding.
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

    /// Adds a distribution that events may be mixtures of; they name it by its number, from 0. Parts of one mixture have the
    /// same offset.
    pub fn part(&mut self, mut folded: Folded) {
        let mut spectrum = vec![Complex::new(0.0, 0.0); self.len / 2 + 1];
        let transform = self.planner.plan_fft_forward(self.len);
        // Lengths agree by construction, the only thing that it may complain about.
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

    /// Composes with `times` events, each the mixture of parts with these weights, which add up to 1.
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

        // Of many roundings none may lift a lower bound.
        let offset = mixture.first().map_or(0.0, |(part, _)| self.parts[*part].offset);
        self.offset += times_f * offset - 2.0 * f64::EPSILON * (self.offset.abs() + times_f * offset.abs());

        let (parts, product, live) = (&self.parts, &mut self.product, &mut self.live);
        if let [(part, _)] = shares[..] {
            let part = &parts[part].spectrum;
            Self::multiply(product, live, |k| power(part[k], times));
        } else if let [(first, share), (second, other)] = shares[..] {
            // Most of a schedule's mixtures.
            let (first, second) = (&parts[first].spectrum, &parts[second].spectrum);
            Self::multiply(product, live, |k| power(first[k] * share + second[k] * other, times));
        } else {
            Self::multiply(product, live, |k| {
                power(shares.iter().map(|(part, share)| parts[*part].spectrum[k] * share).sum(), times)
            });
        }
    }

    /// Multiplies the product with a factor at each frequency.
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

    /// The composition of all events.
    pub fn finish(mut self) -> Composed {
        let mut mass = vec![0.0; self.len];
        let transform = self.planner.plan_fft_inverse(self.len);
        // The first and the last frequency are real; it takes them as such.
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

/// The point of the grid at which δ is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// The tilt.
    pub tilt: f64,
    /// The step.
    pub step: f64,
    /// The multiple above which nothing is read.
    pub top: i64,
    /// The mass that a tilted distribution may fold into the part that is read; of a lower bound only.
    pub folded: f64,
}

impl Composed {
    /// The ε in `[least, top]` at which the bound on δ, less `infinite`, meets δ: the smallest whose upper bound is at most δ,
    /// or the largest whose lower bound is at least δ. `None` where there is no such ε.
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
        // The recurrence's terms are positive: each operation costs a unit, and no sum has more than `len` terms.
        let relative = (len as f64 + 64.0) * 4.0 * f64::EPSILON;
        let (down, decay, gain) = (exp(-tilt * step), exp(-(tilt + 1.0) * step), -expm1(-step));
        // What δ·e^{λs}/M may be at s, and e^{λs}/M·Σ_{s'≥s} e^{s−s'}p.
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
                // δ is linear in e^ε between multiples; the error's share is that at the lower one.
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
}

/// `‖κ‖₂` on the grid: `κ² ≤ e^{−2λy} min(y, 1)²`, and a sum is at most the integral and twice the largest term.
fn kernel_norm(tilt: f64, step: f64) -> f64 {
    let largest = exp(-tilt * log1p(1.0 / tilt)) / (tilt + 1.0);
    let integral = f64::min(1.0 / (4.0 * tilt * tilt * tilt), 1.0 / (2.0 * tilt));
    sqrt(integral / step + 2.0 * largest * largest)
}

#[cfg(test)]
mod tests;
