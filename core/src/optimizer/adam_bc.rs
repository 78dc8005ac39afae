//! DP-AdamBC: Adam without the bias of the noise in its second moment.
//!
//! ```text
//! m ← β₁m + (1−β₁)·ĝ     v ← β₂v + (1−β₂)·g²     φ ← β₂φ + (1−β₂)·(z_t·C_t/B)²
//! θ ← θ·(1−ηλ)           θ ← θ − η·m̂ / √max(v̂ − Φ̂, γ′)          m̂, v̂, Φ̂ = m, v, φ over (1 − βᵗ)
//! ```
//!
//! `ĝ` is the filtered and `g` the unfiltered released gradient. The noise adds its variance to `E[g²]`, and the paper
//! subtracts the constant `(σC/B)²`. Here `Φ̂` averages the variances of all steps with the weights of `v̂`, because
//! noise schedules and adaptive clips change them. `v` uses the *unfiltered* gradient, so the filter's noise gain is
//! not needed.
//!
//! `v̂ − Φ̂` itself fluctuates, by about `Φ·√(2(1−β₂)/(1+β₂))` for a constant variance. With a floor `γ′` far below
//! that, the noise determines the step size. A relative floor, `γ′_t = max(γ′, ρ·Φ̂_t)`, follows changes of clip and
//! noise.
//!
//! Sources: Tang, Shpilevskiy, Lécuyer, "DP-AdamBC: Your DP-Adam Is Actually DP-SGD (Unless You Apply Bias
//! Correction)", AAAI 2024, arXiv 2312.14334. Decoupled weight decay as in AdamW, arXiv 1711.05101.
//!
//! # Memory
//!
//! `2·D` floats and three f64.
//!
//! # Numerics
//!
//! Let `b₁ = F(β₁)`, `n₁ = F(1−β₁)`, `b₂ = F(β₂)`, `n₂ = F(1−β₂)`, with the differences in f64. `s` is the standard
//! deviation of the noise in this step's released gradient. Once a step, in f64, with `w₁ = w₂ = φ = 0` before the
//! first step:
//!
//! ```text
//! w₁ ← (b₁·w₁) + n₁     w₂ ← (b₂·w₂) + n₂     φ ← (b₂·φ) + (n₂·(s·s))
//! keep = S(1 − η·λ)     rate = S(η/w₁)        scale = S(1/w₂)          noise = S(φ/w₂)
//! floor = γ′,  or S(ρ·(φ/w₂)) where that is larger
//! ```
//!
//! The weights `w` are the response of the recursion to the constant 1. Rounding `β` to f32 therefore biases neither
//! `v̂` nor `Φ̂` (with exact `β`, the weights are `1 − βᵗ`). For each coordinate:
//!
//! ```text
//! m ← S(F(b₁·m) + F(n₁·ĝ))
//! v ← S(F(b₂·v) + F(n₂·S(g·g)))
//! u = F(S(v·scale) − noise),  or floor where that is larger
//! θ ← S(F(keep·θ) − S(F(rate·m) / F(√u)))
//! ```
//!
//! A square above the largest f32 (`|g|` above 1.8·10¹⁹) counts as the largest f32.
//!
//! # Privacy
//!
//! Uses only released values and the declared variance of the noise.

use super::base::{Begin, Optimizer, check_betas, far_piece, narrow, saturate, weights};
use crate::error::{CallError, ConfigError, check_len};
use crate::numerics::digest::{Digest, Digested};
use crate::numerics::function::sqrt_f32;
use crate::numerics::scalar;
use crate::private::Released;
use crate::record::{FromRecord, RecordSink, RecordSource, StateVector, ToRecord};
use crate::state::{SaveState, StateField};

/// Configuration of DP-AdamBC.
///
/// ```
/// use damper_core::optimizer::{AdamBc, AdamBcState};
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
/// let optimizer = AdamBc::new(0.9, 0.999, 1e-8, 0.0)?.with_floor_by_noise();
/// let state = AdamBcState::new([0.0; 2], [0.0; 2]);
/// // One step at a learning rate of 0.1, with next to no noise.
/// let params = step_once((Identity, ()), (optimizer, state), [0.5, -0.5])?;
/// assert!((params[0] + 0.1).abs() < 1e-4 && (params[1] - 0.1).abs() < 1e-4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdamBc {
    beta1: f64,
    /// `(b, n)` of both moments.
    weights: [(f32, f32); 2],
    beta2: f64,
    floor: f32,
    relative_floor: f64,
    weight_decay: f64,
}

