//! Any method as data, and a run of it through the public door.
//!
//! Configurations and states of any type stand behind one interface, so that a table of choices makes the steps; what the
//! slots do is theirs alone. The optimizer's slot also writes down what it is given: the released and the filtered gradient.

use crate::erased::{
    Any, AnyOptimizer, AnyThreshold, FilterMemory, OptimizerMemory, ThresholdMemory, filter, optimizer, threshold,
};
use damper_core::accounting::{Ledger, Rate, Record, RenyiFilter, Store};
use damper_core::clip::{Automatic, Clip, FlatL2, Layer, Layers, PerLayer};
use damper_core::error::OpenError;
use damper_core::filter::{
    Gain, Identity, Iir, IirState, Kalman, KalmanState, LookAhead, PerSampleMomentum, PerSampleMomentumState, mix,
    named,
};
use damper_core::grid::{Grid, Word};
use damper_core::noise::{ChaCha20, DiscreteGaussian};
use damper_core::optimizer::{
    AdaGrad, AdaGradNorm, AdaGradNormState, AdaGradState, Adam, AdamBc, AdamBcState, AdamState, RmsProp, RmsPropState,
    Sgd, SgdState,
};
use damper_core::schedule::{LearningRate, NoiseSchedule};
use damper_core::step::{Open, PrivateStep, Slots, StepState};
use damper_core::threshold::{
    CountNoise, ExpectedError, ExpectedErrorState, Fixed, Percentile, PercentileState, Quantile, QuantileState, Solver,
};
use std::convert::Infallible;

/// A filter and its numbers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FilterChoice {
    Identity,
    Iir(&'static str),
    /// Per-sample momentum over `iterates`; inside, the identity or a published filter.
    Momentum {
        iterates: usize,
        beta: f64,
        normalised: bool,
        inner: Option<&'static str>,
    },
    Kalman(Gain, LookAhead),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ClipChoice {
    Flat,
    Automatic,
    /// All coordinates are one layer.
    OneLayer,
    /// The same, by the automatic rule.
    OneLayerAutomatic,
    EqualLayers,
    UnequalLayers,
    EqualLayersAutomatic,
    /// Rules that divide by this number whatever the norm, over all coordinates and per layer.
    Wrong(f32),
    WrongLayers(f32),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ThresholdChoice {
    Fixed,
    Percentile,
    ByGrid,
    Exact,
    Quantile,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum OptimizerChoice {
    Sgd,
    Momentum,
    Nesterov,
    Adam,
    AdamW,
    AdamBc,
    AdaGrad,
    RmsProp,
    /// Over SGD with momentum.
    AdaGradNorm,
}

/// Everything that makes a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Method {
    pub filter: FilterChoice,
    pub clip: ClipChoice,
    pub threshold: ThresholdChoice,
    pub optimizer: OptimizerChoice,
    pub noise: NoiseSchedule,
    pub learning_rate: LearningRate,
    pub dim: usize,
    pub bits: u32,
    /// σ of the mechanism in grid units.
    pub sigma: u32,
    /// `C` of the first step.
    pub first_clip: f32,
    pub expected_batch: u32,
    pub seed: u64,
    /// Has the released gradient shown whole first, also to an optimizer that does not ask for it.
    pub look_ahead: bool,
}

/// DP-SGD.
pub const PLAIN: Method = Method {
    filter: FilterChoice::Identity,
    clip: ClipChoice::Flat,
    threshold: ThresholdChoice::Fixed,
    optimizer: OptimizerChoice::Sgd,
    noise: NoiseSchedule::Constant,
    learning_rate: LearningRate::constant(0.05),
    dim: 70,
    bits: 16,
    sigma: 80_001,
    first_clip: 0.75,
    expected_batch: 6,
    seed: 1,
    look_ahead: false,
};

/// One sample: its gradient at any point.
#[derive(Clone, PartialEq, Debug)]
pub enum Sample {
    /// That of `Σ curvature·(d²/2 + d⁴/4)`, `d = x − centre`: not linear in the point.
    Bowl { curvature: Vec<f32>, centre: Vec<f32> },
    /// At point 0, 1, …, whatever the point; the last for all beyond.
    At(Vec<Vec<f32>>),
}

impl Sample {
    pub fn constant(grad: Vec<f32>) -> Self {
        Self::At(vec![grad])
    }

    fn grad(&self, index: usize, point: &[f32]) -> Vec<f32> {
        match self {
            Self::Bowl { curvature, centre } => point
                .iter()
                .zip(curvature)
                .zip(centre)
                .map(|((x, h), c)| h * ((x - c) + (x - c) * (x - c) * (x - c)))
                .collect(),
            Self::At(grads) => grads[index.min(grads.len() - 1)].clone(),
        }
    }
}

/// How samples are added.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum How {
    /// Point by point.
    Points,
    /// Point by point, each sample begun, dropped, and begun anew; and none added before its last point is in.
    Interrupted,
    /// Mixed outside, in two parts.
    Mixed,
    /// Mixed outside, dealt to so many shards.
    Shards(usize),
}

/// A store that keeps the last record and counts writes.
#[derive(Default)]
pub struct Writes {
    pub last: Option<Record>,
    pub count: u32,
}

impl Store for Writes {
    type Error = Infallible;
    fn persist(&mut self, record: Record) -> Result<(), Infallible> {
        (self.last, self.count) = (Some(record), self.count + 1);
        Ok(())
    }
}

/// What one step let out, as its slots saw it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Taken {
    pub number: u32,
    pub clip: f32,
    /// The points asked for, with their weights.
    pub points: Vec<(f32, Vec<f32>)>,
    pub released: Vec<f32>,
    pub filtered: Vec<f32>,
    pub noise_std: f64,
    /// The rate that the (outermost) optimizer was given.
    pub lr: f64,
    pub counts: Vec<f64>,
    /// Releases of the gradient and of the counts.
    pub releases: (u32, u32),
}

