//! Correlated noise on the device: the sum of the digits in flash over ten epochs, in a fixed order.
//!
//! The 300 digits come in 100 batches of 3, always the same: 1000 steps, each digit in 10 of them, 100 steps apart. The
//! gradient of a step is minus the pixels, so the parameters end as the sum of all pixels and of all noise. The pixels
//! are known here, so subtracting them leaves the noise in the sum. The program compares it for independent noise,
//! [`Lambda`] and [`Blt`] at the same privacy cost: one release of multiplier 1.
//!
//! # Memory
//!
//! Two vectors of 64 32-bit words, and 16 bytes a parameter for the two buffers of `Blt<2>`.

use crate::digits::{self, PIXELS, TRAIN};
use crate::line::{ReportLine, RunFailure};
use damper_core::accounting::Ledger;
use damper_core::clip::FlatL2;
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::{
    Blt, ChaCha20, CorrelatedGaussian, CorrelatedState, Correlation, DiscreteGaussian, Lambda, NoiseWord, Participation,
};
use damper_core::numerics::function::sqrt_f64;
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::private::{Mechanism, SumWord};
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::Fixed;

const STEPS: u32 = 1000;
/// Steps of an epoch, which separate two uses of a digit.
const SEPARATION: u32 = 100;
const EPOCHS: u32 = 10;
/// Largest norm of a digit: 64 pixels of at most 1.
const CLIP: f32 = 8.0;
const DIM: u32 = PIXELS as u32;

/// Measures the three. Returns true on success. Every line is passed to `say`.
pub fn run(mut say: impl FnMut(ReportLine<'_>)) -> bool {
    match compare(&mut say) {
        Ok(()) => true,
        Err(failure) => {
            say(failure.line());
            false
        }
    }
}

fn compare(say: &mut dyn FnMut(ReportLine<'_>)) -> Result<(), RunFailure> {
    let (grid, order) = (Grid::new(16)?, Participation::new(STEPS, SEPARATION, EPOCHS)?.of_samples(TRAIN)?);
    // A digit moves the ten independent releases by √10 clips together.
    let independent = DiscreteGaussian::<i32>::with_multiplier(grid, sqrt_f64(f64::from(EPOCHS)))?;
    let error = f64::from(STEPS);
    say(line("independent", measure(independent, (), order)?, independent.multiplier(), error));
    correlated("lambda 15/16", Lambda::new(15, 4)?, [], grid, order, say)?;
    // `damper factorize --steps 1000 --buffers 2 --separation 100 --participations 10`
    let blt = Blt::new([0.98607187, 0.62314437], [0.23131852, 0.2725381])?;
    correlated("blt of 2", blt, [const { NoiseWord::ZERO }; 2 * PIXELS], grid, order, say)
}

/// Measures correlated noise of multiplier 1.
fn correlated<K: Correlation, B: AsMut<[NoiseWord]>>(
    name: &str,
    correlation: K,
    memory: B,
    grid: Grid,
    order: Participation,
    say: &mut dyn FnMut(ReportLine<'_>),
) -> Result<(), RunFailure> {
    let mechanism: CorrelatedGaussian<i32, K, B> =
        CorrelatedGaussian::with_multiplier(grid, 1.0, correlation, order, DIM)?;
    if mechanism.event()?.multiplier() < 1.0 {
        return Err(RunFailure::Refused("noise of a smaller multiplier than asked for"));
    }
    let measured = measure(mechanism, CorrelatedState::new(memory), order)?;
    say(line(name, measured, mechanism.multiplier(), correlation.error(order)));
    Ok(())
}

/// Returns the line with the deviations in hundredths of a clip: the measured deviation, and `σ·√E` of noise with this
/// multiplier.
fn line(noise: &str, measured: f64, multiplier: f64, error: f64) -> ReportLine<'_> {
    let hundredths = |x: f64| (100.0 * x) as u32;
    ReportLine::PrefixNoise {
        noise,
        measured: hundredths(measured / f64::from(CLIP)),
        theory: hundredths(multiplier * sqrt_f64(error)),
    }
}

/// Returns the deviation of the noise in the sum over all steps.
fn measure<M: Mechanism<Word = SumWord<i32>>>(
    mechanism: M,
    noise: M::NoiseState,
    order: Participation,
) -> Result<f64, RunFailure> {
    let step = PrivateStep::new(Slots {
        mechanism,
        clip: FlatL2,
        threshold: Fixed(CLIP),
        filter: Identity,
        optimizer: Sgd::new(0.0, false, 0.0)?,
        schedule: Constant(1.0),
        expected_batch: 1,
    })?;
    // A product takes its key from the chip's true random generator, and keeps its ledger in flash.
    let generator = ChaCha20::<1>::simulation(2026);
    let mut ledger = Ledger::volatile(STEPS);
    let (mut params, mut grad) = ([0.0f32; PIXELS], [0.0f32; PIXELS]);
    let mut state =
        StepState::new([SumWord::ZERO; PIXELS], (), SgdState { momentum: [0.0f32; 0] }, ()).with_noise(noise);
    while let Some(mut open) = step.begin(&mut state, &mut ledger).map_err(|_| RunFailure::Refused("a step"))? {
        for digit in order.batch(open.number()).unwrap_or_default().filter_map(digits::train) {
            for (grad, pixel) in grad.iter_mut().zip(digit.inputs()) {
                *grad = -pixel;
            }
            open.add(&grad)?;
        }
        open.finish(&mut params, &generator)?;
    }
    // Each digit came once an epoch.
    for digit in (0..TRAIN).filter_map(digits::train) {
        for (sum, pixel) in params.iter_mut().zip(digit.inputs()) {
            *sum -= EPOCHS as f32 * pixel;
        }
    }
    let square = params.iter().fold(0.0, |square, left| square + f64::from(*left) * f64::from(*left));
    Ok(sqrt_f64(square / f64::from(DIM)))
}