impl AdamBc {
    /// Creates DP-AdamBC with `β₁, β₂` in `[0, 1)`, decoupled weight decay `λ ≥ 0`, and the floor `γ′ > 0` of the
    /// corrected second moment (a squared gradient).
    ///
    /// # Errors
    ///
    /// Fails if a number is out of its range.
    pub fn new(beta1: f64, beta2: f64, floor: f32, weight_decay: f64) -> Result<Self, ConfigError> {
        check_betas(beta1, beta2)?;
        if !(floor.is_normal() && floor > 0.0) {
            return Err(ConfigError::new("floor of the second moment", "a normal number above 0"));
        }
        if !(weight_decay.is_finite() && weight_decay >= 0.0) {
            return Err(ConfigError::new("weight decay", "finite and not negative"));
        }
        let weights = [weights(beta1), weights(beta2)];
        Ok(Self { beta1, weights, beta2, floor, relative_floor: 0.0, weight_decay })
    }

    /// Sets a floor of at least `ρ = √(2(1−β₂)/(1+β₂))` times the variance of the noise. That is the spread of the
    /// variance in a converged second moment. Below it there is only noise.
    #[must_use]
    pub fn with_floor_by_noise(self) -> Self {
        Self { relative_floor: scalar::sqrt(2.0 * (1.0 - self.beta2) / (1.0 + self.beta2)), ..self }
    }
}

/// State of DP-AdamBC.
#[derive(Debug)]
pub struct AdamBcState<B> {
    /// `m`, `[D]`.
    pub first: B,
    /// `v`, `[D]`.
    pub second: B,
    /// `φ`, the noise's share of `v`.
    pub noise: f64,
    /// `w₁`, the value of `m` if all gradients were 1.
    pub first_weight: f64,
    /// `w₂`, the value of `v` if all gradients were 1.
    pub second_weight: f64,
}

impl<B> AdamBcState<B> {
    /// Creates the state before the first step. `first` and `second` are `[D]`, zeros.
    pub fn new(first: B, second: B) -> Self {
        Self { first, second, noise: 0.0, first_weight: 0.0, second_weight: 0.0 }
    }
}

/// Constants of one step of DP-AdamBC, shared by all segments of the parameters.
///
/// ```
/// use damper_core::optimizer::{AdamBc, AdamBcState, AdamBcStep, Begin, Optimizer as _};
///
/// let method = AdamBc::new(0.9, 0.999, 1e-8, 0.0)?;
/// let mut state = AdamBcState::new([0.0f32; 2], [0.0; 2]);
/// let step: AdamBcStep = method.begin(&mut state, Begin { lr: 0.1, noise_std: 0.0 });
/// // All segments of a step share it.
/// let _copies = [step; 2];
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AdamBcStep {
    /// `1 − ηλ`.
    keep: f32,
    /// `η/w₁`.
    rate: f32,
    /// `1/w₂`.
    second_scale: f32,
    /// `Φ̂`.
    noise: f32,
    /// `γ′_t`.
    floor: f32,
}

impl<B: AsMut<[f32]>> SaveState for AdamBcState<B> {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        take(StateField::Owner("adam-bc"));
        take(StateField::Floats(self.first.as_mut()));
        take(StateField::Floats(self.second.as_mut()));
        take(StateField::Double(&mut self.noise));
        take(StateField::Double(&mut self.first_weight));
        take(StateField::Double(&mut self.second_weight));
    }
}

impl<B: AsMut<[f32]> + AsRef<[f32]>> Optimizer<AdamBcState<B>> for AdamBc {
    type Step = AdamBcStep;

    fn check(&self, state: &AdamBcState<B>, dim: usize) -> Result<(), CallError> {
        check_len("DP-AdamBC's first moment", dim, state.first.as_ref().len())?;
        check_len("DP-AdamBC's second moment", dim, state.second.as_ref().len())
    }

