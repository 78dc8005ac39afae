//! Any method of the vectors, in the core's run-time slots.

use damper_core::clip::{Automatic, Clip, FlatL2, Layer, Layers, PerLayer};
use damper_core::filter::{
    AdaptiveFir, AdaptiveFirState, Filter, Gain, Identity, Iir, IirState, Kalman, KalmanState, LookAhead,
    PerSampleMomentum, PerSampleMomentumState, Uncorrected, named,
};
use damper_core::optimizer::{
    AdaGrad, AdaGradNorm, AdaGradNormState, AdaGradState, Adam, AdamBc, AdamBcState, AdamState, RmsProp, RmsPropState,
    Sgd, SgdState, WeightedNorm, WeightedNormState,
};
use damper_core::schedule::{AnyNoise, CltNoise, Decay, LearningRate, NoiseSchedule};
use damper_core::slots::{AnyFilter, AnyOptimizer, AnyThreshold, OptimizerSlot, StatefulSlot, ThresholdSlot};
use damper_core::step::audit::ClipRule;
use damper_core::threshold::{
    AllCounts, Bounds, CountNoise, ExpectedError, ExpectedErrorState, Fixed, Percentile, PercentileState, Quantile,
    QuantileState, Query, ReleasedCounts, Solver, StepConstants, Threshold,
};
use std::str::{FromStr, SplitAsciiWhitespace};

/// The words of a field, in order.
pub struct Words<'a>(pub SplitAsciiWhitespace<'a>);

impl<'a> Words<'a> {
    pub fn of(field: &'a str) -> Self {
        Self(field.split_ascii_whitespace())
    }

    pub fn word(&mut self) -> &'a str {
        self.0.next().expect("the field has another word")
    }

    pub fn number<T: FromStr>(&mut self) -> T {
        let word = self.word();
        word.parse().unwrap_or_else(|_| panic!("{word} is not a number"))
    }

    pub fn f32(&mut self) -> f32 {
        f32::from_bits(u32::from_str_radix(self.word(), 16).expect("bits of an f32"))
    }

    pub fn f64(&mut self) -> f64 {
        f64::from_bits(u64::from_str_radix(self.word(), 16).expect("bits of an f64"))
    }

    fn bounds(&mut self) -> Bounds {
        Bounds::new(self.f32(), self.f32()).unwrap()
    }
}

#[derive(Clone, Copy)]
pub enum AnyClip<'a> {
    Flat(FlatL2),
    Automatic(Automatic),
    LayersFlat(PerLayer<'a, FlatL2>),
    LayersAutomatic(PerLayer<'a, Automatic>),
}

impl<'a> AnyClip<'a> {
    /// Parses a clip rule. `layers` is the memory for its layers.
    pub fn parse(words: &mut Words<'_>, layers: &'a mut Vec<Layer>) -> Self {
        match words.word() {
            "flat" => Self::Flat(FlatL2),
            "automatic" => Self::Automatic(Automatic::new(words.f32()).unwrap()),
            "layers" => {
                let count: usize = words.number();
                layers.extend((0..count).map(|_| Layer { len: words.number(), share: words.number() }));
                let layers = Layers::new(layers).unwrap();
                match words.word() {
                    "flat" => Self::LayersFlat(PerLayer::new(FlatL2, layers).unwrap()),
                    _ => Self::LayersAutomatic(PerLayer::new(Automatic::new(words.f32()).unwrap(), layers).unwrap()),
                }
            }
            other => panic!("no way of clipping is called {other}"),
        }
    }
}

impl ClipRule for AnyClip<'_> {
    fn divisor(&self, norm: f32, clip: f32) -> f32 {
        match self {
            Self::Flat(rule) => rule.divisor(norm, clip),
            Self::Automatic(rule) => rule.divisor(norm, clip),
            Self::LayersFlat(rule) => rule.divisor(norm, clip),
            Self::LayersAutomatic(rule) => rule.divisor(norm, clip),
        }
    }

    fn layers(&self) -> Option<Layers<'_>> {
        match self {
            Self::Flat(_) | Self::Automatic(_) => None,
            Self::LayersFlat(rule) => rule.layers(),
            Self::LayersAutomatic(rule) => rule.layers(),
        }
    }
}

/// A threshold whose counts are requested without its state.
#[derive(Clone)]
pub struct Counted {
    slot: ThresholdSlot<'static>,
    all: bool,
}

impl Threshold for Counted {
    type State = &'static mut dyn AnyThreshold;
    type Counts = AllCounts<20>;

    fn counts(&self) -> AllCounts<20> {
        AllCounts::new(self.all)
    }

    fn clip(&self, state: &Self::State) -> f32 {
        self.slot.clip(state)
    }

