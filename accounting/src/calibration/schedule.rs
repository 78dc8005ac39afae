//! Calibration of a run whose noise is declared up to a common scale. The run has a noise schedule (ADP, Wu et al.
//! 2021), a histogram released next to the gradient (DC-SGD, Wei et al. 2025), or both.

use super::search::{ACCURACY, Calibrated, Nearness, OnGrid, search};
use crate::delta::check_delta;
use crate::{Accountant, AccountingError, Plan, SMALLEST_SIGMA};
use damper_core::accounting::event::{Rate, SampledGaussian};
use damper_core::noise::MAX_SIGMA;

/// The draws of a run and their noise, up to the common scale that calibration finds.
///
/// ```
/// use damper_accounting::{Accountant, DrawSchedule, NoiseFactors, sampling_rate};
///
/// // The noise of the second half is larger by a tenth.
/// let factors: Vec<f64> = (0..100).map(|step| if step < 50 { 1.0 } else { 1.1 }).collect();
/// let schedule = DrawSchedule {
///     factors: NoiseFactors::Each(&factors),
///     ..DrawSchedule::constant(Accountant::Pld, sampling_rate(0.01)?, 100)
/// };
/// let found = schedule.calibrate(1.0, 1e-5)?;
/// assert!(found.epsilon <= 1.0);
/// let plan = schedule.plan(found.multiplier)?;
/// assert_eq!((plan.steps(), plan.events().len()), (100, 2));
/// // The same on a grid of 2²⁰ units per clip.
/// let grid = schedule.calibrate_on_grid(1.0, 1e-5, 20)?;
/// assert!(schedule.plan_on_grid(grid.sigma, 20)?.epsilon(Accountant::Pld, 1e-5)?.epsilon <= 1.0);
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrawSchedule<'a> {
    /// The accountant.
    pub accountant: Accountant,
    /// The rate of every draw.
    pub rate: Rate,
    /// The noise of each draw's gradient, relative to the common scale.
    pub factors: NoiseFactors<'a>,
    /// The multiplier of a further release of every draw, such as a histogram's σ_H. Calibration does not scale it.
    pub joint: Option<f64>,
    /// A separate release before the first draw, or several as one event. Calibration composes it with the draws and
    /// does not scale it.
    pub release: Option<SampledGaussian>,
}

/// The noise factor α_t of each draw, relative to a common scale.
///
/// ```
/// use damper_accounting::{Accountant, DrawSchedule, NoiseFactors, sampling_rate};
///
/// let constant = DrawSchedule::constant(Accountant::Pld, sampling_rate(0.01)?, 100);
/// assert_eq!(constant.factors, NoiseFactors::Constant(100));
/// assert!(DrawSchedule { factors: NoiseFactors::Each(&[1.0, -1.0]), ..constant }.plan(1.0).is_err());
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoiseFactors<'a> {
    /// The factor 1 at each of this many draws.
    Constant(u64),
    /// One factor per draw, finite and above 0.
    Each(&'a [f64]),
}

impl DrawSchedule<'static> {
    /// `steps` draws with the same noise.
    pub fn constant(accountant: Accountant, rate: Rate, steps: u64) -> Self {
        Self { accountant, rate, factors: NoiseFactors::Constant(steps), joint: None, release: None }
    }
}

