//! Noise in shares: the privacy cost of a sum of discrete Gaussians from several devices.
//!
//! Each of n devices adds an independent discrete Gaussian of σ grid units, and only the sum is released. Its variance
//! is nσ², but a sum of discrete Gaussians is not a discrete Gaussian. Kairouz, Liu and Steinke ("The distributed
//! discrete Gaussian mechanism for federated learning with secure aggregation", ICML 2021) bound the difference. The
//! bound here has the same exponent and smaller constants.
//!
//! # The ratio
//!
//! Let `ρ_v(x) = e^{−x²/2v}` and `a(v) = 2 Σ_{m≥1} e^{−2π²vm²}`. By Poisson summation `Σ_z ρ_v(z − y) = √(2πv)·(1 + b)`
//! with `|b| ≤ a(v)`, and `b = a(v)` at integers y. Let X and Y be discrete Gaussians of the variances u and w,
//! `v = u + w` and `t = uw/v`. Completing the square, with `u·w = v·t` under the roots,
//!
//! ```text
//! P[X + Y = z] = ρ_v(z)/(√(2πv)) · (1 + b)/((1 + a(u))(1 + a(w))),   |b| ≤ a(t)
//! D_v(z)       = ρ_v(z)/(√(2πv)) / (1 + a(v))
//! ```
//!
//! As `a` is decreasing, `a(v) ≤ a(u)`, so the logarithm of their ratio lies in
//!
//! ```text
//! [ln(1 − a(t)) − a(u) − a(w),  ln(1 + a(t))].
//! ```
//!
//! Add the variables in turn, with `u = kσ²`, `w = σ²` and `t = σ²·k/(k+1)`. Convolving with `D_{σ²}` preserves a
//! ratio. So the logarithm of the ratio of the sum of n to the discrete Gaussian of variance nσ² is at most
//!
//! ```text
//! τ = Σ_{k=1}^{n−1} [−ln(1 − a(σ²·k/(k+1))) + a(kσ²) + a(σ²)]
//! ```
//!
//! in absolute value, at every integer. It is below 1e-60 from σ = 4 on.
//!
//! # The privacy cost
//!
//! The ratio bound holds around every integer, so it multiplies over D coordinates, the parts of a Poisson draw's
//! mixture and T adaptive rounds. With `c = τDT`, `P ≤ e^c P'` and `Q' ≤ e^c Q` for the outputs P', Q' of the run whose
//! noise is one discrete Gaussian. If that is (ε, δ)-private, the sum is `(ε + 2c, e^c δ)`-private.
//!
//! Integers that leave their range (a 32-bit word, or the proved range) change the output with a probability `p` that
//! does not depend on the data. As in `truncation`, that adds `(1 + e^ε)p` to δ.
//!
//! # Dropouts
//!
//! A device that leaves takes its share with it, so n is the smallest number of honest devices whose sum may be
//! released.

use super::delta::check_delta;
use super::pld::Neighbours;
use super::{Accountant, AccountingError, EpsilonBound, Event, Plan, SMALLEST_SIGMA, Sampler};
use damper_core::accounting::event::Rate;
use damper_core::numerics::up::{add_up, div_up, exp_up, from_u64_up, mul_up, next_down, sub_up};
use libm::{exp, log1p, sqrt};
use std::num::NonZeroU32;

/// Slightly below `2π²`.
const TWO_PI_SQUARED: f64 = 19.739_208_802_178;
/// Number of shares whose terms are added individually. Each later term is at most as large as the last of these.
const ONE_BY_ONE: u32 = 1 << 12;

/// The noise of a sum to which each of `shares` devices adds a discrete Gaussian.
///
/// ```
/// use damper_accounting::{Accountant, NoiseShares, SharedRounds, sampling_rate};
///
/// // 100 devices, each with a tenth of the noise of 2 clips of 2¹⁶ units.
/// let noise = NoiseShares::new(13_108, 100)?;
/// assert!((noise.sigma() / 65_536.0 - 2.0).abs() < 0.001 && noise.ln_ratio() < 1e-9);
/// let rounds = SharedRounds {
///     accountant: Accountant::Pld, rate: sampling_rate(0.01)?, rounds: 100, dim: 1000, grid_bits: 16, out_of_range: 0.0,
/// };
/// let epsilon = noise.epsilon(&rounds, 1e-5)?.epsilon;
/// assert!((0.1..0.5).contains(&epsilon));
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoiseShares {
    sigma: u32,
    shares: u32,
}

