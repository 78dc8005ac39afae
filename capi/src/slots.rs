//! The slots of a step, each filled when the program runs and linked when it is built: what fills a slot is an object in the
//! run's memory, and only the function that chooses a method names its type.

pub mod clip;
pub mod filter;
pub(crate) mod held;
pub(crate) mod layer;
pub mod optimizer;
pub mod schedule;
pub mod threshold;

use crate::border::{self, Idle};
use crate::memory::{Choices, Phase, Run, Slot, Stage, State};
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

    /// What fills the slots.
    pub(crate) fn state(&mut self) -> Answer<&mut State> {
        self.body.state.as_mut().ok_or(Status::Order)
    }

    /// Fills the slot.
    pub(crate) fn fill(&mut self, slot: Slot, fill: impl FnOnce(&mut Choices)) -> Answer {
        let Stage::Choosing(choices) = &mut self.body.stage else { return Err(Status::Order) };
        fill(choices);
        self.head.choose(slot);
        Ok(())
    }
}
