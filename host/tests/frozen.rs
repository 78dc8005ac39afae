//! A run that computes its frozen part once has the result of a run that computes it in every step.

#[path = "support/digits.rs"]
mod digits;
#[path = "support/models.rs"]
#[expect(dead_code, reason = "the backends are opened here")]
mod models;

use damper::cluster::Threads;
use damper::data::{Augment, DataOptions, Motion};
use damper::graph::{Graph, GraphOptions};
use damper::runtime::{Choice, open};
use damper::train::{
    self, Budget, Checkpoint, Group, InputFiles, Invocation, Method, Outcome, Progress, Run, RunEvent, TrainConfig,
    TrainError,
};
use damper_core::numerics::digest::Digest;
use damper_edit::init;
use damper_onnx::graph::{Tensor, TensorData};
use digits::{StopAfter, source};
use models::{SKELETONS, path};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;
use std::time::Duration;

/// More than enough memory.
const SIZE: u64 = 1 << 30;

/// Returns the samples of the model's vectors, with the last `trained` parameters of `model` trained.
fn last_of(model: &str, trained: usize) -> InputFiles {
    let source = source(&format!("{model}.onnx"));
    let of_file = SKELETONS.contains(&model).then_some(1).into();
    let loaded = init::load(&source.model, of_file).unwrap();
    let graph = Graph::from_model(&loaded.model, &GraphOptions::default()).unwrap();
    let names: Vec<String> = graph.trained().map(|parameter| parameter.name.clone()).collect();
    let only = names[names.len() - trained..].to_vec();
    InputFiles {
        of_file,
        data: format!("npz:{}", path(&format!("vectors/{model}.npz")).display()),
        data_options: DataOptions::default(),
        graph: GraphOptions { only, ..source.graph },
        ..source
    }
}

fn config(backend: Choice, cache_frozen: Option<u64>) -> TrainConfig {
    TrainConfig {
        backend,
        cache_frozen,
        seed: Some(5),
        allow_large_delta: true,
        physical_batch: NonZeroUsize::new(2),
        workers: NonZeroUsize::new(2),
        ..TrainConfig::new(Budget::NoiseMultiplier(0.01), 0.2, 2, 3.0, Method::dp_sgd(1.0, 0.1))
    }
}

fn trained(run: &Run) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    train::run(run, folder.path(), &mut ()).unwrap()
}

fn bits(outcome: &Outcome) -> u64 {
    Digest::of(&outcome.params).value()
}

/// Expected bits of a run that computes its frozen part once, compared with a run that does not.
#[derive(Clone, Copy)]
enum Bits {
    Same,
    /// The backend fuses operators across the boundary.
    Others,
}

fn distance(one: &[f32], other: &[f32]) -> f64 {
    one.iter().zip(other).map(|(x, y)| f64::from(x - y).powi(2)).sum::<f64>().sqrt()
}

fn check(model: &str, parameters: usize, backend: Choice, result: Bits) {
    if let Err(error) = open(backend) {
        return damper_testing::skip("ort", error.0.split(" (").next().unwrap_or_default());
    }
    let source = last_of(model, parameters);
    let run =
        |cache| train::prepare(&source, config(backend, cache)).unwrap_or_else(|error| panic!("{model}: {error}"));
    let (whole, once) = (run(None), run(Some(SIZE)));
    let multiply_adds = |run: &Run| run.model.grad.cost.multiply_adds;
    println!("{model}: {} multiply-adds, {} of the rest", multiply_adds(&whole), multiply_adds(&once));
    assert!(multiply_adds(&once) < multiply_adds(&whole), "{model}");
    let [of_whole, of_once] = [&whole, &once].map(trained);
    assert!(of_whole.params != whole.model.params, "{model}: nothing was trained");
    match result {
        Bits::Same => assert_eq!(bits(&of_once), bits(&of_whole), "{model}"),
        Bits::Others => {
            let moved = distance(&of_whole.params, &whole.model.params);
            let between = distance(&of_once.params, &of_whole.params);
            assert!(between > 0.0 && between < 1e-5 * moved, "{model}: {between} of {moved}");
        }
    }
    assert_eq!(of_once.independence, of_whole.independence, "{model}");
}

macro_rules! models {
    ($($test:ident: $model:literal, last $parameters:literal on $backend:ident, $bits:ident,)*) => {
        $(#[test]
        fn $test() {
            check($model, $parameters, Choice::$backend, Bits::$bits);
        })*
    };
}

