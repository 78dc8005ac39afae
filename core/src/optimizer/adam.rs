//! Adam and AdamW.
//!
//! ```text
//! m ← β₁m + (1−β₁)·ĝ        v ← β₂v + (1−β₂)·g²        θ ← θ·(1−ηλ)        θ ← θ − η/(1−β₁ᵗ) · m / (√(v/(1−β₂ᵗ)) + ε)
//! ```
//!
//! `ĝ` is the filtered and `g` the unfiltered released gradient, and `t` counts from 1. DOPPLER's Algorithm 3 computes
//! the second moment from `g`. With the identity filter both are equal. With `β₁ = 0`, the filter replaces the first
//! moment, as in DOPPLER. The paper prints the correction `1 − βᵗ` with `β = 1 − β₂` and `t` from 0. That is an error,
//! because it divides by zero at the first step.
//!
//! [`Adam::with_floored_denominator`] uses `max(√(v/(1−β₂ᵗ)), ε)` as the denominator, as printed in DOPPLER's
//! Algorithm 3.
//!
//! Sources: Kingma and Ba, arXiv 1412.6980. Decoupled weight decay: Loshchilov and Hutter, arXiv 1711.05101. The two
//! gradients: Zhang, Bu, Hong, Razaviyayn, "DOPPLER", Algorithm 3.
//!
//! # Memory
//!
//! `2·D` floats and two f64.
//!
//! # Numerics
//!
//! Once a step, in f64, with `p₁ = p₂ = 1` before the first step:
//!
//! ```text
//! p₁ ← p₁·β₁     p₂ ← p₂·β₂     keep = S(1 − η·λ)     rate = S(η/(1 − p₁))     scale = S(1/(1 − p₂))
//! ```
//!
//! For each coordinate, with `b₁ = F(β₁)`, `n₁ = F(1−β₁)`, `b₂ = F(β₂)`, `n₂ = F(1−β₂)`, and the differences in f64:
//!
//! ```text
//! m ← S(F(b₁·m) + F(n₁·ĝ))
//! v ← S(F(b₂·v) + F(n₂·S(g·g)))
//! d = F(F(√S(v·scale)) + ε)          floored: the larger of F(√S(v·scale)) and ε
//! θ ← S(F(keep·θ) − S(F(rate·m) / d))
//! ```
//!
//! A square above the largest f32 (`|g|` above 1.8·10¹⁹) counts as the largest f32. The step of such a coordinate is
//! too short until `v` has decayed.
//!
//! # Privacy
//!
//! Uses released values only.

use super::base::{Begin, Optimizer, check_betas, far_piece, narrow, saturate, weights};
use crate::error::{CallError, ConfigError, check_len};
use crate::noise::sealed::Sealed;
use crate::numerics::digest::{Digest, Digested};
use crate::numerics::function::sqrt_f32;
use crate::private::Released;
use crate::record::{FromRecord, RecordSink, RecordSource, StateVector, ToRecord};
use crate::state::{SaveState, StateField};
use core::marker::PhantomData;

/// Form of the denominator, which `ε` keeps above 0. Sealed: [`Added`] or [`Floored`].
///
/// ```
/// use damper_core::optimizer::{Adam, Added, Denominator, Floored};
///
/// fn is_floored<N: Denominator + 'static>(_: Adam<N>) -> bool {
///     std::any::TypeId::of::<N>() == std::any::TypeId::of::<Floored>()
/// }
/// let adam: Adam<Added> = Adam::new(0.9, 0.999, 1e-8, 0.0)?;
/// assert!(!is_floored(adam) && is_floored(adam.with_floored_denominator()));
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
pub trait Denominator: Copy + Sealed {
    /// True if recordings support it.
    #[doc(hidden)]
    const IS_RECORDED: bool;
    /// Returns the denominator for the root of the second moment.
    #[doc(hidden)]
    fn of(root: f32, epsilon: f32) -> f32;
}

/// Denominator `√v̂ + ε`: Adam.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Added;

/// Denominator `max(√v̂, ε)`: DOPPLER's Algorithm 3.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Floored;

impl Sealed for Added {}
impl Sealed for Floored {}

impl Denominator for Added {
    const IS_RECORDED: bool = true;

    #[inline(always)]
    fn of(root: f32, epsilon: f32) -> f32 {
        root + epsilon
    }
}

impl Denominator for Floored {
    const IS_RECORDED: bool = false;

    #[inline(always)]
    fn of(root: f32, epsilon: f32) -> f32 {
        if root > epsilon { root } else { epsilon }
    }
}

