//! The location of a run's exact sum: the processor, or the device of its backend.

use crate::config::noise_correlation::NoiseCorrelation;
use crate::{NoiseKind, TrainConfig};
use damper_grad::Readout;
use damper_runtime::Choice;

/// The location of a run's exact sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SumPlace {
    /// The processor: the backend has no device, or the sum is not exact.
    Processor,
    /// The processor, for this reason, although the backend has a device. Each sample's gradient is copied to the
    /// processor.
    ProcessorFor(&'static str),
    /// The device of the backend.
    Device,
}

impl SumPlace {
    /// Returns the location for a run with these settings.
    pub(crate) fn of(config: &TrainConfig) -> Self {
        // onnxruntime with standard operators runs the graphs that devices run.
        let has_device = matches!(config.backend, Choice::Cuda | Choice::OrtStandard);
        if !has_device || config.readout != Readout::PerSample || config.noise != NoiseKind::Discrete {
            return Self::Processor;
        }
        let reasons = [
            (config.noise_correlation != NoiseCorrelation::None, "its noise is correlated over the steps"),
            (config.method.filter.gradients_per_sample() > 1, "its filter takes several gradients of each sample"),
            (config.augment.is_some_and(|augment| augment.views.get() > 1), "each sample has several views"),
            (config.record.is_some(), "the run is recorded"),
            (config.cache_frozen.is_some(), "its frozen part is computed once"),
        ];
        match reasons.into_iter().find(|(applies, _)| *applies) {
            Some((_, reason)) => Self::ProcessorFor(reason),
            None => Self::Device,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::FilterChoice;
    use crate::{Budget, Method};
    use damper_core::noise::Lambda;
    use damper_data::{Augment, Motion};
    use std::num::NonZeroU32;

    #[test]
    fn settings_decide_the_place() {
        let plain = TrainConfig::new(Budget::NoiseMultiplier(1.0), 1e-5, 10, 1.0, Method::dp_sgd(1.0, 0.1));
        let cuda = TrainConfig { backend: Choice::Cuda, ..plain };
        assert_eq!(SumPlace::of(&cuda), SumPlace::Device);
        for backend in [Choice::Auto, Choice::Ort, Choice::Tract, Choice::Portable] {
            assert_eq!(SumPlace::of(&TrainConfig { backend, ..cuda.clone() }), SumPlace::Processor);
        }
        let floats = TrainConfig { noise: NoiseKind::Continuous, ..cuda.clone() };
        assert_eq!(SumPlace::of(&floats), SumPlace::Processor);
        let views = |views| {
            let views = NonZeroU32::new(views).unwrap();
            Some(Augment { motion: Motion::Shift(1), flip: false, views })
        };
        assert_eq!(SumPlace::of(&TrainConfig { augment: views(1), ..cuda.clone() }), SumPlace::Device);
        let mut two_points = cuda.clone();
        two_points.method.filter = FilterChoice::Disk { kappa: 0.7, gain_recursion: None, gamma: Some(0.5) };
        let correlated = NoiseCorrelation::Lambda(Lambda::new(1, 2).unwrap());
        for config in [
            TrainConfig { augment: views(2), ..cuda.clone() },
            TrainConfig { noise_correlation: correlated, ..cuda.clone() },
            two_points,
        ] {
            assert!(matches!(SumPlace::of(&config), SumPlace::ProcessorFor(_)));
        }
    }
}
