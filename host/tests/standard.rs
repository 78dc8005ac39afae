//! Every shipped model trains on graphs of standard operators alone, as a device runs them. The result is that with
//! damper's operators except for rounding.

#[path = "support/digits.rs"]
mod digits;
#[path = "support/models.rs"]
#[expect(dead_code, reason = "the backends are opened here")]
mod models;

use damper::data::DataOptions;
use damper::grad::Readout;
use damper::report::TrainReport;
use damper::runtime::{Choice, HostNode, open};
use damper::train::{self, Budget, InputFiles, Method, NoiseKind, Outcome, Run, TrainConfig};
use digits::source;
use models::{SKELETONS, path};
use std::num::NonZeroUsize;

/// Models with rectifiers. If rounding moves a value across the kink, later steps differ by more than rounding, so they
/// take one step.
const RECTIFIED: [&str; 2] = ["resnet18-groupnorm", "wrn-16-4-groupnorm"];

/// Runs some steps over the samples of the model's vectors, in chunks of one row.
fn train(model: &str, backend: Choice, readout: Readout) -> (Run, Outcome) {
    let source = InputFiles {
        of_file: SKELETONS.contains(&model).then_some(1).into(),
        data: format!("npz:{}", path(&format!("vectors/{model}.npz")).display()),
        data_options: DataOptions::default(),
        ..source(&format!("{model}.onnx"))
    };
    let epochs = if RECTIFIED.contains(&model) { 1.0 } else { 3.0 };
    let config = TrainConfig {
        noise: if readout == Readout::ClippedSum { NoiseKind::Continuous } else { NoiseKind::Discrete },
        readout,
        backend,
        seed: Some(5),
        allow_large_delta: true,
        physical_batch: NonZeroUsize::new(1),
        workers: NonZeroUsize::new(2),
        ..TrainConfig::new(Budget::NoiseMultiplier(0.01), 0.2, 2, epochs, Method::dp_sgd(1.0, 0.1))
    };
    let folder = tempfile::tempdir().unwrap();
    let run = train::prepare(&source, config).unwrap_or_else(|error| panic!("{model}: {error}"));
    let outcome = train::run(&run, folder.path(), &mut ()).unwrap_or_else(|error| panic!("{model}: {error}"));
    (run, outcome)
}

/// Checks clipped sums and single gradients of the model.
fn check(model: &str) {
    if let Err(error) = open(Choice::OrtStandard) {
        return damper_testing::skip("ort", error.0.split(" (").next().unwrap_or_default());
    }
    for readout in [Readout::ClippedSum, Readout::PerSample] {
        let clock = std::time::Instant::now();
        let (run, standard) = train(model, Choice::OrtStandard, readout);
        let seconds = clock.elapsed().as_secs_f64();
        let (_, own) = train(model, Choice::Ort, readout);
        let what = format!("{model}, {readout:?}");
        let moved = run.model.params.iter().zip(&own.params).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let apart = standard.params.iter().zip(&own.params).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        println!("{what}: apart by {:.1e} of the farthest move, {seconds:.1} s", apart / moved);
        assert!(moved > 0.0 && apart <= 1e-4 * moved, "{what}: apart by {apart}, where the farthest moved {moved}");
        for (outcome, operators) in [(&standard, "standard"), (&own, "own")] {
            let report = TrainReport::new(&run, outcome);
            assert_eq!((&*report.execution.backend, &*report.versions.operators), ("ort", operators));
            assert!(report.to_string().contains(&format!("({operators} operators)")), "{report}");
        }
        // A single session sums on the device. Each worker reads single gradients.
        assert_eq!(standard.workers, if readout == Readout::ClippedSum { 1 } else { 2 });
        assert_eq!(TrainReport::new(&run, &standard).execution.host_nodes, None);
        let left = HostNode { op: "ConvTranspose".into(), name: "dp.v7".into() };
        let mut outcome = standard;
        outcome.host_nodes = Some(vec![left]);
        let report = TrainReport::new(&run, &outcome);
        assert_eq!(report.execution.host_nodes, Some(vec!["ConvTranspose dp.v7".to_owned()]));
    }
}

macro_rules! models {
    ($($test:ident: $model:literal,)*) => {
        $(#[test]
        fn $test() {
            check($model);
        })*

        #[test]
        fn every_shipped_model_is_trained() {
            for entry in std::fs::read_dir(path("")).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let Some(name) = name.strip_suffix(".onnx") else { continue };
                assert!([$($model),*].contains(&name), "{name} is not trained here");
            }
        }
    };
}

models! {
    digits_linear_trains: "digits-linear",
    digits_mlp_trains: "digits-mlp",
    digits_cnn_trains: "digits-cnn",
    digits_groupnorm_trains: "digits-cnn-groupnorm",
    mnist_cnn_trains: "mnist-cnn",
    sensor_cnn_trains: "sensor-cnn",
    cifar_cnn_trains: "cifar-cnn",
    cifar_cnn5_trains: "cifar-cnn5",
    resnet_trains: "resnet18-groupnorm",
    wide_resnet_trains: "wrn-16-4-groupnorm",
    vit_trains: "vit-tiny",
    text_classifier_trains: "bert-tiny",
    language_model_trains: "gpt-small",
}