/// Configuration of Adam, or of AdamW with weight decay. The denominator `N` is a compile-time choice, so the other
/// form takes no flash.
///
/// ```
/// use damper_core::optimizer::{Adam, AdamState};
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
/// let optimizer = Adam::new(0.9, 0.999, 1e-8, 0.0)?;
/// let state = AdamState::new([0.0; 2], [0.0; 2]);
/// // One step at a learning rate of 0.1, with next to no noise.
/// let params = step_once((Identity, ()), (optimizer, state), [0.5, -0.5])?;
/// assert!((params[0] + 0.1).abs() < 1e-4 && (params[1] - 0.1).abs() < 1e-4);
/// // Other papers' forms: the denominator max(√v, ε), and the second moment of the filtered gradient.
/// let other = Adam::new(0.9, 0.999, 1e-3, 0.01)?.with_floored_denominator().with_filtered_second_moment();
/// let same = step_once((Identity, ()), (other, AdamState::new([0.0; 2], [0.0; 2])), [0.5, -0.5])?;
/// assert!((same[0] + 0.1).abs() < 1e-4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Adam<N = Added> {
    beta1: f64,
    beta2: f64,
    epsilon: f32,
    weight_decay: f64,
    /// `(b, n)` of both moments.
    weights: [(f32, f32); 2],
    /// True if `v` averages squares of the filtered gradient.
    filtered_second: bool,
    denominator: PhantomData<N>,
}

impl Adam {
    /// Creates Adam with `β₁, β₂` in `[0, 1)`, `ε > 0` and decoupled weight decay `λ ≥ 0`.
    ///
    /// # Errors
    ///
    /// Fails if a number is out of its range.
    pub fn new(beta1: f64, beta2: f64, epsilon: f32, weight_decay: f64) -> Result<Self, ConfigError> {
        check_betas(beta1, beta2)?;
        if !(epsilon.is_normal() && epsilon > 0.0) {
            return Err(ConfigError::new("Adam's epsilon", "a normal number above 0"));
        }
        if !(weight_decay.is_finite() && weight_decay >= 0.0) {
            return Err(ConfigError::new("weight decay", "finite and not negative"));
        }
        let weights = [weights(beta1), weights(beta2)];
        Ok(Self { beta1, beta2, epsilon, weight_decay, weights, filtered_second: false, denominator: PhantomData })
    }

    /// Selects the denominator `max(√v̂, ε)`.
    #[must_use]
    pub fn with_floored_denominator(self) -> Adam<Floored> {
        self.with_denominator()
    }

    fn with_denominator<N>(self) -> Adam<N> {
        let Self { beta1, beta2, epsilon, weight_decay, weights, filtered_second, .. } = self;
        Adam { beta1, beta2, epsilon, weight_decay, weights, filtered_second, denominator: PhantomData }
    }
}

impl<N: Denominator> Adam<N> {
    /// Computes the second moment, too, from the filtered gradient: DiSK's Adam.
    #[must_use]
    pub fn with_filtered_second_moment(self) -> Self {
        Self { filtered_second: true, ..self }
    }
}

/// State of Adam.
#[derive(Debug)]
pub struct AdamState<B> {
    /// `m`, `[D]`.
    pub first: B,
    /// `v`, `[D]`.
    pub second: B,
    /// `β₁ᵗ` after `t` steps.
    pub beta1_power: f64,
    /// `β₂ᵗ` after `t` steps.
    pub beta2_power: f64,
}

impl<B> AdamState<B> {
    /// Creates the state before the first step. `first` and `second` are `[D]`, zeros.
    pub fn new(first: B, second: B) -> Self {
        Self { first, second, beta1_power: 1.0, beta2_power: 1.0 }
    }
}

/// Constants of one step of Adam, shared by all segments of the parameters.
#[derive(Clone, Copy, Debug)]
pub struct AdamStep {
    /// `1 − ηλ`.
    keep: f32,
    /// `η/(1−β₁ᵗ)`.
    rate: f32,
    /// `1/(1−β₂ᵗ)`.
    second_scale: f32,
}

impl<B: AsMut<[f32]>> SaveState for AdamState<B> {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        take(StateField::Owner("adam"));
        take(StateField::Floats(self.first.as_mut()));
        take(StateField::Floats(self.second.as_mut()));
        take(StateField::Double(&mut self.beta1_power));
        take(StateField::Double(&mut self.beta2_power));
    }
}

