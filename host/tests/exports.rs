//! Networks of third-party packages, as their exporters write them: trained parameters, and per-sample gradients.
//!
//! `onnx-models/exports/foreign/parameters.json` has `named_parameters()` of each network. An `.npz` has the gradients
//! of two samples.

#[path = "support/grads.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod grads;
#[path = "support/models.rs"]
mod models;
#[path = "support/npz.rs"]
mod npz;

use damper::grad::{DeriveOptions, GradGraph, Loss, derive};
use damper::graph::{DType, Graph, GraphOptions, initializers, retie};
use damper::onnx::TensorRef;
use damper::onnx::pb::ModelProto;
use damper::onnx::{self, write_trained};
use damper::onnx::{Dim, TensorSpec};
use damper::runtime::{Backend, SessionSpec};
use grads::{run, session, values};
use models::{backends, path};
use npz::NpzArchive;
use prost::Message as _;
use std::collections::BTreeMap;

const FOLDER: &str = "exports/foreign";

/// Tolerance of an entry of a gradient, relative to the largest entry of that parameter's gradient.
const CLOSE: f64 = 1e-4;
/// Additional tolerance, relative to the largest entry of the whole gradient. The gradient of a key's bias is only
/// rounding.
const FLOOR: f64 = 2e-6;

/// Files whose parameters differ from the source's.
const OTHER: &[(&str, &str)] = &[
    (
        "timm-resnetv2.opset18.dynamo.onnx",
        "the standardisation of the weights is folded away: the file holds its result",
    ),
    ("torch-lstm.opset17.torchscript.onnx", "two biases are one"),
    ("torch-lstm.opset18.dynamo.onnx", "two biases are one"),
];

/// Parameters of the source that a file lacks: biases of zeros that the dynamo exporter omits. Without its record of
/// them they are lost.
const DROPPED: &[(&str, &[&str])] = &[
    ("bert.opset18.dynamo.onnx", BERT),
    ("bert.opset18.free.dynamo.onnx", BERT),
    ("distilbert.opset20.dynamo.onnx", DISTILBERT),
    ("distilbert.opset20.fixed.dynamo.onnx", DISTILBERT),
    (
        "gpt2.opset21.dynamo.onnx",
        &[
            "model.transformer.h.0.attn.c_attn.bias",
            "model.transformer.h.0.attn.c_proj.bias",
            "model.transformer.h.0.mlp.c_fc.bias",
            "model.transformer.h.0.mlp.c_proj.bias",
            "model.transformer.h.1.attn.c_attn.bias",
            "model.transformer.h.1.attn.c_proj.bias",
            "model.transformer.h.1.mlp.c_fc.bias",
            "model.transformer.h.1.mlp.c_proj.bias",
        ],
    ),
    ("roberta.opset18.dynamo.onnx", &["model.classifier.dense.bias", "model.classifier.out_proj.bias"]),
    ("timm-mixer.opset18.dynamo.onnx", &["stem.proj.bias", "head.bias"]),
    ("timm-resnetv2.opset18.dynamo.onnx", &["head.fc.bias"]),
    ("torch-attention.opset18.dynamo.onnx", &["attention.out_proj.bias"]),
    (
        "torch-encoder.opset18.dynamo.onnx",
        &["encoder.layers.0.self_attn.out_proj.bias", "encoder.layers.1.self_attn.out_proj.bias"],
    ),
    (
        "torchvision-convnext.opset19.dynamo.onnx",
        &[
            "features.0.0.bias",
            "features.1.0.block.0.bias",
            "features.2.1.bias",
            "features.3.0.block.0.bias",
            "classifier.2.bias",
        ],
    ),
    (
        "torchvision-efficientnet.opset21.dynamo.onnx",
        &[
            "features.1.0.block.1.fc1.bias",
            "features.1.0.block.1.fc2.bias",
            "features.2.0.block.2.fc1.bias",
            "features.2.0.block.2.fc2.bias",
            "classifier.1.bias",
        ],
    ),
    (
        "torchvision-vit.opset18.dynamo.onnx",
        &[
            "conv_proj.bias",
            "encoder.layers.encoder_layer_0.self_attention.out_proj.bias",
            "encoder.layers.encoder_layer_1.self_attention.out_proj.bias",
            "heads.head.bias",
        ],
    ),
    ("vit.opset20.dynamo.onnx", &["model.vit.embeddings.patch_embeddings.projection.bias", "model.classifier.bias"]),
];
const BERT: &[&str] = &["model.bert.pooler.dense.bias", "model.classifier.bias"];
const DISTILBERT: &[&str] = &["model.pre_classifier.bias", "model.classifier.bias"];

