//! Builder for DP-SGD: flat clipping, exact discrete Gaussian noise, SGD at a constant learning rate.
//!
//! Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, algorithm 1. The noise is that of
//! [`DiscreteGaussian`]. Other methods fill the [`Slots`] directly.
//!
//! # Memory
//!
//! [`DpSgdState`]: 8 bytes a parameter, half of them for the momentum.

use crate::accounting::Rate;
use crate::clip::FlatL2;
use crate::error::ConfigError;
use crate::filter::Identity;
use crate::grid::Grid;
use crate::noise::DiscreteGaussian;
use crate::optimizer::{Sgd, SgdState};
use crate::private::{Mechanism as _, SumWord};
use crate::schedule::Constant;
use crate::step::{Open, PrivateStep, Slots, StepState};
use crate::threshold::Fixed;

/// Builder of a DP-SGD configuration. Clip, noise multiplier, learning rate and expected batch must be set.
///
/// ```
/// use damper_core::prelude::*;
///
/// let config = DpSgd::new()
///     .clip(1.0)
///     .noise_multiplier(1.1)
///     .learning_rate(0.1)
///     .momentum(0.9)
///     .nesterov()
///     .weight_decay(1e-4)
///     .grid_bits(18)
///     .expected_batch(60)
///     .poisson_batches(Rate::of(60, 1797)?, 1797)
///     .build()?;
/// let event = config.event_at(0, Rate::of(60, 1797)?)?;
/// assert!(event.multiplier() >= 1.1);
/// let mut state = config.state::<650>();
/// assert!(config.open(&mut state, &mut Ledger::volatile(1)).is_ok());
/// assert_eq!(DpSgd::new().build().unwrap_err().parameter, "clip");
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DpSgd {
    clip: Option<f32>,
    noise_multiplier: Option<f64>,
    learning_rate: Option<f64>,
    expected_batch: Option<u32>,
    draw: Option<(Rate, u32)>,
    momentum: f32,
    nesterov: bool,
    weight_decay: f32,
    grid_bits: u32,
}

/// A validated configuration of DP-SGD.
pub type DpSgdConfig = PrivateStep;
/// State of DP-SGD on `D` parameters.
pub type DpSgdState<const D: usize> = StepState<[SumWord<i32>; D], (), SgdState<[f32; D]>>;
/// An open step of DP-SGD on `D` parameters.
pub type DpSgdStep<'a, const D: usize> = Open<'a, DpSgdConfig, (), SgdState<[f32; D]>>;

impl DpSgd {
    /// Creates a builder with no required setting, without momentum and weight decay, on a grid of 2¹⁶ units per clip.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            clip: None,
            noise_multiplier: None,
            learning_rate: None,
            expected_batch: None,
            draw: None,
            momentum: 0.0,
            nesterov: false,
            weight_decay: 0.0,
            grid_bits: 16,
        }
    }

    /// Sets the clip `C`: the largest Euclidean norm of a sample's contribution to the sum.
    #[must_use]
    pub const fn clip(self, clip: f32) -> Self {
        Self { clip: Some(clip), ..self }
    }

    /// Sets the standard deviation of the noise divided by the clip.
    #[must_use]
    pub const fn noise_multiplier(self, multiplier: f64) -> Self {
        Self { noise_multiplier: Some(multiplier), ..self }
    }

    /// Sets the learning rate.
    #[must_use]
    pub const fn learning_rate(self, rate: f64) -> Self {
        Self { learning_rate: Some(rate), ..self }
    }

    /// Sets the divisor of the sum: the average number of samples in a batch.
    #[must_use]
    pub const fn expected_batch(self, samples: u32) -> Self {
        Self { expected_batch: Some(samples), ..self }
    }

    /// Sets Poisson sampling: each step takes each of `samples` samples with probability `rate`
    /// ([`Open::poisson_batch`]). Without it, the caller samples the batches, at the sampling rate of the accounting.
    #[must_use]
    pub const fn poisson_batches(self, rate: Rate, samples: u32) -> Self {
        Self { draw: Some((rate, samples)), ..self }
    }

    /// Sets the momentum, from 0 to below 1.
    #[must_use]
    pub const fn momentum(self, momentum: f32) -> Self {
        Self { momentum, ..self }
    }

    /// Selects Nesterov momentum.
    #[must_use]
    pub const fn nesterov(self) -> Self {
        Self { nesterov: true, ..self }
    }

    /// Sets the weight decay, as in `torch.optim.SGD`.
    #[must_use]
    pub const fn weight_decay(self, decay: f32) -> Self {
        Self { weight_decay: decay, ..self }
    }

    /// Sets a grid of 2^`bits` units per clip. Fewer bits allow larger batches in a sum of `i32`, but increase the
    /// rounding error.
    #[must_use]
    pub const fn grid_bits(self, bits: u32) -> Self {
        Self { grid_bits: bits, ..self }
    }

    /// Validates the settings and builds the configuration.
    ///
    /// # Errors
    ///
    /// Fails if a setting is missing or out of its range, or if sums of this batch could overflow on this grid.
    pub fn build(self) -> Result<DpSgdConfig, ConfigError> {
        let clip = set("clip", self.clip)?;
        let expected_batch = set("expected_batch", self.expected_batch)?;
        let multiplier = set("noise multiplier", self.noise_multiplier)?;
        let mechanism = DiscreteGaussian::with_multiplier(Grid::new(self.grid_bits)?, multiplier)?;
        mechanism.check_clip(clip)?;
        mechanism.check_noise()?;
        if mechanism.grid().may_overflow_i32(expected_batch, mechanism.sigma()) {
            return Err(ConfigError::new(
                "expected_batch",
                "smaller, or the grid of fewer bits: sums could overflow 32 bits",
            ));
        }
        let step = PrivateStep::new(Slots {
            filter: Identity,
            optimizer: Sgd::new(self.momentum, self.nesterov, self.weight_decay)?,
            mechanism,
            threshold: Fixed(clip),
            clip: FlatL2,
            schedule: Constant(set("learning rate", self.learning_rate)?),
            expected_batch,
        })?;
        match self.draw {
            Some((rate, samples)) => step.with_poisson_batches(rate, samples),
            None => Ok(step),
        }
    }
}