impl<N: Denominator, B: AsMut<[f32]> + AsRef<[f32]>> Optimizer<AdamState<B>> for Adam<N> {
    type Step = AdamStep;

    fn check(&self, state: &AdamState<B>, dim: usize) -> Result<(), CallError> {
        check_len("Adam's first moment", dim, state.first.as_ref().len())?;
        check_len("Adam's second moment", dim, state.second.as_ref().len())
    }

    fn first_moments<'s>(&self, state: &'s mut AdamState<B>) -> &'s mut [f32] {
        state.first.as_mut()
    }

    fn begin(&self, state: &mut AdamState<B>, Begin { lr, .. }: Begin) -> AdamStep {
        state.beta1_power *= self.beta1;
        state.beta2_power *= self.beta2;
        AdamStep {
            keep: narrow(1.0 - lr * self.weight_decay),
            rate: narrow(lr / (1.0 - state.beta1_power)),
            second_scale: narrow(1.0 / (1.0 - state.beta2_power)),
        }
    }

    fn update(
        &self,
        step: AdamStep,
        state: &mut AdamState<B>,
        at: usize,
        params: &mut [f32],
        filtered: &Released<'_>,
        released: &Released<'_>,
    ) {
        let [(beta1, new1), (beta2, new2)] = self.weights;
        let first = far_piece(state.first.as_mut(), at, params.len());
        let second = far_piece(state.second.as_mut(), at, params.len());
        let moments = first.iter_mut().zip(second);
        let squared = if self.filtered_second { filtered } else { released };
        for (((param, filtered), grad), (m, v)) in
            params.iter_mut().zip(filtered.grad()).zip(squared.grad()).zip(moments)
        {
            *m = saturate(beta1 * *m + new1 * filtered);
            *v = saturate(beta2 * *v + new2 * saturate(grad * grad));
            let denominator = N::of(sqrt_f32(saturate(*v * step.second_scale)), self.epsilon);
            *param = saturate(step.keep * *param - saturate(step.rate * *m / denominator));
        }
    }
}

impl<N: Denominator, B> ToRecord<AdamState<B>> for Adam<N> {
    fn kind(&self, _state: &AdamState<B>) -> Option<u8> {
        N::IS_RECORDED.then_some(if self.filtered_second { 3 } else { 2 })
    }

    fn write(&self, _state: &AdamState<B>, sink: &mut dyn RecordSink) {
        sink.f64(self.beta1);
        sink.f64(self.beta2);
        sink.f32(self.epsilon);
        sink.f64(self.weight_decay);
    }
}

impl FromRecord for Adam {
    type State<B: StateVector> = AdamState<B>;

    const KINDS: &'static [u8] = &[2, 3];

    fn read<R: RecordSource>(kind: u8, source: &mut R) -> Result<(Self, AdamState<R::Vector>), R::Error> {
        let adam = Self::new(source.f64(), source.f64(), source.f32(), source.f64())?;
        let adam = if kind == 3 { adam.with_filtered_second_moment() } else { adam };
        Ok((adam, AdamState::new(source.zeros(source.dim())?, source.zeros(source.dim())?)))
    }
}

