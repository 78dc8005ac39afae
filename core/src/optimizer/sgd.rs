//! Stochastic gradient descent with momentum, Nesterov momentum and weight decay.
//!
//! ```text
//! h = ĝ + λθ          m ← μm + h          θ ← θ − η·(m,  or h + μm with Nesterov,  or h with μ = 0)
//! ```
//!
//! `ĝ` is the filtered gradient.
//!
//! Source: the convention of PyTorch's `torch.optim.SGD` with dampening 0 (`m` starts at 0, so the first `m` is `h`).
//!
//! # Memory
//!
//! `D` floats with momentum, none without.
//!
//! # Numerics
//!
//! The learning rate of a step is `S(η)`. For each coordinate:
//!
//! ```text
//! h = S(ĝ + F(λ·θ))     m ← S(F(μ·m) + h)     u = m,  or S(h + F(μ·m)) with Nesterov,  or h with μ = 0
//! θ ← S(θ − F(S(η)·u))
//! ```
//!
//! # Privacy
//!
//! Uses released values only.

use super::base::{Begin, Optimizer, narrow, piece, saturate};
use crate::error::{CallError, ConfigError, check_len};
use crate::numerics::digest::{Digest, Digested};
use crate::private::Released;
use crate::record::{FromRecord, RecordSink, RecordSource, StateVector, ToRecord};
use crate::state::{SaveState, StateField};

/// Configuration of SGD.
///
/// ```
/// use damper_core::optimizer::{Sgd, SgdState};
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
/// let optimizer = Sgd::new(0.9, false, 0.0)?;
/// let state = SgdState { momentum: [0.0; 2] };
/// assert_eq!(optimizer.momentum_len(2), 2);
/// // One step at a learning rate of 0.1, with next to no noise.
/// let params = step_once((Identity, ()), (optimizer, state), [0.5, -0.5])?;
/// assert!((params[0] + 0.05).abs() < 1e-4 && (params[1] - 0.05).abs() < 1e-4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sgd {
    momentum: f32,
    nesterov: bool,
    weight_decay: f32,
}

impl Sgd {
    /// Creates SGD with momentum `μ` in `[0, 1)` and weight decay `λ ≥ 0`. `nesterov` selects Nesterov momentum.
    ///
    /// # Errors
    ///
    /// Fails if a number is out of its range, or Nesterov momentum has `μ = 0`.
    pub fn new(momentum: f32, nesterov: bool, weight_decay: f32) -> Result<Self, ConfigError> {
        if !(0.0..1.0).contains(&momentum) {
            return Err(ConfigError::new("momentum", "from 0 to below 1"));
        }
        if nesterov && momentum == 0.0 {
            return Err(ConfigError::new("momentum", "above 0 for Nesterov's form"));
        }
        if !(weight_decay.is_finite() && weight_decay >= 0.0) {
            return Err(ConfigError::new("weight decay", "finite and not negative"));
        }
        Ok(Self { momentum, nesterov, weight_decay })
    }

    /// Returns the number of elements of [`SgdState::momentum`] for `dim` parameters.
    #[must_use]
    pub fn momentum_len(&self, dim: usize) -> usize {
        if self.momentum == 0.0 { 0 } else { dim }
    }
}

/// State of SGD.
#[derive(Debug)]
pub struct SgdState<B> {
    /// `m`: `[D]` with momentum, zeros before the first step. Without momentum it is unused and may have any length.
    pub momentum: B,
}

impl<B: AsMut<[f32]>> SaveState for SgdState<B> {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        take(StateField::Owner("sgd"));
        take(StateField::Floats(self.momentum.as_mut()));
    }
}

impl<B: AsMut<[f32]> + AsRef<[f32]>> Optimizer<SgdState<B>> for Sgd {
    type Step = f32;

    fn check(&self, state: &SgdState<B>, dim: usize) -> Result<(), CallError> {
        if self.momentum == 0.0 {
            return Ok(());
        }
        check_len("the momentum vector", dim, state.momentum.as_ref().len())
    }

