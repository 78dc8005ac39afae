//! The weighted mean of the parameters that steps left behind.
//!
//! ```text
//! W ← W + w_t          θ̄ ← θ̄ + (w_t/W)·(θ_t − θ̄)
//! ```
//!
//! so `θ̄ = Σ w_t·θ_t / Σ w_t`. With `w_t = 1` it is the plain mean, with `w_t = η_t` that of ADP's theorem, whose bound is on a mean
//! weighted by `1/b_{t+1}`. Training goes on from `θ_t`, never from `θ̄`.
//!
//! Source: Wu, Wang, Cristali, Gu, Willett, "Adaptive Differentially Private Empirical Risk Minimization", theorem 4.2.
//!
//! # Memory
//!
//! `D` words and one f64.
//!
//! # Numerics
//!
//! `W` and `w_t/W` in f64; per coordinate `θ̄ ← S(θ̄ + S(F(w_t/W)·S(θ_t − θ̄)))`. The first parameters come out as they are.
//!
//! # Privacy
//!
//! Parameters after a step are released, so their mean is post-processing. It is not for parameters within a step.

use crate::error::{CallError, ConfigError, check_len};
use crate::numerics::round::saturate;
use crate::state::{SaveState, StateField};

/// A mean of parameters in the caller's memory.
#[derive(Clone, PartialEq, Debug)]
pub struct Average<B> {
    mean: B,
    weight: f64,
}

impl<B: AsMut<[f32]> + AsRef<[f32]>> Average<B> {
    /// The mean of nothing: `mean` is `[D]` and is set to zero.
    pub fn new(mut mean: B) -> Self {
        mean.as_mut().fill(0.0);
        Self { mean, weight: 0.0 }
    }

    /// Adds the parameters that a step released.
    ///
    /// # Errors
    ///
    /// `params` has another length, or `weight` is not finite and above 0; nothing was added.
    pub fn add(&mut self, params: &[f32], weight: f64) -> Result<(), CallError> {
        check_len("the parameters", self.mean.as_ref().len(), params.len())?;
        if !(weight.is_finite() && weight > 0.0) {
            return Err(CallError::Order("a weight that is not finite and above 0"));
        }
        let total = self.weight + weight;
        let share = (weight / total) as f32;
        self.weight = total;
        for (mean, param) in self.mean.as_mut().iter_mut().zip(params) {
            *mean = saturate(*mean + saturate(share * saturate(param - *mean)));
        }
        Ok(())
    }

    /// The mean; none before anything was added.
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

/// When averaging begins, and how steps are weighted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Averaging {
    /// The part of the steps before it, from 0 to below 1.
    start: f64,
    /// True if the weight of a step is its learning rate.
    by_rate: bool,
}

impl Averaging {
    /// Over the steps behind the first `start` of all, equally weighted.
    ///
    /// # Errors
    ///
    /// `start` must be from 0 to below 1.
    pub fn new(start: f64) -> Result<Self, ConfigError> {
        if (0.0..1.0).contains(&start) {
            Ok(Self { start, by_rate: false })
        } else {
            Err(ConfigError::new("start of averaging", "from 0 to below 1"))
        }
    }

    /// The same with each step weighted by its learning rate.
    #[must_use]
    pub fn by_learning_rate(self) -> Self {
        Self { by_rate: true, ..self }
    }

    /// The weight of step `step` of `steps` at this learning rate; none before averaging begins, and none at a rate of 0 that it
    /// would be. The last step is always among those that are averaged.
    #[must_use]
    pub fn weight(&self, step: u32, steps: u32, learning_rate: f64) -> Option<f64> {
        let counts = f64::from(step) >= self.start * f64::from(steps) || step >= steps.saturating_sub(1);
        let weight = if self.by_rate { learning_rate } else { 1.0 };
        (counts && weight > 0.0).then_some(weight)
    }
}

impl core::fmt::Display for Averaging {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let weight = if self.by_rate { ", weighted by the learning rate," } else { "" };
        write!(f, "the mean{weight} over the steps behind the first {} of all", self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
                average.add(params, *weight).unwrap();
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
                average.add(&[param], weight).unwrap();
                prop_assert!(average.mean().unwrap()[0].is_finite());
            }
        }
    }

    #[test]
    fn mean_of_one_is_itself_bit_for_bit() {
        let params = [1.5f32, -0.0, 3e-40, f32::MAX, 0.1];
        let mut average = Average::new([0f32; 5]);
        average.add(&params, 0.3).unwrap();
        let bits = |values: &[f32]| values.iter().map(|x| (x + 0.0).to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(average.mean().unwrap()), bits(&params));
    }

    #[test]
    fn mean_refuses_lengths_and_weights() {
        let mut average = Average::new([0f32; 2]);
        assert!(average.add(&[1.0], 1.0).is_err());
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(average.add(&[1.0; 2], weight).is_err());
        }
        assert!(average.mean().is_none());
    }

    #[test]
    fn averaging_begins_where_declared() {
        let half = Averaging::new(0.5).unwrap();
        let weights: Vec<_> = (0..5).map(|step| half.weight(step, 5, 0.25)).collect();
        assert_eq!(weights, [None, None, None, Some(1.0), Some(1.0)]);
        assert_eq!(half.by_learning_rate().weight(4, 5, 0.25), Some(0.25));
        assert_eq!(half.by_learning_rate().weight(4, 5, 0.0), None);
        let late = Averaging::new(0.999).unwrap();
        assert_eq!((late.weight(2, 4, 1.0), late.weight(3, 4, 1.0)), (None, Some(1.0)));
        assert!([-0.1, 1.0, f64::NAN].iter().all(|start| Averaging::new(*start).is_err()));
    }
}
