//! The models that are shipped without weights, at weights that are drawn here, against PyTorch; and that the samples of a batch do
//! not see each other.

#[path = "support/grads.rs"]
#[allow(dead_code, reason = "graphs are of weights drawn here")]
mod grads;
#[path = "support/models.rs"]
mod models;

use damper::autodiff::{DeriveOptions, GradGraph, Loss, derive};
use damper::backend::{Backend, Input};
use damper::graph::{DType, Graph, GraphOptions};
use damper::init::{self, Override, initialise};
use damper::onnx;
use grads::{run, session, values};
use models::{SKELETONS, backends, path};
use npyz::npz::NpzArchive;
use std::collections::BTreeMap;

/// How far an entry of a gradient may be from PyTorch's, of the largest entry of that parameter's gradient of that sample.
const CLOSE: f64 = 1e-5;

/// Added to that, of the largest entry of the sample's whole gradient: of a gradient that vanishes (of the bias of an
/// attention's keys, of a convolution in front of a norm) f32 leaves rounding.
const FLOOR: f64 = 1e-6;

/// Entries of a gradient that the vectors hold, and where they are.
const ENTRIES: usize = 32;

fn place(entry: usize, length: usize) -> usize {
    (entry * 2_654_435_761 + 12_345) % length
}

/// `vectors/NAME.npz`.
struct Vectors {
    inputs: BTreeMap<String, Data>,
    labels: Vec<i64>,
    loss: Vec<f64>,
    /// Names of the parameters, in the order of the columns.
    names: Vec<String>,
    /// `[N, parameters]`.
    norms: Vec<f64>,
    largest: Vec<f64>,
    /// `[N, entries of all parameters]`.
    entries: Vec<f64>,
}

/// One input of all samples.
#[derive(Clone)]
enum Data {
    F32(Vec<f32>),
    I64(Vec<i64>),
}

impl Data {
    /// The rows of `order`, of `samples`.
    fn rows(&self, samples: usize, order: &[usize]) -> Self {
        fn pick<T: Copy>(all: &[T], samples: usize, order: &[usize]) -> Vec<T> {
            let width = all.len() / samples;
            order.iter().flat_map(|&row| all[row * width..][..width].iter().copied()).collect()
        }
        match self {
            Self::F32(all) => Self::F32(pick(all, samples, order)),
            Self::I64(all) => Self::I64(pick(all, samples, order)),
        }
    }

    fn input(&self) -> Input<'_> {
        match self {
            Self::F32(all) => Input::F32(all),
            Self::I64(all) => Input::I64(all),
        }
    }
}

impl Vectors {
    fn read(name: &str) -> Self {
        let mut archive = NpzArchive::open(path(&format!("vectors/{name}.npz"))).expect("the vectors are there");
        let arrays: Vec<String> = archive.array_names().map(str::to_owned).collect();
        let mut vectors = Self {
            inputs: BTreeMap::new(),
            labels: vec![],
            loss: vec![],
            names: vec![],
            norms: vec![],
            largest: vec![],
            entries: vec![],
        };
        for array in arrays {
            let file = archive.by_name(&array).unwrap().unwrap();
            let is_integer = file.dtype().descr().contains("i8");
            let floats = |file: npyz::NpyFile<_>| file.into_vec::<f32>().unwrap().into_iter().map(f64::from).collect();
            match array.as_str() {
                "labels" => vectors.labels = file.into_vec().unwrap(),
                "loss" => vectors.loss = file.into_vec().unwrap(),
                "names" => {
                    let text = String::from_utf8(file.into_vec().unwrap()).unwrap();
                    vectors.names = text.lines().map(str::to_owned).collect();
                }
                "norms" => vectors.norms = floats(file),
                "largest" => vectors.largest = floats(file),
                "entries" => vectors.entries = floats(file),
                _ if is_integer => drop(vectors.inputs.insert(array, Data::I64(file.into_vec().unwrap()))),
                _ => drop(vectors.inputs.insert(array, Data::F32(file.into_vec().unwrap()))),
            }
        }
        vectors
    }

    fn samples(&self) -> usize {
        self.loss.len()
    }
}

