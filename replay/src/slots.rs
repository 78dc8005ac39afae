//! The slots of a run, as the core's run-time slots.
//!
//! A slot is read by the kind of its method. The reader has the method and its state on its own stack frame, and calls
//! the rest of the run with them.

pub(super) mod recorded;

use super::error::PackError;
use super::memory::MemoryPart;
use super::pack::Reader;

/// A pack and the memory to play it in.
pub(super) struct Input<'p, 'r, 'a> {
    pub(super) pack: &'p mut Reader<'r>,
    pub(super) floats: Floats<'a>,
    /// Parameters of the run.
    pub(super) dim: usize,
}

/// Memory that is lent in zeroed segments.
pub(super) struct Floats<'a>(pub(super) &'a mut [f32]);

impl<'a> Floats<'a> {
    #[inline(never)]
    pub(super) fn take(&mut self, len: usize) -> Result<&'a mut [f32], PackError> {
        let free = core::mem::take(&mut self.0);
        let got = free.len();
        let (taken, rest) =
            free.split_at_mut_checked(len).ok_or(PackError::Memory { of: MemoryPart::Floats, needed: len, got })?;
        taken.fill(0.0);
        self.0 = rest;
        Ok(taken)
    }
}
