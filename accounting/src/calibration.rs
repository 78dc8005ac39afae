//! Calibration of one quantity of a run (noise, steps, rate or batch) to a privacy budget.

pub(crate) mod schedule;
pub(crate) mod search;

use super::{Accountant, AccountingError, DrawSchedule, EpsilonBound, Plan};
use damper_core::accounting::event::Rate;
use search::{Calibrated, OnGrid, STOP_TIGHT};

/// The rate at which a sampling rate `q` is accounted: the smallest `k/2^53` of at least `q`.
///
/// ```
/// use damper_accounting::{Rate, sampling_rate};
///
/// assert!(sampling_rate(0.01)?.as_f64() >= 0.01);
/// assert_eq!(sampling_rate(1.0)?, Rate::ONE);
/// assert!(sampling_rate(0.0).is_err());
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
pub fn sampling_rate(q: f64) -> Result<Rate, AccountingError> {
    match Rate::at_least(q) {
        Ok(rate) if rate != Rate::ZERO => Ok(rate),
        _ => Err(AccountingError::SamplingRate(q)),
    }
}

/// Returns the smallest multiplier, to a ten-thousandth, with ε of at most `target` at `delta`, for `steps` draws at
/// `rate`.
///
/// ```
/// use damper_accounting::{Accountant, calibrate, sampling_rate};
///
/// let found = calibrate(Accountant::Pld, 1.52, 1e-5, sampling_rate(0.01)?, 1000)?;
/// assert!((found.multiplier - 1.1).abs() < 0.005 && found.epsilon <= 1.52 && found.order.is_none());
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
pub fn calibrate(
    accountant: Accountant,
    target: f64,
    delta: f64,
    rate: Rate,
    steps: u64,
) -> Result<Calibrated, AccountingError> {
    DrawSchedule::constant(accountant, rate, steps).calibrate(target, delta)
}

/// Returns the smallest integer σ found, in grid units of `2^-grid_bits` clips, with ε of at most `target`.
///
/// σ is at least [`SMALLEST_SIGMA`](super::SMALLEST_SIGMA), and σ²/‖Δ‖ is at least 10. Otherwise the grid is too
/// coarse.
///
/// ```
/// use damper_accounting::{Accountant, calibrate_on_grid, sampling_rate};
///
/// let found = calibrate_on_grid(Accountant::Pld, 1.52, 1e-5, sampling_rate(0.01)?, 1000, 20)?;
/// // σ of about 1.1 clips of 2²⁰ units.
/// assert!((found.sigma as f64 / 1_048_576.0 - 1.1).abs() < 0.005);
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
pub fn calibrate_on_grid(
    accountant: Accountant,
    target: f64,
    delta: f64,
    rate: Rate,
    steps: u64,
    grid_bits: u32,
) -> Result<OnGrid, AccountingError> {
    DrawSchedule::constant(accountant, rate, steps).calibrate_on_grid(target, delta, grid_bits)
}

/// Returns the largest number of draws, at most 2^53, with ε of at most `target` at `delta`, and that ε. Every
/// evaluation is an upper bound.
///
/// ```
/// use damper_accounting::{Accountant, calibrate_steps, sampling_rate};
///
/// let (steps, bound) = calibrate_steps(Accountant::Pld, 1.52, 1e-5, sampling_rate(0.01)?, 1.1)?;
/// assert!((990..1020).contains(&steps) && bound.epsilon <= 1.52);
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
pub fn calibrate_steps(
    accountant: Accountant,
    target: f64,
    delta: f64,
    rate: Rate,
    multiplier: f64,
) -> Result<(u64, EpsilonBound), AccountingError> {
    let at = |steps: u64| Plan::constant(rate, multiplier, None, steps)?.price(accountant, delta);
    check_target(target)?;
    let first = at(1)?;
    if first.epsilon > target {
        return Err(out_of_reach(target, delta, first, "a single step", (multiplier, 1)));
    }
    let (mut low, mut found) = (1u64, first);
    let mut high = loop {
        let doubled = low * 2;
        if doubled > Rate::DENOMINATOR {
            return Err(AccountingError::Endless(target));
        }
        let priced = at(doubled)?;
        if priced.epsilon > target {
            break doubled;
        }
        (low, found) = (doubled, priced);
    };
    while high - low > 1 && found.epsilon < STOP_TIGHT * target {
        let middle = low + (high - low) / 2;
        let priced = at(middle)?;
        if priced.epsilon <= target { (low, found) = (middle, priced) } else { high = middle }
    }
    Ok((low, found))
}