    fn query(&self, state: &Self::State) -> Query {
        self.slot.query(state)
    }

    fn count_noise(&self) -> Option<CountNoise> {
        self.slot.count_noise()
    }

    fn update(&self, state: &mut Self::State, released: &ReleasedCounts<'_>, constants: StepConstants) {
        self.slot.update(state, released, constants);
    }
}

/// Lends a slot for the lifetime of the test program.
fn lent<T>(held: T) -> &'static mut T {
    Box::leak(Box::new(held))
}

pub fn threshold(words: &mut Words<'_>) -> (Counted, &'static mut dyn AnyThreshold) {
    fn held<C: Threshold + 'static>(config: C, state: C::State) -> (Counted, &'static mut dyn AnyThreshold) {
        let lent = lent(StatefulSlot::threshold(config, state));
        (Counted { slot: ThresholdSlot::of(lent), all: false }, lent)
    }
    match words.word() {
        "fixed" => held(Fixed(words.f32()), ()),
        "percentile" => {
            let rule: Percentile = Percentile::new(words.f64(), CountNoise::new(words.f64()).unwrap()).unwrap();
            let state = PercentileState::new(words.f32(), words.f32()).unwrap();
            held(rule.within(words.bounds()), state)
        }
        "error" => {
            let solver = if words.word() == "grid" { Solver::PaperGrid } else { Solver::Exact };
            let rule: ExpectedError = ExpectedError::new(solver, CountNoise::new(words.f64()).unwrap()).unwrap();
            let state = ExpectedErrorState::new(words.f32(), words.f32()).unwrap();
            held(rule.within(words.bounds(), words.bounds()), state)
        }
        "quantile" => {
            let rule = Quantile::new(words.f64(), words.f64(), words.f64()).unwrap();
            let state = QuantileState::new(words.f32()).unwrap();
            held(rule.within(words.bounds()), state)
        }
        "all" => {
            let (counted, inner) = threshold(words);
            (Counted { all: true, ..counted }, inner)
        }
        other => panic!("no threshold is called {other}"),
    }
}

/// A recursive filter whose first word is `kind`.
fn recursive(kind: &str, words: &mut Words<'_>, dim: usize) -> (Iir, IirState<Vec<f32>>) {
    let iir: Iir = if kind == "set" {
        let set = named(words.word()).expect("a published filter");
        Iir::new(set.a, set.b).unwrap()
    } else {
        assert_eq!(kind, "iir");
        let (a, b): (usize, usize) = (words.number(), words.number());
        let mut coefficients = |count| (0..count).map(|_| words.f32()).collect::<Vec<_>>();
        Iir::new(&coefficients(a), &coefficients(b)).unwrap()
    };
    let state = IirState::new(vec![0.0; iir.order() * dim]);
    (iir, state)
}

/// Per-sample momentum over the inner filter `inner`.
fn momentum<F>(
    iterates: usize,
    beta: f64,
    normalised: bool,
    inner: F,
    state: IirState<Vec<f32>>,
    dim: usize,
) -> &'static mut dyn AnyFilter
where
    F: Filter<IirState<Vec<f32>>> + 'static,
{
    let build = if normalised { PerSampleMomentum::<_, 8>::new } else { PerSampleMomentum::unnormalised };
    let momentum = build(iterates, beta, inner).unwrap();
    // Arbitrary memory content: it must not be read before it is written.
    let iterates = vec![7.0f32; momentum.iterates_len(dim)];
    lent(StatefulSlot::filter(momentum, PerSampleMomentumState::new(iterates, state)))
}

