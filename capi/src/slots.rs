//! Slots of a step, filled at run time and linked at build time. A slot holds an object in the run's memory, and only
//! the function that chooses a method names its type.

pub mod clip;
pub mod filter;
pub(crate) mod held;
pub(crate) mod layer;
pub mod optimizer;
pub mod schedule;
pub mod threshold;

use crate::ffi::{self, IdleMut};
use crate::memory::{Choices, Phase, Run, Slot, Stage, State};
use crate::status::{FfiResult, Status};
use damper_core::error::ConfigError;

/// Borrows a run with a free slot, and its choices so far.
pub(crate) unsafe fn choosing<'a>(run: *mut Run, slot: Slot) -> FfiResult<IdleMut<'a>> {
    // SAFETY: the caller's contract.
    let idle = unsafe { ffi::idle(run, Phase::Choosing) }?;
    idle.head.is_free(slot)?;
    Ok(idle)
}

impl IdleMut<'_> {
    /// Returns the method, or stores the constructor's error for the caller.
    pub(crate) fn accept<T>(&mut self, made: Result<T, ConfigError>) -> FfiResult<T> {
        made.map_err(|error| self.head.refuse(error))
    }

    /// Calls `take`. If it fails, returns the memory that it took from the run.
    pub(crate) fn attempt<T>(&mut self, take: impl FnOnce(&mut Self) -> FfiResult<T>) -> FfiResult<T> {
        let used = self.head.used;
        let taken = take(self);
        if taken.is_err() {
            self.head.used = used;
        }
        taken
    }

    /// Returns the state of the methods in the slots.
    pub(crate) fn state(&mut self) -> FfiResult<&mut State> {
        self.body.state.as_mut().ok_or(Status::Order)
    }

    /// Fills the slot.
    pub(crate) fn fill(&mut self, slot: Slot, fill: impl FnOnce(&mut Choices)) -> FfiResult {
        let Stage::Choosing(choices) = &mut self.body.stage else { return Err(Status::Order) };
        fill(choices);
        self.head.choose(slot);
        Ok(())
    }
}