    fn first_moments<'s>(&self, state: &'s mut AdamBcState<B>) -> &'s mut [f32] {
        state.first.as_mut()
    }

    fn begin(&self, state: &mut AdamBcState<B>, Begin { lr, noise_std }: Begin) -> AdamBcStep {
        let [(beta1, new1), (beta2, new2)] = self.weights.map(|(beta, new)| (f64::from(beta), f64::from(new)));
        state.first_weight = beta1 * state.first_weight + new1;
        state.second_weight = beta2 * state.second_weight + new2;
        state.noise = beta2 * state.noise + new2 * (noise_std * noise_std);
        let variance = state.noise / state.second_weight;
        AdamBcStep {
            keep: narrow(1.0 - lr * self.weight_decay),
            rate: narrow(lr / state.first_weight),
            second_scale: narrow(1.0 / state.second_weight),
            noise: narrow(variance),
            floor: narrow(self.relative_floor * variance).max(self.floor),
        }
    }

    fn update(
        &self,
        step: AdamBcStep,
        state: &mut AdamBcState<B>,
        at: usize,
        params: &mut [f32],
        filtered: &Released<'_>,
        released: &Released<'_>,
    ) {
        let [(beta1, new1), (beta2, new2)] = self.weights;
        let first = far_piece(state.first.as_mut(), at, params.len());
        let second = far_piece(state.second.as_mut(), at, params.len());
        let moments = first.iter_mut().zip(second);
        for (((param, filtered), grad), (m, v)) in
            params.iter_mut().zip(filtered.grad()).zip(released.grad()).zip(moments)
        {
            *m = saturate(beta1 * *m + new1 * filtered);
            *v = saturate(beta2 * *v + new2 * saturate(grad * grad));
            let corrected = (saturate(*v * step.second_scale) - step.noise).max(step.floor);
            *param = saturate(step.keep * *param - saturate(step.rate * *m / sqrt_f32(corrected)));
        }
    }
}

impl<B> ToRecord<AdamBcState<B>> for AdamBc {
    fn kind(&self, _state: &AdamBcState<B>) -> Option<u8> {
        Some(if self.relative_floor > 0.0 { 5 } else { 4 })
    }

    fn write(&self, _state: &AdamBcState<B>, sink: &mut dyn RecordSink) {
        sink.f64(self.beta1);
        sink.f64(self.beta2);
        sink.f32(self.floor);
        sink.f64(self.weight_decay);
    }
}

impl FromRecord for AdamBc {
    type State<B: StateVector> = AdamBcState<B>;

    const KINDS: &'static [u8] = &[4, 5];

    fn read<R: RecordSource>(kind: u8, source: &mut R) -> Result<(Self, AdamBcState<R::Vector>), R::Error> {
        let adam = Self::new(source.f64(), source.f64(), source.f32(), source.f64())?;
        let adam = if kind == 5 { adam.with_floor_by_noise() } else { adam };
        Ok((adam, AdamBcState::new(source.zeros(source.dim())?, source.zeros(source.dim())?)))
    }
}

/// Adds `m`, `v`, then `w₁`, `w₂` and `φ`.
impl<B: AsRef<[f32]>> Digested<AdamBcState<B>> for AdamBc {
    fn add_to(&self, state: &AdamBcState<B>, digest: &mut Digest) {
        digest.add_f32s(state.first.as_ref());
        digest.add_f32s(state.second.as_ref());
        digest.add_f64(state.first_weight);
        digest.add_f64(state.second_weight);
        digest.add_f64(state.noise);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Address, Generator, Purpose, Xoshiro};
    use crate::optimizer::{Adam, AdamState, properties};
    use proptest::prelude::*;
    use rand_core::Rng;
    use std::vec::Vec;

