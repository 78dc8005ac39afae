//! Audits of the unmodified trainer. Replay on neighbouring data passes every check, for every method, on every
//! backend, and the records are complete. The broken mechanisms are with the audits, in `host/audit/src/controls.rs`.

#[path = "support/digits.rs"]
mod digits;
#[path = "support/models.rs"]
mod models;

use damper::audit::canary::{Canaries, CanaryOptions, canary};
use damper::audit::mechanism::{MechanismOptions, mechanism};
use damper::audit::neighbours::{Change, Made, NeighbourAudit, NeighbourOptions, neighbours};
use damper::design::Coefficients;
use damper::grad::Readout;
use damper::runtime::Choice;
use damper::train::{
    self, Budget, ByName, Clipping, FilterChoice, LowRank, Method, NoiseKind, NormStep, OptimizerRule, TestMetrics,
    ThresholdChoice, TrainConfig,
};
use digits::source;
use models::backends;
use std::num::{NonZeroU32, NonZeroUsize};
use toml::toml;

const SMALL: &str = "digits-linear.onnx";

/// Twelve steps, with a clip within the range of the norms.
fn config() -> TrainConfig {
    TrainConfig {
        optimizer: OptimizerRule::of_name("momentum").unwrap().into(),
        backend: Choice::Tract,
        physical_batch: NonZeroUsize::new(16),
        workers: NonZeroUsize::new(2),
        ..TrainConfig::new(Budget::NoiseMultiplier(0.5), 1e-5, 120, 1.0, Method::dp_sgd(2.0, 0.3))
    }
}

fn replayed(model: &str, config: TrainConfig, steps: u32) -> NeighbourAudit {
    let run = train::prepare(&source(model), config).unwrap();
    neighbours(&run, NeighbourOptions { steps, seed: Some(11) }, &mut |_| {}).unwrap()
}

#[track_caller]
fn holds(name: &str, audit: &NeighbourAudit) {
    for case in &audit.cases {
        assert!(case.violation.is_none(), "{name}, {}: {}", case.case, case.violation.as_ref().unwrap());
        assert!(case.drawn > 0, "{name}, {}", case.case);
    }
    assert!(audit.holds && audit.cases.len() == 12);
}

// No neighbouring data set fails a check, for any shipped digit model on any backend.
#[test]
fn neighbours_break_no_check_on_backends() {
    for backend in backends() {
        for model in [SMALL, "digits-mlp.onnx", "digits-cnn.onnx", "digits-cnn-groupnorm.onnx"] {
            let config = TrainConfig { backend: backend.name().parse().unwrap(), ..config() };
            let audit = replayed(model, config, 2);
            holds(&format!("{model} on {}", backend.name()), &audit);
            assert_eq!((audit.claim.path, audit.other_samples), ("exact", "compared bit for bit"));
        }
    }
}