impl DrawSchedule<'_> {
    /// The plan in which draw t has noise `multiplier · α_t` in clips.
    pub fn plan(&self, multiplier: f64) -> Result<Plan, AccountingError> {
        self.plan_of(|factor| multiplier * factor)
    }

    /// The plan that a grid of `2^-grid_bits` clips runs. Draw t has noise `σ_t = ⌈sigma · α_t⌉` grid units, limited to
    /// the largest σ that is sampled, `2^31 − 1`.
    pub fn plan_on_grid(&self, sigma: u64, grid_bits: u32) -> Result<Plan, AccountingError> {
        let units = units(grid_bits)?;
        self.plan_of(|factor| self.sigma_at(sigma, factor) as f64 / units)
    }

    fn plan_of(&self, multiplier: impl Fn(f64) -> f64) -> Result<Plan, AccountingError> {
        self.smallest_factor()?;
        let plan = match self.factors {
            NoiseFactors::Constant(steps) => Plan::constant(self.rate, multiplier(1.0), self.joint, steps),
            NoiseFactors::Each(factors) => Plan::new(self.rate, factors.iter().map(|f| multiplier(*f)), self.joint),
        };
        Ok(plan?.with_release(self.release))
    }

    /// Returns the smallest common multiplier, to a ten-thousandth of ε, with ε of at most `target` at `delta`.
    pub fn calibrate(&self, target: f64, delta: f64) -> Result<Calibrated, AccountingError> {
        // Search over the multiplier of the draw with the least noise: its magnitude is similar for every schedule.
        let scale = 1.0 / self.smallest_factor()?;
        self.plan(scale)?;
        check_delta(delta)?;
        if !(target > 0.0 && target.is_finite()) {
            return Err(AccountingError::Epsilon(target));
        }
        if let Some(joint) = self.joint
            && Plan::constant(self.rate, joint, None, self.steps())?.price(self.accountant, delta)?.epsilon > target
        {
            return Err(self.counts_cost_all(joint, target, delta));
        }
        let nearness = Nearness::of(self.accountant, matches!(self.factors, NoiseFactors::Constant(_)));
        let found = search(nearness, target, delta, |multiplier| {
            let priced = self.plan(multiplier * scale)?.price(self.accountant, delta)?;
            Ok(Calibrated { multiplier, epsilon: priced.epsilon, order: priced.order })
        });
        match (found, self.joint) {
            (Ok(found), _) => Ok(Calibrated { multiplier: found.multiplier * scale, ..found }),
            (Err(AccountingError::TooSmall { .. }), Some(joint)) => Err(self.counts_cost_all(joint, target, delta)),
            (Err(error), _) => Err(error),
        }
    }

    /// The error that names the multiplier available to all releases of a draw together, if every draw were equal.
    fn counts_cost_all(&self, joint: f64, target: f64, delta: f64) -> AccountingError {
        match DrawSchedule::constant(self.accountant, self.rate, self.steps()).calibrate(target, delta) {
            Ok(total) => AccountingError::CountNoiseTooSmall { multiplier: joint, least: total.multiplier },
            Err(error) => error,
        }
    }

    /// Returns the smallest common σ found, an integer in grid units of `2^-grid_bits` clips. ε of the plan that the
    /// grid runs ([`DrawSchedule::plan_on_grid`]) is at most `target`.
    ///
    /// Every σ_t is at least [`SMALLEST_SIGMA`], and σ_t²/‖Δ‖ is at least 10. Otherwise the grid is too coarse.
    pub fn calibrate_on_grid(&self, target: f64, delta: f64, grid_bits: u32) -> Result<OnGrid, AccountingError> {
        let units = units(grid_bits)?;
        let ideal = self.calibrate(target, delta)?;
        let largest = self.largest_sigma();
        let mut sigma = (ideal.multiplier * units).ceil().min(largest as f64) as u64;
        let mut smallest = 0;
        // ε is monotone up to the error of the order search. Raise σ in small steps.
        for _ in 0..64 {
            if sigma >= largest {
                return Err(AccountingError::GridTooFine { epsilon: target, grid_bits, largest });
            }
            smallest = self.sigma_at(sigma, self.smallest_factor()?);
            let priced = self.plan_on_grid(sigma, grid_bits)?.price(self.accountant, delta)?;
            let runs = smallest as f64;
            if priced.epsilon < ACCURACY * target || smallest < SMALLEST_SIGMA || runs * runs < 10.0 * units {
                break;
            }
            if priced.epsilon <= target {
                let multiplier = sigma as f64 / units;
                let calibrated = Calibrated { multiplier, epsilon: priced.epsilon, order: priced.order };
                return Ok(OnGrid { sigma, calibrated });
            }
            sigma += 1 + sigma / 10_000;
        }
        Err(AccountingError::GridTooCoarse { epsilon: target, grid_bits, sigma: smallest.min(sigma) })
    }

    fn steps(&self) -> u64 {
        match self.factors {
            NoiseFactors::Constant(steps) => steps,
            NoiseFactors::Each(factors) => factors.len() as u64,
        }
    }

    fn smallest_factor(&self) -> Result<f64, AccountingError> {
        let NoiseFactors::Each(factors) = self.factors else { return Ok(1.0) };
        if let Some((step, factor)) = factors.iter().enumerate().find(|(_, f)| !(f.is_finite() && **f > 0.0)) {
            return Err(AccountingError::Factor { step, factor: *factor });
        }
        factors.iter().copied().min_by(f64::total_cmp).ok_or(AccountingError::Steps)
    }

    /// σ_t in grid units.
    fn sigma_at(&self, sigma: u64, factor: f64) -> u64 {
        (sigma as f64 * factor).ceil().min(self.largest_sigma() as f64) as u64
    }

    /// The largest σ in grid units: the sampler's limit, or for an accounting query the largest integer that `f64`
    /// represents exactly.
    fn largest_sigma(&self) -> u64 {
        match (self.factors, self.joint) {
            (NoiseFactors::Constant(_), None) => Rate::DENOMINATOR,
            _ => u64::from(MAX_SIGMA) - 1,
        }
    }
}