models! {
    head_of_digits_cnn: "digits-cnn", last 2 on Ort, Same,
    head_of_digits_cnn_on_tract: "digits-cnn", last 2 on Tract, Same,
    head_of_digits_cnn_on_portable: "digits-cnn", last 2 on Portable, Same,
    head_of_digits_cnn_in_standard: "digits-cnn", last 2 on OrtStandard, Same,
    head_of_bert: "bert-tiny", last 4 on Ort, Same,
    head_of_bert_on_tract: "bert-tiny", last 4 on Tract, Same,
    layers_of_bert: "bert-tiny", last 12 on Ort, Same,
    layers_of_gpt: "gpt-small", last 10 on Ort, Same,
    layers_of_vit: "vit-tiny", last 30 on Ort, Others,
    layers_of_resnet: "resnet18-groupnorm", last 14 on Ort, Same,
    layers_of_resnet_on_tract: "resnet18-groupnorm", last 14 on Tract, Same,
    head_of_gpt_on_portable: "gpt-small", last 2 on Portable, Same,
}

/// Returns a model on rows of images as a sequence, with the sequence on the first axis. `fixed` is frozen, `trained`
/// trained.
fn sequence_first() -> damper_onnx::pb::ModelProto {
    use damper_onnx::{
        DType, Extent, make_attr_int, make_attr_ints, make_node, make_tensor, make_tensor_f32, make_value_info,
    };
    let weight = |name: &str, rows: usize, columns: usize| {
        let entries: Vec<f32> = (0..rows * columns).map(|at| (at * 7 % 11) as f32 / 16.0 - 0.3).collect();
        make_tensor_f32(name, &[rows, columns], &entries)
    };
    let ints = |name: &str, values: &[i64]| {
        make_tensor(name, &Tensor { shape: vec![values.len()], data: TensorData::I64(values.to_vec()) })
    };
    let node =
        |op: &str, inputs: &[&str], output: &str, attributes| make_node(op, output, inputs, &[output], attributes);
    let graph = damper_onnx::pb::GraphProto {
        name: "sequence".into(),
        node: vec![
            node("Reshape", &["x", "rows"], "samples", vec![]),
            node("Transpose", &["samples"], "sequence", vec![make_attr_ints("perm", &[1, 0, 2])]),
            node("MatMul", &["sequence", "fixed"], "h", vec![]),
            node("Tanh", &["h"], "hidden", vec![]),
            node("MatMul", &["hidden", "trained"], "each", vec![]),
            node("ReduceMean", &["each", "first"], "y", vec![make_attr_int("keepdims", 0)]),
        ],
        input: vec![make_value_info(
            "x",
            DType::F32,
            &[Extent::Batch, Extent::Fixed(1), Extent::Fixed(8), Extent::Fixed(8)],
        )],
        output: vec![make_value_info("y", DType::F32, &[Extent::Batch, Extent::Fixed(10)])],
        initializer: vec![
            weight("fixed", 8, 16),
            weight("trained", 16, 10),
            ints("rows", &[-1, 8, 8]),
            ints("first", &[0]),
        ],
        ..Default::default()
    };
    let opset = damper_onnx::pb::OperatorSetIdProto { domain: String::new(), version: 18 };
    damper_onnx::pb::ModelProto { ir_version: 8, opset_import: vec![opset], graph: Some(graph), ..Default::default() }
}

// Values with the samples on the second axis are transposed for storage.
#[test]
fn sequence_may_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("sequence.onnx");
    std::fs::write(&model, damper_onnx::encode(&sequence_first())).unwrap();
    let graph = GraphOptions { only: vec!["trained".into()], ..GraphOptions::default() };
    let source = InputFiles { model, graph, ..source("digits-cnn.onnx") };
    let run = |cache| {
        let config = TrainConfig { batch_size: 100, epochs: 1.0, delta: 1e-5, ..config(Choice::Portable, cache) };
        train::prepare(&source, config).unwrap()
    };
    let [whole, once] = [None, Some(SIZE)].map(run);
    assert!(once.model.grad.cost.multiply_adds < whole.model.grad.cost.multiply_adds);
    let [of_whole, of_once] = [&whole, &once].map(trained);
    assert_eq!(bits(&of_once), bits(&of_whole));
    assert!(of_whole.params != whole.model.params);
}

/// Returns the head of the digits' CNN, with an evaluation on held-out rows.
fn of_digits(cache_frozen: Option<u64>) -> Run {
    let source = source("digits-cnn.onnx");
    let only = last_of("digits-cnn", 2).graph.only;
    let source = InputFiles { graph: GraphOptions { only, ..source.graph.clone() }, ..source };
    let config = TrainConfig {
        evaluate_every: Some(0.5),
        physical_batch: NonZeroUsize::new(16),
        ..TrainConfig { batch_size: 100, epochs: 1.0, delta: 1e-5, ..config(Choice::Portable, cache_frozen) }
    };
    train::prepare(&source, config).unwrap()
}

