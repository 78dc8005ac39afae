//! A frozen part with operators without a rule: the rest trains to the bits of a run on features that were computed
//! apart, and samples cannot reach each other.

#[path = "support/digits.rs"]
mod digits;
#[path = "support/models.rs"]
#[expect(dead_code, reason = "the backends are opened here")]
mod models;
#[path = "opaque/networks.rs"]
mod networks;

use damper::data::{DataOptions, Dataset, Features, Numbers, Split};
use damper::graph::GraphOptions;
use damper::runtime::{Choice, open};
use damper::train::{self, Budget, InputFiles, Method, Outcome, Run, TrainConfig, TrainError};
use damper_core::numerics::digest::Digest;
use damper_onnx::pb::ModelProto;
use digits::source;
use models::path;
use networks::{HEAD, body_before_det, features_of, head, long_for_large, network, shifted};
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;

const BACKENDS: [Choice; 3] = [Choice::Ort, Choice::OrtStandard, Choice::Tract];

fn config(backend: Choice) -> TrainConfig {
    TrainConfig {
        backend,
        seed: Some(5),
        allow_large_delta: true,
        physical_batch: NonZeroUsize::new(16),
        workers: NonZeroUsize::new(2),
        batch_size: 100,
        epochs: 1.0,
        delta: 1e-5,
        ..TrainConfig::new(Budget::NoiseMultiplier(0.01), 0.2, 2, 3.0, Method::dp_sgd(1.0, 0.1))
    }
}

/// Returns the digits for `model`, of which the head is trained.
fn of_head(model: &ModelProto, folder: &Path) -> InputFiles {
    let file = folder.join("model.onnx");
    std::fs::write(&file, damper_onnx::encode(model)).unwrap();
    let graph = GraphOptions { only: vec![HEAD.into()], ..GraphOptions::default() };
    InputFiles { model: file, graph, ..source("digits-cnn.onnx") }
}

fn prepared(model: &ModelProto, backend: Choice) -> Result<Run, TrainError> {
    let folder = tempfile::tempdir().unwrap();
    train::prepare(&of_head(model, folder.path()), config(backend))
}

/// Returns the run of a head alone on the digits, with `change` applied to each training sample.
fn of_features(backend: Choice, change: &dyn Fn(&[f32]) -> Vec<f32>) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let replaced = |data: Dataset| {
        let split = |split: &Split| changed(split, change);
        Ok(Dataset { train: split(&data.train), test: data.test.as_ref().map(split), ..data })
    };
    train::prepare_on(&of_head(&head(), folder.path()), config(backend), replaced).unwrap()
}

/// Returns `split` with `change` applied to each sample.
fn changed(split: &Split, change: &dyn Fn(&[f32]) -> Vec<f32>) -> Split {
    let Features { shape, values } = &split.features()[0];
    let Numbers::F32(values) = values else { panic!("images are floats") };
    let values = values.chunks(64).flat_map(change).collect();
    split.with_features(vec![Features { shape: shape.clone(), values: Numbers::F32(values) }])
}

fn trained(run: &Run) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    train::run(run, folder.path(), &mut ()).unwrap()
}

fn bits(outcome: &Outcome) -> u64 {
    Digest::of(&outcome.params).value()
}

/// Returns true if `backend` is there.
fn has(backend: Choice) -> bool {
    let found = open(backend);
    if let Err(error) = &found {
        damper_testing::skip("ort", error.0.split(" (").next().unwrap_or_default());
    }
    found.is_ok()
}

// The parameters, and the figures of held-out rows, are those of the head on features that Rust computes.
#[test]
fn head_has_bits_of_run_on_features() {
    for backend in BACKENDS.into_iter().filter(|backend| has(*backend)) {
        let whole = prepared(&network(&shifted("x")), backend).unwrap();
        let [of_whole, of_head] = [&whole, &of_features(backend, &features_of)].map(trained);
        assert_eq!(bits(&of_whole), bits(&of_head), "{backend:?}");
        assert_eq!(of_whole.evaluations, of_head.evaluations, "{backend:?}");
        assert!(of_whole.params != whole.model.params, "{backend:?}: nothing was trained");
    }
}

// Operators over the axis of the samples do nothing to a sample alone, so no sample reaches another.
#[test]
fn mixing_operators_see_one_sample() {
    for backend in BACKENDS.into_iter().filter(|backend| has(*backend)) {
        let alone = trained(&of_features(backend, &features_of));
        for mixing in [networks::sums_over_samples(), networks::means_over_samples(), networks::reverses_samples()] {
            let nodes = [mixing, shifted("mixed")].concat();
            let whole = prepared(&network(&nodes), backend).unwrap();
            assert_eq!(bits(&trained(&whole)), bits(&alone), "{backend:?}");
        }
    }
}

