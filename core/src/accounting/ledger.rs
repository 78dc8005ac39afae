//! The ledger: how many steps may be released, and how many were paid for.
//!
//! What a budget of steps means in (ε, δ) is worked out beforehand, from the event that one step is. Opening a step takes
//! one from the ledger and persists it **before** anything is released, so that a crash may over-count but never
//! under-count. A step's number is the number of payments before it: a step that was paid and lost is burned, its noise
//! with it.
//!
//! # Memory
//!
//! Three `u32`.

use super::filter::FIRST;
use super::{Record, Store};
use crate::error::OpenError;
use crate::mutant::{self, Mutant};

/// Counts paid steps against a budget.
///
/// It has no `Clone`: a budget cannot be spent twice.
#[derive(PartialEq, Eq, Debug)]
pub struct Ledger {
    budget: u32,
    paid: u32,
    persisted: u32,
    prepay: u32,
}

impl Ledger {
    /// A ledger with a budget of `budget` steps, at most 2³¹, of which none is paid.
    #[must_use]
    pub fn new(budget: u32) -> Self {
        Self::resume(budget, 0)
    }

    /// The ledger after a restart: `persisted` is what the store holds. Steps that were prepaid but not taken are burned.
    #[must_use]
    pub fn resume(budget: u32, persisted: u32) -> Self {
        // Numbers from 2³¹ on are those of steps that a filter pays for.
        let persisted = if mutant::is(Mutant::ResumeReplays) { persisted.saturating_sub(2) } else { persisted };
        Self { budget: budget.min(FIRST), paid: persisted, persisted, prepay: 1 }
    }

    /// Pays `steps` at a time (at least 1), to write less often; a restart burns what was prepaid.
    #[must_use]
    pub fn prepaying(self, steps: u32) -> Self {
        Self { prepay: steps.max(1), ..self }
    }

    /// Steps that may be released in all.
    #[must_use]
    pub fn budget(&self) -> u32 {
        self.budget
    }

    /// Steps paid and taken so far: the number of the next step.
    #[must_use]
    pub fn paid(&self) -> u32 {
        self.paid
    }

    /// Takes one step; its number.
    pub(crate) fn pay<S: Store>(&mut self, store: &mut S) -> Result<u32, OpenError<S::Error>> {
        if self.paid >= self.budget {
            return Err(OpenError::BudgetSpent);
        }
        let step = self.paid;
        if step >= self.persisted {
            let paid = step.saturating_add(self.prepay).min(self.budget);
            // Whether a failed write became durable is unknown: the step is burned either way.
            self.paid = step + 1;
            let shown = match () {
                () if mutant::is(Mutant::LedgerPaysAfter) => step,
                () if mutant::is(Mutant::LedgerSkipsTenth) => paid - paid / 10,
                () => paid,
            };
            store
                .persist(Record { budget: self.budget, paid: shown, divergence: 0.0, order: 0 })
                .map_err(OpenError::Store)?;
            self.persisted = paid;
        }
        self.paid = step + 1;
        Ok(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::Volatile;
    use crate::accounting::store::Recorder;
    use proptest::prelude::*;

    #[test]
    fn a_spent_budget_opens_nothing() {
        let mut ledger = Ledger::new(2);
        assert_eq!(ledger.pay(&mut Volatile), Ok(0));
        assert_eq!(ledger.pay(&mut Volatile), Ok(1));
        assert_eq!(ledger.pay(&mut Volatile), Err(OpenError::BudgetSpent));
    }

    proptest! {
        #[test]
        fn no_number_is_given_twice_over_restarts_and_failed_writes(
            budget in 1u32..60, prepay in 0u32..9, events in prop::collection::vec(0u8..4, 1..80),
        ) {
            let mut store = Recorder::new();
            let mut ledger = Ledger::new(budget).prepaying(prepay);
            let mut next = 0;
            for event in events {
                match event {
                    0 => ledger = Ledger::resume(budget, store.persisted.paid).prepaying(prepay),
                    1 => store.fail_at = Some(store.writes + 1),
                    _ => match ledger.pay(&mut store) {
                        Ok(step) => {
                            prop_assert!(step >= next && step < budget && store.persisted.paid > step);
                            next = step + 1;
                        }
                        Err(OpenError::BudgetSpent) => prop_assert_eq!(ledger.paid(), budget),
                        Err(_) => {}
                    },
                }
            }
        }
    }
}
