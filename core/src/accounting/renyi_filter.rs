//! A Rényi privacy filter: a budget for steps with noise that is chosen during the run, from released values.
//!
//! Composition theorems add losses that were fixed in advance. If a step's multiplier depends on earlier releases, the
//! loss itself is random, and a **filter** is needed. A filter examines the losses chosen so far and rejects a step
//! before they exceed a budget (Rogers, Roth, Ullman, Vadhan, "Privacy odometers and filters", NeurIPS 2016). For Rényi
//! divergences of one order α, the plain sum is a valid filter (Feldman, Zrnic, "Individual privacy accounting via a
//! Rényi filter", NeurIPS 2021). If always
//!
//! ```text
//! Σ_{s≤t} D_α(event_s) ≤ budget
//! ```
//!
//! then the divergence of order α of all releases together is at most the budget. [`epsilon_at`] converts it to (ε, δ).
//!
//! # Why one order, and fixed in advance
//!
//! The filter is valid for one order. The smallest ε over several orders selects the order after the losses are known.
//! A run that continues while *some* order has room would therefore have to split δ over the orders. A run within the
//! budget of *every* order is private, but ends earlier than with any single order.
//!
//! So one order is chosen before the first step. It is the best order of the planned run
//! ([`least_epsilon`](super::renyi::least_epsilon) computes it), rounded to an integer. Integer orders are valid for a
//! discrete Gaussian at any σ, and are faster.
//!
//! # Memory
//!
//! Three `f64` and two `u32`. Accounting for a step computes one exponential for each of `order` terms.
//!
//! # Numerics
//!
//! Sums and divergences are rounded up. The budget is the largest `f64` with an ε, rounded up, within the target.

use super::renyi::{MAX_INTEGER_ORDER, divergence_at_integer, epsilon_at};
use super::{ReadStore, Record, SampledGaussian, Store};
use crate::error::{ConfigError, OpenError};
use crate::numerics::up::add_up;

/// Adds the divergences of steps chosen online, and rejects a step that would exceed the budget.
///
/// It has no `Clone`, so a budget cannot be spent twice.
///
/// ```
/// use damper_core::accounting::{Rate, RenyiFilter, SampledGaussian, Volatile};
/// use damper_core::error::OpenError;
///
/// let event = SampledGaussian::new(Rate::of(60, 1797)?, 1.1)?;
/// let mut filter = RenyiFilter::new(8, 3.0, 1e-5)?;
/// while filter.fits_budget(&event) {
///     filter.charge(&event, &mut Volatile)?;
/// }
/// assert_eq!(filter.charge(&event, &mut Volatile), Err(OpenError::BudgetSpent));
/// assert!(filter.spent() <= filter.budget() && filter.charged_steps() > 100);
///
/// // After a restart, the spent divergence is that of the store.
/// let again = RenyiFilter::resume(8, 3.0, 1e-5, filter.charged_steps(), filter.spent())?;
/// assert_eq!((again.order(), again.spent()), (8, filter.spent()));
/// let new = RenyiFilter::open(&Volatile, 8, 3.0, 1e-5)?;
/// assert_eq!(new.spent(), 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(PartialEq, Debug)]
pub struct RenyiFilter {
    order: u32,
    budget: f64,
    spent: f64,
    charged: u32,
}

impl RenyiFilter {
    /// Creates a filter that keeps the run within (`epsilon`, `delta`) by the divergence of order `order`. Nothing is
    /// spent yet.
    ///
    /// # Errors
    ///
    /// Fails unless `order` is in `2..=1024`, ε is finite and above 0, and δ is above 0 and below 1. Also fails if
    /// `order` is too small for this ε, so that not even a tiny divergence meets the target.
    pub fn new(order: u32, epsilon: f64, delta: f64) -> Result<Self, ConfigError> {
        Self::resume(order, epsilon, delta, 0, 0.0)
    }

    /// Opens the filter from its store: new, or after a restart.
    ///
    /// # Errors
    ///
    /// Fails as [`RenyiFilter::new`] does, or if the store's record has another order or belongs to a ledger.
    pub fn open(store: &impl ReadStore, order: u32, epsilon: f64, delta: f64) -> Result<Self, ConfigError> {
        let Record { budget, paid, divergence, order: recorded, .. } = store.record();
        if budget != 0 || (recorded != order && paid != 0) {
            return Err(ConfigError::new("order", "the order that the store has on record"));
        }
        Self::resume(order, epsilon, delta, paid, divergence)
    }