// A sample for which a value has another shape counts as one without a finite gradient. No error shows that it exists.
#[test]
fn sample_of_other_shape_has_no_gradient() {
    if !has(Choice::Ort) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let is_chosen = |sample: &[f32]| sample[10] > 0.5;
    let large = |sample: &[f32]| sample.iter().map(|x| if is_chosen(sample) { 1e7 } else { *x }).collect();
    let of_large = |data: Dataset| Ok(Dataset { train: changed(&data.train, &large), ..data });
    let whole = network(&long_for_large());
    let whole = train::prepare_on(&of_head(&whole, folder.path()), config(Choice::Ort), of_large).unwrap();
    let nan = |sample: &[f32]| if is_chosen(sample) { vec![f32::NAN; 64] } else { sample.to_vec() };
    let replaced = |data: Dataset| Ok(Dataset { train: changed(&data.train, &nan), ..data });
    let head = train::prepare_on(&of_head(&head(), folder.path()), config(Choice::Ort), replaced).unwrap();
    assert_eq!(bits(&trained(&whole)), bits(&trained(&head)));
}

#[test]
fn random_and_open_shapes_are_refused() {
    if !has(Choice::Ort) {
        return;
    }
    let refused = |nodes: &[_]| prepared(&network(nodes), Choice::Ort).err().unwrap().to_string();
    let text = refused(&[networks::adds_noise(), shifted("mixed")].concat());
    assert!(text.contains("(RandomNormalLike): it draws random numbers outside the run's seed"), "{text}");
    let text = refused(&networks::in_training_mode());
    assert!(text.contains("(Dropout): it draws random numbers outside the run's seed"), "{text}");
    let text = refused(&networks::lists_nonzero());
    assert!(text.contains("is no float32 tensor of a shape that all samples share"), "{text}");
}

// The message names the runtime's missing operator, and what still trains.
#[test]
fn errors_name_what_can_be_done() {
    let model = body_before_det();
    let text = prepared(&model, Choice::Tract).err().unwrap().to_string();
    assert_eq!(text, "tract has no Det; use `backend` ort");
    let text = prepared(&model, Choice::Portable).err().unwrap().to_string();
    assert_eq!(text, "backend portable has only operators with a rule; use `backend` ort");
    let folder = tempfile::tempdir().unwrap();
    let whole = InputFiles { graph: GraphOptions::default(), ..of_head(&model, folder.path()) };
    let text = train::prepare(&whole, config(Choice::Tract)).err().unwrap().to_string();
    assert_eq!(
        text,
        "node 'det': operator Det has no rule (it reads 'matrices' [N, 16, 2, 2]); replace it by operators that have one, or export the \
         model without it, or train only the layers after it, with `only` 'head.*'"
    );
    if has(Choice::Ort) {
        let run = prepared(&model, Choice::Ort).unwrap();
        assert_ne!(trained(&run).params, run.model.params);
    }
}

/// Runs a Python program with onnxruntime. Returns false if this Python is missing.
fn python(program: &str, args: &[&Path]) -> bool {
    let known = Command::new("python3").args(["-c", "import numpy, onnxruntime"]).output();
    if !known.is_ok_and(|output| output.status.success()) {
        damper_testing::skip("ort", "Python has no onnxruntime");
        return false;
    }
    let output = Command::new("python3").args(["-c", program]).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    true
}

/// Runs the model of argument 1 on the samples of the archive of argument 2, one at a time. Writes its output to
/// argument 3, and the samples as data to argument 4.
const ONE_BY_ONE: &str = "
import sys, numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=['CPUExecutionProvider'])
archive = numpy.load(sys.argv[2])
inputs = {input.name: archive['in.' + input.name] for input in session.get_inputs()}
samples = range(len(next(iter(inputs.values()))))
rows = [session.run(None, {name: x[i:i + 1] for name, x in inputs.items()})[0] for i in samples]
numpy.concatenate(rows).astype('<f4').tofile(sys.argv[3])
numpy.savez(sys.argv[4], labels=archive['labels'], **inputs)
";

