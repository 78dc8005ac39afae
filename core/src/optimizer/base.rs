//! Trait of optimizers, and their shared numerics.

use crate::error::{CallError, ConfigError};
pub(super) use crate::numerics::round::saturate;
use crate::private::Released;

/// Inputs of an optimizer's step.
///
/// ```
/// use damper_core::optimizer::{Begin, Optimizer, Sgd, SgdState};
///
/// let sgd = Sgd::new(0.0, false, 0.0)?;
/// let mut state = SgdState { momentum: [] as [f32; 0] };
/// assert_eq!(sgd.begin(&mut state, Begin { lr: 0.1, noise_std: 0.02 }), 0.1);
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Begin {
    /// Learning rate of this step.
    pub lr: f64,
    /// Standard deviation of the noise in each coordinate of this step's released gradient, `z_t·C_t/B` from left to
    /// right.
    pub noise_std: f64,
}

/// An optimizer with state `S`, in the caller's memory.
///
/// ```
/// use damper_core::{error::CallError, optimizer::{Begin, Optimizer}};
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
/// /// Moves each parameter by the learning rate, against the sign of its gradient.
/// #[derive(Clone)]
/// struct Sign;
/// impl Optimizer<()> for Sign {
///     type Step = f32;
///     fn check(&self, _: &(), _: usize) -> Result<(), CallError> {
///         Ok(())
///     }
///     fn begin(&self, _: &mut (), begin: Begin) -> f32 {
///         begin.lr as f32
///     }
///     fn update(&self, lr: f32, _: &mut (), _: usize, params: &mut [f32], filtered: &Released<'_>, _: &Released<'_>) {
///         for (param, grad) in params.iter_mut().zip(filtered.grad()) {
///             *param -= lr * grad.signum();
///         }
///     }
/// }
///
/// assert_eq!(step_once((Identity, ()), (Sign, ()), [0.5, -0.2])?, [-0.1, 0.1]);
/// # Ok(())
/// # }
/// ```
pub trait Optimizer<S: ?Sized>: Clone {
    /// State that the segments of one step share.
    type Step: Copy;

    /// Checks that the state fits `dim` parameters.
    ///
    /// # Errors
    ///
    /// Fails if a slice of the state has another length.
    fn check(&self, state: &S, dim: usize) -> Result<(), CallError>;

    /// Returns true if the whole released gradient must be observed before the parameters change.
    fn needs_full_gradient(&self) -> bool {
        false
    }

    /// Returns true if no coordinate's update depends on another coordinate. Several processes may then each update a
    /// block.
    fn moves_by_coordinate(&self) -> bool {
        !self.needs_full_gradient()
    }

    /// Observes a segment of the released gradient, from `at`, before [`Optimizer::begin`]. Called for all segments, in
    /// order, if [`Optimizer::needs_full_gradient`].
    ///
    /// ```
    /// use damper_access::NotPrivate;
    /// use damper_core::optimizer::{AdaGradNorm, AdaGradNormState, Begin, Optimizer, Sgd, SgdState};
    /// use damper_core::private::Released;
    ///
    /// // One step by hand, of a mean gradient without privacy, in two segments.
    /// let optimizer = AdaGradNorm::new(0.0, 1e-6, false, Sgd::new(0.5, false, 0.0)?)?;
    /// let mut state = AdaGradNormState::new(SgdState { momentum: [0.0f32; 2] });
    /// fn moves_by_coordinate<S>(optimizer: &impl Optimizer<S>, _: &S) -> bool {
    ///     !optimizer.needs_full_gradient() && optimizer.moves_by_coordinate()
    /// }
    /// assert!(!moves_by_coordinate(&optimizer, &state));
    /// let (segments, mut params) = ([[3.0], [4.0]], [0.0f32; 2]);
    /// for (at, grad) in segments.iter().enumerate() {
    ///     optimizer.observe(&mut state, at, &Released::not_private(grad, NotPrivate::claim()));
    /// }
    /// let step = optimizer.begin(&mut state, Begin { lr: 1.0, noise_std: 0.0 });
    /// for (at, grad) in segments.iter().enumerate() {
    ///     let released = Released::not_private(grad, NotPrivate::claim());
    ///     optimizer.update(step, &mut state, at, &mut params[at..=at], &released, &released);
    /// }
    /// optimizer.end(step, &mut state, &mut params);
    /// // The gradient over its norm of 5.
    /// assert!((params[0] + 0.6).abs() < 1e-6 && (params[1] + 0.8).abs() < 1e-6);
    /// let mut momentum = SgdState { momentum: [0.5f32; 2] };
    /// assert_eq!(Sgd::new(0.5, false, 0.0)?.first_moments(&mut momentum), [0.5, 0.5]);
    /// # Ok::<(), damper_core::error::ConfigError>(())
    /// ```
    fn observe(&self, _state: &mut S, _at: usize, _released: &Released<'_>) {}

    /// Returns the averages of gradients in the state, one for each coordinate (`[D]`), or an empty slice. A change of
    /// basis must rotate them too.
    fn first_moments<'s>(&self, _state: &'s mut S) -> &'s mut [f32] {
        &mut []
    }

    /// Begins a step: advances the scalars.
    fn begin(&self, state: &mut S, begin: Begin) -> Self::Step;

    /// Updates the parameters `at..at + params.len()`, given as the segment `params`, from the filtered gradient there.
    fn update(
        &self,
        step: Self::Step,
        state: &mut S,
        at: usize,
        params: &mut [f32],
        filtered: &Released<'_>,
        released: &Released<'_>,
    );

    /// Ends a step after all segments, with all parameters (`[D]`), for optimizers that change them as a whole.
    fn end(&self, _step: Self::Step, _state: &mut S, _params: &mut [f32]) {}
}

/// Checks that Adam's decays are in their range.
pub(super) fn check_betas(beta1: f64, beta2: f64) -> Result<(), ConfigError> {
    let good = |beta: f64| (0.0..1.0).contains(&beta);
    match (good(beta1), good(beta2)) {
        (true, true) => Ok(()),
        (false, _) => Err(ConfigError::new("beta1", "from 0 to below 1")),
        (true, false) => Err(ConfigError::new("beta2", "from 0 to below 1")),
    }
}

/// Returns the segment `at..at + len` of a state vector, or an empty slice if it ends past the vector.
#[inline]
pub(crate) fn piece(vector: &mut [f32], at: usize, len: usize) -> &mut [f32] {
    vector.get_mut(at..).and_then(|rest| rest.get_mut(..len)).unwrap_or_default()
}

/// Returns [`piece`] without inlining on small targets, for optimizers with much more work for each coordinate.
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub(super) fn far_piece(vector: &mut [f32], at: usize, len: usize) -> &mut [f32] {
    piece(vector, at, len)
}

/// Returns `(F(β), F(1−β))`, the weights of a moving average, with the difference in f64.
pub(super) fn weights(beta: f64) -> (f32, f32) {
    (beta as f32, (1.0 - beta) as f32)
}

/// Returns `S` of a step's scalar.
// Not inlined on small targets, to save flash.
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub(super) fn narrow(x: f64) -> f32 {
    saturate(x as f32)
}