// Figures of held-out rows are the same, during the run, at its end, and for a candidate of a search.
#[test]
fn held_out_figures_are_the_same() {
    let (whole, once) = (of_digits(None), of_digits(Some(SIZE)));
    let [of_whole, of_once] = [&whole, &once].map(trained);
    assert!(of_whole.evaluations.len() >= 2);
    assert_eq!((of_once.evaluations, of_once.class_metrics), (of_whole.evaluations, of_whole.class_metrics));
    let test = once.data.test.as_ref().unwrap();
    let figures = |run: &Run| train::exact_figures(run, &of_whole.params, test).unwrap();
    assert_eq!(figures(&once), figures(&whole));
}

// A resumed run computes the values again. Its data are the same, by their digest.
#[test]
fn stopped_run_goes_on_with_same_bits() {
    let run = of_digits(Some(SIZE));
    let folder = tempfile::tempdir().unwrap();
    let mut checkpoint =
        Checkpoint::begin(folder.path(), &run, Invocation::default(), Duration::from_secs(60)).unwrap();
    // Each chunk of the frozen part asks too, so only requests after the start of the steps count.
    let mut first = AfterCache { is_over: false, steps: StopAfter(3) };
    let stopped = train::run_resumable(&run, &mut checkpoint, &mut first).unwrap();
    assert!(stopped.stopped);
    drop(checkpoint);
    let mut checkpoint = Checkpoint::resume(folder.path(), &run, Duration::from_secs(60)).unwrap();
    let resumed = train::run_resumable(&run, &mut checkpoint, &mut ()).unwrap();
    assert_eq!(bits(&resumed), bits(&trained(&of_digits(None))));
}

/// Stops steps, but not the work before them.
struct AfterCache {
    is_over: bool,
    steps: StopAfter,
}

impl Progress for AfterCache {
    fn on_event(&mut self, event: RunEvent<'_>) {
        self.is_over |= matches!(event, RunEvent::Stepped { .. });
    }

    fn stop(&mut self) -> bool {
        self.is_over && self.steps.stop()
    }
}

// A stop before the first step charges nothing.
#[test]
fn early_stop_charges_nothing() {
    let run = of_digits(Some(SIZE));
    let folder = tempfile::tempdir().unwrap();
    let result = train::run(&run, folder.path(), &mut StopAfter(2));
    assert!(matches!(result, Err(TrainError::Stopped)));
    assert!(!folder.path().join("ledger.json").exists());
}

// Ranks compute the values of their own rows, and end with the same bits.
#[test]
fn ranks_end_with_same_bits() {
    let whole = trained(&of_digits(None));
    let folder = tempfile::tempdir().unwrap();
    let rank = |group: &dyn Group, folder: &Path| {
        let mut run = of_digits(Some(SIZE));
        run.keep_shard(group.rank(), group.size(), u64::MAX).unwrap();
        train::run_on(&run, group, (group.rank() == 0).then_some(folder), None, &mut ()).unwrap()
    };
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let (rank, folder) = (&rank, folder.path());
        let threads: Vec<_> =
            Threads::group(2).into_iter().map(|group| scope.spawn(move || rank(&{ group }, folder))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().map(bits).collect::<Vec<_>>(), [bits(&whole); 2]);
}

#[test]
fn what_cannot_be_computed_once_is_refused() {
    let refused = |source: &InputFiles, change: &dyn Fn(&mut TrainConfig)| {
        let mut config = config(Choice::Portable, Some(SIZE));
        change(&mut config);
        train::prepare(source, config).and_then(|run| train::rehearse(&run)).unwrap_err().to_string()
    };
    let head = last_of("digits-cnn", 2);
    let text = refused(&head, &|config| {
        config.augment = Some(Augment { views: NonZeroU32::MIN, motion: Motion::None, flip: true })
    });
    assert!(text.contains("each step has other views of a picture"), "{text}");
    let text = refused(&head, &|config| config.cache_frozen = Some(1000));
    assert!(text.contains("the values of one sample take 1024 bytes, and those of all 5 samples take 1MiB"), "{text}");
    let text = refused(&head, &|config| (config.cache_frozen, config.dataset_size) = (Some(1000), Some(50)));
    assert!(text.contains("those of all samples take more than SIZE") && !text.contains("all 5"), "{text}");
    let whole = InputFiles { graph: GraphOptions::default(), ..last_of("digits-cnn", 2) };
    let text = refused(&whole, &|_| {});
    assert!(text.contains("before the first trained weight no matrix product or convolution leads"), "{text}");
}
