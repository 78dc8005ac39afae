//! A short training, from the model's file to the output folder. The folder's content is as reported, and only the seed
//! determines it.

#[path = "support/digits.rs"]
mod digits;
#[path = "support/models.rs"]
mod models;

use damper::data::{Batch, BatchLabels, Split, chunks};
use damper::graph::{DType, GraphOptions};
use damper::onnx;
use damper::onnx::{Dim, TensorSpec};
use damper::report::{OutputFolder, TrainReport, trained_model};
use damper::runtime::{Backend, Choice, SessionSpec};
use damper::train::{self, Budget, ByName, InputFiles, Method, OptimizerRule, Outcome, Run, TrainConfig};
use digits::source;
use models::backends;
use std::num::NonZeroUsize;
use std::path::Path;

/// Thirty steps of a simulation.
fn config(backend: Choice) -> TrainConfig {
    TrainConfig {
        optimizer: OptimizerRule::of_name("momentum").unwrap().into(),
        grid_bits: 16,
        backend,
        seed: Some(11),
        workers: NonZeroUsize::new(1),
        ..TrainConfig::new(Budget::NoiseMultiplier(0.5), 1e-5, 100, 2.0, Method::dp_sgd(1.0, 0.3))
    }
}

fn choice(backend: &dyn Backend) -> Choice {
    backend.name().parse().expect("a backend's name is a choice")
}

/// Trains in a temporary folder.
fn train(source: &InputFiles, config: TrainConfig) -> (Run, Outcome) {
    let folder = tempfile::tempdir().unwrap();
    let run = train::prepare(source, config).unwrap();
    let outcome = train::run(&run, folder.path(), &mut ()).unwrap();
    (run, outcome)
}

/// Trains, and writes the folder as the command does.
fn train_into(out: &Path, source: &InputFiles, config: TrainConfig) -> TrainReport {
    let run = train::prepare(source, config).unwrap();
    let folder = OutputFolder::create(out).unwrap();
    let outcome = train::run(&run, &folder.checkpoint(), &mut ()).unwrap();
    let report = TrainReport::new(&run, &outcome);
    let model = trained_model(&run, &outcome.params).unwrap();
    folder.write("model.onnx", &onnx::encode(&model)).unwrap();
    folder
        .write(
            "metrics.csv",
            TrainReport::metrics(run.kind(), run.config.test_metrics, &outcome.evaluations).as_bytes(),
        )
        .unwrap();
    folder.write("report.json", report.to_json().as_bytes()).unwrap();
    folder.keep();
    report
}

fn digest(source: &InputFiles, config: TrainConfig) -> String {
    let (run, outcome) = train(source, config);
    TrainReport::new(&run, &outcome).execution.params_digest
}

/// Returns the accuracy and the mean loss of a model, without a gradient graph, in batches of `rows`.
fn figures(model: &onnx::pb::ModelProto, backend: &dyn Backend, test: &Split, rows: usize) -> (f64, f64) {
    let spec = |name: &str, shape: &[usize]| TensorSpec {
        name: name.into(),
        dtype: DType::F32,
        shape: [Dim::Batch].into_iter().chain(shape.iter().map(|&extent| Dim::Fixed(extent))).collect(),
    };
    let plan = SessionSpec {
        batch: rows,
        threads: 1,
        inputs: vec![spec("x", &test.features()[0].shape)],
        outputs: vec![spec("logits", &[10])],
    };
    let mut session = backend.load(model, &plan).unwrap();
    let rows = NonZeroUsize::new(rows).unwrap();
    let mut batch = Batch::new(test, rows);
    let all: Vec<u32> = (0..test.len() as u32).collect();
    let (mut right, mut loss) = (0, 0.0);
    for chunk in chunks(&all, rows) {
        batch.fill(test, chunk).unwrap();
        let BatchLabels::Classes(labels) = batch.labels() else { panic!("digits have classes") };
        session
            .run(&[batch.features(0)], &mut |outputs| {
                for (logits, &label) in outputs[0].chunks(10).zip(labels).take(chunk.samples.len()) {
                    let label = label as usize;
                    right += usize::from((0..10).all(|other| other == label || logits[other] < logits[label]));
                    let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
                    loss += sum.ln() - f64::from(logits[label]);
                }
            })
            .unwrap();
    }
    let n = test.len() as f64;
    (right as f64 / n, loss / n)
}

/// Checks that the model in `out` has the figures of the report in every runtime for models (the portable backend runs
/// gradient graphs). The accuracy is exact, and the loss is as near as two f32 forward passes. The original model is
/// far from it.
fn check_figures(out: &Path, source: &InputFiles, report: &TrainReport, rows: usize) {
    let written = onnx::load(&out.join("model.onnx")).unwrap();
    let untrained = onnx::load(&source.model).unwrap();
    let test = train::prepare(source, config(Choice::Tract)).unwrap().data.test.clone().unwrap();
    let reported = report.test.loss.unwrap();
    for runtime in backends().into_iter().filter(|runtime| !runtime.is_portable()) {
        let (accuracy, loss) = figures(&written, runtime.as_ref(), &test, rows);
        let what = format!("{} by {}, run by {}", source.model.display(), report.execution.backend, runtime.name());
        assert_eq!(Some(accuracy), report.test.accuracy, "{what}");
        assert!((loss - reported).abs() < 1e-6 * reported, "{what}: {loss}, reported {reported}");
        let (_, before) = figures(&untrained, runtime.as_ref(), &test, rows);
        assert!((before - loss).abs() > 1e-4 * loss, "{what}: {loss}, before training {before}");
    }
}

