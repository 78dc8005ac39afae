//! Every method of the papers as `train` runs it: the slots of the step, and the choice of the build.

use super::run::{DeviceRun, EXPECTED_BATCH};
use crate::line::RunFailure;
use damper_core::clip::{Automatic, Clip, FlatL2, Layer, Layers, PerLayer};
use damper_core::error::ConfigError;
use damper_core::filter::{
    Gain, Identity, Iir, IirState, Kalman, KalmanState, LookAhead, PerSampleMomentum, PerSampleMomentumState,
};
use damper_core::grid::Grid;
use damper_core::noise::DiscreteGaussian;
use damper_core::optimizer::{
    AdaGrad, AdaGradState, Adam, AdamBc, AdamBcState, AdamState, RmsProp, RmsPropState, Sgd, SgdState,
};
use damper_core::schedule::{Constant, Decay, Declared, LearningRate, NoiseSchedule, Schedule};
use damper_core::step::Slots;
use damper_core::threshold::{
    CountNoise, ExpectedError, ExpectedErrorState, Fixed, Percentile, PercentileState, Quantile, QuantileState, Solver,
    Threshold,
};

/// A method by name.
pub type NamedMethod<const D: usize> = (&'static str, fn(DeviceRun<'_, D>) -> Result<(), RunFailure>);

/// Refuses a build with two of these features.
macro_rules! at_most_one {
    ($first:literal $($other:literal)+) => {
        #[cfg(all(feature = $first, any($(feature = $other),+)))]
        compile_error!(concat!("a build trains by one method: besides `", $first, "` another feature method-... is chosen"));
        at_most_one!($($other)+);
    };
    ($last:literal) => {};
}

/// Defines the methods, and the feature that chooses each. Without any of them it is DP-SGD.
macro_rules! methods {
    ($($name:literal $feature:literal $run:ident;)+) => {
        /// Returns all of them.
        pub fn all<const D: usize>() -> impl Iterator<Item = NamedMethod<D>> {
            let methods: &[NamedMethod<D>] = &[("dp-sgd", dp_sgd), $(($name, $run)),+];
            methods.iter().copied()
        }

        /// Returns the method that the build chose.
        #[must_use]
        pub fn chosen<const D: usize>() -> NamedMethod<D> {
            $(if cfg!(feature = $feature) {
                return ($name, $run);
            })+
            ("dp-sgd", dp_sgd)
        }

        at_most_one!($($feature)+);
    };
}

methods! {
    "doppler" "method-doppler" doppler;
    "dp-pmlf" "method-dp-pmlf" dp_pmlf;
    "disk" "method-disk" disk;
    "inner-outer" "method-inner-outer" inner_outer;
    "dc-sgd-p" "method-dc-sgd-p" dc_sgd_p;
    "dc-sgd-e" "method-dc-sgd-e" dc_sgd_e;
    "quantile" "method-quantile" quantile;
    "adp" "method-adp" adp;
    "automatic" "method-automatic" automatic;
    "per-layer" "method-per-layer" per_layer;
    "adam" "method-adam" adam;
    "adam-bc" "method-adam-bc" adam_bc;
    "adagrad" "method-adagrad" adagrad;
    "rmsprop" "method-rmsprop" rmsprop;
}

type Exact<C, T, F, O, S> = Slots<F, O, DiscreteGaussian<i32>, T, C, S>;

/// Returns a step with these slots, and noise of multiplier 1 on a grid of 16 bits.
fn slots<C, T, F, O, S>(
    (clip, threshold): (C, T),
    filter: F,
    (optimizer, schedule): (O, S),
) -> Result<Exact<C, T, F, O, S>, ConfigError> {
    let mechanism = DiscreteGaussian::with_multiplier(Grid::new(16)?, 1.0)?;
    // Sums would wrap, which is private but useless.
    if mechanism.grid().may_overflow_i32(EXPECTED_BATCH, mechanism.sigma()) {
        return Err(ConfigError { parameter: "grid bits", must_be: "fewer for so large a batch" });
    }
    Ok(Slots { mechanism, clip, threshold, filter, optimizer, schedule, expected_batch: EXPECTED_BATCH })
}

const FLAT: (FlatL2, Fixed) = (FlatL2, Fixed(1.0));

/// Returns plain SGD.
fn sgd(lr: f64) -> Result<(Sgd, Constant), ConfigError> {
    Ok((Sgd::new(0.0, false, 0.0)?, Constant(lr)))
}

/// Trains with momentum and no filter.
fn with_momentum<const D: usize, C: Clip, T: Threshold, S: Schedule>(
    run: DeviceRun<'_, D>,
    clip: (C, T),
    threshold: T::State,
    schedule: S,
) -> Result<(), RunFailure> {
    let mut momentum = [0.0; D];
    let optimizer = SgdState { momentum: &mut momentum[..] };
    run.train(slots(clip, Identity, (Sgd::new(0.9, false, 0.0)?, schedule))?, (), threshold, optimizer, &mut [])
}

fn dp_sgd<const D: usize>(run: DeviceRun<'_, D>) -> Result<(), RunFailure> {
    with_momentum(run, FLAT, (), Constant(0.5))
}

/// Returns `p5` of DP-PMLF's Table 4.
fn low_pass() -> Result<Iir<1>, ConfigError> {
    Iir::new(&[-0.9], &[0.05, 0.05])
}

fn doppler<const D: usize>(run: DeviceRun<'_, D>) -> Result<(), RunFailure> {
    let mut memory = [0.0; D];
    let filter = IirState::new(&mut memory[..]);
    run.train(slots(FLAT, low_pass()?, sgd(4.0)?)?, filter, (), SgdState { momentum: [] }, &mut [])
}

