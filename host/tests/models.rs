//! Models that are shipped without weights, with weights drawn here, against PyTorch. The samples of a batch are also
//! independent of each other.

#[path = "support/grads.rs"]
#[allow(dead_code, reason = "graphs are of weights drawn here")]
mod grads;
#[path = "support/models.rs"]
mod models;
#[path = "support/npz.rs"]
mod npz;

use damper::edit::init;
use damper::grad::{DeriveOptions, GradGraph, Loss, Readout, derive};
use damper::graph::{DType, Graph};
use damper::onnx::TensorRef;
use damper::runtime::{Backend, SessionSpec};
use grads::{run, values};
use models::{SKELETONS, backends, drawn, path};
use npz::NpzArchive;
use std::collections::BTreeMap;

/// Tolerance of an entry of a gradient against PyTorch's, relative to the largest entry of that parameter's gradient of
/// that sample.
const CLOSE: f64 = 1e-5;

/// Additional tolerance, relative to the largest entry of the sample's whole gradient. If a gradient vanishes (of the
/// bias of an attention's keys, of a convolution before a norm), f32 leaves rounding.
const FLOOR: f64 = 1e-6;

/// Number of entries of a gradient in the vectors, with their positions.
const ENTRIES: usize = 32;

fn place(entry: usize, length: usize) -> usize {
    (entry * 2_654_435_761 + 12_345) % length
}

/// Vectors in `vectors/NAME.npz`.
struct Vectors {
    inputs: BTreeMap<String, Data>,
    labels: Vec<i64>,
    loss: Vec<f64>,
    /// Names of the parameters, in the order of the columns.
    names: Vec<String>,
    /// Norms, `[N, parameters]`.
    norms: Vec<f64>,
    largest: Vec<f64>,
    /// Entries of all parameters, `[N, entries]`.
    entries: Vec<f64>,
}

/// One input of all samples.
#[derive(Clone)]
enum Data {
    F32(Vec<f32>),
    I64(Vec<i64>),
}

impl Data {
    /// Returns the rows of `order`, out of `samples`.
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

    fn input(&self) -> TensorRef<'_> {
        match self {
            Self::F32(all) => TensorRef::F32(all),
            Self::I64(all) => TensorRef::I64(all),
        }
    }
}

impl Vectors {
    fn read(name: &str) -> Self {
        let mut archive = NpzArchive::open(path(&format!("vectors/{name}.npz"))).expect("the vectors are there");
        let arrays: Vec<String> = archive.array_names().collect();
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

    fn row<'a>(&self, all: &'a [f64], sample: usize) -> &'a [f64] {
        let width = all.len() / self.samples();
        &all[sample * width..][..width]
    }

    /// Returns the norm of the sample's whole gradient.
    fn norm(&self, sample: usize) -> f64 {
        self.row(&self.norms, sample).iter().map(|x| x * x).sum::<f64>().sqrt()
    }
}

fn gradients(name: &str, graph: &Graph, readout: Readout) -> GradGraph {
    let options = DeriveOptions { readout, ..DeriveOptions::new(Loss::SoftmaxCrossEntropy) };
    derive(graph, &options).unwrap_or_else(|refusal| panic!("{name}: {refusal}"))
}

/// Returns all outputs of the gradient graph of `grad`, the loss first, for the samples in each of `orders`.
fn outputs(
    backend: &dyn Backend,
    vectors: &Vectors,
    grad: &GradGraph,
    values: &[Vec<f32>],
    clip: f32,
    orders: &[&[usize]],
) -> Vec<Vec<Vec<f32>>> {
    let n = vectors.samples();
    let own = grad.outputs.iter().filter(|spec| spec.name.starts_with("dp.")).cloned().collect();
    let plan = SessionSpec { batch: n, threads: 1, inputs: grad.feeds(), outputs: own };
    let session = backend.load(&grad.model, &plan);
    let mut session = session.unwrap_or_else(|error| panic!("{}: {error}", backend.name()));
    let (clip, weight) = ([clip], vec![1.0; n]);
    let ran = orders.iter().map(|order| {
        let data: Vec<Data> = grad.inputs.iter().map(|spec| vectors.inputs[&spec.name].rows(n, order)).collect();
        let labels = Data::I64(vectors.labels.clone()).rows(n, order);
        assert_eq!(grad.labels.as_ref().unwrap().dtype, DType::I64);
        let mut fed: Vec<TensorRef<'_>> = data.iter().chain([&labels]).map(Data::input).collect();
        fed.extend(values.iter().map(|v| TensorRef::F32(v)));
        fed.extend(grad.clip.iter().map(|_| TensorRef::F32(&clip)));
        fed.extend(grad.weight.iter().map(|_| TensorRef::F32(&weight)));
        run(session.as_mut(), &fed)
    });
    ran.collect()
}

