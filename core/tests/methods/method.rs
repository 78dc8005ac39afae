//! Any method as data.
//!
//! Configurations and states of any type share one interface, so that a table of choices builds the steps. The
//! behaviour of the slots is not changed.

use crate::erased::{
    Any, AnyOptimizer, AnyThreshold, FilterMemory, OptimizerMemory, ThresholdMemory, filter, optimizer, threshold,
};
use crate::harness::Step;
use damper_access::Unreleased;
use damper_core::clip::{Automatic, Clip, FlatL2, Layer, Layers, PerLayer};
use damper_core::filter::{
    Gain, Identity, Iir, IirState, Kalman, KalmanState, LookAhead, PerSampleMomentum, PerSampleMomentumState, named,
};
use damper_core::grid::{Grid, Word};
use damper_core::noise::DiscreteGaussian;
use damper_core::optimizer::{
    AdaGrad, AdaGradNorm, AdaGradNormState, AdaGradState, Adam, AdamBc, AdamBcState, AdamState, RmsProp, RmsPropState,
    Sgd, SgdState,
};
use damper_core::schedule::{Decay, Declared, LearningRate, NoiseSchedule};
use damper_core::step::audit::{ByRule, ClipRule};
use damper_core::step::{PrivateStep, Slots};
use damper_core::threshold::{
    CountNoise, ExpectedError, ExpectedErrorState, Fixed, Percentile, PercentileState, Quantile, QuantileState, Solver,
};

/// A filter and its settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FilterChoice {
    Identity,
    Iir(&'static str),
    /// Per-sample momentum over `iterates`. The inner filter is the identity or a published filter.
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
    /// Rules that divide by this number for any norm, over all coordinates and per layer.
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

/// All settings of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Method {
    pub filter: FilterChoice,
    pub clip: ClipChoice,
    pub threshold: ThresholdChoice,
    pub optimizer: OptimizerChoice,
    pub noise: NoiseSchedule,
    /// Base, warm-up and decay of the learning rate.
    pub learning_rate: (f64, u32, Decay),
    pub dim: usize,
    pub bits: u32,
    /// σ of the mechanism in grid units.
    pub sigma: u32,
    /// `C` of the first step.
    pub first_clip: f32,
    pub expected_batch: u32,
    pub seed: u64,
    /// True if the optimizer observes the full released gradient first, even if it does not request it.
    pub look_ahead: bool,
}

/// DP-SGD.
pub const PLAIN: Method = Method {
    filter: FilterChoice::Identity,
    clip: ClipChoice::Flat,
    threshold: ThresholdChoice::Fixed,
    optimizer: OptimizerChoice::Sgd,
    noise: NoiseSchedule::Constant,
    learning_rate: (0.05, 0, Decay::Constant),
    dim: 70,
    bits: 16,
    sigma: 80_001,
    first_clip: 0.75,
    expected_batch: 6,
    seed: 1,
    look_ahead: false,
};

/// Clipping by any rule.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum AnyClip {
    Flat,
    Automatic(Automatic),
    Layers(PerLayer<'static, FlatL2>),
    AutomaticLayers(PerLayer<'static, Automatic>),
    Wrong(ByRule<Divisor>),
    WrongLayers(PerLayer<'static, ByRule<Divisor>>),
}

/// A clip rule that violates the trait's contract.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Divisor(f32);

impl ClipRule for Divisor {
    fn divisor(&self, _norm: f32, _clip: f32) -> f32 {
        self.0
    }
}

impl ClipRule for AnyClip {
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

impl Method {
    /// The layers of the clip rule, with shares in units of 2⁻²² of the clip.
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
            // Shares of 0.8, 0.5 and 0.3 of the clip. Their squares sum to 0.98.
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
            ClipChoice::Wrong(divisor) => AnyClip::Wrong(ByRule::new(Divisor(divisor), Unreleased::claim())),
            ClipChoice::WrongLayers(divisor) => AnyClip::WrongLayers(
                PerLayer::new(ByRule::new(Divisor(divisor), Unreleased::claim()), layers()).unwrap(),
            ),
            ClipChoice::OneLayerAutomatic | ClipChoice::EqualLayersAutomatic => {
                AnyClip::AutomaticLayers(PerLayer::new(automatic, layers()).unwrap())
            }
        }
    }

    /// The threshold rule, with its state before the first step.
    pub fn threshold(&self) -> (AnyThreshold, ThresholdMemory) {
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

    /// The optimizer, with its state before the first step.
    pub fn optimizer(&self) -> OptimizerMemory {
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

    /// The learning rate schedule.
    pub fn learning_rate(&self) -> LearningRate {
        let (base, warmup, decay) = self.learning_rate;
        LearningRate::new(base, warmup, decay).unwrap()
    }

    /// The configuration of the step.
    pub fn step<W: Word>(&self) -> Step<W> {
        PrivateStep::new(Slots {
            mechanism: DiscreteGaussian::new(Grid::new(self.bits).unwrap(), self.sigma).unwrap(),
            clip: ByRule::new(self.clip(), Unreleased::claim()),
            threshold: self.threshold().0,
            filter: Any,
            optimizer: AnyOptimizer { needs_full_gradient: self.look_ahead || self.optimizer().needs_full_gradient() },
            schedule: Declared { learning_rate: self.learning_rate(), noise: self.noise },
            expected_batch: self.expected_batch,
        })
        .unwrap()
    }

    /// The expected `z_t`: `⌈σ·α_t⌉` units, divided by the grid's units per clip.
    pub fn multiplier_at(&self, step: u32) -> f64 {
        let sigma = (f64::from(self.sigma) * self.noise.factor(step, &self.learning_rate())).ceil();
        sigma / f64::from(1u32 << self.bits)
    }
}

fn iir(name: &str, dim: usize) -> (Iir, IirState<Vec<f32>>) {
    let set = named(name).unwrap();
    let iir = Iir::new(set.a, set.b).unwrap();
    let memory = vec![0f32; iir.order() * dim];
    (iir, IirState::new(memory))
}

/// A filter with its state before the first step.
pub fn filter_memory(choice: &FilterChoice, dim: usize) -> FilterMemory {
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
