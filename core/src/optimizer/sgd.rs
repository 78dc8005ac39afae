//! Stochastic gradient descent with momentum, Nesterov's form and weight decay.
//!
//! ```text
//! g ← m̂ + λθ          m ← μm + g          θ ← θ − η·(m,  or g + μm with Nesterov,  or g with μ = 0)
//! ```
//!
//! Source: the convention of PyTorch's `torch.optim.SGD` with dampening 0 (`m` starts at 0, so the first `m` is `g`).
//!
//! # Memory
//!
//! `D` words with momentum, none without.
//!
//! # Numerics
//!
//! f32 per coordinate, products and sums rounded one by one.

use super::{Begin, Optimizer, piece};
use crate::error::{CallError, ConfigError, check_len};
use crate::private::Released;

/// Configuration of SGD.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sgd {
    momentum: f32,
    nesterov: bool,
    weight_decay: f32,
}

impl Sgd {
    /// SGD with momentum `μ` in `[0, 1)` and weight decay `λ ≥ 0`, Nesterov's form if asked for.
    ///
    /// # Errors
    ///
    /// A number out of its range, or Nesterov's form without momentum.
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

    /// How many elements [`SgdState::momentum`] must have for `dim` parameters.
    #[must_use]
    pub fn momentum_len(&self, dim: usize) -> usize {
        if self.momentum == 0.0 { 0 } else { dim }
    }
}

/// Memory of SGD.
#[derive(Debug)]
pub struct SgdState<B> {
    /// `m`: `[D]` with momentum, empty without; zeros before the first step.
    pub momentum: B,
}

impl<B: AsMut<[f32]> + AsRef<[f32]>> Optimizer<SgdState<B>> for Sgd {
    type Step = f32;

    fn check(&self, state: &SgdState<B>, dim: usize) -> Result<(), CallError> {
        check_len("the momentum vector", self.momentum_len(dim), state.momentum.as_ref().len())
    }

    fn begin(&self, _state: &mut SgdState<B>, Begin { lr, .. }: Begin) -> f32 {
        lr as f32
    }

    fn update(
        &self,
        lr: f32,
        state: &mut SgdState<B>,
        at: usize,
        params: &mut [f32],
        filtered: &[f32],
        _released: &Released<'_>,
    ) {
        let Self { momentum: mu, nesterov, weight_decay } = *self;
        if mu == 0.0 {
            for (param, grad) in params.iter_mut().zip(filtered) {
                let grad = grad + weight_decay * *param;
                *param -= lr * grad;
            }
            return;
        }
        let momentum = piece(state.momentum.as_mut(), at, params.len());
        for ((param, grad), m) in params.iter_mut().zip(filtered).zip(momentum) {
            let grad = grad + weight_decay * *param;
            *m = mu * *m + grad;
            let direction = if nesterov { grad + mu * *m } else { *m };
            *param -= lr * direction;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked by hand for `θ = 1`, `μ = η = 1/2` and gradients 1, 2, 2, all exact in f32.
    #[test]
    fn three_steps_equal_the_formula() {
        for (nesterov, expected) in [(false, [0.5, -0.75, -2.375]), (true, [0.25, -1.375, -3.1875])] {
            let sgd = Sgd::new(0.5, nesterov, 0.0).unwrap();
            let mut state = SgdState { momentum: [0f32] };
            let mut params = [1f32];
            for (grad, expected) in [1.0, 2.0, 2.0].into_iter().zip(expected) {
                let step = sgd.begin(&mut state, Begin { lr: 0.5, noise_std: 0.0 });
                sgd.update(step, &mut state, 0, &mut params, &[grad], &Released::new(&[grad], 0.0));
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
        sgd.update(step, &mut state, 0, &mut params, &[1.0], &Released::new(&[1.0], 0.0));
        assert_eq!(params[0], 2.0 - 0.5 * (1.0 + 0.25 * 2.0));
    }
}
