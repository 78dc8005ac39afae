//! RMSprop: divides each coordinate's learning rate by the root of an average of its squared gradients.
//!
//! ```text
//! v ← αv + (1−α)·(g + λθ)²          θ ← θ − η·(ĝ + λθ) / (√v + ε)
//! ```
//!
//! `ĝ` is the filtered and `g` the unfiltered released gradient. RMSprop has no bias correction, so the first step is
//! `1/√(1−α)` times the learning rate.
//!
//! Source: Tieleman and Hinton, Coursera lecture 6.5 (2012). With the identity filter, it is PyTorch's
//! `torch.optim.RMSprop`, including weight decay, without momentum and not centered.
//!
//! # Memory
//!
//! `D` floats.
//!
//! # Numerics
//!
//! The learning rate of a step is `S(η)`. For each coordinate, with `θ` its previous value, `a = F(α)` and
//! `n = F(1−α)`, and the difference in f64:
//!
//! ```text
//! w = F(λ·θ)          h = S(ĝ + w)          r = S(g + w)
//! v ← S(F(a·v) + F(n·S(r·r)))
//! θ ← S(θ − S(F(S(η)·h) / F(F(√v) + ε)))
//! ```
//!
//! A square above the largest f32 (`|r|` above 1.8·10¹⁹) counts as the largest f32. The step of such a coordinate is
//! too short until `v` has decayed.
//!
//! # Privacy
//!
//! Uses released values only.

use super::base::{Begin, Optimizer, far_piece, narrow, saturate, weights};
use crate::error::{CallError, ConfigError, check_len};
use crate::numerics::digest::{Digest, Digested};
use crate::numerics::function::sqrt_f32;
use crate::private::Released;
use crate::record::{FromRecord, RecordSink, RecordSource, StateVector, ToRecord};
use crate::state::{SaveState, StateField};

/// Configuration of RMSprop.
///
/// ```
/// use damper_core::optimizer::{RmsProp, RmsPropState};
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
/// let optimizer = RmsProp::new(0.75, 1e-8, 0.0)?;
/// let state = RmsPropState { second: [0.0; 2] };
/// // One step at a learning rate of 0.1, with next to no noise.
/// let params = step_once((Identity, ()), (optimizer, state), [0.5, -0.5])?;
/// assert!((params[0] + 0.2).abs() < 1e-4 && (params[1] - 0.2).abs() < 1e-4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RmsProp {
    alpha: f64,
    /// `(a, n)`.
    weights: (f32, f32),
    epsilon: f32,
    weight_decay: f32,
}

impl RmsProp {
    /// Creates RMSprop with `α` in `[0, 1)` (PyTorch: 0.99), `ε > 0` (PyTorch: 10⁻⁸) and weight decay `λ ≥ 0`, added to
    /// the gradient.
    ///
    /// # Errors
    ///
    /// Fails if a number is out of its range.
    pub fn new(alpha: f64, epsilon: f32, weight_decay: f32) -> Result<Self, ConfigError> {
        if !(0.0..1.0).contains(&alpha) {
            return Err(ConfigError::new("RMSprop's alpha", "from 0 to below 1"));
        }
        if !(epsilon.is_normal() && epsilon > 0.0) {
            return Err(ConfigError::new("RMSprop's epsilon", "a normal number above 0"));
        }
        if !(weight_decay.is_finite() && weight_decay >= 0.0) {
            return Err(ConfigError::new("weight decay", "finite and not negative"));
        }
        Ok(Self { alpha, weights: weights(alpha), epsilon, weight_decay })
    }
}

/// State of RMSprop.
#[derive(Debug)]
pub struct RmsPropState<B> {
    /// `v`, `[D]`, zeros before the first step.
    pub second: B,
}

impl<B: AsMut<[f32]>> SaveState for RmsPropState<B> {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        take(StateField::Owner("rmsprop"));
        take(StateField::Floats(self.second.as_mut()));
    }
}

impl<B: AsMut<[f32]> + AsRef<[f32]>> Optimizer<RmsPropState<B>> for RmsProp {
    type Step = f32;

    fn check(&self, state: &RmsPropState<B>, dim: usize) -> Result<(), CallError> {
        check_len("RMSprop's second moment", dim, state.second.as_ref().len())
    }

    fn begin(&self, _state: &mut RmsPropState<B>, Begin { lr, .. }: Begin) -> f32 {
        narrow(lr)
    }