/// Returns approximately the largest sampling rate with ε of at most `target` at `delta` over `steps` draws, and that
/// ε.
///
/// ```
/// use damper_accounting::{Accountant, calibrate_rate};
///
/// let (rate, bound) = calibrate_rate(Accountant::Pld, 1.52, 1e-5, 1000, 1.1)?;
/// assert!((rate.as_f64() - 0.01).abs() < 1e-4 && bound.epsilon <= 1.52);
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
pub fn calibrate_rate(
    accountant: Accountant,
    target: f64,
    delta: f64,
    steps: u64,
    multiplier: f64,
) -> Result<(Rate, EpsilonBound), AccountingError> {
    let at = |rate: Rate| Plan::constant(rate, multiplier, None, steps)?.price(accountant, delta);
    check_target(target)?;
    let whole = at(Rate::ONE)?;
    if whole.epsilon <= target {
        return Ok((Rate::ONE, whole));
    }
    let rate = |numerator: u64| Rate::from_numerator(numerator.min(Rate::DENOMINATOR)).unwrap_or(Rate::ONE);
    let least = rate(1);
    let (mut low, mut found, mut high) = (least, at(least)?, Rate::ONE);
    if found.epsilon > target {
        return Err(out_of_reach(target, delta, found, "the smallest rate", (multiplier, steps)));
    }
    while high.numerator() - low.numerator() > 1 && found.epsilon < STOP_TIGHT * target {
        // Bisects the logarithm, and at the end the integers.
        let geometric = (low.as_f64() * high.as_f64()).sqrt() * Rate::DENOMINATOR as f64;
        let middle = rate((geometric as u64).clamp(low.numerator() + 1, high.numerator() - 1));
        let priced = at(middle)?;
        if priced.epsilon <= target { (low, found) = (middle, priced) } else { high = middle }
    }
    Ok((low, found))
}

/// Returns the largest expected batch of `samples` samples with ε of at most `target` at `delta` over `steps` draws,
/// and that ε. The rate is `batch/samples`.
///
/// ```
/// use damper_accounting::{Accountant, calibrate_batch};
///
/// let (batch, bound) = calibrate_batch(Accountant::Pld, 1.52, 1e-5, 1000, 1.1, 60_000)?;
/// assert!((595..610).contains(&batch) && bound.epsilon <= 1.52);
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
pub fn calibrate_batch(
    accountant: Accountant,
    target: f64,
    delta: f64,
    steps: u64,
    multiplier: f64,
    samples: u64,
) -> Result<(u64, EpsilonBound), AccountingError> {
    let at =
        |batch: u64| Plan::constant(batch_rate(batch, samples)?, multiplier, None, steps)?.price(accountant, delta);
    check_target(target)?;
    let (mut low, mut found) = (1u64, at(1)?);
    if found.epsilon > target {
        return Err(out_of_reach(target, delta, found, "an expected batch of one sample", (multiplier, steps)));
    }
    let mut high = loop {
        if low == samples {
            return Ok((samples, found));
        }
        let next = low.saturating_mul(2).min(samples);
        let priced = at(next)?;
        if priced.epsilon > target {
            break next;
        }
        (low, found) = (next, priced);
    };
    while high - low > 1 && found.epsilon < STOP_TIGHT * target {
        let middle = low + (high - low) / 2;
        let priced = at(middle)?;
        if priced.epsilon <= target { (low, found) = (middle, priced) } else { high = middle }
    }
    Ok((low, found))
}

/// The rate at which training draws an expected batch: the largest `k/2^53` of at most `batch/samples`.
pub(super) fn batch_rate(batch: u64, samples: u64) -> Result<Rate, AccountingError> {
    match Rate::of(batch, samples) {
        Ok(rate) if rate != Rate::ZERO => Ok(rate),
        _ => Err(AccountingError::Batch { batch, samples }),
    }
}

