//! The ledger: the number of steps that may be released, and the number charged.
//!
//! An accountant computes the (ε, δ) of a budget of steps in advance, from the event of a step. Opening a step takes
//! one from the ledger and persists the charge **before** anything is released. A crash may over-count but never
//! under-count.
//!
//! A step's number is the number of charges before it. A step that was charged and lost is burned together with its
//! noise.
//!
//! # Memory
//!
//! Four `u32`, a `u64`, and the store.

use super::renyi_filter::FIRST;
use super::{ReadStore, Record, Store, Volatile};
use crate::error::{CallError, ConfigError, OpenError};

/// Largest budget of a ledger. The numbers from here on belong to steps that are charged to a filter.
pub const MOST_STEPS: u32 = FIRST;

/// Counts charged steps against a budget, and persists each charge in `S` ([`Store`]) before the step opens.
///
/// The privacy cost of its steps is that of one configuration. The ledger is therefore bound to the configuration of
/// its store's record, or of the first step that it opens. A step of another configuration is an error.
///
/// It has no `Clone`, so a budget cannot be spent twice.
///
/// ```
/// use damper_core::prelude::*;
///
/// let mut ledger = Ledger::volatile(2);
/// assert_eq!(ledger.charge(), Ok(0));
/// assert_eq!(ledger.charge(), Ok(1));
/// assert_eq!(ledger.charge(), Err(OpenError::BudgetSpent));
/// assert_eq!((ledger.budget(), ledger.charged_steps()), (2, 2));
///
/// // After a restart from a store that has 4 of 10 steps. Each record reserves 3 steps.
/// let mut ledger = Ledger::resume(ledger.into_store(), 10, 4).with_reserve(3).bound_to(7);
/// assert_eq!(ledger.charge(), Ok(4));
/// assert_eq!((ledger.fingerprint(), ledger.store()), (7, &Volatile));
/// ```
#[derive(PartialEq, Eq, Debug)]
pub struct Ledger<S> {
    budget: u32,
    charged: u32,
    persisted: u32,
    reserve: u32,
    /// Fingerprint of the configuration that the ledger is bound to, or 0.
    fingerprint: u64,
    store: S,
}

impl Ledger<Volatile> {
    /// Creates a ledger for tests and simulations. A restart loses its charges.
    #[must_use]
    pub fn volatile(budget: u32) -> Self {
        Self::resume(Volatile, budget, 0)
    }
}

impl<S: ReadStore> Ledger<S> {
    /// Opens the ledger of a run with a budget of `budget` steps, at most 2³¹, from its store. The run is new or
    /// continues after a restart.
    ///
    /// # Errors
    ///
    /// Fails if the budget is above 2³¹, or the store's record has another budget or belongs to a
    /// [`RenyiFilter`](super::RenyiFilter).
    pub fn open(store: S, budget: u32) -> Result<Self, ConfigError> {
        if budget > MOST_STEPS {
            return Err(ConfigError::new("budget", "at most 2^31 steps"));
        }
        let Record { budget: recorded, paid, order, fingerprint, .. } = store.record();
        if order != 0 || (recorded != budget && (recorded, paid) != (0, 0)) {
            return Err(ConfigError::new("budget", "the budget that the store has on record"));
        }
        Ok(Self { fingerprint, ..Self::resume(store, budget, paid) })
    }
}

impl<S> Ledger<S> {
    /// Restores the ledger after a restart. `charged` is the number in the store. Steps that were reserved but not
    /// taken are burned.
    ///
    /// [`Ledger::open`] reads `charged` itself. This function is for a store that cannot be read here, or that other
    /// code writes. For the latter, pass `()` as the store, [`prepare`](crate::step::PrivateStep::prepare) steps and
    /// persist their records.
    ///
    /// If `charged` is below the number in the store, step numbers repeat, unless the store reports its number
    /// ([`Store::charged_steps`]). With a budget above 2³¹, every step is an error.
    #[must_use]
    pub fn resume(store: S, budget: u32, charged: u32) -> Self {
        Self { budget, charged, persisted: charged, reserve: 1, fingerprint: 0, store }
    }

    /// Charges `steps` at a time (at least 1), to write less often. A restart burns reserved steps.
    #[must_use]
    pub fn with_reserve(self, steps: u32) -> Self {
        Self { reserve: steps.max(1), ..self }
    }

    /// Binds the ledger to the configuration with this [fingerprint](crate::step::StepConfig::fingerprint), as recorded
    /// in the store. 0 binds it to the configuration of its next step. Steps reserved for another configuration are
    /// burned.
    #[must_use]
    pub fn bound_to(self, fingerprint: u64) -> Self {
        let charged = if self.fingerprint == fingerprint { self.charged } else { self.charged.max(self.persisted) };
        Self { fingerprint, charged, ..self }
    }

    /// Returns the fingerprint of the configuration that the ledger is bound to, or 0 before its first step.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Checks that a step of the configuration with this fingerprint can be charged.
    pub(crate) fn check(&self, fingerprint: u64) -> Result<(), CallError> {
        if self.budget > MOST_STEPS {
            return Err(CallError::Order("a ledger with a budget of more than 2^31 steps"));
        }
        if self.fingerprint == 0 || fingerprint == 0 || self.fingerprint == fingerprint {
            Ok(())
        } else {
            Err(CallError::Order("a ledger of another configuration"))
        }
    }