// The written model has the reported metrics in every runtime.
#[test]
fn model_has_reported_metrics_everywhere() {
    for trainer in backends() {
        for model in ["digits-mlp.onnx", "digits-cnn.onnx", "digits-cnn-groupnorm.onnx"] {
            let root = tempfile::tempdir().unwrap();
            let out = root.path().join("run");
            let source = source(model);
            let report = train_into(&out, &source, config(choice(trainer.as_ref())));
            assert_eq!(report.execution.backend, trainer.name());
            check_figures(&out, &source, &report, 60);
        }
    }
}

// An export of either exporter is trained under its own names.
#[test]
fn export_keeps_its_own_names() {
    for file in [
        "exports/digits-cnn-groupnorm.torchscript.onnx",
        "exports/digits-cnn-groupnorm.dynamo.onnx",
        "exports/merged-norms.torchscript.onnx",
        "exports/merged-norms.dynamo.onnx",
        "exports/merged-norms.unfolded.onnx",
        "exports/operators.torchscript.onnx",
        "exports/operators.dynamo.onnx",
        "exports/reshaped.torchscript.onnx",
    ] {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("run");
        let source = source(file);
        let report = train_into(&out, &source, config(Choice::Tract));
        check_figures(&out, &source, &report, 60);
    }
}

#[test]
fn fixed_batch_export_takes_any_batch_after() {
    for exporter in ["torchscript", "dynamo"] {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("run");
        let source = source(&format!("exports/fixed-batch-4.{exporter}.onnx"));
        let report = train_into(&out, &source, config(Choice::Tract));
        let written = onnx::load(&out.join("model.onnx")).unwrap().graph.unwrap();
        assert!(written.value_info.is_empty());
        let rows = |rows: usize| {
            let model = onnx::load(&out.join("model.onnx")).unwrap();
            let test = train::prepare(&source, config(Choice::Tract)).unwrap().data.test.clone().unwrap();
            let loaded: Vec<_> = backends();
            loaded.iter().map(|backend| figures(&model, backend.as_ref(), &test, rows)).collect::<Vec<_>>()
        };
        for (at_one, at_seven) in rows(1).into_iter().zip(rows(7)) {
            assert_eq!(Some(at_one.0), report.test.accuracy, "{exporter}");
            assert_eq!(at_one.0, at_seven.0, "{exporter}");
            assert!((at_one.1 - at_seven.1).abs() < 1e-6 * at_one.1, "{exporter}");
        }
    }
}

// A seed determines every bit, for any number of workers.
#[test]
fn seed_fixes_every_bit_for_any_workers() {
    for backend in backends() {
        let choice = choice(backend.as_ref());
        let source = source("digits-cnn-groupnorm.onnx");
        let with = |workers, seed| TrainConfig { workers: NonZeroUsize::new(workers), seed, ..config(choice) };
        let first = digest(&source, with(1, Some(11)));
        for workers in [1, 2, 3] {
            assert_eq!(digest(&source, with(workers, Some(11))), first, "{workers} workers on {}", backend.name());
        }
        assert_ne!(digest(&source, with(1, Some(12))), first, "another seed on {}", backend.name());
    }
}

// On the portable backend the whole run, from the pixels on, has these bits on every target, with any number of workers
// and rows.
#[test]
fn portable_run_has_recorded_bits() {
    let source = source("digits-cnn.onnx");
    for (workers, rows) in [(1, 16), (2, 7), (3, 1)] {
        let (workers, physical_batch) = (NonZeroUsize::new(workers), NonZeroUsize::new(rows));
        let config = TrainConfig { workers, physical_batch, ..config(Choice::Portable) };
        let recorded = "4d9304d480c01623346bb3cf4f2f5e6b15c668a22070aa3f247c201b2fa3b3f6";
        assert_eq!(digest(&source, config), recorded, "{workers:?} workers, {rows} rows");
    }
}

#[test]
fn two_runs_without_a_seed_differ() {
    let source = source("digits-mlp.onnx");
    let private = || TrainConfig { seed: None, ..config(Choice::Tract) };
    assert_ne!(digest(&source, private()), digest(&source, private()));
}

// Training one parameter leaves the others unchanged.
#[test]
fn frozen_parameters_do_not_change() {
    for only in ["conv1.weight", "norm2.bias", "fc.weight"] {
        let graph = GraphOptions { train: vec![only.into()], ..GraphOptions::default() };
        let all = train::prepare(&source("digits-cnn-groupnorm.onnx"), config(Choice::Tract)).unwrap();
        let freeze =
            all.model.grad.parameters.iter().map(|spec| spec.name.clone()).filter(|name| name != only).collect();
        let source = InputFiles { graph: GraphOptions { freeze, ..graph }, ..source("digits-cnn-groupnorm.onnx") };
        let (run, outcome) = train(&source, TrainConfig { epochs: 0.05, ..config(Choice::Tract) });
        assert_eq!(outcome.steps, 1);
        let trained = trained_model(&run, &outcome.params).unwrap();
        let (before, after) = (run.model.onnx.graph.clone().unwrap().initializer, trained.graph.unwrap().initializer);
        assert_eq!(before.len(), after.len());
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before.name, after.name);
            let tensor = |proto| onnx::decode_tensor(proto).unwrap();
            assert_eq!(tensor(before) != tensor(after), before.name == only, "{} while {only} is trained", before.name);
        }
    }
}
