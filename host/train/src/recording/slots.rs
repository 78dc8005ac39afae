//! The slots of a step in a pack, field by field as the grammar of `damper_replay` lists them.

use crate::filter::Coefficients;
use crate::replay::PackWriter;
use crate::{
    Clipping, FilterChoice, NormStep, OptimizerChoice, PerSample, Run, ThresholdChoice, ThresholdRule, TrainError,
};
use damper_core::clip::Layer;
use damper_core::described::Kind;
use damper_core::filter::{Gain, LookAhead};
use damper_core::schedule::{Decay, NoiseSchedule};
use damper_core::threshold::{Bounds, Solver};

pub(super) fn clip(pack: &mut PackWriter, clipping: Clipping, layers: &[Layer]) {
    match clipping {
        Clipping::Flat | Clipping::PerLayer => pack.u8(0),
        Clipping::Automatic { stability } => {
            pack.u8(1);
            pack.f32(stability);
        }
    }
    pack.u8(layers.len() as u8);
    for Layer { len, share } in layers {
        pack.u32(*len as u32);
        pack.u32(*share);
    }
}

pub(super) fn threshold(pack: &mut PackWriter, choice: ThresholdChoice) {
    let wide = Bounds::default();
    let bounds = |pack: &mut PackWriter, (least, largest): (f32, f32)| {
        pack.f32(least);
        pack.f32(largest);
    };
    match choice.rule {
        ThresholdRule::Fixed => {
            pack.u8(0);
            pack.f32(choice.clip);
        }
        ThresholdRule::Percentile { fraction, count_noise, range } => {
            pack.u8(1);
            pack.f64(fraction);
            pack.f64(ThresholdChoice::noise_of(count_noise));
            pack.f32(choice.clip);
            pack.f32(range);
            bounds(pack, choice.clip_bounds());
        }
        ThresholdRule::ExpectedError { solver, count_noise, range } => {
            pack.u8(match solver {
                Solver::PaperGrid => 2,
                Solver::Exact => 3,
            });
            pack.f64(ThresholdChoice::noise_of(count_noise));
            pack.f32(choice.clip);
            pack.f32(range);
            bounds(pack, choice.clip_bounds());
            bounds(pack, (wide.min(), wide.max()));
        }
        ThresholdRule::Quantile { fraction, rate, count_noise } => {
            pack.u8(4);
            pack.f64(fraction);
            pack.f64(rate);
            pack.f64(count_noise / 2.0);
            pack.f32(choice.clip);
            bounds(pack, choice.clip_bounds());
        }
    }
}

pub(super) fn filter(pack: &mut PackWriter, choice: &FilterChoice) {
    match choice {
        FilterChoice::None => pack.u8(0),
        // What has no field was refused before the run.
        FilterChoice::AdaptiveFir { .. } => {}
        FilterChoice::Iir(coefficients) | FilterChoice::Uncorrected(coefficients) => {
            pack.u8(1);
            iir(pack, coefficients);
        }
        FilterChoice::PerSample(choice) | FilterChoice::PerSampleUncorrected(choice) => {
            let PerSample { iterates, beta, normalised, inner } = choice;
            pack.u8(if *normalised { 2 } else { 3 });
            pack.u8(*iterates as u8);
            pack.f64(*beta);
            iir(pack, inner);
        }
        FilterChoice::Kalman { gain, look_ahead } => {
            pack.u8(4);
            match *gain {
                Gain::Constant(kappa) => {
                    pack.u8(0);
                    pack.f64(kappa);
                }
                Gain::Recursion { noise, drift, process } => {
                    pack.u8(1);
                    pack.f64(noise);
                    pack.f64(drift);
                    pack.f64(process);
                }
            }
            match *look_ahead {
                LookAhead::One => pack.u8(1),
                LookAhead::Two { gamma } => {
                    pack.u8(2);
                    pack.f64(gamma);
                }
            }
        }
    }
}

/// The coefficients as they run: without those at the end that are 0, which make no order.
fn iir(pack: &mut PackWriter, coefficients: &Coefficients) {
    let run = |coefficients: &[f64]| -> Vec<f32> {
        let narrow: Vec<f32> = coefficients.iter().map(|x| *x as f32).collect();
        let len = narrow.iter().rposition(|x| *x != 0.0).map_or(0, |last| last + 1);
        narrow[..len].to_vec()
    };
    let (a, b) = (run(&coefficients.a), run(&coefficients.b));
    pack.u8(a.len() as u8);
    pack.u8(b.len() as u8);
    pack.f32s(&a);
    pack.f32s(&b);
}

pub(super) fn optimizer(pack: &mut PackWriter, choice: OptimizerChoice) {
    if let Some(NormStep { initial, floor, subtract_noise }) = choice.norm_step {
        pack.u8(if subtract_noise { 9 } else { 8 });
        pack.f64(initial);
        pack.f64(floor);
    }
    let switch = usize::from(choice.rule.switch() == Some(true));
    // What has no kind was refused before the run.
    pack.u8(choice.rule.description().recorded.get(switch).copied().unwrap_or(u8::MAX));
    for (setting, value) in choice.rule.settings() {
        match setting.kind {
            Kind::F32 => pack.f32(value as f32),
            Kind::F64 => pack.f64(value),
            Kind::Switch | Kind::Words(_) => {}
        }
    }
}

pub(super) fn schedule(pack: &mut PackWriter, run: &Run) -> Result<(), TrainError> {
    let (warmup, decay) = run.config.method.learning_rate.in_steps(run.terms.rate, run.terms.steps)?;
    pack.f64(run.config.method.learning_rate.lr);
    pack.u32(warmup);
    match decay {
        Decay::Constant => pack.u8(0),
        Decay::Step { every, factor } => {
            pack.u8(1);
            pack.u32(every);
            pack.f64(factor);
        }
        Decay::Cosine { steps, floor } => {
            pack.u8(2);
            pack.u32(steps);
            pack.f64(floor);
        }
        Decay::Polynomial { offset, slope } => {
            pack.u8(3);
            pack.f64(offset);
            pack.f64(slope);
        }
        Decay::RootLinear { steps, floor } => {
            pack.u8(4);
            pack.u32(steps);
            pack.f64(floor);
        }
    }
    match run.config.method.noise_schedule {
        NoiseSchedule::Constant => pack.u8(0),
        NoiseSchedule::Matched { exponent } => {
            pack.u8(1);
            pack.f64(exponent);
        }
        NoiseSchedule::Polynomial { growth, exponent } => {
            pack.u8(2);
            pack.f64(growth);
            pack.f64(exponent);
        }
    }
    Ok(())
}