/// The model with the weights of its vectors: seed 1, norms and biases away from the ones and zeros that would hide faults.
fn drawn(name: &str) -> Graph {
    let model = onnx::load(&path(&format!("{name}.onnx"))).unwrap();
    let over = |pattern: &str, initialiser: &str| Override {
        pattern: pattern.into(),
        initialiser: initialiser.parse().unwrap(),
    };
    let mut overrides = vec![over("*.bias", "normal(0, 0.1)")];
    if name != "cifar-cnn" {
        overrides.push(over("*norm*.weight", "uniform(0.5, 1.5)"));
    }
    let (model, _) = initialise(&model, &GraphOptions::default(), &overrides, 1).unwrap();
    Graph::from_model(&model, &GraphOptions::default()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn gradients(name: &str, graph: &Graph) -> GradGraph {
    let options = DeriveOptions::new(Loss::SoftmaxCrossEntropy);
    derive(graph, &options).unwrap_or_else(|refusal| panic!("{name}: {refusal}"))
}

/// Losses, then gradients in the order of `grad.parameters`, of the samples in this order.
fn outputs(
    backend: &dyn Backend,
    vectors: &Vectors,
    grad: &GradGraph,
    values: &[Vec<f32>],
    orders: &[&[usize]],
) -> Vec<Vec<Vec<f32>>> {
    let n = vectors.samples();
    let mut session = session(backend, grad, orders[0].len());
    let ran = orders.iter().map(|order| {
        let data: Vec<Data> = grad.inputs.iter().map(|spec| vectors.inputs[&spec.name].rows(n, order)).collect();
        let labels = Data::I64(vectors.labels.clone()).rows(n, order);
        assert_eq!(grad.labels.as_ref().unwrap().dtype, DType::I64);
        let fed: Vec<Input<'_>> = data.iter().chain([&labels]).map(Data::input).collect();
        let fed: Vec<Input<'_>> = fed.into_iter().chain(values.iter().map(|v| Input::F32(v))).collect();
        run(session.as_mut(), &fed)
    });
    ran.collect()
}

/// The largest difference from PyTorch, in units of the bound.
fn compare(name: &str, backend: &dyn Backend, vectors: &Vectors, grad: &GradGraph, got: &[Vec<f32>]) -> f64 {
    let n = vectors.samples();
    let counts: Vec<usize> = vectors.names.iter().map(|name| length(grad, name).min(ENTRIES)).collect();
    let width: usize = counts.iter().sum();
    let mut worst = 0.0f64;
    let mut check = |got: f64, want: f64, bound: f64, what: &dyn Fn() -> String| {
        let off = (got - want).abs() / bound;
        assert!(
            off <= 1.0,
            "{name} on {}, {}: {got}, not {want}: off by {off:.2} of the bound",
            backend.name(),
            what()
        );
        worst = worst.max(off);
    };
    for sample in 0..n {
        let loss = vectors.loss[sample];
        check(f64::from(got[0][sample]), loss, CLOSE * loss, &|| format!("loss of sample {sample}"));
        let largest = &vectors.largest[sample * vectors.names.len()..][..vectors.names.len()];
        let whole = largest.iter().fold(0.0f64, |most, x| most.max(*x));
        let mut at = sample * width;
        for (column, parameter) in vectors.names.iter().enumerate() {
            let index = grad.parameters.iter().position(|spec| spec.name == *parameter).unwrap();
            let length = length(grad, parameter);
            let mine = &got[1 + index][sample * length..][..length];
            let bound = CLOSE * largest[column] + FLOOR * whole;
            let norm = mine.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            let want = vectors.norms[sample * vectors.names.len() + column];
            let root = (length as f64).sqrt();
            check(norm, want, CLOSE * want + FLOOR * whole * root, &|| format!("sample {sample}, norm of {parameter}"));
            for entry in 0..counts[column] {
                let (got, want) = (f64::from(mine[place(entry, length)]), vectors.entries[at + entry]);
                check(got, want, bound, &|| format!("sample {sample}, {parameter}[{}]", place(entry, length)));
            }
            at += counts[column];
        }
    }
    worst
}

/// Numbers of the parameter `name`.
fn length(grad: &GradGraph, name: &str) -> usize {
    let spec = grad.parameters.iter().find(|spec| spec.name == name).unwrap_or_else(|| panic!("{name} is not trained"));
    let fixed = |dim: &damper::autodiff::Dim| match dim {
        damper::autodiff::Dim::Fixed(extent) => *extent,
        _ => panic!("a parameter has no batch"),
    };
    spec.shape.iter().map(fixed).product()
}

/// Gradients of `name` on both backends: PyTorch's, and in both rows of a batch the same bits.
fn check(name: &str) {
    let vectors = Vectors::read(name);
    let graph = drawn(name);
    let grad = gradients(name, &graph);
    let mut trained: Vec<&str> = grad.parameters.iter().map(|spec| spec.name.as_str()).collect();
    trained.sort_unstable();
    assert_eq!(trained, vectors.names, "{name}: the trained set is that of named_parameters()");
    let values = values(&graph, &grad);
    let n = vectors.samples();
    let straight: Vec<usize> = (0..n).collect();
    let turned: Vec<usize> = (0..n).rev().collect();
    for backend in backends() {
        let clock = std::time::Instant::now();
        let orders: &[&[usize]] = &[&straight, &turned];
        let ran = outputs(backend.as_ref(), &vectors, &grad, &values, orders);
        let worst = compare(name, backend.as_ref(), &vectors, &grad, &ran[0]);
        for (first, second) in ran[0].iter().zip(&ran[1]) {
            let width = first.len() / n;
            for sample in 0..n {
                let (first, second) = (&first[sample * width..][..width], &second[(n - 1 - sample) * width..][..width]);
                let same = first.iter().zip(second).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{name} on {}: sample {sample} has other bits in another row", backend.name());
            }
        }
        println!("{name} on {}: {worst:.3} of the bound, {:.1} s", backend.name(), clock.elapsed().as_secs_f64());
    }
}

#[test]
fn every_model_without_weights_is_compared() {
    for entry in std::fs::read_dir(path("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".onnx") else { continue };
        let (_, seed) = init::load(&path(&format!("{name}.onnx")), None).unwrap();
        assert_eq!(seed.is_some(), SKELETONS.contains(&name), "{name}");
    }
}

#[test]
fn gradients_of_the_cifar_cnn_are_those_of_pytorch() {
    check("cifar-cnn");
}

#[test]
fn gradients_of_the_five_layer_cnn_are_those_of_pytorch() {
    check("cifar-cnn5");
}

#[test]
fn gradients_of_the_resnet_are_those_of_pytorch() {
    check("resnet18-groupnorm");
}

#[test]
fn gradients_of_the_wide_resnet_are_those_of_pytorch() {
    check("wrn-16-4-groupnorm");
}