impl Default for DpSgd {
    fn default() -> Self {
        Self::new()
    }
}

fn set<T>(parameter: &'static str, value: Option<T>) -> Result<T, ConfigError> {
    value.ok_or(ConfigError::new(parameter, "set"))
}

impl DpSgdConfig {
    /// Returns the state of a run on `D` parameters before its first step.
    #[must_use]
    pub const fn state<const D: usize>(&self) -> DpSgdState<D> {
        DpSgdState::zeros()
    }
}

impl<const D: usize> DpSgdState<D> {
    /// Returns the state of a run before its first step. A `static` can hold it, so that it is never on the stack.
    ///
    /// ```
    /// use damper_core::prelude::*;
    ///
    /// // In a `static`, without a configuration.
    /// static STATE: DpSgdState<650> = DpSgdState::zeros();
    /// assert_eq!(STATE.optimizer.momentum, [0.0; 650]);
    /// ```
    #[must_use]
    pub const fn zeros() -> Self {
        Self::new([SumWord::ZERO; D], (), SgdState { momentum: [0.0; D] }, ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::Ledger;
    use crate::noise::NoiseRng;

    extern crate std;

    const FULL: DpSgd = DpSgd::new().clip(1.0).noise_multiplier(1.0).learning_rate(0.5).expected_batch(4);

    #[test]
    fn build_refuses_by_name() {
        assert!(FULL.build().is_ok());
        let name = |builder: DpSgd| builder.build().unwrap_err().parameter;
        assert_eq!(name(DpSgd { clip: None, ..FULL }), "clip");
        assert_eq!(name(DpSgd { noise_multiplier: None, ..FULL }), "noise multiplier");
        assert_eq!(name(DpSgd { learning_rate: None, ..FULL }), "learning rate");
        assert_eq!(name(DpSgd { expected_batch: None, ..FULL }), "expected_batch");
        assert_eq!(name(FULL.expected_batch(9000)), "expected_batch");
        assert_eq!(name(FULL.clip(f32::NAN)), "clip");
        assert_eq!(name(FULL.noise_multiplier(0.0)), "noise multiplier");
        assert_eq!(name(FULL.learning_rate(-1.0)), "learning rate");
        assert_eq!(name(FULL.momentum(1.0)), "momentum");
        assert_eq!(name(FULL.nesterov()), "momentum");
        assert_eq!(name(FULL.weight_decay(f32::INFINITY)), "weight decay");
    }

    #[test]
    fn builder_runs_the_step_of_its_slots() {
        for momentum in [0.0, 0.9] {
            let built = FULL.momentum(momentum).weight_decay(0.01).build().unwrap();
            let slots = PrivateStep::new(Slots {
                mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16).unwrap(), 1.0).unwrap(),
                clip: FlatL2,
                threshold: Fixed(1.0),
                filter: Identity,
                optimizer: Sgd::new(momentum, false, 0.01).unwrap(),
                schedule: Constant(0.5),
                expected_batch: 4,
            });
            assert_eq!(built, slots.unwrap());
            let (mut state, mut ledger, mut params) = (built.state::<3>(), Ledger::volatile(5), [0.25f32; 3]);
            let noise = NoiseRng::simulation(7);
            while let Some(mut step) = built.begin(&mut state, &mut ledger).unwrap() {
                step.add(&[0.5, -3.0, 0.1]).unwrap();
                step.finish(&mut params, &noise).unwrap();
            }
            assert!(ledger.charged_steps() == 5 && params.iter().all(|param| *param != 0.25));
            assert!(momentum > 0.0 || state.optimizer.momentum == [0.0; 3]);
        }
    }
}