    /// Restores the filter after a restart. `charged` and `spent` are the values in the store, and `spent` has this
    /// same order. A negative or NaN `spent` counts as the whole budget.
    ///
    /// # Errors
    ///
    /// Fails as [`RenyiFilter::new`] does.
    pub fn resume(order: u32, epsilon: f64, delta: f64, charged: u32, spent: f64) -> Result<Self, ConfigError> {
        if !(2..=MAX_INTEGER_ORDER).contains(&order) {
            return Err(ConfigError::new("order", "from 2 to 1024"));
        }
        if !(epsilon > 0.0 && epsilon.is_finite()) {
            return Err(ConfigError::new("epsilon", "finite and above 0"));
        }
        if !(delta > 0.0 && delta < 1.0) {
            return Err(ConfigError::new("delta", "above 0 and below 1"));
        }
        let budget = largest_divergence(order, epsilon, delta);
        if budget == 0.0 {
            return Err(ConfigError::new("order", "larger: no divergence of this order shows an epsilon so small"));
        }
        Ok(Self { order, budget, spent: if spent >= 0.0 { spent } else { f64::INFINITY }, charged })
    }

    /// Returns the order.
    #[must_use]
    pub fn order(&self) -> u32 {
        self.order
    }

    /// Returns the budget: the total divergence that may be spent.
    #[must_use]
    pub fn budget(&self) -> f64 {
        self.budget
    }

    /// Returns the divergence spent so far.
    #[must_use]
    pub fn spent(&self) -> f64 {
        self.spent
    }

    /// Returns the number of steps charged so far.
    #[must_use]
    pub fn charged_steps(&self) -> u32 {
        self.charged
    }

    /// Returns true if the budget has room for this step. The event must be public: a function of released values and
    /// constants.
    #[must_use]
    pub fn fits_budget(&self, event: &SampledGaussian) -> bool {
        self.after(event).is_some()
    }

    /// Returns the divergence spent after this step, if it is within the budget.
    fn after(&self, event: &SampledGaussian) -> Option<f64> {
        let cost = divergence_at_integer(event, self.order);
        let spent = if cost == 0.0 { self.spent } else { add_up(self.spent, cost) };
        (spent <= self.budget && self.charged < FIRST).then_some(spent)
    }

    /// Takes the number of the next step if its event fits the budget. The number is 2³¹ plus the number of charged
    /// steps.
    ///
    /// A number is taken once, even if the record is lost. The record must be durable before the step opens. A rejected
    /// step costs nothing, and a step with more noise may still fit.
    pub(crate) fn take(&mut self, event: &SampledGaussian, fingerprint: u64) -> Option<(u32, Record)> {
        let spent = self.after(event)?;
        let step = self.charged;
        (self.charged, self.spent) = (step + 1, spent);
        let record = Record { budget: 0, paid: self.charged, divergence: spent, order: self.order, fingerprint };
        Some((FIRST + step, record))
    }

    /// Charges one step, persists the charge, and returns the step's number. If the step does not open, it is burned.
    ///
    /// # Errors
    ///
    /// Fails if the event does not fit the budget, or the store fails.
    pub fn charge<S: Store>(&mut self, event: &SampledGaussian, store: &mut S) -> Result<u32, OpenError<S::Error>> {
        self.charge_for(event, 0, store)
    }

    /// Charges a step of the configuration with this fingerprint, as [`charge`](Self::charge) does. A filter accepts
    /// any configuration, because it charges each step its own cost.
    pub(crate) fn charge_for<S: Store>(
        &mut self,
        event: &SampledGaussian,
        fingerprint: u64,
        store: &mut S,
    ) -> Result<u32, OpenError<S::Error>> {
        let (step, record) = self.take(event, fingerprint).ok_or(OpenError::BudgetSpent)?;
        // A failed write may still have become durable, so the step is burned in both cases.
        store.persist(record).map_err(OpenError::Store)?;
        Ok(step)
    }
}

/// Number of a filter's first step. A ledger's steps end below it. Under one seed, they therefore share neither noise
/// nor batches.
pub(crate) const FIRST: u32 = 1 << 31;

