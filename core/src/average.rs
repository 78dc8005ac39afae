//! Weighted mean of the parameters after each step.
//!
//! ```text
//! W ← k_t·W + w_t          θ̄ ← θ̄ + (w_t/W)·(θ_t − θ̄)
//! ```
//!
//! Without decay (`k_t = 1`), `θ̄ = Σ w_t·θ_t / Σ w_t`. Training continues from `θ_t`, never from `θ̄`.
//!
//! | averaging | `w_t` | `k_t` |
//! | --- | --- | --- |
//! | plain mean | 1 | 1 |
//! | weighted by the learning rate (ADP's theorem bounds the mean weighted by `1/b_{t+1}`) | `η_t` | 1 |
//! | exponential moving average, bias-corrected like Adam's moments: the first mean is `θ_1` | 1 | `β` |
//! | polynomial decay of power `p`, `w_t/W = (p+1)/(t+p)` for t from 1 | `p+1` | `(t−1)/(t−1+p)` |
//!
//! The weights of polynomial decay grow as `t^p`.
//!
//! Sources:
//!
//! - Plain and weighted: Wu, Wang, Cristali, Gu, Willett, "Adaptive Differentially Private Empirical Risk
//!   Minimization", theorem 4.2.
//! - Exponential: De, Berrada, Hayes, Smith, Balle, "Unlocking High-Accuracy Differentially Private Image
//!   Classification through Scale", section 3.
//! - Polynomial: Shamir, Zhang, "Stochastic Gradient Descent for Non-smooth Optimization", section 4.
//!
//! # Memory
//!
//! `D` floats and one f64.
//!
//! # Numerics
//!
//! `W`, `k_t` and `w_t/W` are in f64. Each coordinate computes `θ̄ ← S(θ̄ + S(F(w_t/W)·S(θ_t − θ̄)))`. The first
//! parameters are returned unchanged.
//!
//! # Privacy
//!
//! Parameters after a step are released, so their mean is post-processing. Do not average parameters within a step.

use crate::error::{CallError, ConfigError, check_len};
use crate::numerics::round::saturate;
use crate::state::{SaveState, StateField};

/// Mean of parameters, in the caller's memory.
///
/// ```
/// use damper_core::average::{Average, Averaging};
///
/// let (averaging, mut average) = (Averaging::new(0.5)?, Average::new([0.0; 2]));
/// for (step, params) in [[9.0, 9.0], [9.0, 9.0], [1.0, 2.0], [3.0, 4.0]].iter().enumerate() {
///     if let Some(weight) = averaging.weight(step as u32, 4, 0.1) {
///         average.add(params, weight)?;
///     }
/// }
/// assert_eq!(average.mean(), Some(&[2.0, 3.0][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Average<B> {
    mean: B,
    weight: f64,
}

impl<B: AsMut<[f32]> + AsRef<[f32]>> Average<B> {
    /// Creates an empty mean. `mean` is `[D]` and is set to zero.
    pub fn new(mut mean: B) -> Self {
        mean.as_mut().fill(0.0);
        Self { mean, weight: 0.0 }
    }

    /// Adds the parameters that a step released.
    ///
    /// # Errors
    ///
    /// Fails if `params` has another length, the weight is not finite and above 0, or `keep` is not from 0 to 1.
    /// Nothing is added.
    pub fn add(&mut self, params: &[f32], Weight { weight, keep }: Weight) -> Result<(), CallError> {
        check_len("the parameters", self.mean.as_ref().len(), params.len())?;
        if !(weight.is_finite() && weight > 0.0 && (0.0..=1.0).contains(&keep)) {
            return Err(CallError::Order("a weight that is not finite and above 0"));
        }
        let total = keep * self.weight + weight;
        let share = (weight / total) as f32;
        self.weight = total;
        for (mean, param) in self.mean.as_mut().iter_mut().zip(params) {
            *mean = saturate(*mean + saturate(share * saturate(param - *mean)));
        }
        Ok(())
    }

    /// Returns the mean, or `None` before the first addition.
    #[must_use]
    pub fn mean(&self) -> Option<&[f32]> {
        (self.weight > 0.0).then(|| self.mean.as_ref())
    }
}

impl<B: AsMut<[f32]>> SaveState for Average<B> {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        take(StateField::Owner("average"));
        take(StateField::Floats(self.mean.as_mut()));
        take(StateField::Double(&mut self.weight));
    }
}

/// Weight of the parameters of a step.
///
/// ```
/// use damper_core::average::{Average, Weight};
///
/// let mut average = Average::new([0.0]);
/// average.add(&[0.0], Weight { weight: 1.0, keep: 1.0 })?;
/// average.add(&[4.0], Weight { weight: 3.0, keep: 1.0 })?;
/// assert_eq!(average.mean(), Some(&[3.0][..]));
/// # Ok::<(), damper_core::error::CallError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Weight {
    /// Weight of the step, above 0.
    pub weight: f64,
    /// Factor on the weights of all earlier steps, from 0 to 1.
    pub keep: f64,
}