    proptest! {
        // The state stays finite, and a split into segments does not change a bit.
        #[test]
        fn state_is_finite_and_segment_invariant(steps in properties::steps(), cut in 0..=properties::DIM) {
            for (beta1, beta2) in [(0.9, 0.999), (0.0, 0.0), (1.0 - 1e-12, 1.0 - 1e-12)] {
                let make = || {
                    let adam = AdamBc::new(beta1, beta2, f32::MIN_POSITIVE, 0.1).unwrap();
                    (adam, AdamBcState::new([0f32; properties::DIM], [0f32; properties::DIM]))
                };
                let numbers = |state: &AdamBcState<[f32; properties::DIM]>| {
                    let mut numbers = properties::widen(&[&state.first, &state.second]);
                    numbers.extend([state.noise, state.first_weight, state.second_weight]);
                    numbers
                };
                properties::state_is_finite_and_segment_invariant(make, numbers, &steps, cut)?;
            }
        }

        #[test]
        fn steps_follow_the_formula_in_f64(
            steps in prop::collection::vec((-2f32..2.0, -2f32..2.0, 0f64..1.0), 1..80),
            beta1 in 0f64..0.95, beta2 in 0f64..0.999,
        ) {
            let (lr, floor, decay) = (0.01f64, 0.01f64, 0.1f64);
            let adam = AdamBc::new(beta1, beta2, floor as f32, decay).unwrap();
            let mut state = AdamBcState::new([0f32], [0f32]);
            let mut params = [0.7f32];
            let (mut m, mut v, mut phi, mut theta) = (0f64, 0f64, 0f64, f64::from(params[0]));
            for (t, (filtered, grad, noise_std)) in (1..).zip(&steps) {
                m = beta1 * m + (1.0 - beta1) * f64::from(*filtered);
                v = beta2 * v + (1.0 - beta2) * f64::from(*grad).powi(2);
                phi = beta2 * phi + (1.0 - beta2) * noise_std.powi(2);
                let (correct1, correct2) = (1.0 - beta1.powi(t), 1.0 - beta2.powi(t));
                let second = ((v - phi) / correct2).max(floor);
                theta = theta * (1.0 - lr * decay) - lr * m / correct1 / second.sqrt();
                let begin = Begin { lr, noise_std: *noise_std };
                properties::step(&adam, &mut state, begin, &mut params, &[*filtered], &[*grad]);
                prop_assert!((f64::from(params[0]) - theta).abs() < 1e-4, "step {}: {} {}", t, params[0], theta);
            }
        }

        // Constant noise is subtracted as its variance at every step.
        #[test]
        fn subtracts_constant_noise_variance(std in 1e-6f64..1e3, beta2 in 0f64..0.9999) {
            let adam = AdamBc::new(0.9, beta2, 1e-8, 0.0).unwrap();
            let mut state = AdamBcState::new([0f32], [0f32]);
            for _ in 0..300 {
                adam.begin(&mut state, Begin { lr: 0.1, noise_std: std });
                let ratio = state.noise / state.second_weight / (std * std);
                prop_assert!((ratio - 1.0).abs() < 1e-12, "{}", ratio);
            }
        }

        // Changing noise is subtracted as the average variance, with the weights of the squares.
        #[test]
        fn subtracts_weighted_noise_variance(
            stds in prop::collection::vec(1e-3f64..10.0, 1..100), beta2 in 0f64..0.99,
        ) {
            let adam = AdamBc::new(0.9, beta2, 1e-8, 0.0).unwrap();
            let mut state = AdamBcState::new([0f32], [0f32]);
            for t in 0..stds.len() {
                adam.begin(&mut state, Begin { lr: 0.1, noise_std: stds[t] });
                let weight = |s: usize| beta2.powi((t - s) as i32);
                let average: f64 = (0..=t).map(|s| weight(s) * stds[s] * stds[s]).sum();
                let expected = average / (0..=t).map(weight).sum::<f64>();
                // Rounding beta2 to f32 changes each of its powers by at most t·2⁻²⁴.
                prop_assert!((state.noise / state.second_weight / expected - 1.0).abs() < 2e-5);
            }
        }

        #[test]
        fn without_noise_it_is_adam(grads in prop::collection::vec(prop::array::uniform2(0.01f32..2.0), 1..80)) {
            let (bc, adam) =
                (AdamBc::new(0.9, 0.99, 1e-30, 0.1).unwrap(), Adam::new(0.9, 0.99, 1e-30, 0.1).unwrap());
            let mut bc_state = AdamBcState::new([0f32; 2], [0f32; 2]);
            let mut adam_state = AdamState::new([0f32; 2], [0f32; 2]);
            let (mut params, mut expected) = ([0.3f32, -0.1], [0.3f32, -0.1]);
            let begin = Begin { lr: 0.01, noise_std: 0.0 };
            for grad in &grads {
                properties::step(&bc, &mut bc_state, begin, &mut params, grad, grad);
                properties::step(&adam, &mut adam_state, begin, &mut expected, grad, grad);
                for (param, expected) in params.iter().zip(expected) {
                    prop_assert!((param - expected).abs() < 1e-5, "{} {}", param, expected);
                }
            }
        }
    }