fn dp_pmlf<const D: usize>(run: DeviceRun<'_, D>) -> Result<(), RunFailure> {
    let (mut iterates, mut memory) = ([0.0; D], [0.0; D]);
    let filter = PerSampleMomentumState::new(&mut iterates[..], IirState::new(&mut memory[..]));
    let slots = slots(FLAT, PerSampleMomentum::<_, 2>::new(2, 0.5, low_pass()?)?, sgd(4.0)?)?;
    run.train(slots, filter, (), SgdState { momentum: [] }, &mut [[0.0; D]; 2])
}

fn disk<const D: usize>(run: DeviceRun<'_, D>) -> Result<(), RunFailure> {
    let (mut filtered, mut moved) = ([0.0; D], [0.0; D]);
    let kalman = Kalman::new(Gain::Constant(0.7), LookAhead::One)?;
    let filter = KalmanState::new(&kalman, &mut filtered[..], &mut moved[..]);
    run.train(slots(FLAT, kalman, sgd(4.0)?)?, filter, (), SgdState { momentum: [] }, &mut [[0.0; D]; 2])
}

fn inner_outer<const D: usize>(run: DeviceRun<'_, D>) -> Result<(), RunFailure> {
    let (mut iterates, mut momentum) = ([0.0; D], [0.0; D]);
    let filter = PerSampleMomentumState::new(&mut iterates[..], ());
    let optimizer = SgdState { momentum: &mut momentum[..] };
    let mixed = PerSampleMomentum::<_, 2>::unnormalised(2, 0.9, Identity)?;
    let slots = slots(FLAT, mixed, (Sgd::new(0.9, false, 0.0)?, Constant(0.5)))?;
    run.train(slots, filter, (), optimizer, &mut [[0.0; D]; 2])
}

fn dc_sgd_p<const D: usize>(run: DeviceRun<'_, D>) -> Result<(), RunFailure> {
    let threshold = Percentile::<20>::new(0.5, CountNoise::new(5.0)?)?;
    with_momentum(run, (FlatL2, threshold), PercentileState::new(1.0, 1.0)?, Constant(0.5))
}

fn dc_sgd_e<const D: usize>(run: DeviceRun<'_, D>) -> Result<(), RunFailure> {
    let threshold = ExpectedError::<20>::new(Solver::Exact, CountNoise::new(5.0)?)?;
    with_momentum(run, (FlatL2, threshold), ExpectedErrorState::new(1.0, 20.0)?, Constant(0.5))
}

fn quantile<const D: usize>(run: DeviceRun<'_, D>) -> Result<(), RunFailure> {
    with_momentum(run, (FlatL2, Quantile::new(0.5, 0.2, 1.5)?), QuantileState::new(1.0)?, Constant(0.5))
}

fn adp<const D: usize>(run: DeviceRun<'_, D>) -> Result<(), RunFailure> {
    let learning_rate = LearningRate::new(3.0, 0, Decay::Polynomial { offset: 20.0, slope: 1.0 })?;
    with_momentum(run, FLAT, (), Declared { learning_rate, noise: NoiseSchedule::Matched { exponent: 0.25 } })
}

fn automatic<const D: usize>(run: DeviceRun<'_, D>) -> Result<(), RunFailure> {
    with_momentum(run, (Automatic::new(0.01)?, Fixed(1.0)), (), Constant(0.5))
}

fn per_layer<const D: usize>(run: DeviceRun<'_, D>) -> Result<(), RunFailure> {
    let tensors = run.model.tensors;
    let mut layers = [Layer::equal(0, 1); 4];
    for (layer, tensor) in layers.iter_mut().zip(tensors) {
        *layer = Layer::equal(*tensor, tensors.len());
    }
    let layers = layers.get(..tensors.len()).ok_or(RunFailure::Refused("so many tensors"))?;
    with_momentum(run, (PerLayer::new(FlatL2, Layers::new(layers)?)?, Fixed(1.0)), (), Constant(0.5))
}

fn adam<const D: usize>(run: DeviceRun<'_, D>) -> Result<(), RunFailure> {
    let (mut first, mut second) = ([0.0; D], [0.0; D]);
    let optimizer = AdamState::new(&mut first[..], &mut second[..]);
    let adam = Adam::new(0.9, 0.999, 1e-8, 0.0)?;
    run.train(slots(FLAT, Identity, (adam, Constant(0.05)))?, (), (), optimizer, &mut [])
}

fn adam_bc<const D: usize>(run: DeviceRun<'_, D>) -> Result<(), RunFailure> {
    let (mut first, mut second) = ([0.0; D], [0.0; D]);
    let optimizer = AdamBcState::new(&mut first[..], &mut second[..]);
    let adam = AdamBc::new(0.9, 0.999, 1e-4, 0.0)?;
    run.train(slots(FLAT, Identity, (adam, Constant(0.05)))?, (), (), optimizer, &mut [])
}

fn adagrad<const D: usize>(run: DeviceRun<'_, D>) -> Result<(), RunFailure> {
    let mut sum = [0.0; D];
    let optimizer = AdaGradState { sum: &mut sum[..] };
    run.train(slots(FLAT, Identity, (AdaGrad::new(1e-10, 0.0)?, Constant(0.2)))?, (), (), optimizer, &mut [])
}

fn rmsprop<const D: usize>(run: DeviceRun<'_, D>) -> Result<(), RunFailure> {
    let mut second = [0.0; D];
    let optimizer = RmsPropState { second: &mut second[..] };
    run.train(slots(FLAT, Identity, (RmsProp::new(0.99, 1e-8, 0.0)?, Constant(0.02)))?, (), (), optimizer, &mut [])
}