    /// Returns the budget: the total number of steps that may be released.
    #[must_use]
    pub fn budget(&self) -> u32 {
        self.budget
    }

    /// Returns the number of steps charged and taken so far, which is the number of the next step.
    #[must_use]
    pub fn charged_steps(&self) -> u32 {
        self.charged
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the store, to use its other content.
    ///
    /// ```
    /// use damper_core::accounting::{Ledger, Volatile};
    ///
    /// let mut ledger = Ledger::volatile(1);
    /// assert_eq!(ledger.store_mut(), &mut Volatile);
    /// ```
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Returns the store, after the last step.
    #[must_use]
    pub fn into_store(self) -> S {
        self.store
    }

    /// Takes the number of the next step. If it needs a record, the number is at least `least`. A number is taken once,
    /// even if the record is lost. The record must be durable before the step opens.
    fn take(&mut self, least: u32) -> Option<(u32, Option<Record>)> {
        let is_reserved = self.charged < self.persisted;
        let step = if is_reserved { self.charged } else { self.charged.max(least) };
        if step >= self.budget {
            return None;
        }
        self.charged = step + 1;
        if is_reserved {
            return Some((step, None));
        }
        let paid = step.saturating_add(self.reserve).min(self.budget);
        let Self { budget, fingerprint, .. } = *self;
        Some((step, Some(Record { budget, paid, divergence: 0.0, order: 0, fingerprint })))
    }
}

impl Ledger<()> {
    /// Binds the ledger to this fingerprint. Returns the number of the next step, its record, and the count of durable
    /// steps to update.
    pub(crate) fn prepare(&mut self, fingerprint: u64) -> Option<(u32, Option<Record>, &mut u32)> {
        self.fingerprint = fingerprint;
        let (step, record) = self.take(0)?;
        Some((step, record, &mut self.persisted))
    }
}

impl<S: Store> Ledger<S> {
    /// Charges one step, persists the charge, and returns the step's number. If the step does not open, it is burned.
    ///
    /// # Errors
    ///
    /// Fails if the budget is spent or above 2³¹, or the store fails.
    pub fn charge(&mut self) -> Result<u32, OpenError<S::Error>> {
        self.charge_for(self.fingerprint)
    }

    /// Charges a step of the configuration with this fingerprint, as [`charge`](Self::charge) does. Binds the ledger to
    /// it.
    pub(crate) fn charge_for(&mut self, fingerprint: u64) -> Result<u32, OpenError<S::Error>> {
        self.check(fingerprint).map_err(OpenError::Call)?;
        self.fingerprint = fingerprint;
        // Other code that charged to this store has used the numbers below.
        let (step, record) = self.take(self.store.charged_steps()).ok_or(OpenError::BudgetSpent)?;
        if let Some(record) = record {
            // A failed write may still have become durable, so the step is burned in both cases.
            self.store.persist(record).map_err(OpenError::Store)?;
            self.persisted = record.paid;
        }
        Ok(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::store::Recorder;
    use proptest::prelude::*;

    #[test]
    fn a_spent_budget_opens_nothing() {
        let mut ledger = Ledger::volatile(2);
        assert_eq!(ledger.charge(), Ok(0));
        assert_eq!(ledger.charge(), Ok(1));
        assert_eq!(ledger.charge(), Err(OpenError::BudgetSpent));
    }

    #[test]
    fn record_of_another_run_is_refused() {
        let mut store = Recorder::new();
        store.persist(Record { budget: 5, paid: 2, ..Record::NONE }).unwrap();
        assert!(Ledger::open(&mut store, 6).is_err());
        assert_eq!(Ledger::open(&mut store, 5).unwrap().charged_steps(), 2);
        store.persist(Record { budget: 0, paid: 2, divergence: 0.5, order: 8, ..Record::NONE }).unwrap();
        assert!(Ledger::open(&mut store, 0).is_err());
    }

    // A budget with step numbers that belong to a filter is an error that names the budget. It is not truncated.
    #[test]
    fn a_budget_above_2_31_is_refused() {
        assert_eq!(Ledger::open(Recorder::new(), FIRST + 1).unwrap_err().parameter, "budget");
        assert!(Ledger::open(Recorder::new(), FIRST).is_ok());
        let mut resumed = Ledger::resume(Recorder::new(), FIRST + 1, 0);
        assert!(matches!(resumed.charge(), Err(OpenError::Call(_))));
        assert_eq!((resumed.budget(), resumed.store().writes), (FIRST + 1, 0));
    }

    proptest! {
        // No step number repeats over restarts and failed writes.
        #[test]
        fn step_numbers_never_repeat(
            budget in 1u32..60, reserve in 0u32..9, events in prop::collection::vec(0u8..4, 1..80),
        ) {
            let mut ledger = Ledger::open(Recorder::new(), budget).unwrap().with_reserve(reserve);
            let mut next = 0;
            for event in events {
                match event {
                    0 => ledger = Ledger::open(ledger.into_store(), budget).unwrap().with_reserve(reserve),
                    1 => ledger.store.fail_at = Some(ledger.store.writes + 1),
                    _ => match ledger.charge() {
                        Ok(step) => {
                            prop_assert!(step >= next && step < budget && ledger.store.persisted.paid > step);
                            next = step + 1;
                        }
                        Err(OpenError::BudgetSpent) => prop_assert_eq!(ledger.charged_steps(), budget),
                        Err(_) => {}
                    },
                }
            }
        }
    }
}
