//! The search for a noise multiplier.
//!
//! ε falls as the multiplier grows, so the multiplier is bracketed by doubling and then found by bisection of `ln σ`
//! sharpened by the secant (the Illinois variant of regula falsi, safeguarded). What comes back is checked by pricing it: its ε lies
//! in `[0.99 ε, ε]`, or there is an error that says what to change.

use crate::plan::LARGEST;
use crate::{Accountant, AccountingError};

/// The share of the target that a calibrated ε reaches at least.
pub const ACCURACY: f64 = 0.99;
/// The share at which the search stops, where the price is smooth in the multiplier.
pub(super) const STOP: f64 = 0.9999;
/// And where its grid is chosen again for every multiplier, which moves the price by up to a thousandth: there also between ends
/// so close.
pub(super) const STOP_TIGHT: f64 = 0.9998;
const CLOSE: f64 = 1e-12;
const CLOSE_TIGHT: f64 = 1e-5;
/// Of a schedule's many different steps one such price takes a second.
const STOP_MANY: f64 = 0.998;
/// The search ends here: ε is above 1e17 if the sample is drawn once.
pub(super) const SMALLEST: f64 = 1e-9;

/// A multiplier and its price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibrated {
    /// The noise multiplier.
    pub multiplier: f64,
    /// The ε of what was found, at most the target.
    pub epsilon: f64,
    /// The Rényi order that gave it; of the tight accountant none.
    pub order: Option<f64>,
}

/// A multiplier that a grid can run, and its price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OnGrid {
    /// σ in grid units, an integer.
    pub sigma: u64,
    /// `sigma / 2^grid_bits`, exactly: the multiplier that runs, and is priced and reported.
    pub calibrated: Calibrated,
}

/// When a search stops.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nearness {
    /// The share of the target at which it stops.
    stop: f64,
    /// Or the ratio of its ends, less 1.
    close: f64,
}

impl Nearness {
    /// For steps all alike, or many different ones.
    pub(super) fn of(accountant: Accountant, alike: bool) -> Self {
        match (accountant, alike) {
            (Accountant::Rdp, _) => Self { stop: STOP, close: CLOSE },
            (Accountant::Pld, true) => Self { stop: STOP_TIGHT, close: CLOSE_TIGHT },
            (Accountant::Pld, false) => Self { stop: STOP_MANY, close: CLOSE_TIGHT },
        }
    }
}

/// The search, over any falling price `at`.
pub(super) fn search(
    Nearness { stop, close }: Nearness,
    target: f64,
    delta: f64,
    mut at: impl FnMut(f64) -> Result<Calibrated, AccountingError>,
) -> Result<Calibrated, AccountingError> {
    // low: too little noise; high: enough.
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

    // Weights of the ends: an end that stays twice in a row counts half, so that both close in.
    let (mut low_weight, mut high_weight) = (1.0, 1.0);
    for _ in 0..80 {
        if high.epsilon >= stop * target || high.multiplier <= low.multiplier * (1.0 + close) {
            break;
        }
        // Aimed a little below the target, so that the secant's last point falls on the side that counts.
        let aim = (target * (0.5 + stop / 2.0)).ln();
        let above = (low.epsilon.ln() - aim) * low_weight;
        let below = (aim - high.epsilon.ln()) * high_weight;
        let share = above / (above + below);
        // At a large δ ε is 0 from some multiplier on, and infinite up to some other: no secant leads from there.
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
        // ε steps over the target, as it does where a rounding is larger than a hundredth of it.
        Err(AccountingError::TooSmall { epsilon: target, delta, least: low.epsilon })
    }
}
