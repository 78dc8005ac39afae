//! The trait of filters, and how gradients at several points become one.

use crate::error::CallError;
use crate::private::Released;

/// Mixes the gradient of one sample at point `index` (its consecutive parts) into `mixed` (`[D]`), in index order: the one
/// way in which gradients at several points become one. `u = F(w_0·g_0)`, then `u ← F(u + F(w_j·g_j))`.
// Once where flash is short.
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub fn mix(index: usize, weight: f32, parts: &[&[f32]], mixed: &mut [f32]) {
    let mut rest = mixed;
    for part in parts {
        let (here, after) = rest.split_at_mut(part.len().min(rest.len()));
        for (mixed, grad) in here.iter_mut().zip(*part) {
            // The first point replaces: `0 + w·g` would lose the sign of a zero.
            *mixed = if index == 0 { weight * grad } else { *mixed + weight * grad };
        }
        rest = after;
    }
}

/// A filter with memory `S`, the caller's. The filter itself is a small configuration.
pub trait Filter<S: ?Sized>: Clone {
    /// Constants that the segments of one step share.
    type Step: Copy;

    /// Returns the number of evaluation points of each sample's gradient in a step, at least 1.
    fn eval_points(&self, state: &S) -> usize;

    /// Returns true if every step evaluates at the parameters alone, with weight 1: only such a filter can be inside
    /// another.
    fn evaluates_at_params(&self) -> bool {
        true
    }

    /// Writes point `index` (`[D]`) to `out` and returns the weight of the gradients taken there. Point 0 with the
    /// identity filter is `params` itself, with weight 1.
    ///
    /// # Errors
    ///
    /// `out` and `params` differ in length, or there is no such point.
    fn eval_point(&self, state: &S, index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError>;

    /// The weight of point `index`.
    fn weight(&self, state: &S, index: usize) -> f32;

    /// Fails unless the state fits `dim` parameters.
    ///
    /// # Errors
    ///
    /// A slice of the state has another length.
    fn check(&self, state: &S, dim: usize) -> Result<(), CallError>;

    /// Begins a step: advances the scalars.
    fn begin(&self, state: &mut S) -> Self::Step;

    /// Returns true if the filter is the identity: then nothing is applied.
    fn is_identity(&self) -> bool {
        false
    }

    /// Returns true if no coordinate depends on another one: then several processes may each filter a block.
    fn filters_by_coordinate(&self) -> bool {
        self.is_identity()
    }

    /// Filters the coordinates `at..at + filtered.len()`.
    fn apply(&self, step: Self::Step, state: &mut S, at: usize, released: &Released<'_>, filtered: &mut [f32]);

    /// The parameters `at..at + params.len()` are about to move from the values in `params`.
    fn before_update(&self, _step: Self::Step, _state: &mut S, _at: usize, _params: &[f32]) {}

    /// They have moved to the values in `params`.
    fn after_update(&self, _step: Self::Step, _state: &mut S, _at: usize, _params: &[f32]) {}
}
