//! AdaGrad: each coordinate's learning rate falls with the sum of its squared gradients.
//!
//! ```text
//! s ← s + (g + λθ)²          θ ← θ − η·(ĝ + λθ) / (√s + ε)
//! ```
//!
//! `ĝ` is the filtered and `g` the unfiltered released gradient.
//!
//! Source: Duchi, Hazan, Singer, JMLR 12 (2011). With the identity filter, it is PyTorch's `torch.optim.Adagrad`,
//! including weight decay.
//!
//! Under DP noise of constant variance, `s` grows by that variance at every step. All learning rates therefore fall
//! like `1/√t`, for any data.
//!
//! # Memory
//!
//! `D` floats.
//!
//! # Numerics
//!
//! The learning rate of a step is `S(η)`. For each coordinate, with `θ` its previous value:
//!
//! ```text
//! w = F(λ·θ)          h = S(ĝ + w)          r = S(g + w)
//! s ← S(s + S(r·r))
//! θ ← S(θ − S(F(S(η)·h) / F(F(√s) + ε)))
//! ```
//!
//! A square above the largest f32 (`|r|` above 1.8·10¹⁹) counts as the largest f32. A sum that has reached the largest
//! f32 stays there, and the coordinate's learning rate is then `η` divided by 1.8·10¹⁹. Squares below 2⁻²⁵ of the sum
//! no longer change it.
//!
//! # Privacy
//!
//! Uses released values only.

use super::base::{Begin, Optimizer, far_piece, narrow, saturate};
use crate::error::{CallError, ConfigError, check_len};
use crate::numerics::digest::{Digest, Digested};
use crate::numerics::function::sqrt_f32;
use crate::private::Released;
use crate::record::{FromRecord, RecordSink, RecordSource, StateVector, ToRecord};
use crate::state::{SaveState, StateField};

/// Configuration of AdaGrad.
///
/// ```
/// use damper_core::optimizer::{AdaGrad, AdaGradState};
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
/// let optimizer = AdaGrad::new(1e-10, 0.0)?;
/// let state = AdaGradState { sum: [0.0; 2] };
/// // One step at a learning rate of 0.1, with next to no noise.
/// let params = step_once((Identity, ()), (optimizer, state), [0.5, -0.5])?;
/// assert!((params[0] + 0.1).abs() < 1e-4 && (params[1] - 0.1).abs() < 1e-4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdaGrad {
    epsilon: f32,
    weight_decay: f32,
}

impl AdaGrad {
    /// Creates AdaGrad with `ε > 0` (PyTorch: 10⁻¹⁰) and weight decay `λ ≥ 0`, added to the gradient.
    ///
    /// # Errors
    ///
    /// Fails if a number is out of its range.
    pub fn new(epsilon: f32, weight_decay: f32) -> Result<Self, ConfigError> {
        if !(epsilon.is_normal() && epsilon > 0.0) {
            return Err(ConfigError::new("AdaGrad's epsilon", "a normal number above 0"));
        }
        if !(weight_decay.is_finite() && weight_decay >= 0.0) {
            return Err(ConfigError::new("weight decay", "finite and not negative"));
        }
        Ok(Self { epsilon, weight_decay })
    }
}

/// State of AdaGrad.
#[derive(Debug)]
pub struct AdaGradState<B> {
    /// `s`, `[D]`. Zeros before the first step, or a non-negative value that damps the first steps.
    pub sum: B,
}

impl<B: AsMut<[f32]>> SaveState for AdaGradState<B> {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        take(StateField::Owner("adagrad"));
        take(StateField::Floats(self.sum.as_mut()));
    }
}

impl<B: AsMut<[f32]> + AsRef<[f32]>> Optimizer<AdaGradState<B>> for AdaGrad {
    type Step = f32;

    fn check(&self, state: &AdaGradState<B>, dim: usize) -> Result<(), CallError> {
        check_len("AdaGrad's sum of squares", dim, state.sum.as_ref().len())
    }

    fn begin(&self, _state: &mut AdaGradState<B>, Begin { lr, .. }: Begin) -> f32 {
        narrow(lr)
    }

    fn update(
        &self,
        lr: f32,
        state: &mut AdaGradState<B>,
        at: usize,
        params: &mut [f32],
        filtered: &Released<'_>,
        released: &Released<'_>,
    ) {
        let sums = far_piece(state.sum.as_mut(), at, params.len());
        for (((param, filtered), grad), sum) in params.iter_mut().zip(filtered.grad()).zip(released.grad()).zip(sums) {
            let decay = self.weight_decay * *param;
            let (direction, grad) = (saturate(filtered + decay), saturate(grad + decay));
            *sum = saturate(*sum + saturate(grad * grad));
            *param = saturate(*param - saturate(lr * direction / (sqrt_f32(*sum) + self.epsilon)));
        }
    }
}

