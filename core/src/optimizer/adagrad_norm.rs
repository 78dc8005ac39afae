//! AdaGrad-norm: one learning rate for all coordinates, which falls with the norms of the released gradients. Wraps any
//! optimizer.
//!
//! ```text
//! b² ← b² + max(‖g‖² − d·s²  or  ‖g‖²,  ν)          the inner optimizer steps with the rate η/b
//! ```
//!
//! `g` is the released gradient of this step, unfiltered, `b²` starts at `b_0²`, and `s` is the standard deviation of
//! the noise. The noise adds `d·s²` to the squared norm. Unless that is subtracted, it soon dominates, and the learning
//! rate falls like `1/√t` for any data. Terms that an inner optimizer scales by its learning rate, such as weight
//! decay, fall too.
//!
//! Source: Ward, Wu, Bottou, "AdaGrad stepsizes", JMLR 21 (2020), as in Wu, Wang, Cristali, Gu, Willett, "Adaptive
//! Differentially Private Empirical Risk Minimization", §5.2 (run there with `b_0² = 20`, `ν = 10⁻⁵`).
//!
//! # Memory
//!
//! One f64 and a few words, plus the inner optimizer's state. The whole released gradient is observed before the
//! parameters change.
//!
//! # Numerics
//!
//! `n` is [`SumOfSquares`] of the released gradient, with its coordinates in order. On overflow, `n` is the largest
//! f32, so the learning rate falls and stays finite. Then, in f64, with `a = 0` before the first step:
//!
//! ```text
//! e = n − d·(s·s)  or  n          a ← a + (e,  or ν where that is larger)          b = √(b_0² + a)
//! ```
//!
//! The inner optimizer receives the learning rate `η/b` in f64.
//!
//! # Privacy
//!
//! The paper's step size uses the norm of the *raw* gradient, which its theorem does not cover, so `θ` reveals it. Here
//! `b` is a function of released gradients and declared constants only, which is post-processing. The noise of a step
//! must not depend on `b` without a Rényi filter.

mod weighted;

pub use weighted::{WeightedNorm, WeightedNormState};

use super::base::{Begin, Optimizer};
use crate::error::{CallError, ConfigError};
use crate::numerics::digest::{Digest, Digested};
use crate::numerics::reduce::SumOfSquares;
use crate::numerics::scalar::sqrt;
use crate::private::Released;
use crate::record::{RecordSink, ToRecord};
use crate::state::{SaveState, StateField};

/// Configuration of AdaGrad-norm over the optimizer `O`.
///
/// ```
/// use damper_core::optimizer::{AdaGradNorm, AdaGradNormState, Sgd, SgdState};
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
/// let optimizer = AdaGradNorm::new(0.0, 1e-6, false, Sgd::new(0.0, false, 0.0)?)?;
/// let state = AdaGradNormState::new(SgdState { momentum: [] as [f32; 0] });
/// // The learning rate over the norm, 1/√2.
/// // One step at a learning rate of 0.1, with next to no noise.
/// let params = step_once((Identity, ()), (optimizer, state), [0.5, -0.5])?;
/// assert!((params[0] + 0.070_710_7).abs() < 1e-4 && (params[1] - 0.070_710_7).abs() < 1e-4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdaGradNorm<O> {
    initial: f64,
    floor: f64,
    subtract_noise: bool,
    inner: O,
}

impl<O> AdaGradNorm<O> {
    /// Creates AdaGrad-norm over `inner`, with `b_0² ≥ 0` and `ν > 0` (squared gradient norms). `subtract_noise`
    /// subtracts the noise's known share of the squared norm.
    ///
    /// # Errors
    ///
    /// Fails if a number is out of its range.
    pub fn new(initial: f64, floor: f64, subtract_noise: bool, inner: O) -> Result<Self, ConfigError> {
        if !(initial.is_finite() && initial >= 0.0) {
            return Err(ConfigError::new("AdaGrad-norm's b_0^2", "finite and not negative"));
        }
        // Below this, 1/b could exceed an f32.
        if !(floor.is_finite() && floor >= f64::from(f32::MIN_POSITIVE)) {
            return Err(ConfigError::new("AdaGrad-norm's floor", "finite, and a normal f32 above 0"));
        }
        Ok(Self { initial, floor, subtract_noise, inner })
    }
}

