//! The table of methods: every filter with every optimizer, and every other pair of choices.

use crate::harness::Sample;
use crate::method::{ClipChoice, FilterChoice, Method, OptimizerChoice, PLAIN, ThresholdChoice};
use damper_core::filter::{Gain, LookAhead};
use damper_core::noise::{Address, ChaCha20, Generator, Purpose};
use damper_core::schedule::{Decay, NoiseSchedule};
use rand_core::Rng;

const fn momentum(iterates: usize, beta: f64, normalised: bool, inner: Option<&'static str>) -> FilterChoice {
    FilterChoice::Momentum { iterates, beta, normalised, inner }
}

const fn disk(kappa: f64, look_ahead: LookAhead) -> FilterChoice {
    FilterChoice::Kalman(Gain::Constant(kappa), look_ahead)
}

const RECURSION: Gain = Gain::Recursion { noise: 1.0, drift: 0.1, process: 0.05 };

pub const FILTERS: &[FilterChoice] = &[
    FilterChoice::Identity,
    FilterChoice::Iir("momentum"),
    FilterChoice::Iir("d2"),
    FilterChoice::Iir("f6"),
    FilterChoice::Iir("p6"),
    momentum(1, 0.5, true, Some("p6")),
    momentum(2, 0.1, true, Some("f6")),
    momentum(2, -0.3, true, None),
    momentum(4, 0.9, true, Some("momentum")),
    momentum(2, 0.5, false, None),
    momentum(4, 1.0, false, Some("d2")),
    disk(0.7, LookAhead::One),
    disk(0.5, LookAhead::Two { gamma: 0.7 }),
    disk(0.7, LookAhead::Two { gamma: 0.5 }),
    disk(0.7, LookAhead::Two { gamma: -1.0 }),
    disk(0.7, LookAhead::Two { gamma: 0.2 }),
    FilterChoice::Kalman(RECURSION, LookAhead::One),
    FilterChoice::Kalman(RECURSION, LookAhead::Two { gamma: 0.5 }),
];

pub const CLIPS: &[ClipChoice] = &[
    ClipChoice::Flat,
    ClipChoice::Automatic,
    ClipChoice::EqualLayers,
    ClipChoice::UnequalLayers,
    ClipChoice::EqualLayersAutomatic,
];

pub const THRESHOLDS: &[ThresholdChoice] = &[
    ThresholdChoice::Fixed,
    ThresholdChoice::Percentile,
    ThresholdChoice::ByGrid,
    ThresholdChoice::Exact,
    ThresholdChoice::Quantile,
];

pub const NOISES: &[NoiseSchedule] = &[
    NoiseSchedule::Constant,
    NoiseSchedule::Matched { exponent: 0.5 },
    NoiseSchedule::Polynomial { growth: 0.05, exponent: 0.5 },
    NoiseSchedule::Polynomial { growth: 1.0, exponent: 0.25 },
];

pub const OPTIMIZERS: &[OptimizerChoice] = &[
    OptimizerChoice::Sgd,
    OptimizerChoice::Momentum,
    OptimizerChoice::Nesterov,
    OptimizerChoice::Adam,
    OptimizerChoice::AdamW,
    OptimizerChoice::AdamBc,
    OptimizerChoice::AdaGrad,
    OptimizerChoice::RmsProp,
    OptimizerChoice::AdaGradNorm,
];

/// A decaying rate as in ADP's experiments.
pub const FALLING: (f64, u32, Decay) = (0.2, 0, Decay::Polynomial { offset: 20.0, slope: 1.0 });

/// The table.
pub fn methods() -> Vec<Method> {
    let pick = |f: usize, o: usize| Method {
        filter: FILTERS[f],
        clip: CLIPS[(f + o) % CLIPS.len()],
        threshold: THRESHOLDS[(f + 2 * o) % THRESHOLDS.len()],
        optimizer: OPTIMIZERS[o],
        noise: NOISES[(f + o) % NOISES.len()],
        learning_rate: FALLING,
        ..PLAIN
    };
    (0..FILTERS.len()).flat_map(|f| (0..OPTIMIZERS.len()).map(move |o| pick(f, o))).collect()
}

#[test]
fn every_pair_of_choices_is_in_the_table() {
    let methods = methods();
    let has = |wanted: &dyn Fn(&Method) -> bool| assert!(methods.iter().any(wanted));
    for clip in CLIPS {
        THRESHOLDS.iter().for_each(|x| has(&|m| m.clip == *clip && m.threshold == *x));
        NOISES.iter().for_each(|x| has(&|m| m.clip == *clip && m.noise == *x));
        FILTERS.iter().for_each(|x| has(&|m| m.clip == *clip && m.filter == *x));
        OPTIMIZERS.iter().for_each(|x| has(&|m| m.clip == *clip && m.optimizer == *x));
    }
    for threshold in THRESHOLDS {
        NOISES.iter().for_each(|x| has(&|m| m.threshold == *threshold && m.noise == *x));
        FILTERS.iter().for_each(|x| has(&|m| m.threshold == *threshold && m.filter == *x));
        OPTIMIZERS.iter().for_each(|x| has(&|m| m.threshold == *threshold && m.optimizer == *x));
    }
    for noise in NOISES {
        FILTERS.iter().for_each(|x| has(&|m| m.noise == *noise && m.filter == *x));
        OPTIMIZERS.iter().for_each(|x| has(&|m| m.noise == *noise && m.optimizer == *x));
    }
}

/// Random values from a seed.
pub struct Noise(<ChaCha20 as Generator>::Stream<'static>);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Self(Box::leak(Box::new(ChaCha20::<1>::simulation(seed))).stream(Address {
            purpose: Purpose::Augmentation,
            step: 0,
            chunk: 0,
        }))
    }

    /// A random integer below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0.next_u32() as usize % n
    }

    /// A random value from −1 to 1.
    pub fn signed(&mut self) -> f32 {
        self.0.next_u32() as i32 as f32 / 2_147_483_648.0
    }

    pub fn vector(&mut self, dim: usize, scale: f32) -> Vec<f32> {
        (0..dim).map(|_| scale * self.signed()).collect()
    }
}

/// A sample whose gradient depends on its evaluation point.
pub fn bowl(noise: &mut Noise, dim: usize) -> Sample {
    let scale = 2f32.powi(noise.below(6) as i32 - 3);
    Sample::Bowl { curvature: noise.vector(dim, scale), centre: noise.vector(dim, 1.0) }
}

/// Batches of 0 to 9 samples. A fifth of them, and the first for odd seeds, are empty.
pub fn batches(seed: u64, steps: usize, dim: usize) -> Vec<Vec<Sample>> {
    let mut noise = Noise::new(seed);
    (0..steps)
        .map(|t| {
            let empty = noise.below(5) == 0 || (t == 0 && seed % 2 == 1);
            let count = if empty { 0 } else { noise.below(10) };
            (0..count).map(|_| bowl(&mut noise, dim)).collect()
        })
        .collect()
}