/// Grid units per clip.
fn units(grid_bits: u32) -> Result<f64, AccountingError> {
    if grid_bits > 40 { Err(AccountingError::GridBits(grid_bits)) } else { Ok((1u64 << grid_bits) as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate;
    use damper_core::grid::Grid;
    use damper_core::noise::DiscreteGaussian;
    use damper_core::private::Mechanism;

    const DELTA: f64 = 1e-5;

    fn rate() -> Rate {
        Rate::of(256, 50_000).unwrap()
    }

    fn each(factors: &[f64]) -> DrawSchedule<'_> {
        DrawSchedule {
            accountant: Accountant::Rdp,
            rate: rate(),
            factors: NoiseFactors::Each(factors),
            joint: None,
            release: None,
        }
    }

    fn polynomial(steps: u32) -> Vec<f64> {
        (1..=steps).map(|t| (20.0 + f64::from(t)).powf(0.25)).collect()
    }

    /// `1/√η` for step sizes linear in √t.
    fn linear(steps: u32) -> Vec<f64> {
        let eta = |t: u32| 0.1 - (0.1 - 1e-10) * (f64::from(t) / f64::from(steps)).sqrt();
        (1..=steps).map(|t| eta(t).powf(-0.5)).collect()
    }

    // Calibration of a schedule reaches the target from below.
    #[test]
    fn calibrated_schedule_stays_below_target() {
        let rising: Vec<f64> = (0..500).map(|t| 1e-4 * f64::from(t + 1).sqrt()).collect();
        let falling: Vec<f64> = (0..500).map(|t| 3.0 - 0.004 * f64::from(t)).collect();
        let cases = [
            (polynomial(2000), 2.0, Some(5.0), 20),
            (polynomial(2000), 8.0, None, 20),
            (linear(2000), 2.0, None, 20),
            (rising, 2.0, None, 16),
            (falling, 0.5, None, 20),
            (vec![7.0; 40], 0.5, None, 20),
        ];
        for (factors, target, joint, bits) in cases {
            let schedule = DrawSchedule { joint, ..each(&factors) };
            let found = schedule.calibrate(target, DELTA).unwrap();
            assert!(found.epsilon <= target && found.epsilon >= 0.9999 * target, "{target}: {found:?}");
            let plan = schedule.plan(found.multiplier).unwrap();
            assert_eq!(plan.epsilon(Accountant::Rdp, DELTA).unwrap().epsilon, found.epsilon);

            let grid = schedule.calibrate_on_grid(target, DELTA, bits).unwrap();
            let reached = grid.calibrated.epsilon;
            assert!(reached <= target && reached >= 0.99 * target, "{target}: {grid:?}");
            let smallest = factors.iter().fold(f64::INFINITY, |least, factor| factor.min(least));
            assert!((grid.sigma as f64 * smallest).ceil() >= SMALLEST_SIGMA as f64);
            let plan = schedule.plan_on_grid(grid.sigma, bits).unwrap();
            assert_eq!(plan.epsilon(Accountant::Rdp, DELTA).unwrap().epsilon, reached);
        }
    }

    // Equal factors calibrate to the same multiplier as a constant schedule.
    #[test]
    fn equal_factors_match_constant() {
        let factors = vec![1.0; 300];
        let varying = each(&factors);
        let constant = DrawSchedule::constant(Accountant::Rdp, rate(), 300);
        assert_eq!(varying.calibrate(1.0, DELTA), constant.calibrate(1.0, DELTA));
        assert_eq!(varying.calibrate_on_grid(1.0, DELTA, 16), constant.calibrate_on_grid(1.0, DELTA, 16));
    }

    // Calibration subtracts the precision of the counts from that of the gradient.
    #[test]
    fn count_noise_is_taken_from_gradient() {
        for (target, count) in [(8.0, 5.0f64), (2.0, 5.0), (2.0, 1.5)] {
            let schedule = DrawSchedule {
                accountant: Accountant::Rdp,
                rate: rate(),
                factors: NoiseFactors::Constant(3910),
                joint: Some(count),
                release: None,
            };
            let gradient = schedule.calibrate(target, DELTA).unwrap().multiplier;
            let total = calibrate(Accountant::Rdp, target, DELTA, rate(), 3910).unwrap().multiplier;
            let split = (1.0 / (total * total) - 1.0 / (count * count)).powf(-0.5);
            assert!((gradient / split - 1.0).abs() < 1e-3, "{gradient} {split}");
        }
    }

    // If counts use the whole budget, the error names the smallest multiplier that works.
    #[test]
    fn counts_over_budget_error_names_minimum() {
        let schedule = |joint| DrawSchedule {
            accountant: Accountant::Rdp,
            rate: rate(),
            factors: NoiseFactors::Constant(3910),
            joint: Some(joint),
            release: None,
        };
        let total = calibrate(Accountant::Rdp, 2.0, DELTA, rate(), 3910).unwrap().multiplier;
        for joint in [0.5 * total, 0.99 * total, 0.999 * total] {
            let error = schedule(joint).calibrate(2.0, DELTA).unwrap_err();
            assert_eq!(error, AccountingError::CountNoiseTooSmall { multiplier: joint, least: total });
            let message = error.to_string();
            assert!(message.starts_with("`count_noise_multiplier`") && !message.contains('\n'), "{message}");
        }
        let twice = schedule(2.0 * total).calibrate(2.0, DELTA).unwrap();
        assert!((twice.multiplier / total - 2.0 / 3f64.sqrt()).abs() < 1e-3);
        for joint in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let message = schedule(joint).calibrate(2.0, DELTA).unwrap_err().to_string();
            assert!(message.starts_with("`count_noise_multiplier`") && message.contains("must be"), "{message}");
        }
    }

    // The error for an invalid schedule names the step and the fix.
    #[test]
    fn invalid_schedule_error_names_fix() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let message = each(&[1.0, bad]).calibrate(1.0, DELTA).unwrap_err().to_string();
            assert!(message.contains("step 1"), "{message}");
        }
        assert_eq!(each(&[]).calibrate(1.0, DELTA), Err(AccountingError::Steps));
        // The common σ is fine, the first step's is not.
        let mut steep = vec![1.0; 400];
        steep[0] = 1e-2;
        let message = each(&steep).calibrate_on_grid(4.0, DELTA, 8).unwrap_err().to_string();
        assert!(message.contains("raise `grid_bits`"), "{message}");
        let message = each(&steep).calibrate_on_grid(4.0, DELTA, 40).unwrap_err().to_string();
        assert!(message.contains("lower `grid_bits`"), "{message}");
    }

    // The accountant charges the sigma that the mechanism runs.
    #[test]
    fn charged_sigma_matches_mechanism() {
        let factors = [0.3, 1.0, 2.114_742_526_881_128, 1e9];
        let schedule = each(&factors);
        for sigma in [4096, 698_599, 1 << 30] {
            let mechanism = DiscreteGaussian::<i64>::new(Grid::new(20).unwrap(), sigma).unwrap();
            for factor in factors {
                let runs = mechanism.scaled(factor);
                assert_eq!(schedule.sigma_at(u64::from(sigma), factor), u64::from(runs.sigma()));
            }
            let runs = factors.map(|factor| mechanism.scaled(factor).multiplier());
            assert_eq!(schedule.plan_on_grid(u64::from(sigma), 20), Plan::new(rate(), runs, None));
        }
    }

    /// Half of the cost comes from steps that ask for slightly more noise than the sampler supports. The other steps
    /// compensate for it.
    #[test]
    fn noise_that_is_capped_is_made_up_for() {
        let mut factors = vec![1.0; 40];
        factors.extend([7.0; 2000]);
        for _ in 0..4 {
            let schedule = DrawSchedule { rate: Rate::ONE, ..each(&factors) };
            let ideal = schedule.calibrate(0.5, DELTA).unwrap().multiplier * 4_194_304.0;
            let factor = 1.004 * 2_147_483_647.0 / ideal;
            factors[40..].fill(factor);
        }
        let schedule = DrawSchedule { rate: Rate::ONE, ..each(&factors) };
        let started = (schedule.calibrate(0.5, DELTA).unwrap().multiplier * 4_194_304.0).ceil() as u64;
        let grid = schedule.calibrate_on_grid(0.5, DELTA, 22).unwrap();
        assert!(grid.sigma > started && grid.sigma < started + started / 200, "{started} {grid:?}");
        assert!(grid.calibrated.epsilon <= 0.5 && grid.calibrated.epsilon > 0.4998, "{grid:?}");
    }

    /// σ is at least 2,000 grid units, but ‖Δ‖ may be a million.
    #[test]
    fn noise_far_below_a_clip_is_refused() {
        let refused = DrawSchedule::constant(Accountant::Rdp, Rate::ONE, 1).calibrate_on_grid(1.4e5, DELTA, 20);
        assert!(matches!(refused, Err(AccountingError::GridTooCoarse { sigma: 1024..3200, .. })), "{refused:?}");
        let runs = DrawSchedule::constant(Accountant::Rdp, Rate::ONE, 1).calibrate_on_grid(4e4, DELTA, 20).unwrap();
        assert!((3300..4096).contains(&runs.sigma), "{runs:?}");
        assert_eq!(
            (units(8), units(40), units(41)),
            (Ok(256.0), Ok(1_099_511_627_776.0), Err(AccountingError::GridBits(41)))
        );
    }

    // No step has more noise than the sampler supports.
    #[test]
    fn sigma_never_exceeds_sampler_limit() {
        let factors = linear(2000);
        let schedule = each(&factors);
        let largest = u64::from(MAX_SIGMA) - 1;
        assert_eq!(schedule.sigma_at(1 << 20, 1e5), largest);
        let grid = schedule.calibrate_on_grid(2.0, DELTA, 22).unwrap();
        assert_eq!(schedule.sigma_at(grid.sigma, factors[1999]), largest);
    }
}
