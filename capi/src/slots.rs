//! The slots of a step, each filled when the program runs and linked when it is built: a slot holds a table of
//! functions, and only the function that chooses a method names its table.

pub mod clip;
pub mod filter;
pub mod optimizer;
pub mod schedule;
pub mod threshold;

pub(crate) use clip::ClipSlot;
pub(crate) use filter::{FilterSlot, FilterState};
pub(crate) use optimizer::{OptimizerSlot, OptimizerState};
pub(crate) use threshold::{ThresholdSlot, ThresholdState};

use crate::border::{self, Idle};
use crate::run::{Choices, Phase, Run, Slot, Stage};
use crate::status::{Answer, Status};

/// A run whose slot may be chosen, and its choices so far.
pub(crate) unsafe fn choosing<'a>(run: *mut Run, slot: Slot) -> Answer<Idle<'a>> {
    // SAFETY: the caller's contract.
    let idle = unsafe { border::idle(run, Phase::Choosing) }?;
    idle.head.is_free(slot)?;
    Ok(idle)
}

impl Idle<'_> {
    /// What `take` takes of the run's memory is given back if it fails.
    pub(crate) fn attempt<T>(&mut self, take: impl FnOnce(&mut Self) -> Answer<T>) -> Answer<T> {
        let used = self.head.used;
        let taken = take(self);
        if taken.is_err() {
            self.head.used = used;
        }
        taken
    }

    /// Fills the slot.
    pub(crate) fn fill(&mut self, slot: Slot, fill: impl FnOnce(&mut Choices)) -> Answer {
        let Stage::Choosing(choices) = &mut self.body.stage else { return Err(Status::Order) };
        fill(choices);
        self.head.choose(slot);
        Ok(())
    }
}