    fn update(
        &self,
        lr: f32,
        state: &mut RmsPropState<B>,
        at: usize,
        params: &mut [f32],
        filtered: &Released<'_>,
        released: &Released<'_>,
    ) {
        let (alpha, new) = self.weights;
        let second = far_piece(state.second.as_mut(), at, params.len());
        for (((param, filtered), grad), v) in params.iter_mut().zip(filtered.grad()).zip(released.grad()).zip(second) {
            let decay = self.weight_decay * *param;
            let (direction, grad) = (saturate(filtered + decay), saturate(grad + decay));
            *v = saturate(alpha * *v + new * saturate(grad * grad));
            *param = saturate(*param - saturate(lr * direction / (sqrt_f32(*v) + self.epsilon)));
        }
    }
}

impl<B> ToRecord<RmsPropState<B>> for RmsProp {
    fn kind(&self, _state: &RmsPropState<B>) -> Option<u8> {
        Some(7)
    }

    fn write(&self, _state: &RmsPropState<B>, sink: &mut dyn RecordSink) {
        sink.f64(self.alpha);
        sink.f32(self.epsilon);
        sink.f32(self.weight_decay);
    }
}

impl FromRecord for RmsProp {
    type State<B: StateVector> = RmsPropState<B>;

    const KINDS: &'static [u8] = &[7];

    fn read<R: RecordSource>(_kind: u8, source: &mut R) -> Result<(Self, RmsPropState<R::Vector>), R::Error> {
        let rmsprop = Self::new(source.f64(), source.f32(), source.f32())?;
        Ok((rmsprop, RmsPropState { second: source.zeros(source.dim())? }))
    }
}

/// Adds `v`.
impl<B: AsRef<[f32]>> Digested<RmsPropState<B>> for RmsProp {
    fn add_to(&self, state: &RmsPropState<B>, digest: &mut Digest) {
        digest.add_f32s(state.second.as_ref());
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
            for (alpha, decay) in [(0.99, 0.1), (0.0, 1e30), (1.0 - 1e-12, 0.0)] {
                let make = || {
                    let rmsprop = RmsProp::new(alpha, f32::MIN_POSITIVE, decay).unwrap();
                    (rmsprop, RmsPropState { second: [0f32; properties::DIM] })
                };
                let numbers = |state: &RmsPropState<[f32; properties::DIM]>| properties::widen(&[&state.second]);
                properties::state_is_finite_and_segment_invariant(make, numbers, &steps, cut)?;
            }
        }

        #[test]
        fn steps_follow_the_formula_in_f64(
            steps in prop::collection::vec((-2f32..2.0, 0.05f32..2.0, 1e-3f64..0.1), 1..80),
            alpha in 0f64..0.99, decay in 0f32..0.01,
        ) {
            let rmsprop = RmsProp::new(alpha, 1e-6, decay).unwrap();
            let mut state = RmsPropState { second: [0f32] };
            let mut params = [0.7f32];
            let (mut v, mut theta) = (0f64, f64::from(params[0]));
            for (filtered, grad, lr) in steps {
                let shrink = f64::from(decay) * theta;
                v = alpha * v + (1.0 - alpha) * (f64::from(grad) + shrink).powi(2);
                theta -= lr * (f64::from(filtered) + shrink) / (v.sqrt() + 1e-6);
                properties::step(&rmsprop, &mut state, Begin { lr, noise_std: 0.0 }, &mut params, &[filtered], &[grad]);
                let tolerance = 1e-4 * theta.abs().max(1.0);
                prop_assert!((f64::from(params[0]) - theta).abs() < tolerance, "{} {}", params[0], theta);
            }
        }
    }

    /// Computed by `torch.optim.RMSprop` of PyTorch in float64.
    #[test]
    fn three_steps_equal_pytorchs() {
        let rmsprop = RmsProp::new(0.9, 1e-8, 0.1).unwrap();
        let mut state = RmsPropState { second: [0f32] };
        let mut params = [1f32];
        for (grad, expected) in [1.0, -2.0, 0.5].into_iter().zip(PYTORCH) {
            properties::step(&rmsprop, &mut state, Begin { lr: 0.5, noise_std: 0.0 }, &mut params, &[grad], &[grad]);
            assert!((f64::from(params[0]) - expected).abs() < 1e-6, "{} {expected}", params[0]);
        }
    }

    const PYTORCH: [f64; 3] = [-0.581_138_784_629_645_6, 0.829_079_737_428_823_2, 0.422_242_102_834_649_3];

    #[test]
    fn numbers_out_of_range_are_refused() {
        for alpha in [-0.1, 1.0, f64::NAN] {
            assert!(RmsProp::new(alpha, 1e-8, 0.0).is_err());
        }
        for epsilon in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e-45] {
            assert!(RmsProp::new(0.99, epsilon, 0.0).is_err());
        }
        assert!(RmsProp::new(0.99, 1e-8, f32::INFINITY).is_err());
        assert!(RmsProp::new(0.99, 1e-8, 0.0).unwrap().check(&RmsPropState { second: [0f32; 2] }, 3).is_err());
    }
}