/// Adds `m`, `v`, then `β₁ᵗ` and `β₂ᵗ`.
impl<N: Denominator, B: AsRef<[f32]>> Digested<AdamState<B>> for Adam<N> {
    fn add_to(&self, state: &AdamState<B>, digest: &mut Digest) {
        digest.add_f32s(state.first.as_ref());
        digest.add_f32s(state.second.as_ref());
        digest.add_f64(state.beta1_power);
        digest.add_f64(state.beta2_power);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::properties;
    use proptest::prelude::*;

    const BEGIN: Begin = Begin { lr: 0.01, noise_std: 0.0 };

    proptest! {
        // The state stays finite, and a split into segments does not change a bit.
        #[test]
        fn state_is_finite_and_segment_invariant(steps in properties::steps(), cut in 0..=properties::DIM) {
            for (beta1, beta2) in [(0.9, 0.999), (0.0, 0.0), (1.0 - 1e-12, 1.0 - 1e-12)] {
                let make = || {
                    let adam = Adam::new(beta1, beta2, f32::MIN_POSITIVE, 0.1).unwrap();
                    (adam, AdamState::new([0f32; properties::DIM], [0f32; properties::DIM]))
                };
                let numbers = |state: &AdamState<[f32; properties::DIM]>| properties::widen(&[&state.first, &state.second]);
                properties::state_is_finite_and_segment_invariant(make, numbers, &steps, cut)?;
            }
        }

        #[test]
        fn floored_stays_finite_in_any_pieces(steps in properties::steps(), cut in 0..=properties::DIM) {
            let make = || {
                let adam = Adam::new(0.0, 0.999, f32::MIN_POSITIVE, 0.1).unwrap().with_floored_denominator();
                (adam, AdamState::new([0f32; properties::DIM], [0f32; properties::DIM]))
            };
            let numbers = |state: &AdamState<[f32; properties::DIM]>| properties::widen(&[&state.first, &state.second]);
            properties::state_is_finite_and_segment_invariant(make, numbers, &steps, cut)?;
        }

        /// Equivalence E2 of DOPPLER.
        #[test]
        fn one_pole_filter_replaces_beta1(
            grads in prop::collection::vec(prop::array::uniform2(-2f32..2.0), 1..60), beta in 0.0f64..0.99,
        ) {
            let (with_filter, whole) =
                (Adam::new(0.0, 0.99, 1e-8, 0.01).unwrap(), Adam::new(beta, 0.99, 1e-8, 0.01).unwrap());
            let mut state = AdamState::new([0f32; 2], [0f32; 2]);
            let mut expected_state = AdamState::new([0f32; 2], [0f32; 2]);
            let (mut params, mut expected) = ([0.3f32, -0.1], [0.3f32, -0.1]);
            // The filter is an average of released gradients divided by its own step response.
            let (mut average, mut response) = ([0f64; 2], 0f64);
            for grad in &grads {
                response = beta * response + (1.0 - beta);
                let mut filtered = [0f32; 2];
                for ((filtered, average), grad) in filtered.iter_mut().zip(&mut average).zip(grad) {
                    *average = beta * *average + (1.0 - beta) * f64::from(*grad);
                    *filtered = (*average / response) as f32;
                }
                properties::step(&with_filter, &mut state, BEGIN, &mut params, &filtered, grad);
                properties::step(&whole, &mut expected_state, BEGIN, &mut expected, grad, grad);
                for (param, expected) in params.iter().zip(expected) {
                    prop_assert!((param - expected).abs() < 1e-5, "{} {}", param, expected);
                }
            }
        }
    }

    /// The correction printed in DOPPLER's Algorithm 3 would divide by zero here.
    #[test]
    fn first_second_moment_scale_is_finite() {
        for beta2 in [0.0, 0.5, 0.99, 0.999, 1.0 - 1e-12] {
            let adam = Adam::new(0.9, beta2, 1e-8, 0.0).unwrap();
            let mut state = AdamState::new([0f32], [0f32]);
            let step = adam.begin(&mut state, BEGIN);
            assert_eq!(step.second_scale, (1.0 / (1.0 - beta2)) as f32);
            assert!(step.second_scale.is_finite());
        }
    }

    #[test]
    fn second_moment_uses_released_gradient() {
        let adam = Adam::new(0.0, 0.9, 1e-8, 0.0).unwrap();
        let mut state = AdamState::new([0f32], [0f32]);
        let mut params = [0f32];
        properties::step(&adam, &mut state, Begin { lr: 1.0, noise_std: 0.0 }, &mut params, &[3.0], &[0.5]);
        assert!((params[0] + 6.0).abs() < 1e-5, "{}", params[0]);
    }

    // A square above the largest f32 gives a tiny step, and its effect decays.
    #[test]
    fn overflowing_square_gives_tiny_step() {
        let adam = Adam::new(0.9, 0.5, 1e-8, 0.0).unwrap();
        let mut state = AdamState::new([0f32], [0f32]);
        let mut params = [0f32];
        properties::step(&adam, &mut state, BEGIN, &mut params, &[1.0], &[f32::MAX]);
        assert!(params[0] <= 0.0 && params[0] > -1e-9, "{}", params[0]);
        for _ in 0..300 {
            properties::step(&adam, &mut state, BEGIN, &mut params, &[1.0], &[1.0]);
        }
        let before = params[0];
        properties::step(&adam, &mut state, BEGIN, &mut params, &[1.0], &[1.0]);
        assert!((before - params[0] - 0.01).abs() < 1e-6, "{}", before - params[0]);
    }

    #[test]
    fn steps_follow_the_formula_in_f64() {
        let (beta1, beta2, epsilon, decay, lr) = (0.9f64, 0.99f64, 1e-6f64, 0.1f64, 0.01f64);
        let adam = Adam::new(beta1, beta2, epsilon as f32, decay).unwrap();
        let mut state = AdamState::new([0f32], [0f32]);
        let mut params = [0.7f32];
        let (mut m, mut v, mut theta) = (0f64, 0f64, f64::from(params[0]));
        for t in 1..200 {
            let grad = libm::sin(f64::from(t));
            m = beta1 * m + (1.0 - beta1) * grad;
            v = beta2 * v + (1.0 - beta2) * grad * grad;
            let m_hat = m / (1.0 - beta1.powi(t));
            let v_hat = v / (1.0 - beta2.powi(t));
            theta = theta * (1.0 - lr * decay) - lr * m_hat / (v_hat.sqrt() + epsilon);
            let step = adam.begin(&mut state, Begin { lr, noise_std: 0.0 });
            let grad = [grad as f32];
            adam.update(step, &mut state, 0, &mut params, &Released::new(&grad, 0.0), &Released::new(&grad, 0.0));
            assert!((f64::from(params[0]) - theta).abs() < 1e-5, "step {t}: {} {theta}", params[0]);
        }
    }

    /// DOPPLER's Algorithm 3 without the error in its bias correction: `max(√v̂, ε)`, with roots on both sides of ε.
    #[test]
    fn floored_follows_the_formula_in_f64() {
        let (beta2, epsilon, decay, lr) = (0.5f64, 0.7f64, 0.1f64, 0.01f64);
        let adam = Adam::new(0.0, beta2, epsilon as f32, decay).unwrap().with_floored_denominator();
        let mut state = AdamState::new([0f32], [0f32]);
        let mut params = [0.7f32];
        let (mut v, mut theta) = (0f64, f64::from(params[0]));
        let mut floored = [0, 0];
        for t in 1..200 {
            let grad = libm::sin(f64::from(t) / 10.0);
            v = beta2 * v + (1.0 - beta2) * grad * grad;
            let root = (v / (1.0 - beta2.powi(t))).sqrt();
            floored[usize::from(root > epsilon)] += 1;
            theta = theta * (1.0 - lr * decay) - lr * grad / root.max(epsilon);
            properties::step(
                &adam,
                &mut state,
                Begin { lr, noise_std: 0.0 },
                &mut params,
                &[grad as f32],
                &[grad as f32],
            );
            assert!((f64::from(params[0]) - theta).abs() < 1e-5, "step {t}: {} {theta}", params[0]);
        }
        assert!(floored.iter().all(|steps| *steps > 20), "{floored:?}");
    }

    /// If ε exceeds all roots, Adam with a floored denominator is SGD at the learning rate η/ε.
    #[test]
    fn floored_above_all_roots_is_sgd() {
        let adam = Adam::new(0.0, 0.99, 4.0, 0.0).unwrap().with_floored_denominator();
        let mut state = AdamState::new([0f32], [0f32]);
        let mut params = [0f32];
        for grad in [1.0f32, -0.25, 3.5] {
            let before = params[0];
            properties::step(&adam, &mut state, Begin { lr: 1.0, noise_std: 0.0 }, &mut params, &[grad], &[grad]);
            assert_eq!(params[0], before - grad / 4.0);
        }
    }

    #[test]
    fn first_step_moves_by_learning_rate() {
        let adam = Adam::new(0.9, 0.999, 1e-8, 0.0).unwrap();
        let mut state = AdamState::new([0f32; 2], [0f32; 2]);
        let mut params = [0f32; 2];
        let grad = [3.0f32, -0.02];
        let step = adam.begin(&mut state, Begin { lr: 0.125, noise_std: 0.0 });
        adam.update(step, &mut state, 0, &mut params, &Released::new(&grad, 0.0), &Released::new(&grad, 0.0));
        for (param, grad) in params.iter().zip(grad) {
            assert!((param + 0.125 * grad.signum()).abs() < 1e-5, "{param}");
        }
    }

    /// DiSK computes both moments from the filtered gradient. DOPPLER computes the second from the released gradient.
    #[test]
    fn second_moment_source_is_selectable() {
        let plain = Adam::new(0.9, 0.999, 1e-8, 0.0).unwrap();
        for (adam, squared) in [(plain, 4.0f32), (plain.with_filtered_second_moment(), 0.25)] {
            let mut state = AdamState::new([0f32], [0f32]);
            properties::step(&adam, &mut state, BEGIN, &mut [0.0], &[0.5], &[2.0]);
            assert_eq!(state.second, [(1.0 - 0.999f64) as f32 * squared]);
        }
    }
}