/// Clipping by any rule.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum AnyClip {
    Flat,
    Automatic(Automatic),
    Layers(PerLayer<'static, FlatL2>),
    AutomaticLayers(PerLayer<'static, Automatic>),
    Wrong(Divisor),
    WrongLayers(PerLayer<'static, Divisor>),
}

/// A rule of clipping that breaks the promise of the trait.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Divisor(f32);

impl Clip for Divisor {
    fn divisor(&self, _norm: f32, _clip: f32) -> f32 {
        self.0
    }
}

impl Clip for AnyClip {
    fn divisor(&self, norm: f32, clip: f32) -> f32 {
        match self {
            Self::Flat => FlatL2.divisor(norm, clip),
            Self::Automatic(rule) => rule.divisor(norm, clip),
            Self::Layers(rule) => rule.divisor(norm, clip),
            Self::AutomaticLayers(rule) => rule.divisor(norm, clip),
            Self::Wrong(rule) => rule.divisor(norm, clip),
            Self::WrongLayers(rule) => rule.divisor(norm, clip),
        }
    }

    fn layers(&self) -> Option<Layers<'_>> {
        match self {
            Self::Flat => FlatL2.layers(),
            Self::Automatic(rule) => rule.layers(),
            Self::Layers(rule) => rule.layers(),
            Self::AutomaticLayers(rule) => rule.layers(),
            Self::Wrong(rule) => rule.layers(),
            Self::WrongLayers(rule) => rule.layers(),
        }
    }
}

pub type Step<W> = PrivateStep<DiscreteGaussian<W>, AnyClip, AnyThreshold, Any, AnyOptimizer>;
type State<W> = StepState<Vec<W>, FilterMemory, ThresholdMemory, OptimizerMemory>;
type Opened<'a, W> =
    Open<'a, DiscreteGaussian<W>, AnyClip, AnyThreshold, Any, FilterMemory, AnyOptimizer, OptimizerMemory>;

/// A run of a method: what a program that trains would hold.
pub struct Run<W: Word> {
    pub step: Step<W>,
    state: State<W>,
    pub ledger: Ledger,
    pub store: Writes,
    pub params: Vec<f32>,
    generator: ChaCha20,
}

impl Method {
    /// The layers of its rule of clipping, in units of 2⁻²² of the clip.
    pub fn layers(&self) -> Vec<Layer> {
        let lens = [self.dim / 2, 1, self.dim - self.dim / 2 - 1];
        match self.clip {
            ClipChoice::Flat
            | ClipChoice::Automatic
            | ClipChoice::OneLayer
            | ClipChoice::OneLayerAutomatic
            | ClipChoice::Wrong(_) => {
                vec![Layer { len: self.dim, share: 1 << 22 }]
            }
            ClipChoice::EqualLayers | ClipChoice::EqualLayersAutomatic => lens.map(|len| Layer::equal(len, 3)).to_vec(),
            // 0.8, 0.5 and 0.3: 0.98 of the whole.
            ClipChoice::UnequalLayers | ClipChoice::WrongLayers(_) => lens
                .iter()
                .zip([3_355_443, 2_097_152, 1_258_291])
                .map(|(len, share)| Layer { len: *len, share })
                .collect(),
        }
    }

    fn clip(&self) -> AnyClip {
        let automatic = Automatic::new(0.01).unwrap();
        let layers = || Layers::new(self.layers().leak()).unwrap();
        match self.clip {
            ClipChoice::Flat => AnyClip::Flat,
            ClipChoice::Automatic => AnyClip::Automatic(automatic),
            ClipChoice::OneLayer | ClipChoice::EqualLayers | ClipChoice::UnequalLayers => {
                AnyClip::Layers(PerLayer::new(FlatL2, layers()).unwrap())
            }
            ClipChoice::Wrong(divisor) => AnyClip::Wrong(Divisor(divisor)),
            ClipChoice::WrongLayers(divisor) => {
                AnyClip::WrongLayers(PerLayer::new(Divisor(divisor), layers()).unwrap())
            }
            ClipChoice::OneLayerAutomatic | ClipChoice::EqualLayersAutomatic => {
                AnyClip::AutomaticLayers(PerLayer::new(automatic, layers()).unwrap())
            }
        }
    }

    fn threshold(&self) -> (AnyThreshold, ThresholdMemory) {
        let (clip, noise) = (self.first_clip, CountNoise::new(5.0).unwrap());
        let expected_error = |solver| {
            let state = ExpectedErrorState::new(clip, 4.0 * clip).unwrap();
            threshold(ExpectedError::<20>::new(solver, noise).unwrap(), state)
        };
        match self.threshold {
            ThresholdChoice::Fixed => threshold(Fixed(clip), ()),
            ThresholdChoice::Percentile => {
                threshold(Percentile::<20>::new(0.5, noise).unwrap(), PercentileState::new(clip, 2.0 * clip).unwrap())
            }
            ThresholdChoice::ByGrid => expected_error(Solver::PaperGrid),
            ThresholdChoice::Exact => expected_error(Solver::Exact),
            ThresholdChoice::Quantile => {
                threshold(Quantile::new(0.5, 0.2, 1.0).unwrap(), QuantileState::new(clip).unwrap())
            }
        }
    }

    fn optimizer(&self) -> OptimizerMemory {
        let zeros = || vec![0f32; self.dim];
        let sgd = |momentum, nesterov| {
            let sgd = Sgd::new(momentum, nesterov, 0.0).unwrap();
            (sgd, SgdState { momentum: vec![0f32; sgd.momentum_len(self.dim)] })
        };
        let adam = |decay| optimizer(Adam::new(0.9, 0.999, 1e-8, decay).unwrap(), AdamState::new(zeros(), zeros()));
        match self.optimizer {
            OptimizerChoice::Sgd => {
                let (sgd, state) = sgd(0.0, false);
                optimizer(sgd, state)
            }
            OptimizerChoice::Momentum => {
                let (sgd, state) = sgd(0.9, false);
                optimizer(sgd, state)
            }
            OptimizerChoice::Nesterov => {
                let (sgd, state) = sgd(0.9, true);
                optimizer(sgd, state)
            }
            OptimizerChoice::Adam => adam(0.0),
            OptimizerChoice::AdamW => adam(0.01),
            OptimizerChoice::AdamBc => {
                optimizer(AdamBc::new(0.9, 0.999, 1e-8, 0.0).unwrap(), AdamBcState::new(zeros(), zeros()))
            }
            OptimizerChoice::AdaGrad => optimizer(AdaGrad::new(1e-10, 0.0).unwrap(), AdaGradState { sum: zeros() }),
            OptimizerChoice::RmsProp => {
                optimizer(RmsProp::new(0.99, 1e-8, 0.0).unwrap(), RmsPropState { second: zeros() })
            }
            OptimizerChoice::AdaGradNorm => {
                let (sgd, state) = sgd(0.9, false);
                optimizer(AdaGradNorm::new(20.0, 1e-5, true, sgd).unwrap(), AdaGradNormState::new(state))
            }
        }
    }

    /// Its configuration.
    pub fn step<W: Word>(&self) -> Step<W> {
        PrivateStep::new(Slots {
            mechanism: DiscreteGaussian::new(Grid::new(self.bits).unwrap(), self.sigma).unwrap(),
            clip: self.clip(),
            threshold: self.threshold().0,
            filter: Any,
            optimizer: AnyOptimizer { looks_ahead: self.look_ahead || self.optimizer().looks_ahead() },
            learning_rate: self.learning_rate,
            noise_schedule: self.noise,
            expected_batch: self.expected_batch,
        })
        .unwrap()
    }

    /// A run from the start, with a budget of `budget` steps.
    pub fn start<W: Word>(&self, budget: u32) -> Run<W> {
        self.resume(Ledger::new(budget))
    }

    /// A run with fresh memory and this ledger.
    pub fn resume<W: Word>(&self, ledger: Ledger) -> Run<W> {
        let state = StepState {
            sum: vec![W::default(); self.dim],
            filter: filter_memory(&self.filter, self.dim),
            threshold: self.threshold().1,
            optimizer: self.optimizer(),
        };
        let params = (0..self.dim).map(|i| (i % 7) as f32 / 8.0 - 0.25).collect();
        let generator = ChaCha20::simulation(self.seed);
        Run { step: self.step(), state, ledger, store: Writes::default(), params, generator }
    }

    /// `z_t` as it must be: `⌈σ·α_t⌉` units over the grid's.
    pub fn multiplier_at(&self, step: u32) -> f64 {
        let sigma = (f64::from(self.sigma) * self.noise.factor(step, &self.learning_rate)).ceil();
        sigma / f64::from(1u32 << self.bits)
    }

    /// The integers that were released: sum and noise in grid units. Fails where a value is not on the declared grid.
    pub fn units(&self, taken: &Taken) -> Vec<i64> {
        let unit = taken.clip / (1u32 << self.bits) as f32 / self.expected_batch as f32;
        taken
            .released
            .iter()
            .map(|released| {
                let units = (f64::from(*released) / f64::from(unit)).round();
                assert!(units.abs() < f64::from(1 << 23), "too large to be told: {units}");
                assert_eq!((units as f32 * unit).to_bits(), (*released + 0.0).to_bits(), "not on the grid");
                units as i64
            })
            .collect()
    }
}

fn iir(name: &str, dim: usize) -> (Iir, IirState<Vec<f32>>) {
    let set = named(name).unwrap();
    let iir = Iir::new(set.a, set.b).unwrap();
    let memory = vec![0f32; iir.order() * dim];
    (iir, IirState::new(memory))
}

fn filter_memory(choice: &FilterChoice, dim: usize) -> FilterMemory {
    match *choice {
        FilterChoice::Identity => filter(Identity, ()),
        FilterChoice::Iir(name) => {
            let (iir, state) = iir(name, dim);
            filter(iir, state)
        }
        FilterChoice::Momentum { iterates, beta, normalised, inner } => {
            let inner = inner.map_or(FilterChoice::Identity, FilterChoice::Iir);
            let make = if normalised { PerSampleMomentum::new } else { PerSampleMomentum::unnormalised };
            let momentum: PerSampleMomentum<Any> = make(iterates, beta, Any).unwrap();
            let past = vec![f32::NAN; momentum.iterates_len(dim)];
            filter(momentum, PerSampleMomentumState::new(past, filter_memory(&inner, dim)))
        }
        FilterChoice::Kalman(gain, look_ahead) => {
            let kalman = Kalman::new(gain, look_ahead).unwrap();
            filter(kalman, KalmanState::new(&kalman, vec![f32::NAN; dim], vec![f32::NAN; dim]))
        }
    }
}

fn end<W: Word>(
    mut open: Opened<'_, W>,
    samples: &[Sample],
    how: How,
    params: &mut [f32],
    generator: &ChaCha20,
) -> Taken {
    let points: Vec<(f32, Vec<f32>)> = (0..open.points())
        .map(|index| {
            let mut point = vec![f32::NAN; params.len()];
            (open.point(index, params, &mut point).unwrap(), point)
        })
        .collect();
    let mixed = |sample: &Sample| {
        let mut mixed = vec![f32::NAN; params.len()];
        for (index, (weight, point)) in points.iter().enumerate() {
            mix(index, *weight, &[&sample.grad(index, point)], &mut mixed);
        }
        mixed
    };
    match how {
        How::Points => {
            let mut buffer = vec![f32::NAN; params.len()];
            for sample in samples {
                let mut mixing = open.add_points(&mut buffer).unwrap();
                let (mut index, mut point) = (0, vec![f32::NAN; params.len()]);
                while mixing.next_point(params, &mut point).unwrap() {
                    assert_eq!(point, points[index].1);
                    mixing.point(&[&sample.grad(index, &point)]).unwrap();
                    index += 1;
                }
                mixing.add().unwrap();
            }
        }
        How::Interrupted => {
            let mut buffer = vec![f32::NAN; params.len()];
            for sample in samples {
                for taken in 0..=points.len() {
                    let mut mixing = open.add_points(&mut buffer).unwrap();
                    for (index, (_, point)) in points.iter().enumerate().take(taken) {
                        mixing.point(&[&sample.grad(index, point)]).unwrap();
                    }
                    assert!(taken < points.len() || mixing.point(&[&sample.grad(0, &points[0].1)]).is_err());
                    if taken % 2 == 0 || taken == points.len() {
                        assert_eq!(mixing.add().is_ok(), taken == points.len());
                    }
                }
            }
        }
        How::Mixed => {
            for sample in samples {
                let mixed = mixed(sample);
                let (first, second) = mixed.split_at(params.len() / 3);
                open.add_mixed(&[first, second]).unwrap();
            }
        }
        How::Shards(count) => {
            let mut memory = vec![vec![W::default(); params.len()]; count];
            let mut shards: Vec<_> = memory.iter_mut().map(|sum| open.shard(sum).unwrap()).collect();
            for (i, sample) in samples.iter().enumerate() {
                shards[i % count].add_mixed(&[&mixed(sample)]).unwrap();
            }
            while let Some(shard) = shards.pop() {
                open.merge(shard).unwrap();
            }
        }
    }
    let (number, clip) = (open.number(), open.clip());
    open.finish(params, generator).unwrap();
    Taken { number, clip, points, ..Taken::default() }
}

impl<W: Word> Run<W> {
    /// Takes a step with these samples.
    pub fn take(&mut self, samples: &[Sample], how: How) -> Taken {
        self.try_take(samples, how).expect("the budget has room")
    }

    /// Takes a step with these samples if the ledger has room.
    pub fn try_take(&mut self, samples: &[Sample], how: How) -> Result<Taken, OpenError<Infallible>> {
        let open = self.step.open(&mut self.state, &mut self.ledger, &mut self.store)?;
        let taken = end(open, samples, how, &mut self.params, &self.generator);
        Ok(self.complete(taken))
    }

    /// Takes a step with `factor` times the noise if the filter has room.
    pub fn try_take_chosen(
        &mut self,
        samples: &[Sample],
        factor: f64,
        rate: Rate,
        filter: &mut RenyiFilter,
    ) -> Result<Taken, OpenError<Infallible>> {
        let open = self.step.open_chosen(&mut self.state, factor, rate, filter, &mut self.store)?;
        let taken = end(open, samples, How::Points, &mut self.params, &self.generator);
        Ok(self.complete(taken))
    }

    /// Pays for a step and takes none: as a power cut does.
    pub fn abandon(&mut self) -> bool {
        self.step.open(&mut self.state, &mut self.ledger, &mut self.store).is_ok()
    }

    /// At how many points the coming step wants gradients.
    pub fn points(&self) -> usize {
        self.state.filter.points()
    }

    /// The clip of the coming step.
    pub fn clip(&self) -> f32 {
        self.state.threshold.clip()
    }

    /// Gives the run a sum of another length.
    pub fn resize_sum(&mut self, len: usize) {
        self.state.sum.resize(len, W::default());
    }

    /// All bits of the sum's memory are zero.
    pub fn sum_is_wiped(&self) -> bool {
        self.state.sum.iter().all(|word| *word == W::default())
    }

    fn complete(&mut self, mut taken: Taken) -> Taken {
        self.state.optimizer.write(&mut taken);
        self.state.threshold.write(&mut taken);
        taken
    }
}

pub fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}