    fn first_moments<'s>(&self, state: &'s mut SgdState<B>) -> &'s mut [f32] {
        state.momentum.as_mut()
    }

    fn begin(&self, _state: &mut SgdState<B>, Begin { lr, .. }: Begin) -> f32 {
        narrow(lr)
    }

    fn update(
        &self,
        lr: f32,
        state: &mut SgdState<B>,
        at: usize,
        params: &mut [f32],
        filtered: &Released<'_>,
        _released: &Released<'_>,
    ) {
        let Self { momentum: mu, nesterov, weight_decay } = *self;
        if mu == 0.0 {
            for (param, grad) in params.iter_mut().zip(filtered.grad()) {
                let grad = saturate(grad + weight_decay * *param);
                *param = saturate(*param - lr * grad);
            }
            return;
        }
        let momentum = piece(state.momentum.as_mut(), at, params.len());
        for ((param, grad), m) in params.iter_mut().zip(filtered.grad()).zip(momentum) {
            let grad = saturate(grad + weight_decay * *param);
            *m = saturate(mu * *m + grad);
            let direction = if nesterov { saturate(grad + mu * *m) } else { *m };
            *param = saturate(*param - lr * direction);
        }
    }
}

impl<B> ToRecord<SgdState<B>> for Sgd {
    fn kind(&self, _state: &SgdState<B>) -> Option<u8> {
        Some(u8::from(self.nesterov))
    }

    fn write(&self, _state: &SgdState<B>, sink: &mut dyn RecordSink) {
        sink.f32(self.momentum);
        sink.f32(self.weight_decay);
    }
}

impl FromRecord for Sgd {
    type State<B: StateVector> = SgdState<B>;

    const KINDS: &'static [u8] = &[0, 1];

    fn read<R: RecordSource>(kind: u8, source: &mut R) -> Result<(Self, SgdState<R::Vector>), R::Error> {
        let sgd = Self::new(source.f32(), kind == 1, source.f32())?;
        Ok((sgd, SgdState { momentum: source.zeros(sgd.momentum_len(source.dim()))? }))
    }
}

/// Adds `m`.
impl<B: AsRef<[f32]>> Digested<SgdState<B>> for Sgd {
    fn add_to(&self, state: &SgdState<B>, digest: &mut Digest) {
        digest.add_f32s(state.momentum.as_ref());
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
            for (momentum, nesterov, decay) in [(0.0, false, 0.1), (0.9, false, 3.0), (0.9, true, 0.0)] {
                let make = || {
                    let sgd = Sgd::new(momentum, nesterov, decay).unwrap();
                    let len = sgd.momentum_len(properties::DIM);
                    (sgd, SgdState { momentum: std::vec![0f32; len] })
                };
                let numbers = |state: &SgdState<std::vec::Vec<f32>>| properties::widen(&[&state.momentum]);
                properties::state_is_finite_and_segment_invariant(make, numbers, &steps, cut)?;
            }
        }
    }

    /// Computed by hand for `θ = 1`, `μ = η = 1/2` and gradients 1, 2, 2, all exact in f32.
    #[test]
    fn three_steps_equal_the_formula() {
        for (nesterov, expected) in [(false, [0.5, -0.75, -2.375]), (true, [0.25, -1.375, -3.1875])] {
            let sgd = Sgd::new(0.5, nesterov, 0.0).unwrap();
            let mut state = SgdState { momentum: [0f32] };
            let mut params = [1f32];
            for (grad, expected) in [1.0, 2.0, 2.0].into_iter().zip(expected) {
                let step = sgd.begin(&mut state, Begin { lr: 0.5, noise_std: 0.0 });
                sgd.update(
                    step,
                    &mut state,
                    0,
                    &mut params,
                    &Released::new(&[grad], 0.0),
                    &Released::new(&[grad], 0.0),
                );
                assert_eq!(params[0], expected);
            }
        }
    }

    #[test]
    fn weight_decay_adds_to_the_gradient() {
        let sgd = Sgd::new(0.0, false, 0.25).unwrap();
        let mut state = SgdState { momentum: [] };
        let mut params = [2f32];
        let step = sgd.begin(&mut state, Begin { lr: 0.5, noise_std: 0.0 });
        sgd.update(step, &mut state, 0, &mut params, &Released::new(&[1.0], 0.0), &Released::new(&[1.0], 0.0));
        assert_eq!(params[0], 2.0 - 0.5 * (1.0 + 0.25 * 2.0));
    }
}
