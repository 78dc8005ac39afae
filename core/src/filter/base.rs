//! Trait of filters, and the combination of gradients at several evaluation points.

use crate::error::CallError;
use crate::private::Released;

/// Adds the gradient of one sample at evaluation point `index` (in consecutive parts) to the combined gradient `mixed`
/// (`[D]`). Call it in index order.
///
/// Gradients at several points are combined only here: `u = F(w_0·g_0)`, then `u ← F(u + F(w_j·g_j))`.
// Not inlined on small targets, to save flash.
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub fn mix(index: usize, weight: f32, parts: &[&[f32]], mixed: &mut [f32]) {
    let mut rest = mixed;
    for part in parts {
        let (here, after) = rest.split_at_mut(part.len().min(rest.len()));
        for (mixed, grad) in here.iter_mut().zip(*part) {
            // The first point assigns, because `0 + w·g` would lose the sign of a zero.
            *mixed = if index == 0 { weight * grad } else { *mixed + weight * grad };
        }
        rest = after;
    }
}

/// A filter with state `S`, in the caller's memory. The filter itself is a small configuration.
pub trait Filter<S: ?Sized>: Clone {
    /// Constants that the segments of one step share.
    type Step: Copy;

    /// Returns the number of evaluation points of each sample's gradient in a step, at least 1.
    fn eval_points(&self, state: &S) -> usize;

    /// Returns true if every step evaluates only at the parameters, with weight 1. Only such a filter can be inside
    /// another.
    fn evaluates_at_params(&self) -> bool {
        true
    }

    /// Writes evaluation point `index` (`[D]`) to `out`, and returns the weight of its gradients. Point 0 of the
    /// identity filter is `params` itself, with weight 1.
    ///
    /// # Errors
    ///
    /// Fails if `out` and `params` differ in length, or the evaluation point does not exist.
    fn eval_point(&self, state: &S, index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError>;

    /// Returns the weight of evaluation point `index`.
    fn weight(&self, state: &S, index: usize) -> f32;

    /// Checks that the state fits `dim` parameters.
    ///
    /// # Errors
    ///
    /// Fails if a slice of the state has another length.
    fn check(&self, state: &S, dim: usize) -> Result<(), CallError>;

    /// Begins a step: advances the scalars.
    fn begin(&self, state: &mut S) -> Self::Step;

    /// Returns true if the filter is the identity. Then it is not applied.
    fn is_identity(&self) -> bool {
        false
    }

    /// Returns true if no coordinate depends on another coordinate. Several processes may then each filter a block.
    fn filters_by_coordinate(&self) -> bool {
        self.is_identity()
    }

    /// Filters the coordinates `at..at + filtered.len()`.
    fn apply(&self, step: Self::Step, state: &mut S, at: usize, released: &Released<'_>, filtered: &mut [f32]);

    /// Called before the update of the parameters `at..at + params.len()`, with their current values in `params`.
    fn before_update(&self, _step: Self::Step, _state: &mut S, _at: usize, _params: &[f32]) {}

    /// Called after the update, with the new values in `params`.
    fn after_update(&self, _step: Self::Step, _state: &mut S, _at: usize, _params: &[f32]) {}
}
