//! Trait of filters, and the combination of gradients at several evaluation points.

use crate::error::CallError;
use crate::private::Released;

/// Adds the gradient of one sample at evaluation point `index` (in consecutive parts) to the combined gradient `mixed`
/// (`[D]`). Call it in index order.
///
/// Gradients at several points are combined only here: `u = F(w_0·g_0)`, then `u ← F(u + F(w_j·g_j))`.
///
/// ```
/// use damper_core::filter::mix;
///
/// let mut mixed = [0.0; 3];
/// mix(0, 0.75, &[&[4.0, 0.0], &[8.0]], &mut mixed);
/// mix(1, 0.25, &[&[0.0, 4.0, 8.0]], &mut mixed);
/// assert_eq!(mixed, [3.0, 1.0, 8.0]);
/// ```
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
///
/// ```
/// use damper_core::{error::CallError, optimizer::{Sgd, SgdState}};
/// # use damper_core::{clip::FlatL2, filter::*, grid::Grid, noise::*, prelude::*, private::*, schedule::*, threshold::Fixed};
/// # fn step_once<F: Filter<FS>, FS, O: damper_core::optimizer::Optimizer<OS>, OS>(
/// #     (filter, filter_state): (F, FS), (optimizer, state): (O, OS), grad: [f32; 2],
/// # ) -> Result<[f32; 2], Box<dyn std::error::Error>> {
/// #     let mechanism = DiscreteGaussian::<i32>::new(Grid::new(20)?, 1)?;
/// #     let schedule = Constant(0.1);
/// #     let clip = FlatL2;
/// #     let slots = Slots { filter, optimizer, mechanism, threshold: Fixed(1.0), clip, schedule, expected_batch: 1 };
/// #     let mut state = StepState::new([SumWord::ZERO; 2], filter_state, state, ());
/// #     let (mut ledger, mut params) = (Ledger::volatile(1), [0.0; 2]);
/// #     let config = PrivateStep::new(slots)?;
/// #     let mut step = config.open(&mut state, &mut ledger)?;
/// #     step.add(&grad)?;
/// #     step.finish(&mut params, &NoiseRng::simulation(1))?;
/// #     Ok(params)
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// /// Halves each released gradient.
/// #[derive(Clone)]
/// struct Half;
/// impl Filter<()> for Half {
///     type Step = ();
///     fn eval_points(&self, _: &()) -> usize {
///         1
///     }
///     fn eval_point(&self, _: &(), index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError> {
///         Identity.eval_point(&(), index, params, out)
///     }
///     fn weight(&self, _: &(), _: usize) -> f32 {
///         1.0
///     }
///     fn check(&self, _: &(), _: usize) -> Result<(), CallError> {
///         Ok(())
///     }
///     fn begin(&self, _: &mut ()) {}
///     fn apply(&self, _: (), _: &mut (), _: usize, released: &Released<'_>, filtered: &mut [f32]) {
///         for (filtered, grad) in filtered.iter_mut().zip(released.grad()) {
///             *filtered = grad / 2.0;
///         }
///     }
/// }
///
/// let sgd = (Sgd::new(0.0, false, 0.0)?, SgdState { momentum: [] as [f32; 0] });
/// let params = step_once((Half, ()), sgd, [0.5, -0.2])?;
/// assert!((params[0] + 0.025).abs() < 1e-5 && (params[1] - 0.01).abs() < 1e-5);
/// # Ok(())
/// # }
/// ```
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
    ///
    /// ```
    /// use damper_core::filter::{Filter, Gain, Kalman, KalmanState, LookAhead};
    ///
    /// // DiSK follows the parameters: its next evaluation point lies ahead of their last move.
    /// let kalman = Kalman::new(Gain::Constant(0.5), LookAhead::One)?;
    /// let mut state = KalmanState::new(&kalman, [0.0f32; 1], [0.0; 1]);
    /// assert!(!Filter::<KalmanState<[f32; 1]>>::filters_by_coordinate(&kalman));
    /// let step = kalman.begin(&mut state);
    /// kalman.before_update(step, &mut state, 0, &[1.0]);
    /// kalman.after_update(step, &mut state, 0, &[3.0]);
    /// let mut point = [0.0];
    /// kalman.eval_point(&state, 0, &[3.0], &mut point).unwrap();
    /// // 3 + ((1 − κ)/κ)·2
    /// assert_eq!(point, [5.0]);
    /// # Ok::<(), damper_core::error::ConfigError>(())
    /// ```
    fn after_update(&self, _step: Self::Step, _state: &mut S, _at: usize, _params: &[f32]) {}
}