/// Other names under which a file holds a tied weight.
const ALIASES: &[(&str, &str)] = &[
    ("model.lm_head.weight", "model.transformer.wte.weight"),
    ("head.weight", "token.weight"),
    ("model.cls.predictions.decoder.weight", "model.bert.embeddings.word_embeddings.weight"),
    ("model.cls.predictions.decoder.bias", "model.cls.predictions.bias"),
];

/// Embedding matrices of which a file has only the rows for constant indices, because exporters fold the look-up.
const ROWS: &[(&str, &str, usize)] = &[
    ("bert-masked.opset18.dynamo.onnx", POSITIONS, 8),
    ("bert.opset18.dynamo.onnx", POSITIONS, 8),
    ("distilbert.opset20.dynamo.onnx", "model.distilbert.embeddings.position_embeddings.weight", 8),
    ("distilbert.opset20.fixed.dynamo.onnx", "model.distilbert.embeddings.position_embeddings.weight", 8),
    ("gpt2.opset21.dynamo.onnx", "model.transformer.wpe.weight", 8),
    ("sentence-embedding.opset19.dynamo.onnx", "bert.embeddings.position_embeddings.weight", 8),
    ("torch-gpt.opset17.torchscript.onnx", "place.weight", 8),
    ("torch-gpt.opset18.dynamo.onnx", "place.weight", 8),
];
const POSITIONS: &str = "model.bert.embeddings.position_embeddings.weight";

/// Returns the name of a file's network: `bert` for `bert.opset18.dynamo.onnx`.
fn network(file: &str) -> &str {
    file.split(".opset").next().unwrap()
}