/// State of AdaGrad-norm over an optimizer with state `S`.
pub struct AdaGradNormState<S> {
    /// `b² − b_0²`.
    pub added: f64,
    /// State of the inner optimizer.
    pub inner: S,
    norm: SumOfSquares,
    /// Number of coordinates in `norm`, `d` at the end.
    seen: usize,
}

impl<S> AdaGradNormState<S> {
    /// Creates the state before the first step.
    pub fn new(inner: S) -> Self {
        Self { added: 0.0, inner, norm: SumOfSquares::default(), seen: 0 }
    }
}

/// Writes its own settings, then the kind and the settings of the inner optimizer.
impl<S, O: ToRecord<S>> ToRecord<AdaGradNormState<S>> for AdaGradNorm<O> {
    fn kind(&self, state: &AdaGradNormState<S>) -> Option<u8> {
        self.inner.kind(&state.inner).map(|_| if self.subtract_noise { 9 } else { 8 })
    }

    fn write(&self, state: &AdaGradNormState<S>, sink: &mut dyn RecordSink) {
        sink.f64(self.initial);
        sink.f64(self.floor);
        sink.u8(self.inner.kind(&state.inner).unwrap_or(u8::MAX));
        self.inner.write(&state.inner, sink);
    }
}

impl<S: SaveState> SaveState for AdaGradNormState<S> {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        take(StateField::Owner("adagrad-norm"));
        take(StateField::Double(&mut self.added));
        self.inner.each(take);
    }
}

impl<S, O: Optimizer<S>> Optimizer<AdaGradNormState<S>> for AdaGradNorm<O> {
    type Step = O::Step;

    fn check(&self, state: &AdaGradNormState<S>, dim: usize) -> Result<(), CallError> {
        self.inner.check(&state.inner, dim)
    }

    fn needs_full_gradient(&self) -> bool {
        true
    }

    fn observe(&self, state: &mut AdaGradNormState<S>, at: usize, released: &Released<'_>) {
        state.norm.add(released.grad());
        state.seen = state.seen.wrapping_add(released.grad().len());
        if self.inner.needs_full_gradient() {
            self.inner.observe(&mut state.inner, at, released);
        }
    }

    fn begin(&self, state: &mut AdaGradNormState<S>, begin: Begin) -> O::Step {
        self.begin_weighing(state, begin, |energy| energy)
    }

    fn update(
        &self,
        step: O::Step,
        state: &mut AdaGradNormState<S>,
        at: usize,
        params: &mut [f32],
        filtered: &Released<'_>,
        released: &Released<'_>,
    ) {
        self.inner.update(step, &mut state.inner, at, params, filtered, released);
    }

    fn end(&self, step: O::Step, state: &mut AdaGradNormState<S>, params: &mut [f32]) {
        self.inner.end(step, &mut state.inner, params);
    }
}

impl<O> AdaGradNorm<O> {
    /// Begins a step that adds `weigh(e)` for the squared norm `e`.
    #[inline]
    fn begin_weighing<S>(
        &self,
        state: &mut AdaGradNormState<S>,
        Begin { lr, noise_std }: Begin,
        weigh: impl Fn(f64) -> f64,
    ) -> O::Step
    where
        O: Optimizer<S>,
    {
        let total = state.norm.take();
        let dim = core::mem::take(&mut state.seen) as f64;
        let norm = f64::from(if total.is_finite() { total } else { f32::MAX });
        let energy = weigh(if self.subtract_noise { norm - dim * (noise_std * noise_std) } else { norm });
        state.added += if energy > self.floor { energy } else { self.floor };
        let b = sqrt(self.initial + state.added);
        self.inner.begin(&mut state.inner, Begin { lr: lr / b, noise_std })
    }
}

