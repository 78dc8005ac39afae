//! The interface of optimizers, and their shared numerics.

use crate::error::{CallError, ConfigError};
pub(super) use crate::numerics::round::saturate;
use crate::private::Released;

/// Inputs of an optimizer's step.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Begin {
    /// The learning rate of this step.
    pub lr: f64,
    /// Standard deviation of the noise in each coordinate of this step's released gradient, `z_t·C_t/B` from left to right.
    pub noise_std: f64,
}

/// An optimizer with memory `S`, the caller's.
pub trait Optimizer<S: ?Sized>: Clone {
    /// State that the segments of one step share.
    type Step: Copy;

    /// Fails unless the state fits `dim` parameters.
    ///
    /// # Errors
    ///
    /// A slice of the state has another length.
    fn check(&self, state: &S, dim: usize) -> Result<(), CallError>;

    /// Returns true if parameters move only after the whole released gradient was observed.
    fn needs_full_gradient(&self) -> bool {
        false
    }

    /// Returns true if no coordinate's step depends on another coordinate: then several processes may each move a block.
    fn moves_by_coordinate(&self) -> bool {
        !self.needs_full_gradient()
    }

    /// Sees a piece of the released gradient, `at..`, before [`Optimizer::begin`]; all pieces, in order, if
    /// [`Optimizer::needs_full_gradient`].
    fn observe(&self, _state: &mut S, _at: usize, _released: &Released<'_>) {}

    /// The averages of gradients in the state, one a coordinate, which turn with the coordinates (`[D]`); empty if there are none.
    fn first_moments<'s>(&self, _state: &'s mut S) -> &'s mut [f32] {
        &mut []
    }

    /// Begins a step: advances the scalars.
    fn begin(&self, state: &mut S, begin: Begin) -> Self::Step;

    /// Updates the parameters `at..at + params.len()` (`params` is that piece) from the filtered gradient there.
    fn update(
        &self,
        step: Self::Step,
        state: &mut S,
        at: usize,
        params: &mut [f32],
        filtered: &Released<'_>,
        released: &Released<'_>,
    );

    /// Ends a step, after all pieces, with all parameters (`[D]`): for optimizers that move them as a whole.
    fn end(&self, _step: Self::Step, _state: &mut S, _params: &mut [f32]) {}
}

/// Fails unless Adam's decays are in their range.
pub(super) fn check_betas(beta1: f64, beta2: f64) -> Result<(), ConfigError> {
    let good = |beta: f64| (0.0..1.0).contains(&beta);
    match (good(beta1), good(beta2)) {
        (true, true) => Ok(()),
        (false, _) => Err(ConfigError::new("beta1", "from 0 to below 1")),
        (true, false) => Err(ConfigError::new("beta2", "from 0 to below 1")),
    }
}

/// The piece `at..at + len` of a state vector; empty where the vector ends before.
#[inline]
pub(crate) fn piece(vector: &mut [f32], at: usize, len: usize) -> &mut [f32] {
    vector.get_mut(at..).and_then(|rest| rest.get_mut(..len)).unwrap_or_default()
}

/// The same, once where flash is short: for those that spend far more on a coordinate.
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub(super) fn far_piece(vector: &mut [f32], at: usize, len: usize) -> &mut [f32] {
    piece(vector, at, len)
}

/// `(F(β), F(1−β))`, the difference in f64: what a moving average keeps and takes.
pub(super) fn weights(beta: f64) -> (f32, f32) {
    (beta as f32, (1.0 - beta) as f32)
}

/// `S` of a step's scalar.
// Once where flash is short.
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub(super) fn narrow(x: f64) -> f32 {
    saturate(x as f32)
}
