//! Runs of every method, twenty-three steps each, on the digits that ship with the project.

use damper::accounting::Sampler;
use damper::design::Coefficients;
use damper::train::{
    Budget, ByName, Clipping, DecayChoice, FilterChoice, LowRank, Method, NoiseChoice, NoiseKind, NormStep,
    NormalizePrivate, OptimizerChoice, OptimizerRule, ReleaseNonFinite, TestMetrics, ThresholdChoice, TrainConfig,
};
use damper_core::average::Averaging;
use std::num::{NonZeroU32, NonZeroUsize};
use toml::{Table, toml};

/// Twenty-three steps of a simulation.
pub fn config() -> TrainConfig {
    TrainConfig {
        optimizer: OptimizerRule::of_name("momentum").unwrap().into(),
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
    let rule = |name, settings: Table| {
        of(&|config| config.optimizer = OptimizerRule::with(name, settings.clone()).unwrap().into())
    };
    let threshold = |rule: ThresholdChoice| of(&|config| config.method.threshold = rule);
    let decay = |decay: DecayChoice| of(&|config| config.method.learning_rate.decay = decay);
    let schedule = |noise: NoiseChoice| {
        let mut config = decay("polynomial:20.0,1.0".parse().unwrap());
        config.method.noise_schedule = noise;
        config
    };
    let iir = |taps: &Coefficients| FilterChoice::of_name("doppler").unwrap().with_taps(taps);
    let per_sample = |name, iterates: u32, beta: f64, inner: &str| {
        let momentum = FilterChoice::with(
            name,
            toml! {
                iterates = iterates
                beta = beta
            },
        )
        .unwrap();
        momentum.with_taps(&Coefficients::named(inner).unwrap())
    };
    let disk = |settings| filter(FilterChoice::with("disk", settings).unwrap());
    let none = Coefficients { a: vec![], b: vec![1.0] };
    let trailing = Coefficients { a: vec![-0.5, 0.0, 0.0], b: vec![0.25, 0.25, 0.0] };
    let adam = OptimizerRule::with("adam", toml! { betas = [0.9, 0.99] }).unwrap();
    let norm = |subtract_noise| {
        let norm_step = Some(NormStep { initial: 20.0, floor: 1e-5, subtract_noise });
        of(&|config| config.optimizer = OptimizerChoice { norm_step, ..adam.into() })
    };
    vec![
        ("dp-sgd", config()),
        ("private", of(&|config| config.seed = None)),
        ("no filter", filter(iir(&none))),
        ("doppler", filter(iir(&Coefficients::named("f6").unwrap()))),
        ("zeros at the end", filter(iir(&trailing))),
        ("dp-pmlf", filter(per_sample("dp-pmlf", 3, 0.5, "momentum"))),
        ("inner-outer", filter(per_sample("inner-outer", 8, 0.9, "d2"))),
        ("disk", disk(Table::new())),
        ("disk, two points", disk(toml! { gamma = 0.5 })),
        (
            "disk, recursion",
            disk(toml! {
                gain_recursion = [1.0, 0.1, 0.2]
                gamma = (-1.0)
            }),
        ),
        ("percentile", threshold(ThresholdChoice::of_name("percentile").unwrap())),
        (
            "percentile, bounded",
            threshold(
                ThresholdChoice::with(
                    "percentile",
                    toml! {
                        clip_bounds = [0.9, 1.1]
                        count_noise = 2.0
                    },
                )
                .unwrap(),
            ),
        ),
        ("expected error, grid", threshold(ThresholdChoice::of_name("expected-error").unwrap())),
        (
            "expected error, exact",
            threshold(
                ThresholdChoice::with(
                    "expected-error",
                    toml! {
                        solver = "exact"
                        count_noise = 4.0
                    },
                )
                .unwrap(),
            ),
        ),
        ("quantile", threshold(ThresholdChoice::with("quantile", toml! { count_noise = 6.4 }).unwrap())),
        ("per layer", of(&|config| config.method.clipping = Clipping::PerLayer)),
        ("automatic", of(&|config| config.method.clipping = Clipping::of_name("automatic").unwrap())),
        ("sgd", rule("sgd", toml! { weight_decay = 0.01 })),
        ("nesterov", rule("nesterov", Table::new())),
        ("adam", rule("adam", toml! { betas = [0.9, 0.99] })),
        (
            "adamw, filtered",
            rule(
                "adam",
                toml! {
                    betas = [0.8, 0.9]
                    epsilon = 1e-6
                    weight_decay = 0.1
                    second_moment = "filtered"
                },
            ),
        ),
        (
            "adam-bc",
            rule(
                "adam-bc",
                toml! {
                    betas = [0.9, 0.99]
                    weight_decay = 0.1
                },
            ),
        ),
        (
            "adam-bc, floor",
            rule(
                "adam-bc",
                toml! {
                    betas = [0.9, 0.99]
                    floor = 1e-6
                },
            ),
        ),
        ("adagrad", rule("adagrad", toml! { weight_decay = 0.01 })),
        (
            "rmsprop",
            rule(
                "rmsprop",
                toml! {
                    alpha = 0.9
                    weight_decay = 0.01
                },
            ),
        ),
        ("adagrad-norm", norm(false)),
        ("adagrad-norm, less noise", norm(true)),
        ("steps", decay("step:0.3,0.5".parse().unwrap())),
        ("cosine", decay("cosine:0.1".parse().unwrap())),
        ("root-linear", decay("root-linear:0.1".parse().unwrap())),
        ("warm-up", of(&|config| config.method.learning_rate.warmup = 0.5)),
        ("matched noise", schedule("matched:0.5".parse().unwrap())),
        ("growing noise", schedule("polynomial:0.1,0.5".parse().unwrap())),
        ("equation 6", of(&|config| config.budget = Budget::Equation6(0.8))),
        ("wide sums", of(&|config| config.grid_bits = 21)),
        ("shuffled", of(&|config| (config.sampler, config.epochs) = (Sampler::Shuffled, 2.3))),
        ("fixed order", of(&|config| (config.sampler, config.epochs) = (Sampler::MinSeparation, 2.3))),
        ("cyclic", of(&|config| (config.sampler, config.groups) = (Sampler::CyclicPoisson, NonZeroU32::new(4)))),
        ("lambda", of(&|config| correlated(config, "lambda:15/16", Sampler::MinSeparation))),
        (
            "blt, adam, doppler",
            of(&|config| {
                correlated(config, "blt:2", Sampler::MinSeparation);
                config.optimizer = adam.into();
                config.method.filter = iir(&Coefficients::named("f6").unwrap());
            }),
        ),
        (
            "blt, wide sums, private",
            of(&|config| {
                correlated(config, "blt:4", Sampler::MinSeparation);
                (config.grid_bits, config.seed) = (21, None);
            }),
        ),
        (
            "bands, disk, cosine",
            of(&|config| {
                correlated(config, "banded:3", Sampler::MinSeparation);
                config.method.filter = FilterChoice::of_name("disk").unwrap();
                config.method.learning_rate.decay = "cosine:0.1".parse().unwrap();
            }),
        ),
        (
            "cyclic bands, per layer",
            of(&|config| {
                correlated(config, "banded:3", Sampler::CyclicPoisson);
                config.method.clipping = Clipping::PerLayer;
            }),
        ),
        (
            "floats",
            of(&|config| {
                config.noise = NoiseKind::Continuous;
                config.workers = NonZeroUsize::new(1);
            }),
        ),
        (
            "everything",
            of(&|config| {
                config.method.filter = per_sample("dp-pmlf", 4, 0.3, "p7");
                config.method.clipping = Clipping::PerLayer;
                config.optimizer = OptimizerChoice {
                    norm_step: Some(NormStep { initial: 1.0, floor: 1e-3, subtract_noise: true }),
                    ..OptimizerRule::with(
                        "adam-bc",
                        toml! {
                            betas = [0.9, 0.99]
                            weight_decay = 0.01
                        },
                    )
                    .unwrap()
                    .into()
                };
                config.method.noise_schedule = "polynomial:0.1,1.0".parse().unwrap();
                config.method.threshold = ThresholdChoice::with(
                    "quantile",
                    toml! {
                        fraction = 0.4
                        rate = 0.3
                        count_noise = 5.0
                    },
                )
                .unwrap();
                config.seed = None;
            }),
        ),
    ]
}

/// Runs that cannot be recorded.
#[allow(dead_code, reason = "recordings do not hold them")]
pub fn others() -> Vec<(&'static str, TrainConfig)> {
    let of = |change: &dyn Fn(&mut TrainConfig)| {
        let mut config = config();
        change(&mut config);
        config
    };
    let adam = OptimizerRule::with(
        "adamw",
        toml! {
            betas = [0.9, 0.99]
            weight_decay = 0.1
        },
    )
    .unwrap();
    let galore = LowRank { rank: NonZeroUsize::MIN, every: NonZeroU32::new(4).unwrap(), scale: 0.5 };
    let norm_step = Some(NormStep { initial: 1.0, floor: 1e-3, subtract_noise: false });
    vec![
        ("galore", of(&|config| config.optimizer = OptimizerChoice { galore: Some(galore), ..adam.into() })),
        (
            "weighted norm",
            of(&|config| {
                let norm_weight = Some((4.0, NonZeroU32::new(6).unwrap()));
                config.optimizer = OptimizerChoice { norm_step, norm_weight, ..adam.into() };
            }),
        ),
        (
            "adaptive fir",
            of(&|config| {
                config.method.filter = FilterChoice::with(
                    "adaptive-fir",
                    toml! {
                        lags = 3
                        memory = 0.9
                        floor = 1e-3
                    },
                )
                .unwrap()
            }),
        ),
        ("uncorrected", of(&|config| config.method.filter = FilterChoice::of_name("doppler").unwrap().uncorrected())),
        ("mean", of(&|config| config.average = Some(Averaging::new(0.4).unwrap().by_learning_rate()))),
        (
            "blt of a mean",
            of(&|config| {
                correlated(config, "blt:2", Sampler::MinSeparation);
                config.average = Some(Averaging::exponential(0.9).unwrap());
            }),
        ),
        ("cut", of(&|config| config.truncate = Some(160))),
        ("evaluations", of(&|config| config.evaluate_every = Some(0.2))),
        (
            "private evaluations",
            of(&|config| {
                config.evaluate_every = Some(0.2);
                config.test_metrics = TestMetrics::Private { loss_bound: 10.0 };
            }),
        ),
        (
            "normalised",
            of(&|config| {
                let normalize = NormalizePrivate { lows: vec![0.0], highs: vec![1.0], noise_multiplier: None };
                config.normalize_private = Some(normalize);
            }),
        ),
        ("counted", of(&|config| config.release_non_finite = Some(ReleaseNonFinite::default()))),
        ("floats of two workers", of(&|config| config.noise = NoiseKind::Continuous)),
    ]
}

/// Sets correlated noise, whose buffers are in no file.
pub fn correlated(config: &mut TrainConfig, noise: &str, sampler: Sampler) {
    config.noise_correlation = noise.parse().unwrap();
    (config.sampler, config.epochs) = (sampler, 2.3);
}
