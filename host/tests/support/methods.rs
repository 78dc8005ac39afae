//! Runs of every method, twenty-three steps each, on the digits that ship with the project.

use damper::filter::Coefficients;
use damper::train::{
    Budget, Clipping, DecayChoice, FilterChoice, Method, Noise, NormStep, OptimizerChoice, PerSample, Rule,
    ThresholdChoice, ThresholdRule, TrainConfig,
};
use damper_core::filter::{Gain, LookAhead};
use damper_core::schedule::NoiseSchedule;
use damper_core::threshold::Solver;
use std::num::NonZeroUsize;

/// Twenty-three steps of a simulation.
pub fn config() -> TrainConfig {
    TrainConfig {
        optimizer: Rule::new("momentum", &[]).unwrap().into(),
        backend: damper::runtime::Choice::Tract,
        seed: Some(3),
        workers: NonZeroUsize::new(2),
        ..TrainConfig::new(Budget::NoiseMultiplier(0.5), 1e-5, 64, 1.0, Method::dp_sgd(1.0, 0.3))
    }
}

/// Every choice of every slot that a pack can hold.
pub fn methods() -> Vec<(&'static str, TrainConfig)> {
    let of = |change: &dyn Fn(&mut TrainConfig)| {
        let mut config = config();
        change(&mut config);
        config
    };
    let filter = |filter: FilterChoice| of(&|config| config.method.filter = filter.clone());
    let rule = |name, settings: &[_]| of(&|config| config.optimizer = Rule::new(name, settings).unwrap().into());
    let threshold = |rule: ThresholdRule| of(&|config| config.method.threshold.rule = rule);
    let decay = |decay: DecayChoice| of(&|config| config.method.learning_rate.decay = decay);
    let schedule = |noise: NoiseSchedule| {
        let mut config = decay(DecayChoice::Polynomial { offset: 20.0, slope: 1.0 });
        config.method.noise_schedule = noise;
        config
    };
    let per_sample = |iterates, beta, normalised, inner: &str| {
        let inner = Coefficients::named(inner).unwrap();
        FilterChoice::PerSample(PerSample { iterates, beta, normalised, inner })
    };
    let kalman = |gain, look_ahead| FilterChoice::Kalman { gain, look_ahead };
    let none = Coefficients { a: vec![], b: vec![1.0] };
    let trailing = Coefficients { a: vec![-0.5, 0.0, 0.0], b: vec![0.25, 0.25, 0.0] };
    let adam = Rule::new("adam", &[("beta2", 0.99)]).unwrap();
    let norm = |subtract_noise| {
        let norm_step = Some(NormStep { initial: 20.0, floor: 1e-5, subtract_noise });
        of(&|config| config.optimizer = OptimizerChoice { norm_step, ..adam.into() })
    };
    let bounded = |rule| {
        of(&|config| {
            config.method.threshold = ThresholdChoice { clip: 1.0, rule, bounds: Some((0.9, 1.1)) };
        })
    };
    vec![
        ("dp-sgd", config()),
        ("private", of(&|config| config.seed = None)),
        ("no filter", filter(FilterChoice::Iir(none))),
        ("doppler", filter(FilterChoice::Iir(Coefficients::named("f6").unwrap()))),
        ("zeros at the end", filter(FilterChoice::Iir(trailing))),
        ("dp-pmlf", filter(per_sample(3, 0.5, true, "momentum"))),
        ("inner-outer", filter(per_sample(8, 0.9, false, "d2"))),
        ("disk", filter(kalman(Gain::Constant(0.7), LookAhead::One))),
        ("disk, two points", filter(kalman(Gain::Constant(0.7), LookAhead::Two { gamma: 0.5 }))),
        (
            "disk, recursion",
            filter(kalman(Gain::Recursion { noise: 1.0, drift: 0.1, process: 0.2 }, LookAhead::Two { gamma: -1.0 })),
        ),
        ("percentile", threshold(ThresholdRule::Percentile { fraction: 0.5, count_noise: None, range: 1.0 })),
        (
            "percentile, bounded",
            bounded(ThresholdRule::Percentile { fraction: 0.5, count_noise: Some(2.0), range: 1.0 }),
        ),
        (
            "expected error, grid",
            threshold(ThresholdRule::ExpectedError { solver: Solver::PaperGrid, count_noise: None, range: 20.0 }),
        ),
        (
            "expected error, exact",
            threshold(ThresholdRule::ExpectedError { solver: Solver::Exact, count_noise: Some(4.0), range: 20.0 }),
        ),
        ("quantile", threshold(ThresholdRule::Quantile { fraction: 0.5, rate: 0.2, count_noise: 6.4 })),
        ("per layer", of(&|config| config.method.clipping = Clipping::PerLayer)),
        ("automatic", of(&|config| config.method.clipping = Clipping::Automatic { stability: 0.01 })),
        ("sgd", rule("sgd", &[("weight_decay", 0.01)])),
        ("nesterov", rule("nesterov", &[])),
        ("adam", rule("adam", &[("beta2", 0.99)])),
        (
            "adamw, filtered",
            rule(
                "adam",
                &[("beta1", 0.8), ("beta2", 0.9), ("epsilon", 1e-6), ("weight_decay", 0.1), ("second_moment", 1.0)],
            ),
        ),
        ("adam-bc", rule("adam-bc", &[("beta2", 0.99), ("weight_decay", 0.1)])),
        ("adam-bc, floor", rule("adam-bc", &[("beta2", 0.99), ("floor", 1e-6)])),
        ("adagrad", rule("adagrad", &[("weight_decay", 0.01)])),
        ("rmsprop", rule("rmsprop", &[("alpha", 0.9), ("weight_decay", 0.01)])),
        ("adagrad-norm", norm(false)),
        ("adagrad-norm, less noise", norm(true)),
        ("steps", decay(DecayChoice::Step { epochs: 0.3, factor: 0.5 })),
        ("cosine", decay(DecayChoice::Cosine { floor: 0.1 })),
        ("root-linear", decay(DecayChoice::RootLinear { floor: 0.1 })),
        ("warm-up", of(&|config| config.method.learning_rate.warmup = 0.5)),
        ("matched noise", schedule(NoiseSchedule::Matched { exponent: 0.5 })),
        ("growing noise", schedule(NoiseSchedule::Polynomial { growth: 0.1, exponent: 0.5 })),
        ("equation 6", of(&|config| config.budget = Budget::Equation6(0.8))),
        ("wide sums", of(&|config| config.grid_bits = 21)),
        (
            "floats",
            of(&|config| {
                config.noise = Noise::Continuous;
                config.workers = NonZeroUsize::new(1);
            }),
        ),
        (
            "everything",
            of(&|config| {
                config.method.filter = per_sample(4, 0.3, true, "p7");
                config.method.clipping = Clipping::PerLayer;
                config.optimizer = OptimizerChoice {
                    norm_step: Some(NormStep { initial: 1.0, floor: 1e-3, subtract_noise: true }),
                    ..Rule::new("adam-bc", &[("beta2", 0.99), ("weight_decay", 0.01)]).unwrap().into()
                };
                config.method.noise_schedule = NoiseSchedule::Polynomial { growth: 0.1, exponent: 1.0 };
                config.method.threshold.rule = ThresholdRule::Quantile { fraction: 0.4, rate: 0.3, count_noise: 5.0 };
                config.seed = None;
            }),
        ),
    ]
}