pub fn filter(words: &mut Words<'_>, dim: usize) -> &'static mut dyn AnyFilter {
    match words.word() {
        "identity" => lent(StatefulSlot::filter(Identity, ())),
        "momentum" => {
            let (iterates, beta) = (words.number(), words.f64());
            let normalised = words.word() == "normalised";
            match words.word() {
                "uncorrected" => {
                    let kind = words.word();
                    let (inner, state) = recursive(kind, words, dim);
                    momentum(iterates, beta, normalised, Uncorrected(inner), state, dim)
                }
                kind => {
                    let (inner, state) = recursive(kind, words, dim);
                    momentum(iterates, beta, normalised, inner, state, dim)
                }
            }
        }
        "uncorrected" => {
            let kind = words.word();
            let (iir, state) = recursive(kind, words, dim);
            lent(StatefulSlot::filter(Uncorrected(iir), state))
        }
        "adaptive" => {
            let adaptive: AdaptiveFir = AdaptiveFir::new(words.number(), words.f64(), words.f64()).unwrap();
            lent(StatefulSlot::filter(adaptive, AdaptiveFirState::new(vec![7.0f32; adaptive.memory_len(dim)])))
        }
        "kalman" => {
            let gain = match words.word() {
                "constant" => Gain::Constant(words.f64()),
                _ => Gain::Recursion { noise: words.f64(), drift: words.f64(), process: words.f64() },
            };
            let look_ahead = match words.word() {
                "one" => LookAhead::One,
                _ => LookAhead::Two { gamma: words.f64() },
            };
            let kalman = Kalman::new(gain, look_ahead).unwrap();
            let state = KalmanState::new(&kalman, vec![7.0f32; dim], vec![7.0f32; dim]);
            lent(StatefulSlot::filter(kalman, state))
        }
        kind => {
            let (iir, state) = recursive(kind, words, dim);
            lent(StatefulSlot::filter(iir, state))
        }
    }
}

pub fn optimizer(words: &mut Words<'_>, dim: usize) -> (OptimizerSlot, &'static mut dyn AnyOptimizer) {
    let zeros = || vec![0f32; dim];
    let optimizer: &'static mut dyn AnyOptimizer = match words.word() {
        "sgd" => {
            let momentum = words.f32();
            let sgd = Sgd::new(momentum, words.word() == "nesterov", words.f32()).unwrap();
            lent(StatefulSlot::optimizer(sgd, SgdState { momentum: vec![0f32; sgd.momentum_len(dim)] }))
        }
        "adam" => {
            let adam = Adam::new(words.f64(), words.f64(), words.f32(), words.f64()).unwrap();
            lent(StatefulSlot::optimizer(adam, AdamState::new(zeros(), zeros())))
        }
        "adam-floored" => {
            let adam = Adam::new(words.f64(), words.f64(), words.f32(), words.f64()).unwrap();
            lent(StatefulSlot::optimizer(adam.with_floored_denominator(), AdamState::new(zeros(), zeros())))
        }
        "adam-bc" => {
            let adam = AdamBc::new(words.f64(), words.f64(), words.f32(), words.f64()).unwrap();
            lent(StatefulSlot::optimizer(adam, AdamBcState::new(zeros(), zeros())))
        }
        "adagrad" => lent(StatefulSlot::optimizer(
            AdaGrad::new(words.f32(), words.f32()).unwrap(),
            AdaGradState { sum: zeros() },
        )),
        "rmsprop" => {
            let rmsprop = RmsProp::new(words.f64(), words.f32(), words.f32()).unwrap();
            lent(StatefulSlot::optimizer(rmsprop, RmsPropState { second: zeros() }))
        }
        "norm" => {
            let (initial, floor, subtract) = (words.f64(), words.f64(), words.word() == "subtract");
            let (inner, state) = optimizer(words, dim);
            let norm = AdaGradNorm::new(initial, floor, subtract, inner).unwrap();
            lent(StatefulSlot::optimizer(norm, AdaGradNormState::new(state)))
        }
        "weighted" => {
            let (weight, period) = (words.f64(), words.number());
            let (initial, floor, subtract) = (words.f64(), words.f64(), words.word() == "subtract");
            let (inner, state) = optimizer(words, dim);
            let norm = AdaGradNorm::new(initial, floor, subtract, inner).unwrap();
            lent(StatefulSlot::optimizer(
                WeightedNorm::new(norm, weight, period).unwrap(),
                WeightedNormState::new(state),
            ))
        }
        other => panic!("no optimizer is called {other}"),
    };
    (OptimizerSlot::of(optimizer), optimizer)
}

pub fn learning_rate(words: &mut Words<'_>) -> LearningRate {
    let (base, warmup) = (words.f64(), words.number());
    let decay = match words.word() {
        "constant" => Decay::Constant,
        "step" => Decay::Step { every: words.number(), factor: words.f64() },
        "cosine" => Decay::Cosine { steps: words.number(), floor: words.f64() },
        "polynomial" => Decay::Polynomial { offset: words.f64(), slope: words.f64() },
        "root" => Decay::RootLinear { steps: words.number(), floor: words.f64() },
        other => panic!("no learning rate is called {other}"),
    };
    LearningRate::new(base, warmup, decay).unwrap()
}

pub fn noise_schedule(words: &mut Words<'_>) -> AnyNoise {
    AnyNoise::Schedule(match words.word() {
        "constant" => NoiseSchedule::Constant,
        "matched" => NoiseSchedule::Matched { exponent: words.f64() },
        "polynomial" => NoiseSchedule::Polynomial { growth: words.f64(), exponent: words.f64() },
        "clt" => return AnyNoise::Clt(CltNoise::new(words.f64()).unwrap()),
        other => panic!("no noise schedule is called {other}"),
    })
}