/// Adds `a = b² − b_0²`, then the inner optimizer's state.
impl<S, O: Digested<S>> Digested<AdaGradNormState<S>> for AdaGradNorm<O> {
    fn add_to(&self, state: &AdaGradNormState<S>, digest: &mut Digest) {
        digest.add_f64(state.added);
        self.inner.add_to(&state.inner, digest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::Ledger;
    use crate::clip::FlatL2;
    use crate::filter::Identity;
    use crate::grid::Grid;
    use crate::noise::{DiscreteGaussian, Xoshiro};
    use crate::numerics::reduce::sum_of_squares;
    use crate::optimizer::{Adam, AdamState, Sgd, SgdState, properties};
    use crate::private::SumWord;
    use crate::schedule::{Decay, Declared, LearningRate, NoiseSchedule};
    use crate::step::{PrivateStep, Slots, StepState};
    use crate::threshold::Fixed;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// Leaves the parameters, and records the learning rate and the released gradient of every step.
    #[derive(Clone, Copy)]
    struct Recorder;

    type Record = Vec<(Begin, Vec<f32>)>;

    impl Optimizer<Record> for Recorder {
        type Step = ();

        fn check(&self, _state: &Record, _dim: usize) -> Result<(), CallError> {
            Ok(())
        }

        fn begin(&self, state: &mut Record, begin: Begin) {
            state.push((begin, Vec::new()));
        }

        fn update(
            &self,
            (): (),
            state: &mut Record,
            at: usize,
            _: &mut [f32],
            _: &Released<'_>,
            released: &Released<'_>,
        ) {
            let grad = &mut state.last_mut().unwrap().1;
            assert_eq!(grad.len(), at);
            grad.extend_from_slice(released.grad());
        }
    }

    /// Replay by an auditor: computes the learning rates of a private run from its releases.
    #[test]
    fn replayed_learning_rates_match_run() {
        const DIM: usize = 1500;
        for subtract in [false, true] {
            let step = PrivateStep::new(Slots {
                mechanism: DiscreteGaussian::<i64>::with_multiplier(Grid::new(20).unwrap(), 0.8).unwrap(),
                clip: FlatL2,
                threshold: Fixed(1.0),
                filter: Identity,
                optimizer: AdaGradNorm::new(20.0, 1e-5, subtract, Recorder).unwrap(),
                schedule: Declared {
                    learning_rate: LearningRate::new(0.5, 0, Decay::Constant).unwrap(),
                    noise: NoiseSchedule::Polynomial { growth: 0.1, exponent: 0.5 },
                },
                expected_batch: 4,
            })
            .unwrap();
            let optimizer = AdaGradNormState::new(Record::new());
            let mut state = StepState::new(std::vec![SumWord::ZERO; DIM], (), optimizer, ());
            let (mut ledger, mut params) = (Ledger::volatile(20), std::vec![0f32; DIM]);
            for t in 0..20u16 {
                let mut open = step.open(&mut state, &mut ledger).unwrap();
                let sample: Vec<f32> = (0..DIM).map(|i| libm::sinf((i * usize::from(t + 1)) as f32)).collect();
                open.add_combined(&[&sample]).unwrap();
                open.finish(&mut params, &Xoshiro::simulation(3)).unwrap();
            }
            let mut b_sq = 20f64;
            for (begin, grad) in &state.optimizer.inner {
                assert_eq!(grad.len(), DIM);
                let norm: f64 = grad.iter().map(|g| f64::from(*g) * f64::from(*g)).sum();
                let noise = if subtract { DIM as f64 * begin.noise_std * begin.noise_std } else { 0.0 };
                b_sq += (norm - noise).max(1e-5);
                assert!((begin.lr * b_sq.sqrt() / 0.5 - 1.0).abs() < 1e-5, "{} {b_sq}", begin.lr);
            }
            assert!((state.optimizer.added / (b_sq - 20.0) - 1.0).abs() < 1e-4);
        }
    }

    proptest! {
        // The state stays finite, and a split into segments does not change a bit.
        #[test]
        fn state_is_finite_and_segment_invariant(steps in properties::steps(), cut in 0..=properties::DIM) {
            for subtract in [false, true] {
                let make = || {
                    let sgd = Sgd::new(0.9, true, 0.1).unwrap();
                    let state = SgdState { momentum: [0f32; properties::DIM] };
                    let floor = f64::from(f32::MIN_POSITIVE);
                    (AdaGradNorm::new(0.0, floor, subtract, sgd).unwrap(), AdaGradNormState::new(state))
                };
                let numbers = |state: &AdaGradNormState<SgdState<[f32; properties::DIM]>>| {
                    let mut numbers = properties::widen(&[&state.inner.momentum]);
                    numbers.push(state.added);
                    numbers
                };
                properties::state_is_finite_and_segment_invariant(make, numbers, &steps, cut)?;
            }
        }

        // The method is its inner optimizer at the learning rate divided by b.
        #[test]
        fn is_inner_optimizer_at_lr_over_b(
            steps in prop::collection::vec((prop::array::uniform5(-2f32..2.0), 0f64..0.5), 1..30), subtract: bool,
        ) {
            let adam = Adam::new(0.9, 0.99, 1e-8, 0.1).unwrap();
            let wrapped = AdaGradNorm::new(0.5, 1e-3, subtract, adam).unwrap();
            let mut state = AdaGradNormState::new(AdamState::new([0f32; 5], [0f32; 5]));
            let mut expected_state = AdamState::new([0f32; 5], [0f32; 5]);
            let (mut params, mut expected) = ([0f32; 5], [0f32; 5]);
            let mut added = 0f64;
            for (grad, noise_std) in &steps {
                properties::step(&wrapped, &mut state, Begin { lr: 0.3, noise_std: *noise_std }, &mut params, grad, grad);
                let norm = f64::from(sum_of_squares([&grad[..]].into_iter()));
                added += (if subtract { norm - 5.0 * (noise_std * noise_std) } else { norm }).max(1e-3);
                let begin = Begin { lr: 0.3 / (0.5 + added).sqrt(), noise_std: *noise_std };
                properties::step(&adam, &mut expected_state, begin, &mut expected, grad, grad);
                prop_assert_eq!(params, expected);
                prop_assert_eq!(state.added, added);
            }
        }

        #[test]
        fn rates_are_numbers_that_never_rise(steps in properties::steps(), subtract: bool) {
            let wrapped = AdaGradNorm::new(0.0, 1e-30, subtract, Recorder).unwrap();
            let mut state = AdaGradNormState::new(Record::new());
            for step in &steps {
                wrapped.observe(&mut state, 0, &Released::new(&step.released, step.begin.noise_std));
                wrapped.begin(&mut state, Begin { lr: 1.0, ..step.begin });
            }
            let rates = state.inner.iter().map(|(begin, _)| begin.lr);
            prop_assert!(rates.clone().all(|lr| lr.is_finite() && lr > 0.0));
            prop_assert!(rates.clone().zip(rates.skip(1)).all(|(before, after)| after <= before));
        }
    }

    /// The square of 1e20 is above the largest f32.
    #[test]
    fn overflowing_norm_gives_tiny_lr() {
        let wrapped = AdaGradNorm::new(1.0, 1e-5, true, Recorder).unwrap();
        let mut state = AdaGradNormState::new(Record::new());
        wrapped.observe(&mut state, 0, &Released::new(&[1e20; 9], 0.1));
        wrapped.begin(&mut state, Begin { lr: 1.0, noise_std: 0.1 });
        let rate = state.inner[0].0.lr;
        assert!(rate > 0.0 && rate < 1e-18, "{rate}");
    }

    // An inner optimizer that needs the full gradient observes it.
    #[test]
    fn inner_optimizer_observes_gradient() {
        let inner = AdaGradNorm::new(0.0, 1e-5, false, Recorder).unwrap();
        let outer = AdaGradNorm::new(0.0, 1e-5, false, inner).unwrap();
        let mut state = AdaGradNormState::new(AdaGradNormState::new(Record::new()));
        properties::step(&outer, &mut state, Begin { lr: 8.0, noise_std: 0.0 }, &mut [0.0], &[2.0], &[2.0]);
        assert_eq!(state.inner.inner[0].0.lr, 2.0);
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for initial in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(AdaGradNorm::new(initial, 1e-5, false, Recorder).is_err());
        }
        for floor in [0.0, -1.0, 1e-39, f64::NAN, f64::INFINITY] {
            assert!(AdaGradNorm::new(20.0, floor, false, Recorder).is_err());
        }
        let sgd = AdaGradNorm::new(20.0, 1e-5, false, Sgd::new(0.9, false, 0.0).unwrap()).unwrap();
        assert!(sgd.check(&AdaGradNormState::new(SgdState { momentum: [0f32; 2] }), 3).is_err());
    }
}
