//! AdaGrad-norm with larger weights on the first steps of an epoch, as in ADP's experiments.
//!
//! ```text
//! b² ← b² + max(β_t·‖g‖², ν)          β_t = max(β/((t mod p) + 1), 1)
//! ```
//!
//! `t` counts from 0, and `p` is the number of steps of an epoch. With `β = 1`, this is [`AdaGradNorm`].
//!
//! Source: Wu, Wang, Cristali, Gu, Willett, "Adaptive Differentially Private Empirical Risk Minimization", §6.2, run
//! there with `b_0² = 20`, `ν = 10⁻⁵`, `p = 195` and `β` of 1, 512, 1024, 2048, 4096 or 8192.
//!
//! # Memory
//!
//! One word more than AdaGrad-norm.
//!
//! # Numerics
//!
//! As [`AdaGradNorm`], with `w·e` instead of `e`: `w = β/((t mod p) + 1)` in f64, at least 1. After 2³² − 1 steps, `t`
//! stays.
//!
//! # Privacy
//!
//! As [`AdaGradNorm`]: `‖g‖` is the norm of the released gradient. The paper uses the raw gradient, which its theorem
//! does not cover.

use super::{AdaGradNorm, AdaGradNormState};
use crate::error::{CallError, ConfigError};
use crate::numerics::digest::{Digest, Digested};
use crate::optimizer::base::{Begin, Optimizer};
use crate::private::Released;
use crate::record::ToRecord;
use crate::state::{SaveState, StateField};
use core::num::NonZeroU32;

/// Configuration of weighted AdaGrad-norm over the optimizer `O`.
///
/// ```
/// use damper_core::optimizer::{AdaGradNorm, Sgd, SgdState, WeightedNorm, WeightedNormState};
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
/// use core::num::NonZeroU32;
///
/// let norm = AdaGradNorm::new(0.0, 1e-6, false, Sgd::new(0.0, false, 0.0)?)?;
/// let optimizer = WeightedNorm::new(norm, 1.0, NonZeroU32::new(10).unwrap())?;
/// let state = WeightedNormState::new(SgdState { momentum: [] as [f32; 0] });
/// // One step at a learning rate of 0.1, with next to no noise.
/// let params = step_once((Identity, ()), (optimizer, state), [0.5, -0.5])?;
/// assert!((params[0] + 0.070_710_7).abs() < 1e-4 && (params[1] - 0.070_710_7).abs() < 1e-4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WeightedNorm<O> {
    norm: AdaGradNorm<O>,
    weight: f64,
    period: NonZeroU32,
}

impl<O> WeightedNorm<O> {
    /// Creates weighted AdaGrad-norm from `norm`, with the weight `β = weight` at the first of every `period` steps.
    ///
    /// # Errors
    ///
    /// Fails unless `weight` is finite and at least 1.
    pub fn new(norm: AdaGradNorm<O>, weight: f64, period: NonZeroU32) -> Result<Self, ConfigError> {
        if weight.is_finite() && weight >= 1.0 {
            Ok(Self { norm, weight, period })
        } else {
            Err(ConfigError::new("AdaGrad-norm's weight", "finite and at least 1"))
        }
    }

    /// Returns `β_t`.
    fn at(&self, step: u32) -> f64 {
        let place = step.checked_rem(self.period.get()).unwrap_or_default();
        let weight = self.weight / (f64::from(place) + 1.0);
        if weight > 1.0 { weight } else { 1.0 }
    }
}

/// State of weighted AdaGrad-norm over an optimizer with state `S`.
pub struct WeightedNormState<S> {
    /// State of AdaGrad-norm.
    pub norm: AdaGradNormState<S>,
    /// `t`.
    pub step: u32,
}

impl<S> WeightedNormState<S> {
    /// Creates the state before the first step.
    pub fn new(inner: S) -> Self {
        Self { norm: AdaGradNormState::new(inner), step: 0 }
    }
}

impl<O, S> ToRecord<WeightedNormState<S>> for WeightedNorm<O> {}

impl<S: SaveState> SaveState for WeightedNormState<S> {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        take(StateField::Owner("weighted-norm"));
        take(StateField::Count(&mut self.step));
        self.norm.each(take);
    }
}

impl<S, O: Optimizer<S>> Optimizer<WeightedNormState<S>> for WeightedNorm<O> {
    type Step = O::Step;

    fn check(&self, state: &WeightedNormState<S>, dim: usize) -> Result<(), CallError> {
        self.norm.check(&state.norm, dim)
    }

    fn needs_full_gradient(&self) -> bool {
        true
    }

    fn observe(&self, state: &mut WeightedNormState<S>, at: usize, released: &Released<'_>) {
        self.norm.observe(&mut state.norm, at, released);
    }

