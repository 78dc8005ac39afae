//! Any method that the vectors name behind one type a slot, so that one player plays every combination.

use damper_core::clip::{Automatic, Clip, FlatL2, Layer, Layers, PerLayer};
use damper_core::error::CallError;
use damper_core::filter::{
    AdaptiveFir, AdaptiveFirState, Filter, Gain, Identity, Iir, IirState, Kalman, KalmanState, LookAhead,
    PerSampleMomentum, PerSampleMomentumState, Uncorrected, named,
};
use damper_core::optimizer::{
    AdaGrad, AdaGradNorm, AdaGradNormState, AdaGradState, Adam, AdamBc, AdamBcState, AdamState, Begin, Optimizer,
    RmsProp, RmsPropState, Sgd, SgdState, WeightedNorm, WeightedNormState,
};
use damper_core::private::Released;
use damper_core::schedule::{AnyNoise, CltNoise, Decay, LearningRate, NoiseSchedule};
use damper_core::step::audit::Rule;
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
    /// `layers` is memory for the layers there may be.
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

impl Rule for AnyClip<'_> {
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

/// A slot's configuration with its memory, and of a filter or an optimizer what the pieces of the open step share.
struct Of<C, S, T = ()> {
    config: C,
    state: S,
    step: Option<T>,
}

fn of<C, S, T>(config: C, state: S) -> Of<C, S, T> {
    Of { config, state, step: None }
}

const OPEN: &str = "the step was begun";

/// The configuration of a slot that is kept with its memory.
#[derive(Clone)]
pub struct Kept;

pub trait AnyThreshold {
    fn clip(&self) -> f32;
    fn query(&self) -> Query;
    fn update(&mut self, released: &ReleasedCounts<'_>, constants: StepConstants);
}

impl<C: Threshold> AnyThreshold for Of<C, C::State> {
    fn clip(&self) -> f32 {
        self.config.clip(&self.state)
    }

    fn query(&self) -> Query {
        self.config.query(&self.state)
    }

    fn update(&mut self, released: &ReleasedCounts<'_>, constants: StepConstants) {
        self.config.update(&mut self.state, released, constants);
    }
}

/// The noise of the counts and what is counted, which are asked for without the memory.
#[derive(Clone)]
pub struct Counted {
    pub noise: Option<CountNoise>,
    all: bool,
}

impl Threshold for Counted {
    type State = Box<dyn AnyThreshold>;
    type Counts = AllCounts<20>;

    fn counts(&self) -> AllCounts<20> {
        AllCounts::new(self.all)
    }

    fn clip(&self, state: &Self::State) -> f32 {
        state.clip()
    }

    fn query(&self, state: &Self::State) -> Query {
        state.query()
    }

    fn count_noise(&self) -> Option<CountNoise> {
        self.noise
    }

    fn update(&self, state: &mut Self::State, released: &ReleasedCounts<'_>, constants: StepConstants) {
        state.update(released, constants);
    }
}

pub fn threshold(words: &mut Words<'_>) -> (Counted, Box<dyn AnyThreshold>) {
    fn boxed<C: Threshold + 'static>(config: C, state: C::State) -> (Counted, Box<dyn AnyThreshold>) {
        (Counted { noise: config.count_noise(), all: false }, Box::new(of(config, state)))
    }
    match words.word() {
        "fixed" => boxed(Fixed(words.f32()), ()),
        "percentile" => {
            let rule: Percentile = Percentile::new(words.f64(), CountNoise::new(words.f64()).unwrap()).unwrap();
            let state = PercentileState::new(words.f32(), words.f32()).unwrap();
            boxed(rule.within(words.bounds()), state)
        }
        "error" => {
            let solver = if words.word() == "grid" { Solver::PaperGrid } else { Solver::Exact };
            let rule: ExpectedError = ExpectedError::new(solver, CountNoise::new(words.f64()).unwrap()).unwrap();
            let state = ExpectedErrorState::new(words.f32(), words.f32()).unwrap();
            boxed(rule.within(words.bounds(), words.bounds()), state)
        }
        "quantile" => {
            let rule = Quantile::new(words.f64(), words.f64(), words.f64()).unwrap();
            let state = QuantileState::new(words.f32()).unwrap();
            boxed(rule.within(words.bounds()), state)
        }
        "all" => {
            let (counted, inner) = threshold(words);
            (Counted { all: true, ..counted }, inner)
        }
        other => panic!("no threshold is called {other}"),
    }
}