    /// Returns normal numbers, from the polar form of two uniform numbers.
    fn normals(step: u32, len: usize) -> Vec<f64> {
        let mut words = Xoshiro::simulation(20).stream(Address { purpose: Purpose::GradientNoise, step, chunk: 0 });
        let mut uniform = || (f64::from(words.next_u32()) + 0.5) / 4_294_967_296.0;
        (0..len).map(|_| (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()).collect()
    }

    /// Noise only, growing by 5 % a step. Step `t − k` has the share `(1−ρ)·ρᵏ` of `Φ̂`, `ρ = β₂/1.05²`. The mean over
    /// D coordinates of `v̂/Φ̂ − 1` therefore has standard deviation `√(2/D·(1−ρ)/(1+ρ))`: 0.0070 here. A limit of six
    /// standard deviations fails one such test in 10⁸, and the seed is fixed. The variance of the current step alone is
    /// off by `1 − Φ̂/s² ≈ 0.46`, and must fail.
    #[test]
    fn pure_noise_second_moment_is_zero() {
        const DIM: usize = 4096;
        let beta2 = 0.9;
        let adam = AdamBc::new(0.9, beta2, 1e-12, 0.0).unwrap();
        let mut state = AdamBcState::new(std::vec![0f32; DIM], std::vec![0f32; DIM]);
        let mut params = std::vec![0f32; DIM];
        let ratio = beta2 / (1.05 * 1.05);
        let tolerance = 6.0 * (2.0 / DIM as f64 * (1.0 - ratio) / (1.0 + ratio)).sqrt();
        let mut noise_std = 0.05;
        for step in 0..40 {
            let grad: Vec<f32> = normals(step, DIM).into_iter().map(|z| (noise_std * z) as f32).collect();
            properties::step(&adam, &mut state, Begin { lr: 0.01, noise_std }, &mut params, &grad, &grad);
            noise_std *= 1.05;
        }
        noise_std /= 1.05;
        let mean = state.second.iter().map(|v| f64::from(*v)).sum::<f64>() / DIM as f64 / state.second_weight;
        let average = state.noise / state.second_weight;
        assert!((mean / average - 1.0).abs() < tolerance, "{mean} {average}");
        assert!((mean / (noise_std * noise_std) - 1.0).abs() > 8.0 * tolerance, "{mean} {noise_std}");
    }

    // If the noise exceeds the second moment, the floor remains.
    #[test]
    fn noise_above_moment_leaves_floor() {
        let adam = AdamBc::new(0.0, 0.9, 0.25, 0.0).unwrap();
        let mut state = AdamBcState::new([0f32], [0f32]);
        let mut params = [0f32];
        properties::step(&adam, &mut state, Begin { lr: 1.0, noise_std: 100.0 }, &mut params, &[1.0], &[1.0]);
        assert_eq!(params, [-2.0]);
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for floor in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e-45] {
            assert!(AdamBc::new(0.9, 0.999, floor, 0.0).is_err());
        }
        for beta in [-0.1, 1.0, f64::NAN] {
            assert!(AdamBc::new(beta, 0.999, 1e-8, 0.0).is_err() && AdamBc::new(0.9, beta, 1e-8, 0.0).is_err());
        }
        assert!(AdamBc::new(0.9, 0.999, 1e-8, -0.1).is_err());
        let adam = AdamBc::new(0.9, 0.999, 1e-8, 0.0).unwrap();
        assert!(adam.check(&AdamBcState::new(std::vec![0f32; 2], std::vec![0f32; 3]), 3).is_err());
        assert!(adam.check(&AdamBcState::new(std::vec![0f32; 3], std::vec![0f32; 2]), 3).is_err());
    }

    /// If the clip grows a hundredfold, the relative floor follows. An absolute floor would not.
    #[test]
    fn a_floor_by_the_noise_follows_the_noise() {
        let adam = AdamBc::new(0.9, 0.99, 1e-30, 0.0).unwrap().with_floor_by_noise();
        let mut state = AdamBcState::new([0f32], [0f32]);
        let rho = (2.0 * 0.01 / 1.99f64).sqrt();
        for (steps, noise_std) in [(2000, 1e-3), (2000, 0.1)] {
            for _ in 0..steps {
                adam.begin(&mut state, Begin { lr: 0.1, noise_std });
            }
            let step = adam.begin(&mut state, Begin { lr: 0.1, noise_std });
            assert!((f64::from(step.floor) / (rho * noise_std * noise_std) - 1.0).abs() < 1e-6);
        }
        let mut still = AdamBcState::new([0f32], [0f32]);
        assert_eq!(adam.begin(&mut still, Begin { lr: 0.1, noise_std: 0.0 }).floor, 1e-30);
    }
}
