//! Search for a noise multiplier.
//!
//! ε decreases in the multiplier. The search brackets the multiplier by doubling, then bisects `ln σ` with secant steps
//! (the Illinois variant of regula falsi, safeguarded). It evaluates ε at the result. If that is not in `[0.99 ε, ε]`
//! for the target ε, an error names the setting to change.

use crate::plan::LARGEST;
use crate::{Accountant, AccountingError};

/// The fraction of the target that a calibrated ε reaches at least.
pub const ACCURACY: f64 = 0.99;
/// The fraction at which the search stops, if ε is smooth in the multiplier.
pub(super) const STOP: f64 = 0.9999;
/// The fraction for privacy loss distributions. Each multiplier has its own grid, which changes ε by up to a
/// thousandth. So the search also stops if its ends are as close as `CLOSE_TIGHT`.
pub(super) const STOP_TIGHT: f64 = 0.9998;
const CLOSE: f64 = 1e-12;
const CLOSE_TIGHT: f64 = 1e-5;
/// The fraction for schedules with many different steps: each evaluation of ε takes a second.
const STOP_MANY: f64 = 0.998;
/// The search ends at this multiplier: ε is above 1e17 if the sample is drawn once.
pub(super) const SMALLEST: f64 = 1e-9;

/// A multiplier and its privacy cost.
///
/// ```
/// use damper_accounting::{Accountant, Calibrated, Rate, calibrate};
///
/// let Calibrated { multiplier, epsilon, .. } = calibrate(Accountant::Rdp, 1.0, 1e-5, Rate::ONE, 1)?;
/// assert!(multiplier > 3.0 && (0.99..=1.0).contains(&epsilon));
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Calibrated {
    /// The noise multiplier.
    pub multiplier: f64,
    /// ε at this multiplier, at most the target.
    pub epsilon: f64,
    /// The Rényi order that gave ε. None for the tight accountant.
    pub order: Option<f64>,
}

/// A multiplier that a grid can run, and its privacy cost.
///
/// ```
/// use damper_accounting::{Accountant, OnGrid, Rate, calibrate_on_grid};
///
/// let OnGrid { sigma, .. } = calibrate_on_grid(Accountant::Pld, 1.0, 1e-5, Rate::ONE, 1, 20)?;
/// assert!(sigma > 3 << 20);
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct OnGrid {
    /// σ in grid units, an integer.
    pub sigma: u64,
    /// `sigma / 2^grid_bits`, exactly. The mechanism runs this multiplier, and it is the accounted and reported value.
    pub calibrated: Calibrated,
}

/// Stopping criterion of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nearness {
    /// The fraction of the target at which the search stops.
    stop: f64,
    /// The ratio of its ends, less 1, at which the search stops too.
    close: f64,
}

impl Nearness {
    /// The criterion for equal steps, or for many different steps.
    pub(super) fn of(accountant: Accountant, alike: bool) -> Self {
        match (accountant, alike) {
            (Accountant::Rdp, _) => Self { stop: STOP, close: CLOSE },
            (Accountant::Pld, true) => Self { stop: STOP_TIGHT, close: CLOSE_TIGHT },
            (Accountant::Pld, false) => Self { stop: STOP_MANY, close: CLOSE_TIGHT },
        }
    }
}

/// Searches any decreasing privacy cost `at`.
pub(super) fn search(
    Nearness { stop, close }: Nearness,
    target: f64,
    delta: f64,
    mut at: impl FnMut(f64) -> Result<Calibrated, AccountingError>,
) -> Result<Calibrated, AccountingError> {
    // low has too little noise, high has enough.
    let mut high = at(1.0)?;
    let mut low = high;
    while high.epsilon > target {
        low = high;
        if high.multiplier >= LARGEST {
            return Err(AccountingError::TooSmall { epsilon: target, delta, least: high.epsilon });
        }
        high = at(high.multiplier * 2.0)?;
    }
    while low.epsilon <= target {
        high = low;
        if low.multiplier <= SMALLEST {
            return Err(AccountingError::TooLarge(target));
        }
        low = at(low.multiplier / 2.0)?;
    }

    // Weights of the ends. An end that stays twice in a row counts half, so that both ends converge.
    let (mut low_weight, mut high_weight) = (1.0, 1.0);
    for _ in 0..80 {
        if high.epsilon >= stop * target || high.multiplier <= low.multiplier * (1.0 + close) {
            break;
        }
        // Aim slightly below the target, so that the last secant point is on the feasible side.
        let aim = (target * (0.5 + stop / 2.0)).ln();
        let above = (low.epsilon.ln() - aim) * low_weight;
        let below = (aim - high.epsilon.ln()) * high_weight;
        let share = above / (above + below);
        // At a large δ, ε is 0 above some multiplier and infinite below another. A secant cannot leave such a range.
        let share = if below.is_finite() && share.is_finite() { share.clamp(0.001, 0.999) } else { 0.5 };
        let next = at((low.multiplier.ln() + share * (high.multiplier / low.multiplier).ln()).exp())?;
        if next.epsilon <= target {
            high = next;
            (low_weight, high_weight) = (low_weight / 2.0, 1.0);
        } else {
            low = next;
            (low_weight, high_weight) = (1.0, high_weight / 2.0);
        }
    }
    if high.epsilon >= ACCURACY * target {
        Ok(high)
    } else {
        // ε jumps over the target, as it does if a rounding is larger than a hundredth of the target.
        Err(AccountingError::TooSmall { epsilon: target, delta, least: low.epsilon })
    }
}