/// Weighting of steps.
///
/// ```
/// use damper_core::average::{Averaging, Weight};
///
/// let plain = Averaging::new(0.5)?;
/// assert_eq!(plain.weight(0, 100, 0.1), None);
/// assert_eq!(plain.weight(50, 100, 0.1), Some(Weight { weight: 1.0, keep: 1.0 }));
/// assert_eq!(plain.by_learning_rate().weight(50, 100, 0.1), Some(Weight { weight: 0.1, keep: 1.0 }));
/// assert_eq!(Averaging::exponential(0.99)?.weight(3, 100, 0.1), Some(Weight { weight: 1.0, keep: 0.99 }));
/// assert_eq!(Averaging::polynomial(1.0)?.weight(3, 100, 0.1), Some(Weight { weight: 2.0, keep: 0.75 }));
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Averaging(Kind);

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    /// Steps after the first fraction `start`, weighted by their learning rates or equally.
    Mean {
        start: f64,
        by_rate: bool,
    },
    Exponential {
        decay: f64,
    },
    Polynomial {
        power: f64,
    },
}

impl Averaging {
    /// Averages the steps after the first fraction `start`, with equal weights.
    ///
    /// # Errors
    ///
    /// Fails unless `start` is from 0 to below 1.
    pub fn new(start: f64) -> Result<Self, ConfigError> {
        if (0.0..1.0).contains(&start) {
            Ok(Self(Kind::Mean { start, by_rate: false }))
        } else {
            Err(ConfigError::new("start of averaging", "from 0 to below 1"))
        }
    }

    /// Weights each step by its learning rate. Other averages are unchanged.
    #[must_use]
    pub fn by_learning_rate(self) -> Self {
        match self.0 {
            Kind::Mean { start, .. } => Self(Kind::Mean { start, by_rate: true }),
            _ => self,
        }
    }

    /// Creates an exponential moving average. Each step multiplies earlier weights by `decay`, so about the last
    /// `1/(1 − decay)` steps count.
    ///
    /// # Errors
    ///
    /// Fails unless `decay` is above 0 and below 1.
    pub fn exponential(decay: f64) -> Result<Self, ConfigError> {
        if decay > 0.0 && decay < 1.0 {
            Ok(Self(Kind::Exponential { decay }))
        } else {
            Err(ConfigError::new("decay of averaging", "above 0 and below 1"))
        }
    }

    /// Creates weights that grow as the step to the power `power`. At any time, about the last fraction `1/(power + 1)`
    /// of the steps counts.
    ///
    /// # Errors
    ///
    /// Fails unless `power` is from 0 to 1000.
    pub fn polynomial(power: f64) -> Result<Self, ConfigError> {
        if (0.0..=1000.0).contains(&power) {
            Ok(Self(Kind::Polynomial { power }))
        } else {
            Err(ConfigError::new("power of averaging", "from 0 to 1000"))
        }
    }

    /// Returns the weight of step `step` (from 0) of `steps` at this learning rate.
    ///
    /// Returns `None` before averaging begins, and if the weight would be a learning rate of 0. The last step is always
    /// averaged.
    #[must_use]
    pub fn weight(&self, step: u32, steps: u32, learning_rate: f64) -> Option<Weight> {
        match self.0 {
            Kind::Mean { start, by_rate } => {
                let counts = f64::from(step) >= start * f64::from(steps) || step >= steps.saturating_sub(1);
                let weight = if by_rate { learning_rate } else { 1.0 };
                (counts && weight > 0.0).then_some(Weight { weight, keep: 1.0 })
            }
            Kind::Exponential { decay } => Some(Weight { weight: 1.0, keep: decay }),
            Kind::Polynomial { power } => {
                let before = f64::from(step);
                let keep = if before > 0.0 { before / (before + power) } else { 0.0 };
                Some(Weight { weight: power + 1.0, keep })
            }
        }
    }
}