/// The rounds of a federation whose sums are released.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SharedRounds {
    /// The accountant that bounds ε.
    pub accountant: Accountant,
    /// The probability of each unit (a sample or a user) in each round.
    pub rate: Rate,
    /// Rounds.
    pub rounds: u64,
    /// Coordinates of a sum.
    pub dim: u64,
    /// The clip is `2^grid_bits` grid units.
    pub grid_bits: u32,
    /// An upper bound on the probability that any integer of any round leaves its range.
    pub out_of_range: f64,
}

impl NoiseShares {
    /// Noise of `shares` devices, each of `sigma` grid units.
    ///
    /// # Errors
    ///
    /// The number of shares or the noise is 0.
    pub fn new(sigma: u32, shares: u32) -> Result<Self, AccountingError> {
        match (sigma, shares) {
            (0, _) => Err(AccountingError::NoiseMultiplier(0.0)),
            (_, 0) => Err(AccountingError::NoShares),
            _ => Ok(Self { sigma, shares }),
        }
    }

    /// The standard deviation of the sum in grid units, rounded down.
    #[must_use]
    pub fn sigma(&self) -> f64 {
        let own = f64::from(self.sigma);
        if self.shares == 1 { own } else { next_down(own * next_down(sqrt(f64::from(self.shares)))) }
    }

    /// `τ`, the largest absolute logarithm of the ratio of a probability of the sum to that of the discrete Gaussian of
    /// the same variance. Rounded up. Infinite if σ is too small for a bound.
    #[must_use]
    pub fn ln_ratio(&self) -> f64 {
        let terms = self.shares - 1;
        let own = self.excess(1.0);
        let term = |k: u32| {
            let between = self.excess(f64::from(k) / (f64::from(k) + 1.0));
            if between < 1.0 {
                add_up(-log1p(-between) * (1.0 + 1e-12), add_up(self.excess(f64::from(k)), own))
            } else {
                f64::INFINITY
            }
        };
        let counted = terms.min(ONE_BY_ONE);
        let sum = (1..=counted).fold(0.0, |sum, k| add_up(sum, term(k)));
        let others = from_u64_up(u64::from(terms - counted));
        if others > 0.0 { add_up(sum, mul_up(others, term(counted))) } else { sum }
    }

    /// `a(factor · σ²)`, rounded up.
    fn excess(&self, factor: f64) -> f64 {
        let exponent = TWO_PI_SQUARED * factor * f64::from(self.sigma) * f64::from(self.sigma) * (1.0 - 1e-14);
        // Σ e^{−xm²} ≤ e^{−x}/(1 − e^{−3x}), for m² ≥ 1 + 3(m − 1).
        let rest = -sub_up(exp_up(-3.0 * exponent), 1.0);
        if rest > 0.0 { mul_up(2.0, div_up(exp_up(-exponent), rest)) } else { f64::INFINITY }
    }

    /// Returns ε at `delta` of the rounds whose sums have this noise, rounded up.
    ///
    /// # Errors
    ///
    /// A setting of `rounds` or `delta` is out of range, the noise is too small, or no finite ε holds.
    pub fn epsilon(&self, rounds: &SharedRounds, delta: f64) -> Result<EpsilonBound, AccountingError> {
        self.epsilon_of_group(rounds, NonZeroU32::MIN, delta)
    }

