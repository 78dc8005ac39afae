//! Training on sums that the backend clipped. It equals training on per-sample gradients except for rounding, for every
//! method that needs only norms and combined gradients. Its report states that it is not exact.

#[path = "support/digits.rs"]
mod digits;
#[path = "support/models.rs"]
mod models;

use damper::design::Coefficients;
use damper::grad::Readout;
use damper::report::TrainReport;
use damper::runtime::{Backend, Choice, Operators};
use damper::train::{
    self, Budget, ByName, Clipping, FilterChoice, InputFiles, Method, NoiseKind, OptimizerRule, Outcome, Run,
    ThresholdChoice, TrainConfig,
};
use digits::source;
use models::backends;
use std::num::NonZeroUsize;
use toml::toml;

/// Six steps of a simulation with little noise, and a clip within the range of the norms.
fn config(backend: Choice, readout: Readout) -> TrainConfig {
    TrainConfig {
        optimizer: OptimizerRule::of_name("momentum").unwrap().into(),
        noise: NoiseKind::Continuous,
        readout,
        backend,
        seed: Some(5),
        workers: NonZeroUsize::new(2),
        ..TrainConfig::new(Budget::NoiseMultiplier(0.3), 1e-5, 100, 0.4, Method::dp_sgd(2.0, 0.3))
    }
}

fn train(source: &InputFiles, config: TrainConfig) -> (Run, Outcome) {
    let folder = tempfile::tempdir().unwrap();
    let run = train::prepare(source, config).unwrap();
    let outcome = train::run(&run, folder.path(), &mut ()).unwrap();
    (run, outcome)
}

fn methods() -> Vec<Method> {
    let plain = || Method::dp_sgd(2.0, 0.3);
    let kalman = FilterChoice::with("disk", toml! { gamma = 0.5 }).unwrap();
    let momentum = FilterChoice::with(
        "dp-pmlf",
        toml! {
            iterates = 3
            beta = 0.5
        },
    )
    .unwrap()
    .with_taps(&Coefficients::named("momentum").unwrap());
    let mut learned = plain();
    learned.threshold = ThresholdChoice::with(
        "percentile",
        toml! {
            clip = 2.0
            count_noise = 1.0
            range = 20.0
        },
    )
    .unwrap();
    vec![
        plain(),
        Method { name: "disk".into(), filter: kalman, ..plain() },
        Method { name: "dp-pmlf".into(), filter: momentum, ..plain() },
        Method { name: "dc-sgd-p".into(), ..learned },
    ]
}

/// Backends that run the samples of a batch together. The portable backend clips no sums.
fn summing() -> Vec<(Choice, String)> {
    let summing = backends().into_iter().filter(|backend| !backend.is_portable());
    let choice = |backend: Box<dyn Backend>| match (backend.name(), backend.operators()) {
        ("ort", Operators::Standard) => (Choice::OrtStandard, "ort with standard operators".into()),
        (name, _) => (name.parse().unwrap(), name.into()),
    };
    summing.map(choice).collect()
}

// Training on clipped sums equals training on clipped gradients, except for rounding.
#[test]
fn clipped_sums_match_clipped_gradients() {
    for (choice, backend) in summing() {
        for method in methods() {
            let source = source("digits-cnn-groupnorm.onnx");
            let of = |readout| train(&source, TrainConfig { method: method.clone(), ..config(choice, readout) });
            let ((run, apart), (_, together)) = (of(Readout::PerSample), of(Readout::ClippedSum));
            let what = format!("{} on {backend}", method.name);
            let moved = run.model.params.iter().zip(&apart.params).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            for (a, b) in apart.params.iter().zip(&together.params) {
                assert!((a - b).abs() <= 1e-4 * moved, "{what}: {a} and {b}, where the farthest moved {moved}");
            }
            assert!((apart.clip - together.clip).abs() <= 1e-4 * apart.clip, "{what}");
        }
    }
}

// The number of workers does not change a bit of clipped sums.
#[test]
fn clipped_sums_ignore_worker_count() {
    for (choice, backend) in summing() {
        let source = source("digits-mlp.onnx");
        let of = |workers| {
            let config = TrainConfig { workers: NonZeroUsize::new(workers), ..config(choice, Readout::ClippedSum) };
            train(&source, config).1.params
        };
        let one = of(1);
        assert!(of(2) == one && of(3) == one, "{backend}");
    }
}

// The report states that clipped sums are not exact.
#[test]
fn report_marks_clipped_sums_inexact() {
    let (run, outcome) = train(&source("digits-mlp.onnx"), config(Choice::Tract, Readout::ClippedSum));
    let report = TrainReport::new(&run, &outcome);
    assert!(report.to_json().contains("float, clipped by the backend") && report.to_json().contains("NOT exact"));
    assert!(report.to_string().contains("clipped by the backend: not exact"));
}

// Clipped sums are an error if their bound does not hold.
#[test]
fn clipped_sums_need_a_valid_bound() {
    let source = source("digits-mlp.onnx");
    let refused = |config: TrainConfig, word: &str| {
        let error = train::prepare(&source, config).err().expect("refused").to_string();
        assert!(error.contains("`readout`") && error.contains(word), "{error}");
    };
    let config = |readout| config(Choice::Tract, readout);
    refused(TrainConfig { noise: NoiseKind::Discrete, ..config(Readout::ClippedSum) }, "`noise` continuous");
    for clipping in [Clipping::PerLayer, Clipping::of_name("automatic").unwrap()] {
        let method = Method { clipping, ..Method::dp_sgd(1.0, 0.3) };
        refused(TrainConfig { method, ..config(Readout::ClippedSum) }, "`clipping` flat");
    }
    refused(config(Readout::Norms), "clipped-sum");
}