impl core::fmt::Display for Averaging {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Kind::Mean { start, by_rate } => {
                let weight = if by_rate { ", weighted by the learning rate," } else { "" };
                write!(f, "the mean{weight} over the steps behind the first {start} of all")
            }
            Kind::Exponential { decay } => write!(f, "the exponential moving average with decay {decay}"),
            Kind::Polynomial { power } => write!(f, "the mean weighted by the power {power} of the step"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(weight: f64) -> Weight {
        Weight { weight, keep: 1.0 }
    }

    extern crate std;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn mean_follows_the_definition(
            steps in prop::collection::vec((prop::array::uniform2(-100f32..100.0), 1e-3f64..10.0), 1..50),
        ) {
            let mut average = Average::new([f32::NAN; 2]);
            prop_assert!(average.mean().is_none());
            for (params, weight) in &steps {
                average.add(params, plain(*weight)).unwrap();
            }
            let total: f64 = steps.iter().map(|(_, weight)| weight).sum();
            for i in 0..2 {
                let mean: f64 = steps.iter().map(|(params, weight)| f64::from(params[i]) * weight).sum::<f64>() / total;
                prop_assert!((f64::from(average.mean().unwrap()[i]) - mean).abs() < 1e-3);
            }
        }

        #[test]
        fn mean_of_any_finite_numbers_is_finite(
            steps in prop::collection::vec((prop::num::f32::ANY, 1e-300f64..1e300), 1..20),
        ) {
            let mut average = Average::new([0f32]);
            for (param, weight) in steps {
                let param = if param.is_finite() { param } else { f32::MIN };
                average.add(&[param], plain(weight)).unwrap();
                prop_assert!(average.mean().unwrap()[0].is_finite());
            }
        }
    }

    #[test]
    fn mean_of_one_is_itself_bit_for_bit() {
        let params = [1.5f32, -0.0, 3e-40, f32::MAX, 0.1];
        let mut average = Average::new([0f32; 5]);
        average.add(&params, plain(0.3)).unwrap();
        let bits = |values: &[f32]| values.iter().map(|x| (x + 0.0).to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(average.mean().unwrap()), bits(&params));
    }

    #[test]
    fn mean_refuses_lengths_and_weights() {
        let mut average = Average::new([0f32; 2]);
        assert!(average.add(&[1.0], plain(1.0)).is_err());
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(average.add(&[1.0; 2], plain(weight)).is_err());
        }
        for keep in [-0.1, 1.1, f64::NAN] {
            assert!(average.add(&[1.0; 2], Weight { weight: 1.0, keep }).is_err());
        }
        assert!(average.mean().is_none());
    }

    #[test]
    fn averaging_begins_where_declared() {
        let half = Averaging::new(0.5).unwrap();
        let weights: Vec<_> = (0..5).map(|step| half.weight(step, 5, 0.25)).collect();
        assert_eq!(weights, [None, None, None, Some(plain(1.0)), Some(plain(1.0))]);
        assert_eq!(half.by_learning_rate().weight(4, 5, 0.25), Some(plain(0.25)));
        assert_eq!(half.by_learning_rate().weight(4, 5, 0.0), None);
        let late = Averaging::new(0.999).unwrap();
        assert_eq!((late.weight(2, 4, 1.0), late.weight(3, 4, 1.0)), (None, Some(plain(1.0))));
        assert!([-0.1, 1.0, f64::NAN].iter().all(|start| Averaging::new(*start).is_err()));
    }

    /// Returns the average of 0, 1, 2, … over the steps.
    fn of_counting(averaging: Averaging, steps: u32) -> f64 {
        let mut average = Average::new([0f32]);
        for step in 0..steps {
            average.add(&[step as f32], averaging.weight(step, steps, 0.1).unwrap()).unwrap();
        }
        f64::from(average.mean().unwrap()[0])
    }

    #[test]
    fn exponential_follows_its_definition() {
        for (decay, steps) in [(0.9, 1), (0.9, 2), (0.5, 7), (0.999, 40)] {
            let averaging = Averaging::exponential(decay).unwrap();
            // The textbook recursion from zero, with its bias correction.
            let (mut moment, mut power) = (0.0, 1.0);
            for step in 0..steps {
                moment = decay * moment + (1.0 - decay) * f64::from(step);
                power *= decay;
            }
            let expected = moment / (1.0 - power);
            assert!((of_counting(averaging, steps) - expected).abs() < 1e-5, "{decay} {steps}");
        }
        assert!([0.0, 1.0, -0.1, f64::NAN].iter().all(|decay| Averaging::exponential(*decay).is_err()));
    }

    #[test]
    fn polynomial_follows_its_definition() {
        for (power, steps) in [(0.0, 5), (1.0, 1), (3.0, 9), (8.0, 60)] {
            let averaging = Averaging::polynomial(power).unwrap();
            let mut expected = 0.0;
            for t in 1..=steps {
                let share = (power + 1.0) / (f64::from(t) + power);
                expected = (1.0 - share) * expected + share * f64::from(t - 1);
            }
            assert!((of_counting(averaging, steps) - expected).abs() < 1e-4, "{power} {steps}");
        }
        assert!([-0.1, 1001.0, f64::NAN].iter().all(|power| Averaging::polynomial(*power).is_err()));
    }

    #[test]
    fn long_moving_averages_stay_finite() {
        let averaging = Averaging::exponential(1e-3).unwrap();
        assert!((of_counting(averaging, 20_000) - 19_999.0).abs() < 0.01);
    }
}