    /// [`NoiseShares::epsilon`] of a group of `size` units, which are all present or all absent. The cost of noise in
    /// shares does not depend on the units.
    ///
    /// # Errors
    ///
    /// As [`NoiseShares::epsilon`], or no useful ε is found for the group.
    pub fn epsilon_of_group(
        &self,
        rounds: &SharedRounds,
        size: NonZeroU32,
        delta: f64,
    ) -> Result<EpsilonBound, AccountingError> {
        check_delta(delta)?;
        let too_coarse = AccountingError::SharesTooCoarse { sigma: self.sigma, shares: self.shares };
        let grid = f64::from(1u32.checked_shl(rounds.grid_bits).ok_or(AccountingError::GridBits(rounds.grid_bits))?);
        let coordinates = mul_up(from_u64_up(rounds.dim), from_u64_up(rounds.rounds));
        let ratio = if self.shares == 1 { 0.0 } else { mul_up(self.ln_ratio(), coordinates) };
        let variance = u64::from(self.sigma).pow(2).saturating_mul(u64::from(self.shares));
        if variance < SMALLEST_SIGMA.pow(2) || ratio > 1.0 {
            return Err(too_coarse);
        }
        let multiplier = self.sigma() / grid;
        let plan = Plan::constant(rounds.rate, multiplier, None, rounds.rounds)?;
        let at = |delta| {
            let found = if size == NonZeroU32::MIN {
                plan.epsilon(rounds.accountant, delta)?
            } else {
                let event = Event::Compose(Event::draws(Sampler::Poisson, plan.events()));
                event.epsilon_of_group(size, Neighbours::AddOrRemove, delta)?
            };
            Ok::<_, AccountingError>(EpsilonBound { epsilon: plus(found.epsilon, 2.0 * ratio), ..found })
        };
        let mut guess = at(delta)?.epsilon;
        for _ in 0..64 {
            let lost =
                if rounds.out_of_range > 0.0 { mul_up(plus(exp_up(guess), 1.0), rounds.out_of_range) } else { 0.0 };
            let left =
                if lost + ratio > 0.0 { next_down(-sub_up(lost, delta) * next_down(exp(-ratio))) } else { delta };
            if left.is_nan() || left <= 0.0 {
                return Err(AccountingError::OutOfRange { probability: rounds.out_of_range, delta });
            }
            let found = at(left)?;
            if found.epsilon <= guess {
                return Ok(found);
            }
            // Slightly above, so that the next ε is below its guess.
            guess = found.epsilon * (1.0 + 1e-6);
        }
        Err(AccountingError::OutOfRange { probability: rounds.out_of_range, delta })
    }
}

/// Returns an upper bound on the probability that a discrete Gaussian is `deviations` or more standard deviations from
/// 0. A discrete Gaussian is subgaussian (Canonne, Kamath, Steinke, arXiv 2004.00010, corollary 17).
///
/// ```
/// use damper_accounting::tail;
///
/// // The probability of 10 deviations or more, of the bound e^{−x²/2}.
/// assert!(tail(10.0) < 1e-20 && tail(10.0) > 1e-24);
/// ```
#[must_use]
pub fn tail(deviations: f64) -> f64 {
    mul_up(2.0, exp_up(-deviations * deviations / 2.0)).min(1.0)
}