/// Differences from PyTorch, in units of the bound.
struct Judge<'a> {
    what: String,
    vectors: &'a Vectors,
    worst: f64,
}

impl Judge<'_> {
    fn close(&mut self, got: f32, want: f64, bound: f64, place: &dyn Fn() -> String) {
        let off = (f64::from(got) - want).abs() / bound;
        assert!(off <= 1.0, "{}, {}: {got}, not {want}: off by {off:.2} of the bound", self.what, place());
        self.worst = self.worst.max(off);
    }

    fn losses(&mut self, got: &[f32]) {
        for (sample, (got, want)) in got.iter().zip(&self.vectors.loss).enumerate() {
            self.close(*got, *want, CLOSE * want, &|| format!("loss of sample {sample}"));
        }
    }

    /// Compares the norms of whole gradients.
    fn norms(&mut self, got: &[f32]) {
        for (sample, got) in got.iter().enumerate() {
            let want = self.vectors.norm(sample);
            self.close(*got, want, CLOSE * want, &|| format!("norm of sample {sample}"));
        }
    }

    /// Compares `got`, in the vectors' order of parameters, with the sum of the samples' gradients times `factors`.
    fn sums(&mut self, got: &[&[f32]], factors: &[(usize, f64)]) {
        let vectors = self.vectors;
        let total =
            |of: &dyn Fn(usize) -> f64| factors.iter().map(|&(sample, factor)| factor * of(sample)).sum::<f64>();
        let whole = total(&|sample| vectors.row(&vectors.largest, sample).iter().fold(0.0, |most, x| x.max(most)));
        let mut first = 0;
        for (column, (parameter, got)) in vectors.names.iter().zip(got).enumerate() {
            let bound = CLOSE * total(&|sample| vectors.row(&vectors.largest, sample)[column]) + FLOOR * whole;
            if let [(sample, 1.0)] = factors {
                let norm = got.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
                let want = vectors.row(&vectors.norms, *sample)[column];
                let bound = CLOSE * want + FLOOR * vectors.norm(*sample);
                self.close(norm as f32, want, bound, &|| format!("norm of sample {sample}'s {parameter}"));
            }
            for entry in 0..got.len().min(ENTRIES) {
                let at = place(entry, got.len());
                let want = total(&|sample| vectors.row(&vectors.entries, sample)[first + entry]);
                self.close(got[at], want, bound, &|| format!("{parameter}[{at}], samples and factors {factors:?}"));
            }
            first += got.len().min(ENTRIES);
        }
        assert_eq!(first, vectors.entries.len() / vectors.samples());
    }
}

/// Reorders `all` from the order of `grad.parameters` to that of the vectors.
fn sorted<'a, T>(vectors: &Vectors, grad: &GradGraph, all: &'a [T]) -> Vec<&'a T> {
    let place = |name: &String| grad.parameters.iter().position(|spec| spec.name == *name).unwrap();
    vectors.names.iter().map(|name| &all[place(name)]).collect()
}