    fn begin(&self, state: &mut WeightedNormState<S>, begin: Begin) -> O::Step {
        let weight = self.at(state.step);
        state.step = state.step.saturating_add(1);
        self.norm.begin_weighing(&mut state.norm, begin, |energy| weight * energy)
    }

    fn update(
        &self,
        step: O::Step,
        state: &mut WeightedNormState<S>,
        at: usize,
        params: &mut [f32],
        filtered: &Released<'_>,
        released: &Released<'_>,
    ) {
        self.norm.update(step, &mut state.norm, at, params, filtered, released);
    }

    fn end(&self, step: O::Step, state: &mut WeightedNormState<S>, params: &mut [f32]) {
        self.norm.end(step, &mut state.norm, params);
    }
}

/// Adds the step number as an f64, then AdaGrad-norm's state.
impl<S, O: Digested<S>> Digested<WeightedNormState<S>> for WeightedNorm<O> {
    fn add_to(&self, state: &WeightedNormState<S>, digest: &mut Digest) {
        digest.add_f64(f64::from(state.step));
        self.norm.add_to(&state.norm, digest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::{Sgd, SgdState, properties};
    use proptest::prelude::*;

    fn sgd() -> Sgd {
        Sgd::new(0.0, false, 0.0).unwrap()
    }

    fn state() -> WeightedNormState<SgdState<[f32; 0]>> {
        WeightedNormState::new(SgdState { momentum: [0.0; 0] })
    }

    fn step<S, O: Optimizer<S>>(optimizer: &O, state: &mut S, params: &mut [f32], grad: &[f32], begin: Begin) {
        properties::step(optimizer, state, begin, params, grad, grad);
    }

    proptest! {
        #[test]
        fn a_weight_of_one_is_adagrad_norm(
            grads in prop::collection::vec(prop::array::uniform3(-3f32..3.0), 1..30), period in 1u32..9, subtract in any::<bool>(),
        ) {
            let norm = AdaGradNorm::new(0.5, 1e-5, subtract, sgd()).unwrap();
            let weighted = WeightedNorm::new(norm, 1.0, NonZeroU32::new(period).unwrap()).unwrap();
            let (mut one, mut other) = (AdaGradNormState::new(SgdState { momentum: [0f32; 0] }), state());
            let (mut params, mut same) = ([0.3f32; 3], [0.3f32; 3]);
            for grad in &grads {
                let begin = Begin { lr: 0.1, noise_std: 0.5 };
                step(&norm, &mut one, &mut params, grad, begin);
                step(&weighted, &mut other, &mut same, grad, begin);
                prop_assert_eq!(params, same);
            }
        }

        /// The formula in f64, with the norm computed by its definition.
        #[test]
        fn weighted_norm_follows_the_formula(
            grads in prop::collection::vec(prop::array::uniform3(-3f32..3.0), 1..30),
            weight in 1f64..100.0, period in 1u32..9, subtract in any::<bool>(),
        ) {
            let norm = AdaGradNorm::new(2.0, 0.25, subtract, sgd()).unwrap();
            let weighted = WeightedNorm::new(norm, weight, NonZeroU32::new(period).unwrap()).unwrap();
            let (mut state, mut params) = (state(), [0.3f32; 3]);
            let mut b2 = 2.0f64;
            for (t, grad) in grads.iter().enumerate() {
                let place = t as u32 % period;
                let squares: f64 = grad.iter().map(|g| f64::from(*g) * f64::from(*g)).sum();
                let energy = if subtract { squares - 3.0 * 0.25 } else { squares };
                b2 += ((weight / f64::from(place + 1)).max(1.0) * energy).max(0.25);
                let before = params;
                step(&weighted, &mut state, &mut params, grad, Begin { lr: 0.1, noise_std: 0.5 });
                for ((param, before), grad) in params.iter().zip(before).zip(grad) {
                    let expected = f64::from(before) - 0.1 / b2.sqrt() * f64::from(*grad);
                    prop_assert!((f64::from(*param) - expected).abs() < 1e-5);
                }
            }
            prop_assert_eq!(state.step, grads.len() as u32);
        }
    }

    #[test]
    fn weights_fall_within_an_epoch_to_one() {
        let norm = AdaGradNorm::new(20.0, 1e-5, false, sgd()).unwrap();
        let weighted = WeightedNorm::new(norm, 512.0, NonZeroU32::new(195).unwrap()).unwrap();
        assert_eq!([0, 1, 194, 195, 196].map(|t| weighted.at(t)), [512.0, 256.0, 512.0 / 195.0, 512.0, 256.0]);
        let few = WeightedNorm::new(norm, 4.0, NonZeroU32::new(195).unwrap()).unwrap();
        assert_eq!([3, 4, 100].map(|t| few.at(t)), [1.0; 3]);
        for weight in [0.5, -1.0, f64::NAN, f64::INFINITY] {
            assert!(WeightedNorm::new(norm, weight, NonZeroU32::MIN).is_err());
        }
    }
}
