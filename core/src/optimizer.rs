//! Optimizers: how the parameters follow the released gradient.
//!
//! An optimizer receives the filtered gradient and the released one it was made from, in pieces of consecutive
//! coordinates, so that a step needs no gradient-sized buffer of its own.

mod adam;
mod sgd;

pub use adam::{Adam, AdamState, AdamStep};
pub use sgd::{Sgd, SgdState};

use crate::error::CallError;
use crate::private::Released;

/// An optimizer with memory `S`, the caller's.
pub trait Optimizer<S: ?Sized> {
    /// What one step's pieces share.
    type Step: Copy;

    /// Fails unless the state fits `dim` parameters.
    ///
    /// # Errors
    ///
    /// A slice of the state has another length.
    fn check(&self, state: &S, dim: usize) -> Result<(), CallError>;

    /// Begins a step with learning rate `lr`: advances the scalars.
    fn begin(&self, state: &mut S, lr: f64) -> Self::Step;

    /// Updates the parameters `at..at + params.len()` (`params` is that piece) from the filtered gradient there.
    fn update(
        &self,
        step: Self::Step,
        state: &mut S,
        at: usize,
        params: &mut [f32],
        filtered: &[f32],
        released: &Released<'_>,
    );
}

/// The piece `at..at + len` of a state vector; empty where the vector ends before.
pub(crate) fn piece(vector: &mut [f32], at: usize, len: usize) -> &mut [f32] {
    vector.get_mut(at..).and_then(|rest| rest.get_mut(..len)).unwrap_or_default()
}
