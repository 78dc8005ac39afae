//! Adam and AdamW.
//!
//! ```text
//! m ← β₁m + (1−β₁)·m̂        v ← β₂v + (1−β₂)·g²        θ ← θ·(1−ηλ)        θ ← θ − η/(1−β₁ᵗ) · m / (√(v/(1−β₂ᵗ)) + ε)
//! ```
//!
//! with `m̂` the filtered and `g` the unfiltered released gradient (DOPPLER's Algorithm 3 takes the second moment from the
//! latter; with the identity filter they are one).
//!
//! Source: Kingma and Ba, arXiv 1412.6980; decoupled weight decay: Loshchilov and Hutter, arXiv 1711.05101.
//!
//! # Memory
//!
//! `2·D` words and two f64.
//!
//! # Numerics
//!
//! f32 per coordinate, products and sums rounded one by one; `βᵗ` and the bias corrections in f64, once a step.

use super::{Begin, Optimizer, piece};
use crate::error::{CallError, ConfigError, check_len};
use crate::numerics::function::sqrt_f32;
use crate::private::Released;

/// Configuration of Adam; with weight decay it is AdamW.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Adam {
    beta1: f64,
    beta2: f64,
    epsilon: f32,
    weight_decay: f64,
}

impl Adam {
    /// Adam with `β₁, β₂` in `[0, 1)`, `ε > 0` and decoupled weight decay `λ ≥ 0`.
    ///
    /// # Errors
    ///
    /// A number out of its range.
    pub fn new(beta1: f64, beta2: f64, epsilon: f32, weight_decay: f64) -> Result<Self, ConfigError> {
        if !(0.0..1.0).contains(&beta1) {
            return Err(ConfigError::new("beta1", "from 0 to below 1"));
        }
        if !(0.0..1.0).contains(&beta2) {
            return Err(ConfigError::new("beta2", "from 0 to below 1"));
        }
        if !(epsilon.is_normal() && epsilon > 0.0) {
            return Err(ConfigError::new("Adam's epsilon", "a normal number above 0"));
        }
        if !(weight_decay.is_finite() && weight_decay >= 0.0) {
            return Err(ConfigError::new("weight decay", "finite and not negative"));
        }
        Ok(Self { beta1, beta2, epsilon, weight_decay })
    }
}

/// Memory of Adam.
#[derive(Debug)]
pub struct AdamState<B> {
    first: B,
    second: B,
    beta1_power: f64,
    beta2_power: f64,
}

impl<B> AdamState<B> {
    /// The state before the first step: `first` and `second` are `[D]`, zeros.
    pub fn new(first: B, second: B) -> Self {
        Self { first, second, beta1_power: 1.0, beta2_power: 1.0 }
    }
}

/// What the pieces of one of Adam's steps share.
#[derive(Clone, Copy, Debug)]
pub struct AdamStep {
    /// `1 − ηλ`.
    keep: f32,
    /// `η/(1−β₁ᵗ)`.
    rate: f32,
    /// `1/(1−β₂ᵗ)`.
    second_scale: f32,
}

impl<B: AsMut<[f32]> + AsRef<[f32]>> Optimizer<AdamState<B>> for Adam {
    type Step = AdamStep;

    fn check(&self, state: &AdamState<B>, dim: usize) -> Result<(), CallError> {
        check_len("Adam's first moment", dim, state.first.as_ref().len())?;
        check_len("Adam's second moment", dim, state.second.as_ref().len())
    }

    fn begin(&self, state: &mut AdamState<B>, Begin { lr, .. }: Begin) -> AdamStep {
        state.beta1_power *= self.beta1;
        state.beta2_power *= self.beta2;
        AdamStep {
            keep: (1.0 - lr * self.weight_decay) as f32,
            rate: (lr / (1.0 - state.beta1_power)) as f32,
            second_scale: (1.0 / (1.0 - state.beta2_power)) as f32,
        }
    }

    fn update(
        &self,
        step: AdamStep,
        state: &mut AdamState<B>,
        at: usize,
        params: &mut [f32],
        filtered: &[f32],
        released: &Released<'_>,
    ) {
        let (beta1, beta2) = (self.beta1 as f32, self.beta2 as f32);
        let (new1, new2) = ((1.0 - self.beta1) as f32, (1.0 - self.beta2) as f32);
        let first = piece(state.first.as_mut(), at, params.len());
        let second = piece(state.second.as_mut(), at, params.len());
        let moments = first.iter_mut().zip(second);
        for (((param, filtered), grad), (m, v)) in params.iter_mut().zip(filtered).zip(released.grad()).zip(moments) {
            *m = beta1 * *m + new1 * filtered;
            *v = beta2 * *v + new2 * (grad * grad);
            let denominator = sqrt_f32(*v * step.second_scale) + self.epsilon;
            *param = step.keep * *param - step.rate * *m / denominator;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            adam.update(step, &mut state, 0, &mut params, &grad, &Released::new(&grad, 0.0));
            assert!((f64::from(params[0]) - theta).abs() < 1e-5, "step {t}: {} {theta}", params[0]);
        }
    }

    #[test]
    fn the_first_step_moves_by_the_learning_rate() {
        let adam = Adam::new(0.9, 0.999, 1e-8, 0.0).unwrap();
        let mut state = AdamState::new([0f32; 2], [0f32; 2]);
        let mut params = [0f32; 2];
        let grad = [3.0f32, -0.02];
        let step = adam.begin(&mut state, Begin { lr: 0.125, noise_std: 0.0 });
        adam.update(step, &mut state, 0, &mut params, &grad, &Released::new(&grad, 0.0));
        for (param, grad) in params.iter().zip(grad) {
            assert!((param + 0.125 * grad.signum()).abs() < 1e-5, "{param}");
        }
    }
}