impl<B> ToRecord<AdaGradState<B>> for AdaGrad {
    fn kind(&self, _state: &AdaGradState<B>) -> Option<u8> {
        Some(6)
    }

    fn write(&self, _state: &AdaGradState<B>, sink: &mut dyn RecordSink) {
        sink.f32(self.epsilon);
        sink.f32(self.weight_decay);
    }
}

impl FromRecord for AdaGrad {
    type State<B: StateVector> = AdaGradState<B>;

    const KINDS: &'static [u8] = &[6];

    fn read<R: RecordSource>(_kind: u8, source: &mut R) -> Result<(Self, AdaGradState<R::Vector>), R::Error> {
        let adagrad = Self::new(source.f32(), source.f32())?;
        Ok((adagrad, AdaGradState { sum: source.zeros(source.dim())? }))
    }
}

/// Adds the sum to the digest.
impl<B: AsRef<[f32]>> Digested<AdaGradState<B>> for AdaGrad {
    fn add_to(&self, state: &AdaGradState<B>, digest: &mut Digest) {
        digest.add_f32s(state.sum.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::properties;
    use proptest::prelude::*;

    proptest! {
        // The state stays finite, and a split into segments does not change a bit.
        #[test]
        fn state_is_finite_and_segment_invariant(steps in properties::steps(), cut in 0..=properties::DIM) {
            for decay in [0.0, 0.1, 1e30] {
                let make = || {
                    let adagrad = AdaGrad::new(f32::MIN_POSITIVE, decay).unwrap();
                    (adagrad, AdaGradState { sum: [0f32; properties::DIM] })
                };
                let numbers = |state: &AdaGradState<[f32; properties::DIM]>| properties::widen(&[&state.sum]);
                properties::state_is_finite_and_segment_invariant(make, numbers, &steps, cut)?;
            }
        }

        #[test]
        fn steps_follow_the_formula_in_f64(
            steps in prop::collection::vec((-2f32..2.0, 0.01f32..2.0, 1e-3f64..0.1), 1..80), decay in 0f32..0.1,
        ) {
            let adagrad = AdaGrad::new(1e-6, decay).unwrap();
            let mut state = AdaGradState { sum: [0.25f32] };
            let mut params = [0.7f32];
            let (mut sum, mut theta) = (0.25f64, f64::from(params[0]));
            for (filtered, grad, lr) in steps {
                let shrink = f64::from(decay) * theta;
                sum += (f64::from(grad) + shrink).powi(2);
                theta -= lr * (f64::from(filtered) + shrink) / (sum.sqrt() + 1e-6);
                properties::step(&adagrad, &mut state, Begin { lr, noise_std: 0.0 }, &mut params, &[filtered], &[grad]);
                prop_assert!((f64::from(params[0]) - theta).abs() < 2e-5, "{} {}", params[0], theta);
            }
        }
    }

    // Equal gradients move the parameters by the learning rate over the square root of the step.
    #[test]
    fn equal_grads_step_lr_over_sqrt_t() {
        let adagrad = AdaGrad::new(f32::MIN_POSITIVE, 0.0).unwrap();
        let mut state = AdaGradState { sum: [0f32; 2] };
        let mut params = [0f32; 2];
        for t in 1..50 {
            let before = params;
            properties::step(
                &adagrad,
                &mut state,
                Begin { lr: 1.0, noise_std: 0.0 },
                &mut params,
                &[4.0, -0.5],
                &[4.0, -0.5],
            );
            let root = 1.0 / (t as f32).sqrt();
            assert!((before[0] - params[0] - root).abs() < 1e-5 && (params[1] - before[1] - root).abs() < 1e-5);
        }
    }

    /// Computed by `torch.optim.Adagrad` of PyTorch in float64.
    #[test]
    fn three_steps_equal_pytorchs() {
        let adagrad = AdaGrad::new(1e-10, 0.1).unwrap();
        let mut state = AdaGradState { sum: [0.5f32] };
        let mut params = [1f32];
        for (grad, expected) in [1.0, -2.0, 0.5].into_iter().zip(PYTORCH) {
            properties::step(&adagrad, &mut state, Begin { lr: 0.5, noise_std: 0.0 }, &mut params, &[grad], &[grad]);
            assert!((f64::from(params[0]) - expected).abs() < 1e-6, "{} {expected}", params[0]);
        }
    }

    const PYTORCH: [f64; 3] = [0.579_404_487_936_133_7, 0.994_147_486_055_777_7, 0.870_137_176_674_058_8];

    #[test]
    fn numbers_out_of_range_are_refused() {
        for epsilon in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e-45] {
            assert!(AdaGrad::new(epsilon, 0.0).is_err());
        }
        for decay in [-0.1, f32::NAN, f32::INFINITY] {
            assert!(AdaGrad::new(1e-10, decay).is_err());
        }
        assert!(AdaGrad::new(1e-10, 0.0).unwrap().check(&AdaGradState { sum: [0f32; 2] }, 3).is_err());
    }
}