/// The error if even the least value of the calibrated quantity costs too much.
fn out_of_reach(
    epsilon: f64,
    delta: f64,
    least: EpsilonBound,
    of: &'static str,
    (multiplier, steps): (f64, u64),
) -> AccountingError {
    if least.epsilon.is_finite() {
        AccountingError::OutOfReach { epsilon, delta, least: least.epsilon, of }
    } else {
        AccountingError::NothingHolds { multiplier, steps }
    }
}

fn check_target(target: f64) -> Result<(), AccountingError> {
    if target > 0.0 && target.is_finite() { Ok(()) } else { Err(AccountingError::Epsilon(target)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::search::{Nearness, SMALLEST, STOP, search};
    use crate::{Plan, epsilon, sampling_rate};
    use proptest::prelude::*;

    // The calibrated epsilon is at most 1 % below the target, and never above it.
    #[test]
    fn epsilon_within_one_percent_of_target() {
        for target in [0.1, 1.0, 3.0, 30.0] {
            for delta in [1e-3, 1e-7] {
                for (q, steps) in [(1e-4, 100), (0.004, 14_000), (0.01, 1000), (0.1, 100_000), (0.5, 50), (1.0, 1)] {
                    let rate = sampling_rate(q).unwrap();
                    let found = calibrate(Accountant::Rdp, target, delta, rate, steps).unwrap();
                    let priced = epsilon(Accountant::Rdp, found.multiplier, rate, steps, delta).unwrap();
                    assert_eq!((priced.epsilon, priced.order), (found.epsilon, found.order));
                    assert!(
                        found.epsilon <= target && found.epsilon >= 0.99 * target,
                        "{target} {delta} {q}: {found:?}"
                    );

                    let grid = calibrate_on_grid(Accountant::Rdp, target, delta, rate, steps, 16).unwrap();
                    assert_eq!(grid.calibrated.multiplier, grid.sigma as f64 / 65536.0);
                    let reached = grid.calibrated.epsilon;
                    assert!(reached <= target && reached >= 0.99 * target, "{target} {delta} {q}: {grid:?}");
                }
            }
        }
    }

    // Calibration evaluates the privacy cost at most 25 times.
    #[test]
    fn uses_at_most_25_evaluations() {
        let mut most = 0;
        for target in [0.05, 0.3, 3.0, 20.0, 300.0] {
            for (q, steps) in [(1e-4, 100), (256.0 / 60_000.0, 9375), (0.1, 100_000), (1.0, 1)] {
                let rate = sampling_rate(q).unwrap();
                let mut pricings = 0;
                let found = search(Nearness::of(Accountant::Rdp, true), target, 1e-5, |multiplier| {
                    pricings += 1;
                    let priced = Plan::constant(rate, multiplier, None, steps)?.price(Accountant::Rdp, 1e-5)?;
                    Ok(Calibrated { multiplier, epsilon: priced.epsilon, order: priced.order })
                });
                let found = found.unwrap();
                assert!(found.epsilon >= STOP * target, "{found:?}");
                most = pricings.max(most);
            }
        }
        assert!(most <= 25, "{most}");
    }

    // Calibration returns the largest expected batch that fits the budget.
    #[test]
    fn expected_batch_is_largest_in_budget() {
        for accountant in [Accountant::Rdp, Accountant::Pld] {
            for (target, samples, steps, multiplier) in
                [(1.0, 60_000, 3516, 1.1), (8.0, 1437, 300, 1.0), (0.5, 200, 100, 4.0), (50.0, 300, 10, 3.0)]
            {
                let (batch, price) = calibrate_batch(accountant, target, 1e-5, steps, multiplier, samples).unwrap();
                let at = |batch| {
                    let rate = Rate::of(batch, samples).unwrap();
                    epsilon(accountant, multiplier, rate, steps, 1e-5).unwrap().epsilon
                };
                assert_eq!(at(batch), price.epsilon);
                assert!(price.epsilon <= target && (batch == samples || at(batch + 1) > 0.9998 * target), "{batch}");
            }
        }
        // All of the data fits.
        assert_eq!(calibrate_batch(Accountant::Pld, 1e3, 1e-5, 2, 5.0, 77).unwrap().0, 77);
    }

    #[test]
    fn steps_and_rate_are_the_largest_that_fit() {
        for (target, q, multiplier) in [(1.0, 0.01, 1.5), (4.0, 0.3, 8.0), (2.0, 1.0, 30.0)] {
            let rate = sampling_rate(q).unwrap();
            let at = |rate, steps| epsilon(Accountant::Rdp, multiplier, rate, steps, 1e-5).unwrap().epsilon;
            let (steps, price) = calibrate_steps(Accountant::Rdp, target, 1e-5, rate, multiplier).unwrap();
            assert!(price.epsilon == at(rate, steps) && price.epsilon <= target);
            assert!(at(rate, steps + 1) > target || price.epsilon >= 0.9998 * target, "{steps}");
            let (rate, price) = calibrate_rate(Accountant::Rdp, target, 1e-5, steps, multiplier).unwrap();
            assert!(price.epsilon == at(rate, steps) && price.epsilon <= target);
            assert!(rate == Rate::ONE || price.epsilon >= 0.9998 * target, "{rate:?}");
        }
        assert_eq!(batch_rate(0, 10), Err(AccountingError::Batch { batch: 0, samples: 10 }));
        assert_eq!(batch_rate(5, 10), Ok(Rate::of(1, 2).unwrap()));
    }

    // If even one step, or a batch of one sample, exceeds the budget, the error states it.
    #[test]
    fn smallest_value_over_budget_is_error() {
        let rate = sampling_rate(0.5).unwrap();
        let steps = calibrate_steps(Accountant::Pld, 0.1, 1e-5, rate, 1.0).unwrap_err().to_string();
        assert!(steps.starts_with("`epsilon` 0.1") && steps.contains("a single step costs"), "{steps}");
        let batch = calibrate_batch(Accountant::Pld, 0.01, 1e-5, 1000, 0.5, 100).unwrap_err().to_string();
        assert!(batch.starts_with("`epsilon` 0.01") && batch.contains("an expected batch of one sample"), "{batch}");
        let none = calibrate_batch(Accountant::Pld, 1.0, 1e-5, 1000, 0.5, 0).unwrap_err().to_string();
        assert!(none.starts_with("`samples` 0"), "{none}");
        let nothing = calibrate_steps(Accountant::Pld, 1.0, 1e-5, rate, 1e-200).unwrap_err().to_string();
        assert!(nothing.starts_with("`noise_multiplier`"), "{nothing}");
        let endless = calibrate_steps(Accountant::Rdp, 1e9, 1e-5, rate, 1e9).unwrap_err().to_string();
        assert!(endless.contains("`steps`"), "{endless}");
    }

    // The error for an unreachable target names the flag to change.
    #[test]
    fn unreachable_target_error_names_flag() {
        let rate = sampling_rate(0.01).unwrap();
        let message = |result: Result<Calibrated, AccountingError>| result.unwrap_err().to_string();
        assert!(message(calibrate(Accountant::Rdp, 1e-4, 1e-5, rate, 100)).contains("raise `epsilon`"));
        assert!(message(calibrate(Accountant::Rdp, 1e30, 1e-5, rate, 100)).contains("lower it"));
        for target in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(message(calibrate(Accountant::Rdp, target, 1e-5, rate, 100)).starts_with("`epsilon`"));
        }
        let coarse = calibrate_on_grid(Accountant::Rdp, 3.0, 1e-5, rate, 1000, 3).unwrap_err().to_string();
        assert!(coarse.contains("raise `grid_bits`"), "{coarse}");
        assert!(
            calibrate_on_grid(Accountant::Rdp, 3.0, 1e-5, rate, 1000, 41)
                .unwrap_err()
                .to_string()
                .starts_with("`grid_bits`")
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn calibration_hits_or_says_why(
            log_target in -9.0f64..9.0, log_delta in -40.0f64..-0.1, log_q in -20.0f64..0.0, log_steps in 0.0f64..16.0,
        ) {
            let (target, delta, steps) = (log_target.exp(), log_delta.exp(), log_steps.exp() as u64);
            let rate = sampling_rate(log_q.exp()).unwrap();
            match calibrate(Accountant::Rdp, target, delta, rate, steps) {
                Ok(found) => prop_assert!(found.epsilon <= target && found.epsilon >= 0.99 * target, "{found:?}"),
                Err(AccountingError::TooSmall { least, .. }) => prop_assert!(least > target),
                Err(AccountingError::TooLarge(_)) => {
                    prop_assert!(epsilon(Accountant::Rdp, SMALLEST * 2.0, rate, steps, delta).unwrap().epsilon <= target);
                }
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }
}