fn files() -> Vec<String> {
    let entries =
        std::fs::read_dir(path(FOLDER)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<String> = entries.filter(|name| name.ends_with(".onnx")).collect();
    files.sort();
    files
}

/// A file. `bare` is true if the exporter's record of the source is removed from it.
#[derive(Clone, Debug)]
struct Case {
    file: String,
    bare: bool,
}

/// Returns each file, and each file with a record again without it.
fn cases() -> Vec<Case> {
    let both = |file: String| {
        let choices: &[bool] = if file.ends_with(".dynamo.onnx") { &[false, true] } else { &[true] };
        choices.iter().map(move |&bare| Case { file: file.clone(), bare }).collect::<Vec<_>>()
    };
    files().into_iter().flat_map(both).collect()
}

fn load(case: &Case) -> ModelProto {
    let path = path(&format!("{FOLDER}/{}", case.file));
    if !case.bare {
        return onnx::load(&path).expect("the file is an ONNX model");
    }
    let mut model = ModelProto::decode(&std::fs::read(path).unwrap()[..]).unwrap();
    let graph = model.graph.as_mut().unwrap();
    graph.metadata_props.clear();
    graph.value_info.iter_mut().for_each(|info| info.metadata_props.clear());
    graph.node.iter_mut().for_each(|node| node.metadata_props.clear());
    onnx::decode(&case.file, &model.encode_to_vec()).unwrap()
}

/// Returns the options that a user would add for this file.
fn options(case: &Case) -> GraphOptions {
    let Case { file, bare } = case;
    let mut options = GraphOptions::default();
    if file.contains(".free.") {
        options.shape.push(("sequence".into(), 8));
    }
    // The layers of nn.TransformerEncoder are copies of one layer, and this exporter merges equal tensors.
    if *bare && file == "torch-encoder.opset18.dynamo.onnx" {
        options.untie.push("*".into());
    }
    options
}

/// Returns name and shape of each of `named_parameters()`.
fn named_parameters(network: &str) -> Vec<(String, Vec<usize>)> {
    let text = std::fs::read_to_string(path(&format!("{FOLDER}/parameters.json"))).unwrap();
    let all: BTreeMap<String, Vec<(String, Vec<usize>)>> = serde_json::from_str(&text).unwrap();
    all[network].clone()
}

/// Returns the same, as in the file of `case`.
fn held(case: &Case) -> Vec<(String, Vec<usize>)> {
    let Case { file, bare } = case;
    let mut held = named_parameters(network(file));
    for (_, dropped) in DROPPED.iter().filter(|(other, _)| *bare && other == file) {
        for name in *dropped {
            let at = held.iter().position(|(other, _)| other == name);
            held.remove(at.unwrap_or_else(|| panic!("{file}: {name} is no parameter")));
        }
    }
    for (_, name, rows) in ROWS.iter().filter(|(other, ..)| other == file) {
        held.iter_mut().find(|(other, _)| other == name).unwrap().1[0] = *rows;
    }
    held
}

/// Returns the extents above 1.
fn long(shape: &[usize]) -> Vec<usize> {
    shape.iter().copied().filter(|&extent| extent > 1).collect()
}

/// Returns a number that is equal for any order or join of axes.
fn bag(shape: &[usize]) -> usize {
    shape.iter().product()
}

// The trained set equals the named parameters of the source.
#[test]
fn trained_set_is_named_parameters() {
    let mut wrong = Vec::new();
    let compared = |case: &Case| OTHER.iter().all(|(other, _)| *other != case.file || other.starts_with("timm"));
    for case in cases().into_iter().filter(compared) {
        let trained = initializers(&load(&case), &options(&case)).unwrap().into_iter().filter(|one| one.trained);
        // A file with a record also has the names.
        let name = |name: &str| {
            // A weight that the exporter standardised is named as computed from its parameter.
            let name = name.split_once("/view_").map_or(name, |(own, _)| own);
            let alias = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, named)| named);
            if case.bare { String::new() } else { alias.to_string() }
        };
        let mut found: Vec<(String, usize)> = trained.map(|one| (name(&one.name), bag(&one.shape))).collect();
        let mut wanted: Vec<(String, usize)> = held(&case).iter().map(|(own, shape)| (name(own), bag(shape))).collect();
        found.sort_unstable();
        wanted.sort_unstable();
        if found != wanted {
            wrong.push(format!("{case:?}: {found:?}, and the source has {wanted:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// An array of an `.npz` file.
enum Array {
    Floats(Vec<usize>, Vec<f64>),
    Integers(Vec<i64>),
}

impl Array {
    fn floats(&self) -> (&[usize], &[f64]) {
        let Self::Floats(shape, data) = self else { panic!("floats are expected") };
        (shape, data)
    }
}

fn vectors(network: &str) -> BTreeMap<String, Array> {
    let mut archive = NpzArchive::open(path(&format!("{FOLDER}/{network}.npz"))).expect("the vectors are there");
    let names: Vec<String> = archive.array_names().collect();
    let read = |name: String| {
        let file = archive.by_name(&name).unwrap().unwrap();
        let shape: Vec<usize> = file.shape().iter().map(|&extent| extent as usize).collect();
        let descr = file.dtype().descr();
        let array = match descr.as_str() {
            descr if descr.contains("i8") => Array::Integers(file.into_vec::<i64>().unwrap()),
            descr if descr.contains("f8") => Array::Floats(shape, file.into_vec::<f64>().unwrap()),
            _ => Array::Floats(shape, file.into_vec::<f32>().unwrap().iter().map(|&x| f64::from(x)).collect()),
        };
        (name, array)
    };
    names.into_iter().map(read).collect()
}

/// Returns the orders of the axes of `from` in which it has the extents `to`.
fn orders(from: &[usize], to: &[usize]) -> Vec<Vec<usize>> {
    let Some((first, rest)) = to.split_first() else {
        return if from.iter().all(|&extent| extent == 0) { vec![vec![]] } else { vec![] };
    };
    let mut found = Vec::new();
    for (axis, _) in from.iter().enumerate().filter(|(_, extent)| *extent == first) {
        // A used axis gets the extent 0, which no tensor has.
        let mut left = from.to_vec();
        left[axis] = 0;
        found.extend(orders(&left, rest).into_iter().map(|order| [vec![axis], order].concat()));
    }
    found
}

/// Transposes `data` of shape `shape` to another order of axes.
fn transposed(data: &[f64], shape: &[usize], order: &[usize]) -> Vec<f64> {
    let strides: Vec<usize> = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
    (0..data.len())
        .map(|mut flat| {
            let digit = |&axis: &usize| {
                let digit = flat % shape[axis];
                flat /= shape[axis];
                digit * strides[axis]
            };
            data[order.iter().rev().map(digit).sum::<usize>()]
        })
        .collect()
}

/// Returns a parameter's gradient in every layout in which an initializer of shape `shape` may hold it, for one sample.
fn layouts(gradient: &[f64], from: &[usize], shape: &[usize]) -> Vec<Vec<f64>> {
    let (from, to) = (long(from), long(shape));
    let mut found: Vec<Vec<f64>> = orders(&from, &to).iter().map(|order| transposed(gradient, &from, order)).collect();
    if found.is_empty() {
        // Joined axes, unchanged or as the matrix of a linear map.
        found.push(gradient.to_vec());
        if let &[rows, columns] = &to[..] {
            found.push(transposed(gradient, &[columns, rows], &[1, 0]));
        }
    }
    found
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |largest, value| largest.max(value.abs()))
}

fn extents(spec: &TensorSpec) -> Vec<usize> {
    let fixed = |dim: &Dim| if let Dim::Fixed(extent) = dim { *extent } else { panic!("a parameter has no batch") };
    spec.shape.iter().map(fixed).collect()
}

/// Pairs gradients of the file's parameters one to one with the source's, and reports unpaired gradients.
fn check(case: &Case, grad: &GradGraph, graph: &Graph, backend: &dyn Backend) -> Result<(), String> {
    let file = &case.file;
    let vectors = vectors(network(file));
    let losses = vectors["loss"].floats().1;
    let n = losses.len();
    let fed: Vec<Vec<f32>> = grad
        .inputs
        .iter()
        .filter(|spec| spec.dtype.is_float())
        .map(|spec| vectors[&format!("in.{}", spec.name)].floats().1.iter().map(|&x| x as f32).collect())
        .collect();
    let mut floats = fed.iter();
    let mut inputs: Vec<TensorRef<'_>> = Vec::new();
    for spec in &grad.inputs {
        inputs.push(match &vectors[&format!("in.{}", spec.name)] {
            Array::Integers(data) => TensorRef::I64(data),
            Array::Floats(..) => TensorRef::F32(floats.next().unwrap()),
        });
    }
    let Array::Integers(labels) = &vectors["labels"] else { panic!("labels are integers") };
    assert_eq!(grad.labels.as_ref().unwrap().dtype, DType::I64);
    inputs.push(TensorRef::I64(labels));
    let values = values(graph, grad);
    inputs.extend(values.iter().map(|v| TensorRef::F32(v)));
    let plan = SessionSpec { batch: n, threads: 1, inputs: grads::inputs(grad), outputs: grads::released(grad) };
    backend.self_test(&grad.model, &plan, &inputs).map_err(|error| error.0)?;
    let outputs = run(session(backend, grad, n).as_mut(), &inputs);
    for (sample, &loss) in losses.iter().enumerate() {
        let got = f64::from(outputs[0][sample]);
        if (got - loss).abs() > CLOSE * loss.abs() {
            return Err(format!("the loss of sample {sample} is {got}, not {loss}"));
        }
    }
    let held = held(case);
    let gradient = |name: &str, sample: usize, size: usize| {
        let (shape, data) = vectors[&format!("grad.{name}")].floats();
        let width: usize = shape[1..].iter().product();
        let rest = &data[sample * width + size..(sample + 1) * width];
        assert!(rest.iter().all(|&x| x == 0.0), "{file}: {name} has a gradient beyond the rows that are held");
        &data[sample * width..][..size]
    };
    let whole: Vec<f64> = (0..n)
        .map(|sample| held.iter().map(|(name, shape)| largest(gradient(name, sample, bag(shape)))).fold(0.0, f64::max))
        .collect();
    let agree = |index: usize, (name, from): &(String, Vec<usize>)| {
        let (shape, size) = (extents(&grad.parameters[index]), bag(from));
        if bag(&shape) != size {
            return false;
        }
        let candidates: Vec<Vec<Vec<f64>>> = (0..n).map(|s| layouts(gradient(name, s, size), from, &shape)).collect();
        (0..candidates[0].len()).any(|layout| {
            (0..n).all(|sample| {
                let want = &candidates[sample][layout];
                let bound = CLOSE * largest(want) + FLOOR * whole[sample];
                let got = &outputs[1 + index][sample * size..][..size];
                got.iter().zip(want).all(|(&got, &want)| (f64::from(got) - want).abs() <= bound)
            })
        })
    };
    let pairs: Vec<Vec<usize>> = (0..grad.parameters.len())
        .map(|index| (0..held.len()).filter(|&named| agree(index, &held[named])).collect())
        .collect();
    let mut taken: Vec<Option<usize>> = vec![None; held.len()];
    for index in 0..pairs.len() {
        if !assign(index, &pairs, &mut taken, &mut vec![false; held.len()]) {
            return Err(format!("{} has the gradient of none of named_parameters()", grad.parameters[index].name));
        }
    }
    match taken.iter().position(Option::is_none) {
        Some(left) => Err(format!("{} is trained under no name", held[left].0)),
        None => Ok(()),
    }
}

/// Adds a pair to a matching, by augmenting paths.
fn assign(index: usize, pairs: &[Vec<usize>], taken: &mut [Option<usize>], seen: &mut [bool]) -> bool {
    for &named in &pairs[index] {
        if !std::mem::replace(&mut seen[named], true)
            && taken[named].is_none_or(|other| assign(other, pairs, taken, seen))
        {
            taken[named] = Some(index);
            return true;
        }
    }
    false
}

/// Returns the gradient graph of a file, or the reason that there is none.
fn derived(case: &Case) -> Result<(Graph, GradGraph), String> {
    let graph = Graph::from_model(&load(case), &options(case)).map_err(|error| error.to_string())?;
    // The output of an MLPRegressor is `[N, 5, 1]`.
    let class_axis = case.file.starts_with("sklearn").then_some(1);
    let options = DeriveOptions { class_axis, ..DeriveOptions::new(Loss::SoftmaxCrossEntropy) };
    let grad = derive(&graph, &options).map_err(|error| error.to_string())?;
    Ok((graph, grad))
}

// The per-sample gradients match those of the source.
#[test]
fn gradients_match_source() {
    let backends = backends();
    let mut wrong = Vec::new();
    for case in cases() {
        let file = &case.file;
        match derived(&case) {
            Err(error) => wrong.push(format!("{case:?} is refused: {error}")),
            Ok(_) if OTHER.iter().any(|(other, _)| other == file) => {}
            Ok((graph, grad)) => {
                for backend in &backends {
                    let checked = std::panic::AssertUnwindSafe(|| check(&case, &grad, &graph, backend.as_ref()));
                    match std::panic::catch_unwind(checked) {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => wrong.push(format!("{case:?} on {}: {error}", backend.name())),
                        Err(_) => wrong.push(format!("{case:?} on {}: see above", backend.name())),
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns the outputs of `model` for the samples of the vectors.
fn forward(backend: &dyn Backend, model: &ModelProto, grad: &GradGraph, network: &str) -> Vec<f32> {
    let vectors = vectors(network);
    let Array::Integers(ids) = &vectors["in.input_ids"] else { panic!("ids are integers") };
    let output = grad.outputs.iter().find(|spec| spec.name == "y").unwrap().clone();
    let plan = SessionSpec { batch: 2, threads: 1, inputs: vec![grad.inputs[0].clone()], outputs: vec![output] };
    let mut session = backend.load(model, &plan).unwrap();
    run(session.as_mut(), &[TensorRef::I64(ids)]).remove(0)
}

// A tied weight is written once, and all its uses read it.
#[test]
fn tied_weight_is_written_once() {
    for file in ["torch-gpt.opset17.torchscript.onnx", "torch-gpt.opset18.dynamo.onnx"] {
        let case = &Case { file: file.into(), bare: false };
        let model = load(case);
        let (graph, grad) = derived(case).unwrap();
        let tied = retie(&model, &options(case)).unwrap();
        let write = |factor: f32| {
            let values: Vec<Vec<f32>> =
                graph.trained().map(|p| p.initial.as_f32().unwrap().iter().map(|x| x * factor).collect()).collect();
            let named: Vec<(&str, &[f32])> =
                graph.trained().map(|p| p.name.as_str()).zip(values.iter().map(Vec::as_slice)).collect();
            write_trained(&tied, &named).unwrap()
        };
        let tables = |model: &ModelProto| {
            let stored = &model.graph.as_ref().unwrap().initializer;
            stored.iter().filter(|tensor| tensor.dims.iter().product::<i64>() == 50 * 16).count()
        };
        assert_eq!((tables(&model), tables(&write(1.0))), (2, 1), "{file}");
        // The portable backend runs gradient graphs, not models.
        for backend in backends().into_iter().filter(|backend| !backend.is_portable()) {
            let forward = |model: &ModelProto| forward(backend.as_ref(), model, &grad, network(file));
            assert_eq!(forward(&model), forward(&write(1.0)), "{file} on {}", backend.name());
            assert_ne!(forward(&model), forward(&write(1.5)), "{file} on {}", backend.name());
        }
    }
}

// Layers that are copies of one layer are one parameter set, unless they are untied or the file states that they are
// several.
#[test]
fn copied_layers_are_one_unless_untied() {
    let case = Case { bare: true, file: "torch-encoder.opset18.dynamo.onnx".into() };
    let count = |options: &GraphOptions| {
        let all = initializers(&load(&case), options).unwrap();
        let size = |shape: &[usize]| shape.iter().product::<usize>();
        all.iter().filter(|one| one.trained).map(|one| size(&one.shape)).sum::<usize>()
    };
    let all: usize = held(&case).iter().map(|(_, shape)| bag(shape)).sum();
    assert!(count(&GraphOptions::default()) < all);
    assert_eq!(count(&options(&case)), all);
}