// A BERT that onnxruntime's optimizer fused into operators of com.microsoft, with a trained classifier.
#[test]
fn fused_bert_is_a_backbone() {
    const POOLED: &str = "/model/bert/pooler/activation/Tanh_output_0";
    let folder = tempfile::tempdir().unwrap();
    let (features, values) = (folder.path().join("features.onnx"), folder.path().join("features.bin"));
    let model = path("exports/bert.fused.onnx");
    let vectors = path("exports/foreign/bert.npz");
    let mut part = damper_onnx::load(&model).unwrap();
    part.graph.as_mut().unwrap().output[0].name = POOLED.into();
    part.graph.as_mut().unwrap().output[0].r#type = None;
    std::fs::write(&features, damper_onnx::encode(&part)).unwrap();
    let samples = folder.path().join("samples.npz");
    if !has(Choice::Ort) || !python(ONE_BY_ONE, &[&features, &vectors, &values, &samples]) {
        return;
    }
    let only = vec!["model.classifier.*".to_owned()];
    let of_bert = InputFiles {
        model,
        data: format!("npz:{}", samples.display()),
        data_options: DataOptions::default(),
        graph: GraphOptions { only, ..GraphOptions::default() },
        ..source("digits-cnn.onnx")
    };
    let few = |backend| TrainConfig { batch_size: 2, epochs: 3.0, delta: 0.2, ..config(backend) };
    let whole = train::prepare(&of_bert, few(Choice::Ort)).unwrap();
    assert!(whole.warnings.public.iter().any(|line| {
        line.contains(&format!("up to '{POOLED}'"))
            && line.contains("com.microsoft.BiasGelu, com.microsoft.SkipLayerNormalization have no rule")
    }));
    let features: Vec<f32> =
        std::fs::read(&values).unwrap().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let classifier = networks::classifier(&damper_onnx::load(&of_bert.model).unwrap(), POOLED);
    let file = folder.path().join("classifier.onnx");
    std::fs::write(&file, damper_onnx::encode(&classifier)).unwrap();
    let rows = whole.data.train.clone();
    let replaced = |data: Dataset| {
        let values = Numbers::F32(features.clone());
        Ok(Dataset { train: rows.with_features(vec![Features { shape: vec![16], values }]), ..data })
    };
    let csv = folder.path().join("any.csv");
    std::fs::write(&csv, networks::table(rows.len(), 16)).unwrap();
    let alone = InputFiles { model: file, data: format!("csv:{}", csv.display()), ..of_bert.clone() };
    let alone = train::prepare_on(&alone, few(Choice::Ort), replaced).unwrap();
    // onnxruntime optimises each graph by itself, and Python's has the classifier too, so the last bits may differ.
    let (of_whole, of_alone) = (trained(&whole).params, trained(&alone).params);
    assert_eq!(of_whole.len(), of_alone.len());
    assert!(of_whole.iter().zip(&of_alone).all(|(one, other)| (one - other).abs() < 1e-6));
    assert_ne!(of_whole, whole.model.params);
    let text = train::prepare(&of_bert, few(Choice::Tract)).err().unwrap().to_string();
    assert_eq!(text, "tract has no com.microsoft.SkipLayerNormalization; use `backend` ort");
}

// The command writes the whole network: the frozen part as it was, and the trained head.
#[test]
fn command_writes_whole_network() {
    let folder = tempfile::tempdir().unwrap();
    let source = of_head(&network(&shifted("x")), folder.path());
    let out = folder.path().join("out");
    let damper = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_damper"));
        let output = command.args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat()
    };
    let (model, data) = (source.model.to_str().unwrap(), source.data.as_str());
    let train = [
        "train",
        model,
        "--data",
        data,
        "--only",
        HEAD,
        "--noise-multiplier",
        "1",
        "--batch-size",
        "64",
        "--epochs",
        "0.2",
    ];
    let said = damper(&[&train[..], &["--lr", "0.5", "--backend", "tract", "--out", out.to_str().unwrap()]].concat());
    assert!(said.contains("BitShift, Cast have no rule, so it gets one sample at a time"), "{said}");
    let [before, after] =
        [&source.model, &out.join("model.onnx")].map(|file| damper_onnx::load(file).unwrap().graph.unwrap());
    assert_eq!(before.node, after.node);
    let changed = before.initializer.iter().zip(&after.initializer).filter(|(one, other)| one != other);
    assert_eq!(changed.map(|(one, _)| one.name.clone()).collect::<Vec<_>>(), ["head.weight", "head.bias"]);
    // Its figures are those of the run.
    let evaluated = Command::new(env!("CARGO_BIN_EXE_damper"))
        .args(["evaluate", out.to_str().unwrap(), data, "--json"])
        .output()
        .unwrap();
    let json = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
    let (figures, report) = (json(&evaluated.stdout), json(&std::fs::read(out.join("report.json")).unwrap()));
    assert_eq!((&figures["loss"], &figures["accuracy"]), (&report["test_loss"], &report["test_accuracy"]));
    // A further run starts from it.
    let inspected = damper(&["inspect", out.join("model.onnx").to_str().unwrap(), "--only", HEAD]);
    assert!(
        inspected.contains("frozen: run one sample at a time") && inspected.contains("can be trained"),
        "{inspected}"
    );
    let file = folder.path().join("gradients.npz");
    let gradients =
        ["gradients", model, "--data", data, "--only", HEAD, "--backend", "tract", "-o", file.to_str().unwrap()];
    damper(&gradients);
    assert!(file.exists());
}