/// `a + b`, rounded up. Exactly `a` if b is 0.
fn plus(a: f64, b: f64) -> f64 {
    if b == 0.0 { a } else { add_up(a, b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libm::log;

    /// The probabilities of the discrete Gaussian of variance `v` at `-reach..=reach`.
    fn gaussian(v: f64, reach: i32) -> Vec<f64> {
        let weights: Vec<f64> = (-reach..=reach).map(|z| exp(-f64::from(z) * f64::from(z) / (2.0 * v))).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / total).collect()
    }

    /// The probabilities of the sum of `shares` discrete Gaussians, by convolving them.
    fn convolved(sigma: f64, shares: u32, reach: i32) -> Vec<f64> {
        let one = gaussian(sigma * sigma, reach);
        (1..shares).fold(one.clone(), |sum, _| {
            let mut next = vec![0.0; sum.len()];
            for (i, p) in sum.iter().enumerate() {
                for (j, q) in one.iter().enumerate() {
                    let at = i as i32 + j as i32 - reach;
                    if (0..=2 * reach).contains(&at) {
                        next[at as usize] += p * q;
                    }
                }
            }
            next
        })
    }

    /// `Σ max(0, P − e^ε Q)` of a distribution shifted by `shift` and itself.
    fn hockey_stick(p: &[f64], shift: usize, epsilon: f64) -> f64 {
        let moved = |at: usize| if at >= shift { p[at - shift] } else { 0.0 };
        (0..p.len()).map(|at| (moved(at) - exp(epsilon) * p[at]).max(0.0)).sum()
    }

    // The ratio of the convolution to the discrete Gaussian of its variance is within the bound, which is tight for two
    // shares.
    #[test]
    fn ratio_bound_holds_and_is_tight() {
        for (sigma, shares) in [(1u32, 2u32), (1, 3), (1, 8), (1, 30), (2, 2), (2, 5)] {
            let noise = NoiseShares::new(sigma, shares).unwrap();
            let v = f64::from(sigma * sigma * shares);
            let reach = (9.0 * sqrt(v)) as i32;
            let (sum, ideal) = (convolved(f64::from(sigma), shares, 2 * reach), gaussian(v, 2 * reach));
            // Far from the centre the convolution lacks the truncated mass.
            let middle = reach as usize..3 * reach as usize;
            let seen = middle.map(|at| log(sum[at] / ideal[at]).abs()).fold(0.0, f64::max);
            let bound = noise.ln_ratio();
            assert!(seen <= bound + 1e-13, "{sigma} {shares}: {seen:e} {bound:e}");
            // More shares are smoother than two. At σ = 2 the ratio is below the rounding error of the sums.
            assert!((sigma, shares) != (1, 2) || seen > 0.999 * bound, "{sigma} {shares}: {seen:e} {bound:e}");
            // The published bound.
            let exponent = |k: u32| -TWO_PI_SQUARED * f64::from(sigma * sigma) * f64::from(k) / f64::from(k + 1);
            let published: f64 = 10.0 * (1..shares).map(|k| exp(exponent(k))).sum::<f64>();
            assert!(bound < published, "{sigma} {shares}: {bound:e} {published:e}");
        }
    }

    // The privacy of the convolved noise, computed exactly, is within the bound that the ratio gives relative to the
    // discrete Gaussian.
    #[test]
    fn convolved_noise_is_private_within_ratio() {
        for (shares, shift) in [(2u32, 1usize), (2, 3), (5, 2), (8, 4)] {
            let noise = NoiseShares::new(1, shares).unwrap();
            let v = f64::from(shares);
            let reach = (12.0 * sqrt(v)) as i32;
            let (sum, ideal) = (convolved(1.0, shares, reach), gaussian(v, reach));
            let c = noise.ln_ratio();
            for epsilon in [0.1, 0.5, 1.0, 2.0] {
                let (found, allowed) =
                    (hockey_stick(&sum, shift, epsilon + 2.0 * c), hockey_stick(&ideal, shift, epsilon));
                assert!(found <= exp(c) * allowed + 1e-14, "{shares} {shift} {epsilon}: {found:e} {allowed:e}");
            }
        }
    }

    fn rounds(grid_bits: u32, count: u64) -> SharedRounds {
        SharedRounds {
            accountant: Accountant::Pld,
            rate: Rate::ONE,
            rounds: count,
            dim: 1,
            grid_bits,
            out_of_range: 0.0,
        }
    }

    // ε of four shares of 512 units, against the exact δ of the convolution.
    #[test]
    fn epsilon_bounds_exact_delta_of_convolution() {
        let noise = NoiseShares::new(512, 4).unwrap();
        let sum = convolved(512.0, 4, 9000);
        for delta in [1e-3, 1e-5, 1e-7] {
            let epsilon = noise.epsilon(&rounds(9, 1), delta).unwrap().epsilon;
            let exact = hockey_stick(&sum, 512, epsilon);
            assert!(exact <= delta && exact > 0.9 * delta, "{delta:e}: {exact:e}");
        }
    }

    // One share has the plain accountant's cost. More shares of the same total cost the same. Fewer devices cost more.
    #[test]
    fn epsilon_is_of_the_smallest_cohort() {
        let run = SharedRounds { rate: Rate::of(1, 10).unwrap(), dim: 1_000_000, ..rounds(16, 100) };
        let epsilon = |sigma, shares| NoiseShares::new(sigma, shares).unwrap().epsilon(&run, 1e-5).unwrap().epsilon;
        let plain = Plan::constant(run.rate, 2.0, None, 100).unwrap().epsilon(Accountant::Pld, 1e-5).unwrap().epsilon;
        assert_eq!(epsilon(1 << 17, 1), plain);
        let shared = epsilon(1 << 16, 4);
        assert!(shared >= plain && shared < plain * (1.0 + 1e-9), "{shared} {plain}");
        assert!(epsilon(1 << 16, 3) > 1.1 * shared);
    }

    /// A group of users is accounted at the noise of the sum. With one share it costs the same as any draw, and if
    /// always drawn, the same as a Gaussian.
    #[test]
    fn group_of_units_is_that_of_the_draws() {
        let run = SharedRounds { rate: Rate::of(1, 10).unwrap(), dim: 1_000_000, ..rounds(16, 100) };
        let five = NonZeroU32::new(5).unwrap();
        let plan = Plan::constant(run.rate, 4.0, None, 100).unwrap();
        let plain = Event::Compose(Event::draws(Sampler::Poisson, plan.events()))
            .epsilon_of_group(five, Neighbours::AddOrRemove, 1e-5)
            .unwrap()
            .epsilon;
        let shared = NoiseShares::new(1 << 17, 4).unwrap().epsilon_of_group(&run, five, 1e-5).unwrap().epsilon;
        assert!(shared >= plain && shared < plain * (1.0 + 1e-9), "{shared} {plain}");
        let always = SharedRounds { rate: Rate::ONE, ..run };
        let epsilon = |sigma, size| {
            let noise = NoiseShares::new(sigma, 1).unwrap();
            noise.epsilon_of_group(&always, NonZeroU32::new(size).unwrap(), 1e-5).unwrap().epsilon
        };
        let (group, one) = (epsilon(250 << 16, 5), epsilon(50 << 16, 1));
        assert!((group / one - 1.0).abs() < 1e-6, "{group} {one}");
    }

    /// If out-of-range integers take half of δ, ε is that of the rest, to a millionth, for any speed of convergence.
    #[test]
    fn large_loss_is_priced_not_refused() {
        let run = SharedRounds { rate: Rate::ONE, ..rounds(16, 1) };
        let noise = NoiseShares::new(1 << 17, 1).unwrap();
        let lost = |out_of_range| noise.epsilon(&SharedRounds { out_of_range, ..run }, 1e-5);
        for out_of_range in [1e-8, 1e-7, 2e-7, 3e-7] {
            let found = lost(out_of_range).unwrap().epsilon;
            let left = 1e-5 - (1.0 + exp(found)) * out_of_range;
            let exact = noise.epsilon(&run, left).unwrap().epsilon;
            assert!((found / exact - 1.0).abs() < 1e-4, "{out_of_range:e}: {found} {exact}");
        }
    }

    #[test]
    fn coarse_shares_are_refused() {
        let coarse = |sigma, shares, dim| {
            let run = SharedRounds { dim, ..rounds(8, 10) };
            NoiseShares::new(sigma, shares).unwrap().epsilon(&run, 1e-5)
        };
        // First case: the total noise is too small. Then: enough noise, but its shares are not Gaussian.
        assert!(matches!(coarse(500, 4, 1), Err(AccountingError::SharesTooCoarse { sigma: 500, shares: 4 })));
        assert!(matches!(coarse(1, 1 << 21, 1 << 10), Err(AccountingError::SharesTooCoarse { .. })));
        assert!(coarse(2, 1 << 20, 1 << 20).is_ok());
        assert_eq!(NoiseShares::new(5, 0), Err(AccountingError::NoShares));
        assert!(NoiseShares::new(0, 5).is_err());
    }

    // The probability that an integer leaves its range is charged to δ. If it takes all of δ, the result is an error.
    #[test]
    fn lost_integers_are_charged() {
        let noise = NoiseShares::new(1 << 16, 4).unwrap();
        let epsilon = |out_of_range| noise.epsilon(&SharedRounds { out_of_range, ..rounds(16, 10) }, 1e-5);
        let none = epsilon(0.0).unwrap().epsilon;
        let twelve = epsilon(tail(12.0) * 1e9).unwrap().epsilon;
        assert!(twelve >= none && twelve < none * (1.0 + 1e-9), "{twelve} {none}");
        assert!(epsilon(1e-9).unwrap().epsilon > none);
        assert!(matches!(epsilon(1e-5), Err(AccountingError::OutOfRange { .. })));
        assert!(tail(12.0) > 0.0 && tail(12.0) < 1e-30 && tail(0.0) == 1.0);
    }
}
