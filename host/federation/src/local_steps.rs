//! Local steps of a user: SGD on the user's samples alone. The total parameter change is one contribution.
//!
//! ```text
//! w ← θ;   `steps` times:  w ← w − lr · mean of the gradients of the next `batch` samples;   contribution = θ − w
//! ```
//!
//! Samples are used in order, and start again after the last. The mean is over the available samples, in f64. The
//! server uses the mean contribution as a gradient. At its learning rate 1, the parameters become the mean of the
//! users' parameters.
//!
//! Local steps are not private by themselves. The core clips the contribution once.

use serde::{Deserialize, Serialize};

/// Settings of local SGD.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalSteps {
    /// Number of steps.
    pub steps: u32,
    /// The learning rate.
    pub lr: f32,
    /// Samples per step. If the user has fewer, all of them.
    pub batch: u32,
}

impl LocalSteps {
    /// Returns the samples of step `step` for a user with `samples`, in order.
    pub fn samples_of(&self, step: u32, samples: &[u32]) -> Vec<u32> {
        let batch = (self.batch as usize).min(samples.len());
        let from = step as usize % samples.len().max(1) * batch % samples.len().max(1);
        samples.iter().cycle().skip(from).take(batch).copied().collect()
    }

    /// Takes one step: subtracts the learning rate times the mean gradient, given the gradient sum `sum` over `samples`
    /// samples, from `params`.
    pub fn apply(&self, sum: &[f64], samples: usize, params: &mut [f32]) {
        for (param, sum) in params.iter_mut().zip(sum) {
            *param -= self.lr * (sum / samples as f64) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_go_round() {
        let of = |batch, step, samples: &[u32]| LocalSteps { steps: 9, lr: 0.1, batch }.samples_of(step, samples);
        assert_eq!(of(2, 0, &[4, 7, 9]), [4, 7]);
        assert_eq!(of(2, 1, &[4, 7, 9]), [9, 4]);
        assert_eq!(of(2, 2, &[4, 7, 9]), [7, 9]);
        assert_eq!(of(8, 3, &[4, 7]), [4, 7]);
        assert_eq!(of(1, 5, &[4, 7]), [7]);
        assert!(of(3, 1, &[]).is_empty());
    }

    #[test]
    fn a_step_is_the_mean_gradient() {
        let mut params = [1.0, -2.0];
        LocalSteps { steps: 1, lr: 0.5, batch: 4 }.apply(&[4.0, -8.0], 4, &mut params);
        assert_eq!(params, [0.5, -1.0]);
    }
}