pub trait AnyFilter {
    fn eval_points(&self) -> usize;
    fn eval_point(&self, index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError>;
    fn weight(&self, index: usize) -> f32;
    fn check(&self, dim: usize) -> Result<(), CallError>;
    fn begin(&mut self);
    fn apply(&mut self, at: usize, released: &Released<'_>, filtered: &mut [f32]);
    fn before_update(&mut self, at: usize, params: &[f32]);
    fn after_update(&mut self, at: usize, params: &[f32]);
}

impl<C: Filter<S>, S> AnyFilter for Of<C, S, C::Step> {
    fn eval_points(&self) -> usize {
        self.config.eval_points(&self.state)
    }

    fn eval_point(&self, index: usize, params: &[f32], out: &mut [f32]) -> Result<f32, CallError> {
        self.config.eval_point(&self.state, index, params, out)
    }

    fn weight(&self, index: usize) -> f32 {
        self.config.weight(&self.state, index)
    }

    fn check(&self, dim: usize) -> Result<(), CallError> {
        self.config.check(&self.state, dim)
    }

    fn begin(&mut self) {
        self.step = Some(self.config.begin(&mut self.state));
    }

    fn apply(&mut self, at: usize, released: &Released<'_>, filtered: &mut [f32]) {
        self.config.apply(self.step.expect(OPEN), &mut self.state, at, released, filtered);
    }

    fn before_update(&mut self, at: usize, params: &[f32]) {
        self.config.before_update(self.step.expect(OPEN), &mut self.state, at, params);
    }

    fn after_update(&mut self, at: usize, params: &[f32]) {
        self.config.after_update(self.step.expect(OPEN), &mut self.state, at, params);
    }
}

impl Filter<Box<dyn AnyFilter>> for Kept {
    type Step = ();

    fn eval_points(&self, state: &Box<dyn AnyFilter>) -> usize {
        state.eval_points()
    }

    fn eval_point(
        &self,
        state: &Box<dyn AnyFilter>,
        index: usize,
        params: &[f32],
        out: &mut [f32],
    ) -> Result<f32, CallError> {
        state.eval_point(index, params, out)
    }

    fn weight(&self, state: &Box<dyn AnyFilter>, index: usize) -> f32 {
        state.weight(index)
    }

    fn check(&self, state: &Box<dyn AnyFilter>, dim: usize) -> Result<(), CallError> {
        state.check(dim)
    }

    fn begin(&self, state: &mut Box<dyn AnyFilter>) {
        state.begin();
    }

    fn apply(&self, (): (), state: &mut Box<dyn AnyFilter>, at: usize, released: &Released<'_>, filtered: &mut [f32]) {
        state.apply(at, released, filtered);
    }

    fn before_update(&self, (): (), state: &mut Box<dyn AnyFilter>, at: usize, params: &[f32]) {
        state.before_update(at, params);
    }

    fn after_update(&self, (): (), state: &mut Box<dyn AnyFilter>, at: usize, params: &[f32]) {
        state.after_update(at, params);
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

/// Per-sample momentum before `inner`.
fn momentum<F>(
    iterates: usize,
    beta: f64,
    normalised: bool,
    inner: F,
    state: IirState<Vec<f32>>,
    dim: usize,
) -> Box<dyn AnyFilter>
where
    F: Filter<IirState<Vec<f32>>> + 'static,
{
    let build = if normalised { PerSampleMomentum::<_, 8>::new } else { PerSampleMomentum::unnormalised };
    let momentum = build(iterates, beta, inner).unwrap();
    // Memory of any content: it must not be read before it was written.
    let iterates = vec![7.0f32; momentum.iterates_len(dim)];
    Box::new(of(momentum, PerSampleMomentumState::new(iterates, state)))
}

pub fn filter(words: &mut Words<'_>, dim: usize) -> Box<dyn AnyFilter> {
    match words.word() {
        "identity" => Box::new(of(Identity, ())),
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
            Box::new(of(Uncorrected(iir), state))
        }
        "adaptive" => {
            let adaptive: AdaptiveFir = AdaptiveFir::new(words.number(), words.f64(), words.f64()).unwrap();
            Box::new(of(adaptive, AdaptiveFirState::new(vec![7.0f32; adaptive.memory_len(dim)])))
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
            Box::new(of(kalman, state))
        }
        kind => {
            let (iir, state) = recursive(kind, words, dim);
            Box::new(of(iir, state))
        }
    }
}

pub trait AnyOptimizer {
    fn check(&self, dim: usize) -> Result<(), CallError>;
    fn needs_full_gradient(&self) -> bool;
    fn observe(&mut self, at: usize, released: &Released<'_>);
    fn begin(&mut self, begin: Begin);
    fn update(&mut self, at: usize, params: &mut [f32], filtered: &Released<'_>, released: &Released<'_>);
    fn end(&mut self, params: &mut [f32]);
}

impl<C: Optimizer<S>, S> AnyOptimizer for Of<C, S, C::Step> {
    fn check(&self, dim: usize) -> Result<(), CallError> {
        self.config.check(&self.state, dim)
    }

    fn needs_full_gradient(&self) -> bool {
        self.config.needs_full_gradient()
    }

    fn observe(&mut self, at: usize, released: &Released<'_>) {
        self.config.observe(&mut self.state, at, released);
    }

    fn begin(&mut self, begin: Begin) {
        self.step = Some(self.config.begin(&mut self.state, begin));
    }

    fn update(&mut self, at: usize, params: &mut [f32], filtered: &Released<'_>, released: &Released<'_>) {
        self.config.update(self.step.expect(OPEN), &mut self.state, at, params, filtered, released);
    }

    fn end(&mut self, params: &mut [f32]) {
        self.config.end(self.step.expect(OPEN), &mut self.state, params);
    }
}

/// Whether the optimizer looks ahead, which is asked for without the memory.
#[derive(Clone)]
pub struct Looking(bool);

impl Optimizer<Box<dyn AnyOptimizer>> for Looking {
    type Step = ();

    fn check(&self, state: &Box<dyn AnyOptimizer>, dim: usize) -> Result<(), CallError> {
        state.check(dim)
    }

    fn needs_full_gradient(&self) -> bool {
        self.0
    }

    fn observe(&self, state: &mut Box<dyn AnyOptimizer>, at: usize, released: &Released<'_>) {
        state.observe(at, released);
    }

    fn begin(&self, state: &mut Box<dyn AnyOptimizer>, begin: Begin) {
        state.begin(begin);
    }

    fn update(
        &self,
        (): (),
        state: &mut Box<dyn AnyOptimizer>,
        at: usize,
        params: &mut [f32],
        filtered: &Released<'_>,
        released: &Released<'_>,
    ) {
        state.update(at, params, filtered, released);
    }

    fn end(&self, (): (), state: &mut Box<dyn AnyOptimizer>, params: &mut [f32]) {
        state.end(params);
    }
}

pub fn optimizer(words: &mut Words<'_>, dim: usize) -> (Looking, Box<dyn AnyOptimizer>) {
    let zeros = || vec![0f32; dim];
    let optimizer: Box<dyn AnyOptimizer> = match words.word() {
        "sgd" => {
            let momentum = words.f32();
            let sgd = Sgd::new(momentum, words.word() == "nesterov", words.f32()).unwrap();
            Box::new(of(sgd, SgdState { momentum: vec![0f32; sgd.momentum_len(dim)] }))
        }
        "adam" => {
            let adam = Adam::new(words.f64(), words.f64(), words.f32(), words.f64()).unwrap();
            Box::new(of(adam, AdamState::new(zeros(), zeros())))
        }
        "adam-floored" => {
            let adam = Adam::new(words.f64(), words.f64(), words.f32(), words.f64()).unwrap();
            Box::new(of(adam.with_floored_denominator(), AdamState::new(zeros(), zeros())))
        }
        "adam-bc" => {
            let adam = AdamBc::new(words.f64(), words.f64(), words.f32(), words.f64()).unwrap();
            Box::new(of(adam, AdamBcState::new(zeros(), zeros())))
        }
        "adagrad" => Box::new(of(AdaGrad::new(words.f32(), words.f32()).unwrap(), AdaGradState { sum: zeros() })),
        "rmsprop" => {
            let rmsprop = RmsProp::new(words.f64(), words.f32(), words.f32()).unwrap();
            Box::new(of(rmsprop, RmsPropState { second: zeros() }))
        }
        "norm" => {
            let (initial, floor, subtract) = (words.f64(), words.f64(), words.word() == "subtract");
            let (inner, state) = optimizer(words, dim);
            let norm = AdaGradNorm::new(initial, floor, subtract, inner).unwrap();
            Box::new(of(norm, AdaGradNormState::new(state)))
        }
        "weighted" => {
            let (weight, period) = (words.f64(), words.number());
            let (initial, floor, subtract) = (words.f64(), words.f64(), words.word() == "subtract");
            let (inner, state) = optimizer(words, dim);
            let norm = AdaGradNorm::new(initial, floor, subtract, inner).unwrap();
            Box::new(of(WeightedNorm::new(norm, weight, period).unwrap(), WeightedNormState::new(state)))
        }
        other => panic!("no optimizer is called {other}"),
    };
    (Looking(optimizer.needs_full_gradient()), optimizer)
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