/// Checks that losses, gradients, norms and clipped sums of the model `name` are PyTorch's on both backends. A sample's
/// gradient has the same bits in another row, with other neighbours.
fn check(name: &str) {
    let vectors = Vectors::read(name);
    let graph = drawn(name);
    let grad = gradients(name, &graph, Readout::PerSample);
    let mut trained: Vec<&str> = grad.parameters.iter().map(|spec| spec.name.as_str()).collect();
    trained.sort_unstable();
    assert_eq!(trained, vectors.names, "{name}: the trained set is that of named_parameters()");
    let values = values(&graph, &grad);
    let n = vectors.samples();
    let straight: Vec<usize> = (0..n).collect();
    let turned: Vec<usize> = (0..n).rev().collect();
    for backend in backends() {
        let clock = std::time::Instant::now();
        let what = format!("{name} on {} ({} operators)", backend.name(), backend.operators().name());
        let mut judge = Judge { what: what.clone(), vectors: &vectors, worst: 0.0 };

        let ran = outputs(backend.as_ref(), &vectors, &grad, &values, 1.0, &[&straight, &turned]);
        judge.losses(&ran[0][0]);
        let row = |all: &'_ [f32], sample: usize| all.chunks(all.len() / n).nth(sample).unwrap().to_vec();
        for sample in 0..n {
            for (first, second) in ran[0].iter().zip(&ran[1]) {
                let bits = |x: Vec<f32>| x.into_iter().map(f32::to_bits).collect::<Vec<_>>();
                let (first, second) = (bits(row(first, sample)), bits(row(second, n - 1 - sample)));
                assert!(first == second, "{what}: sample {sample} has other bits in another row");
            }
            let mine: Vec<Vec<f32>> = ran[0][1..].iter().map(|all| row(all, sample)).collect();
            let mine: Vec<&[f32]> = sorted(&vectors, &grad, &mine).into_iter().map(Vec::as_slice).collect();
            judge.sums(&mine, &[(sample, 1.0)]);
        }

        let norms = gradients(name, &graph, Readout::Norms);
        let ran = outputs(backend.as_ref(), &vectors, &norms, &values, 1.0, &[&straight]);
        judge.norms(&ran[0][1]);

        if backend.is_portable() {
            // It runs one sample at a time and clips no sums.
            println!("{what}: {:.3} of the bound, {:.1} s", judge.worst, clock.elapsed().as_secs_f64());
            continue;
        }
        // Some are clipped, and some are not.
        let clip = straight.iter().map(|&sample| vectors.norm(sample)).fold(f64::INFINITY, f64::min) * 1.01;
        let sums = gradients(name, &graph, Readout::ClippedSum);
        let ran = outputs(backend.as_ref(), &vectors, &sums, &values, clip as f32, &[&straight]);
        judge.norms(&ran[0][1]);
        let factors: Vec<_> =
            straight.iter().map(|&sample| (sample, (f64::from(clip as f32) / vectors.norm(sample)).min(1.0))).collect();
        let all: Vec<&[f32]> = sorted(&vectors, &sums, &ran[0][2..]).into_iter().map(Vec::as_slice).collect();
        judge.sums(&all, &factors);
        println!("{what}: {:.3} of the bound, {:.1} s", judge.worst, clock.elapsed().as_secs_f64());
    }
}

#[test]
fn every_model_without_weights_is_compared() {
    for entry in std::fs::read_dir(path("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".onnx") else { continue };
        let seed = init::load(&path(&format!("{name}.onnx")), None).unwrap().init_seed;
        assert_eq!(seed.is_some(), SKELETONS.contains(&name), "{name}");
    }
}

#[test]
fn cifar_cnn_gradients_match_pytorch() {
    check("cifar-cnn");
}

#[test]
fn cifar_cnn5_gradients_match_pytorch() {
    check("cifar-cnn5");
}

#[test]
fn resnet_gradients_match_pytorch() {
    check("resnet18-groupnorm");
}

#[test]
fn wide_resnet_gradients_match_pytorch() {
    check("wrn-16-4-groupnorm");
}

#[test]
fn vit_gradients_match_pytorch() {
    check("vit-tiny");
}

#[test]
fn text_classifier_gradients_match_pytorch() {
    check("bert-tiny");
}

#[test]
fn language_model_gradients_match_pytorch() {
    check("gpt-small");
}