/// Returns the largest divergence of this order with an ε at `delta` of at most `epsilon`, or 0 if none exists.
fn largest_divergence(order: u32, epsilon: f64, delta: f64) -> f64 {
    // Non-negative floats order like their bits, and ε never decreases. So bisect the bits from the top.
    let bits = (0..63).rev().fold(0u64, |bits, bit| {
        let tried = f64::from_bits(bits | 1 << bit);
        if tried.is_finite() && epsilon_at(tried, f64::from(order), delta) <= epsilon { tried.to_bits() } else { bits }
    });
    f64::from_bits(bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::store::Recorder;
    use crate::accounting::{Rate, Volatile};
    use crate::numerics::up::next_up;
    use proptest::prelude::*;

    fn event(q: f64, multiplier: f64) -> SampledGaussian {
        SampledGaussian::new(Rate::at_most(q).unwrap(), multiplier).unwrap()
    }

    // The budget is the largest divergence with an epsilon within the target.
    #[test]
    fn budget_is_largest_within_target() {
        for (order, epsilon, delta) in [(2, 20.0, 1e-5), (8, 3.0, 1e-5), (32, 0.5, 1e-6), (1024, 0.05, 1e-9)] {
            let budget = RenyiFilter::new(order, epsilon, delta).unwrap().budget();
            let alpha = f64::from(order);
            assert!(budget > 0.0 && epsilon_at(budget, alpha, delta) <= epsilon);
            assert!(epsilon_at(next_up(budget), alpha, delta) > epsilon, "{order} {epsilon} {delta}");
            let ln = libm::log;
            let exact = epsilon - ln((alpha - 1.0) / alpha) + (ln(delta) + ln(alpha)) / (alpha - 1.0);
            assert!((budget - exact).abs() < 1e-13 * (1.0 + epsilon));
        }
    }

    #[test]
    fn invalid_parameter_error_names_it() {
        let name = |order, epsilon, delta| RenyiFilter::new(order, epsilon, delta).unwrap_err().parameter;
        for order in [0, 1, 1025, u32::MAX] {
            assert_eq!(name(order, 1.0, 1e-5), "order");
        }
        assert_eq!(name(2, 1.0, 1e-5), "order");
        for epsilon in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(name(8, epsilon, 1e-5), "epsilon");
        }
        for delta in [0.0, 1.0, -1.0, f64::NAN] {
            assert_eq!(name(8, 3.0, delta), "delta");
        }
    }

    #[test]
    fn the_last_admissible_step_is_exact() {
        // Eight unsampled steps of divergence α/2σ² spend the budget. A ninth is rejected, however small its cost.
        let order = 16;
        let whole = RenyiFilter::new(order, 4.0, 1e-5).unwrap().budget();
        let step = event(1.0, libm::sqrt(8.0 * 16.0 / (2.0 * whole)));
        let cost = divergence_at_integer(&step, order);
        assert!((8.0 * cost / whole - 1.0).abs() < 1e-14);
        let resumed = |spent| RenyiFilter::resume(order, 4.0, 1e-5, 7, spent).unwrap();
        let mut room = f64::from_bits((whole - cost).to_bits());
        while add_up(room, cost) > whole {
            room = -next_up(-room);
        }
        assert!(resumed(room).fits_budget(&step));
        assert!(!resumed(next_up(room)).fits_budget(&step));
        let mut last = resumed(room);
        assert_eq!(last.charge(&step, &mut Volatile), Ok(FIRST + 7));
        assert!(last.spent() <= whole && last.spent() > whole * (1.0 - 1e-15));
        assert_eq!(last.charge(&event(1.0, 1e6), &mut Volatile), Err(OpenError::BudgetSpent));
        assert!(last.fits_budget(&event(0.0, 1.0)), "a draw of nobody costs nothing");
    }

    // A stored sum that is not a valid number counts as a spent budget.
    #[test]
    fn invalid_stored_sum_leaves_no_budget() {
        for spent in [f64::NAN, -1.0, f64::INFINITY] {
            assert!(!RenyiFilter::resume(8, 3.0, 1e-5, 0, spent).unwrap().fits_budget(&event(1e-9, 1e9)));
        }
    }

    proptest! {
        // Adaptive multipliers stay within the budget over rejections, restarts and failed writes.
        #[test]
        fn adaptive_multipliers_stay_in_budget(
            order in 2u32..200, extra in 0.01f64..5.0,
            moves in prop::collection::vec((0u8..8, -3.0f64..4.0, 0.0f64..1.0), 1..200),
        ) {
            let delta = 1e-5;
            // A target that this order can reach.
            let epsilon = epsilon_at(f64::MIN_POSITIVE, f64::from(order), delta) + extra;
            let mut filter = RenyiFilter::new(order, epsilon, delta).unwrap();
            let mut store = Recorder::new();
            let (mut released, mut next) = (0.0, 0);
            for (kind, ln_multiplier, ln_rate) in moves {
                // The adversary chooses any event, or an event that just fits.
                let mut chosen = event(libm::exp(-8.0 * ln_rate), libm::exp(ln_multiplier));
                while kind > 4 && !filter.fits_budget(&chosen) && chosen.multiplier() < 1e9 {
                    chosen = SampledGaussian::new(chosen.rate(), 1.05 * chosen.multiplier()).unwrap();
                }
                if kind == 0 {
                    let Record { paid, divergence, .. } = store.persisted;
                    filter = RenyiFilter::resume(order, epsilon, delta, paid, divergence).unwrap();
                } else if kind == 1 {
                    store.fail_at = Some(store.writes + 1);
                }
                let (admitted, before) = (filter.fits_budget(&chosen), filter.spent());
                match filter.charge(&chosen, &mut store) {
                    Ok(step) => {
                        prop_assert!(admitted && step >= next);
                        next = step + 1;
                        released += divergence_at_integer(&chosen, order);
                    }
                    Err(OpenError::BudgetSpent) => prop_assert!(!admitted && filter.spent() == before),
                    Err(_) => prop_assert!(admitted),
                }
                prop_assert!(released <= filter.budget() && filter.spent() >= released);
                prop_assert!(epsilon_at(released, f64::from(order), delta) <= epsilon);
            }
        }
    }
}