/// Every method, clipping rule, schedule and kind of noise.
fn methods() -> Vec<(&'static str, TrainConfig)> {
    let of = |change: &dyn Fn(&mut TrainConfig)| {
        let mut config = config();
        change(&mut config);
        config
    };
    let filter = |filter: FilterChoice| of(&|config| config.method.filter = filter.clone());
    let threshold =
        |rule: ThresholdChoice| of(&|config| config.method.threshold = rule.with_clip(config.method.threshold.clip()));
    let inner = Coefficients::named("p4").unwrap();
    let disk = FilterChoice::with("disk", toml! { gamma = 0.5 }).unwrap();
    vec![
        ("doppler", filter(FilterChoice::of_name("doppler").unwrap().with_taps(&inner))),
        (
            "dp-pmlf",
            filter(
                FilterChoice::with(
                    "dp-pmlf",
                    toml! {
                        iterates = 3
                        beta = 0.5
                    },
                )
                .unwrap()
                .with_taps(&inner),
            ),
        ),
        ("disk", filter(disk)),
        (
            "percentile",
            threshold(
                ThresholdChoice::with(
                    "percentile",
                    toml! {
                        count_noise = 2.0
                        range = 4.0
                    },
                )
                .unwrap(),
            ),
        ),
        (
            "expected error",
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
        ("growing noise", of(&|config| config.method.noise_schedule = "polynomial:0.1,0.5".parse().unwrap())),
        (
            "adagrad-norm",
            of(&|config| {
                config.optimizer.norm_step = Some(NormStep { initial: 20.0, floor: 1e-5, subtract_noise: true });
            }),
        ),
        (
            "galore",
            of(&|config| {
                let every = NonZeroU32::new(2).unwrap();
                config.optimizer.galore = Some(LowRank { rank: NonZeroUsize::new(2).unwrap(), every, scale: 1.0 });
            }),
        ),
        ("floats", of(&|config| config.noise = NoiseKind::Continuous)),
        ("clipped sums", of(&|config| (config.noise, config.readout) = (NoiseKind::Continuous, Readout::ClippedSum))),
    ]
}

// The mechanism of every method is the mechanism that the accountant charges.
#[test]
fn mechanism_of_each_method_is_charged_one() {
    let plain = ("dp-sgd", config());
    for (name, config) in methods().into_iter().chain([plain]) {
        let run = train::prepare(&source(SMALL), config).unwrap();
        let audit = mechanism(&run, MechanismOptions { precision: 0.1, seed: None }, &mut |_| {}).unwrap();
        for finding in &audit.findings {
            assert!(finding.holds, "{name}: {finding:?}");
        }
        // Runs of a schedule, however short, are repeated until they have enough draws.
        let of = |what: &str| audit.findings.iter().find(|finding| finding.what == what);
        let detects = of("narrow: deviation of the noise, each coordinate").and_then(|finding| finding.detects);
        assert!(detects.is_some_and(|share| share <= 0.1), "{name}: {detects:?}");
        let parts = of("narrow: deviation of the noise, each part of the schedule").map(|finding| finding.tests);
        assert_eq!(parts, (name == "growing noise").then_some(12), "{name}");
        let counted = run.price.terms.count_noise.is_some();
        assert_eq!(audit.findings.iter().any(|finding| finding.what.contains("each count")), counted, "{name}");
        // The tests of each sample's rate are a family, which counts as one.
        assert!(audit.holds && audit.courses.len() == 7 && audit.tests > 600 && audit.error_rate == 1e-6);
    }
}

// Noise on private figures of a model that hardly changes. Its deviation is the accounted deviation, within five of its
// own.
#[test]
fn noise_on_figures_has_the_priced_deviation() {
    let folder = tempfile::tempdir().unwrap();
    let of = |test_metrics| {
        let mut config =
            TrainConfig { test_metrics, seed: Some(5), evaluate_every: Some(1.0 / 12.0), epochs: 40.0, ..config() };
        config.method.learning_rate.lr = 1e-20;
        let run = train::prepare(&source(SMALL), config).unwrap();
        let place = folder.path().join(run.config.test_metrics.name());
        std::fs::create_dir_all(&place).unwrap();
        let outcome = train::run(&run, &place, &mut ()).unwrap();
        (run, outcome.evaluations)
    };
    let (_, exact) = of(TestMetrics::Exact);
    let (run, noisy) = of(TestMetrics::Private { loss_bound: 10.0 });
    let (rows, noise) =
        (run.data.test.as_ref().unwrap().len() as f64, run.price.private_metrics.unwrap().noise.multiplier());
    let (mut squares, mut draws) = (0.0, 0.0);
    for (exact, noisy) in exact.iter().zip(&noisy) {
        // A share is clamped to 0 and 1.
        let share = noisy.accuracy.unwrap() - exact.accuracy.unwrap();
        let of_loss = (noisy.loss - exact.loss) / 10.0;
        for one in [share, of_loss] {
            squares += (one * rows / noise).powi(2);
            draws += 1.0;
        }
    }
    let deviation = f64::sqrt(squares / draws);
    assert!(
        draws > 900.0 && (deviation - 1.0).abs() < 5.0 * f64::sqrt(0.5 / draws),
        "{deviation} of {draws} draws, {noise} of {rows} rows"
    );
}

// The error for a precision without any test names its flag.
#[test]
fn useless_precision_error_names_flag() {
    let run = train::prepare(&source(SMALL), config()).unwrap();
    for precision in [0.0, 0.6, f64::NAN] {
        let error = mechanism(&run, MechanismOptions { precision, seed: None }, &mut |_| {}).unwrap_err();
        assert!(error.to_string().starts_with("`precision` "), "{error}");
    }
}

#[test]
fn no_neighbour_breaks_a_law_of_any_method() {
    for (name, config) in methods() {
        let audit = replayed(SMALL, config, 4);
        holds(name, &audit);
        let compared = audit.other_samples == "compared bit for bit";
        assert_eq!(compared, name != "clipped sums");
    }
}

// A seed determines the replay. Its cases are all changes by all synthetic samples.
#[test]
fn replay_cases_follow_from_seed() {
    let one = replayed(SMALL, config(), 2);
    assert_eq!(one, replayed(SMALL, TrainConfig { workers: NonZeroUsize::new(1), ..config() }, 2));
    for made in [Made::Duplicate, Made::Huge, Made::Contrary, Made::Nan, Made::Infinite] {
        for change in [Change::Added, Change::Replaced] {
            assert_eq!(one.cases.iter().filter(|case| case.made == Some(made) && case.change == change).count(), 1);
        }
    }
    let added = one.cases.iter().find(|case| case.change == Change::Added).unwrap();
    assert_eq!((added.sample, one.steps, one.claim.steps), (1437, 2, 12));
    // No more steps than the run has.
    assert_eq!(replayed(SMALL, config(), 1000).steps, 12);
}

// An added sample that is almost never drawn is an error, not a passed audit.
#[test]
fn rarely_drawn_sample_is_error() {
    let size = Some(1 << 40);
    let rare = TrainConfig { dataset_size: size, allow_large_delta: true, batch_size: 1, epochs: 1e-9, ..config() };
    let run = train::prepare(&source(SMALL), rare).unwrap();
    let error = neighbours(&run, NeighbourOptions { steps: 1, seed: Some(0) }, &mut |_| {}).unwrap_err();
    assert!(error.to_string().starts_with("`steps` 1: "), "{error}");
}

fn options() -> CanaryOptions {
    CanaryOptions { canaries: Canaries::Random, count: 1000, guesses: Some(300), confidence: 0.999, seed: Some(2) }
}

// A canary audit runs on every path, and repeats with its seed.
#[test]
fn canary_covers_paths_and_repeats() {
    let learned = ThresholdChoice::with("quantile", toml! { count_noise = 6.4 }).unwrap();
    for config in [
        config(),
        TrainConfig { noise: NoiseKind::Continuous, ..config() },
        TrainConfig { noise: NoiseKind::Continuous, readout: Readout::ClippedSum, ..config() },
        {
            let mut config = config();
            config.method.threshold = learned.with_clip(config.method.threshold.clip());
            config.method.filter = FilterChoice::with("disk", toml! { gamma = 0.5 }).unwrap();
            config.method.clipping = Clipping::PerLayer;
            config.optimizer.norm_step = Some(NormStep { initial: 20.0, floor: 1e-5, subtract_noise: false });
            config
        },
    ] {
        let run = train::prepare(&source(SMALL), config).unwrap();
        let (audit, params) = canary(&run, options(), &mut |_| {}).unwrap();
        assert!(!audit.refuted && audit.correct > 160 && audit.correct <= 300, "{audit:?}");
        assert_eq!((audit.count, audit.guesses, audit.claim.epsilon), (1000, 300, run.price.epsilon));
        let again = canary(&run, options(), &mut |_| {}).unwrap();
        assert_eq!((audit.correct, params), (again.0.correct, again.1));
    }
}

#[test]
fn useless_options_are_refused_by_name() {
    let run = train::prepare(&source(SMALL), config()).unwrap();
    for (options, words) in [
        (CanaryOptions { count: 999, ..options() }, "`num_canaries` 999"),
        (CanaryOptions { guesses: Some(3), ..options() }, "`num_guesses` 3"),
        (CanaryOptions { guesses: Some(0), ..options() }, "`num_guesses` 0"),
        (CanaryOptions { guesses: Some(1002), ..options() }, "`num_guesses` 1002"),
        (CanaryOptions { confidence: 1.0, ..options() }, "`confidence` 1"),
        (CanaryOptions { confidence: f64::NAN, ..options() }, "`confidence` NaN"),
        (CanaryOptions { canaries: Canaries::Dirac, ..options() }, "here are 650; use `canaries` random"),
    ] {
        let error = canary(&run, options, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
