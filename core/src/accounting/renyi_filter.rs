//! A Rényi privacy filter: a budget for steps whose noise is chosen as the run goes, from what it has released.
//!
//! Composition theorems add up losses that were fixed in advance. Where a step's multiplier depends on earlier releases,
//! the loss itself is random, and a **filter** is needed: a rule that looks at the losses chosen so far and refuses a step
//! before they exceed a budget (Rogers, Roth, Ullman, Vadhan, "Privacy odometers and filters", NeurIPS 2016). For Rényi
//! divergences of one order α the plain sum is such a rule (Feldman, Zrnic, "Individual privacy accounting via a Rényi
//! filter", NeurIPS 2021): if always
//!
//! ```text
//! Σ_{s≤t} D_α(event_s) ≤ budget
//! ```
//!
//! then everything released together has a divergence of order α of at most the budget, and so (ε, δ) as
//! [`epsilon_at`] says.
//!
//! # Why one order, and fixed in advance
//!
//! The rule holds for one order. The smallest ε over several orders picks the order after the losses are known, so a run
//! that goes on while *some* order has room would have to split δ over the orders; one that stays within the budget of
//! *every* order is private, but stops earlier than any single order would stop it. So one order is chosen before the first
//! step: the best for the run as planned ([`least_epsilon`](super::renyi::least_epsilon) says which), rounded to an
//! integer. Integer orders hold for a discrete Gaussian at any σ, and are the quicker ones.
//!
//! # Memory
//!
//! Three `f64` and two `u32`. Pricing a step takes an exponential for each of `order` terms.
//!
//! # Numerics
//!
//! Sums and divergences are rounded up; the budget is the largest `f64` whose ε, rounded up, is within the target.

use super::renyi::{MAX_INTEGER_ORDER, divergence_at_integer, epsilon_at};
use super::{ReadStore, Record, SampledGaussian, Store};
use crate::error::{ConfigError, OpenError};
use crate::numerics::up::add_up;

/// Adds up the divergences of steps chosen online, and refuses the step that would exceed the budget.
///
/// It has no `Clone`: a budget cannot be spent twice.
#[derive(PartialEq, Debug)]
pub struct RenyiFilter {
    order: u32,
    budget: f64,
    spent: f64,
    charged: u32,
}

impl RenyiFilter {
    /// A filter of which nothing is spent, that keeps the run within (`epsilon`, `delta`) by the divergence of order
    /// `order`.
    ///
    /// # Errors
    ///
    /// `order` must be in `2..=1024`, ε finite and above 0, δ above 0 and below 1. At a small order a small ε cannot be shown,
    /// not even of almost nothing: the order must be larger.
    pub fn new(order: u32, epsilon: f64, delta: f64) -> Result<Self, ConfigError> {
        Self::resume(order, epsilon, delta, 0, 0.0)
    }

    /// The filter as its store has it: new, or after a restart.
    ///
    /// # Errors
    ///
    /// As [`RenyiFilter::new`], or the store's record is of another order, or of a ledger.
    pub fn open(store: &impl ReadStore, order: u32, epsilon: f64, delta: f64) -> Result<Self, ConfigError> {
        let Record { budget, paid, divergence, order: recorded, .. } = store.record();
        if budget != 0 || (recorded != order && paid != 0) {
            return Err(ConfigError::new("order", "the order that the store has on record"));
        }
        Self::resume(order, epsilon, delta, paid, divergence)
    }

    /// The filter after a restart: `charged` and `spent` are what the store holds, spent at this same order. A `spent` that is
    /// not a number from 0 counts as all.
    ///
    /// # Errors
    ///
    /// As [`RenyiFilter::new`].
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

    /// The order.
    #[must_use]
    pub fn order(&self) -> u32 {
        self.order
    }

    /// The divergence that may be spent in all.
    #[must_use]
    pub fn budget(&self) -> f64 {
        self.budget
    }

    /// The divergence spent so far.
    #[must_use]
    pub fn spent(&self) -> f64 {
        self.spent
    }

    /// Steps charged so far.
    #[must_use]
    pub fn charged_steps(&self) -> u32 {
        self.charged
    }

    /// Returns true if the budget has room for this step. What is asked must be public: what was released, and constants.
    #[must_use]
    pub fn fits_budget(&self, event: &SampledGaussian) -> bool {
        self.after(event).is_some()
    }

    /// The privacy cost after this step, if it is within the budget.
    fn after(&self, event: &SampledGaussian) -> Option<f64> {
        let cost = divergence_at_integer(event, self.order);
        let spent = if cost == 0.0 { self.spent } else { add_up(self.spent, cost) };
        (spent <= self.budget && self.charged < FIRST).then_some(spent)
    }

    /// Takes the number of the next step, 2³¹ and the steps charged before it, if its event fits the budget. The number is given
    /// once, whatever becomes of the record, which must be durable before the step opens. A step that is refused costs nothing,
    /// and one with more noise may still fit.
    pub(crate) fn take(&mut self, event: &SampledGaussian, fingerprint: u64) -> Option<(u32, Record)> {
        let spent = self.after(event)?;
        let step = self.charged;
        (self.charged, self.spent) = (step + 1, spent);
        let record = Record { budget: 0, paid: self.charged, divergence: spent, order: self.order, fingerprint };
        Some((FIRST + step, record))
    }

    /// Charges one step and persists the charge; its number. A step that is not opened after it is burned.
    ///
    /// # Errors
    ///
    /// The event does not fit the budget, or the store failed.
    pub fn charge<S: Store>(&mut self, event: &SampledGaussian, store: &mut S) -> Result<u32, OpenError<S::Error>> {
        self.charge_for(event, 0, store)
    }

    /// As [`charge`](Self::charge), of a step of the configuration with this fingerprint. A filter takes steps of any: each is charged
    /// what it costs.
    pub(crate) fn charge_for<S: Store>(
        &mut self,
        event: &SampledGaussian,
        fingerprint: u64,
        store: &mut S,
    ) -> Result<u32, OpenError<S::Error>> {
        let (step, record) = self.take(event, fingerprint).ok_or(OpenError::BudgetSpent)?;
        // Whether a failed write became durable is unknown: the step is burned either way.
        store.persist(record).map_err(OpenError::Store)?;
        Ok(step)
    }
}

/// The number of a filter's first step: a ledger's steps end below, so that both, under one seed, share no noise and no draw.
pub(crate) const FIRST: u32 = 1 << 31;

/// The largest divergence of this order whose ε at `delta` is at most `epsilon`; 0 if there is none.
fn largest_divergence(order: u32, epsilon: f64, delta: f64) -> f64 {
    // The bits of numbers from 0 are in the order of the numbers, and ε never falls: bit by bit, from the top.
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
        // Eight unsampled steps of divergence α/2σ² spend all; a ninth, however cheap, is refused.
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
            // A target that this order can show.
            let epsilon = epsilon_at(f64::MIN_POSITIVE, f64::from(order), delta) + extra;
            let mut filter = RenyiFilter::new(order, epsilon, delta).unwrap();
            let mut store = Recorder::new();
            let (mut released, mut next) = (0.0, 0);
            for (kind, ln_multiplier, ln_rate) in moves {
                // The adversary takes what it likes, or what just fits.
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
