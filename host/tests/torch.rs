//! Exported files against PyTorch: trained parameters, per-sample losses and per-sample gradients.

#[path = "support/grads.rs"]
mod grads;
#[path = "support/models.rs"]
mod models;
#[path = "support/npz.rs"]
mod npz;

use damper::grad::{DeriveOptions, GradGraph, Loss, derive};
use damper::graph::{DType, Graph, GraphOptions};
use damper::onnx::Dim;
use damper::onnx::TensorRef;
use damper::runtime::Backend;
use grads::{choice, grad_graph, graph, run, session, values};
use models::{SKELETONS, backends, path};
use npz::NpzArchive;
use std::collections::BTreeMap;

/// Tolerance of an entry of a gradient against PyTorch's, relative to the largest entry of that parameter's gradient of
/// that sample.
const CLOSE: f64 = 1e-5;

/// A file, and its vectors.
struct Case {
    file: &'static str,
    vectors: &'static str,
    loss: Loss,
    /// Initializers that differ from the parameter of that name in the vectors' layout.
    renamed: &'static [Renamed],
    /// Additional tolerance, relative to the largest entry of the sample's whole gradient. Above 0 if a parameter's
    /// gradient vanishes, or nearly, so that f32 leaves only rounding.
    floor: f64,
}

/// Name of an initializer, the parameter's name in the vectors, and true if the initializer is its transpose.
type Renamed = (&'static str, &'static str, bool);

impl Case {
    fn new(file: &'static str, vectors: &'static str) -> Self {
        Self { file, vectors, loss: Loss::SoftmaxCrossEntropy, renamed: &[], floor: 0.0 }
    }

    fn loss(self, loss: Loss) -> Self {
        Self { loss, ..self }
    }

    fn renamed(self, renamed: &'static [Renamed]) -> Self {
        Self { renamed, ..self }
    }

    fn floor(self, floor: f64) -> Self {
        Self { floor, ..self }
    }
}

/// With folding, exporters rename the affine operands of GroupNorm. TorchScript's operands get their modules' names
/// again.
const NORMS_OF_TORCHSCRIPT: &[Renamed] = &[
    ("norm1.weight", "norm1.weight", false),
    ("norm1.bias", "norm1.bias", false),
    ("norm2.weight", "norm2.weight", false),
    ("norm2.bias", "norm2.bias", false),
];
const NORMS_OF_DYNAMO: &[Renamed] = &[
    ("val_22", "norm1.weight", false),
    ("val_24", "norm1.bias", false),
    ("val_50", "norm2.weight", false),
    ("val_52", "norm2.bias", false),
];
const MERGED_NORMS_OF_TORCHSCRIPT: &[Renamed] = &[
    ("norm1.weight", "norm1.weight", false),
    ("norm1.bias", "norm1.bias", false),
    ("onnx::Mul_45", "norm2.weight", false),
    ("onnx::Add_46", "norm2.bias", false),
];
const MERGED_NORMS_OF_DYNAMO: &[Renamed] = &[
    ("val_22", "norm1.weight", false),
    ("val_24", "norm1.bias", false),
    ("val_22::node_Mul_45", "norm2.weight", false),
    ("val_24::node_group_norm_1", "norm2.bias", false),
];
/// A Linear layer on an input of rank 3 becomes a product with its weight's transpose.
const MATRICES_OF_TORCHSCRIPT: &[Renamed] =
    &[("query.weight", "query.weight", true), ("key.weight", "key.weight", true)];
const MATRICES_OF_DYNAMO: &[Renamed] = &[("val_4", "query.weight", true), ("val_6", "key.weight", true)];

fn cases() -> Vec<Case> {
    let groupnorm = |file| Case::new(file, "digits-cnn-groupnorm");
    // The softmax's arguments are large in some samples. A normalisation cancels a convolution's bias, so its gradient
    // is 0.
    let operators = |file| Case::new(file, "operators").floor(1e-6);
    let instancenorm = |file| Case::new(file, "instancenorm").floor(1e-6);
    let merged = |file| Case::new(file, "merged-norms");
    vec![
        Case::new("digits-linear.onnx", "digits-linear"),
        Case::new("exports/digits-linear.dynamo.onnx", "digits-linear"),
        Case::new("digits-mlp.onnx", "digits-mlp"),
        Case::new("digits-mlp.onnx", "digits-mlp.mse").loss(Loss::Mse),
        Case::new("digits-mlp.onnx", "digits-mlp.bce-with-logits").loss(Loss::BceWithLogits),
        Case::new("exports/digits-mlp.dynamo.onnx", "digits-mlp"),
        Case::new("exports/digits-mlp.dynamo.onnx", "digits-mlp.mse").loss(Loss::Mse),
        Case::new("exports/digits-mlp.dynamo.onnx", "digits-mlp.bce-with-logits").loss(Loss::BceWithLogits),
        Case::new("digits-cnn.onnx", "digits-cnn"),
        Case::new("exports/digits-cnn.dynamo.onnx", "digits-cnn"),
        Case::new("exports/digits-cnn.opset13.torchscript.onnx", "digits-cnn"),
        Case::new("exports/digits-cnn.opset20.torchscript.onnx", "digits-cnn"),
        Case::new("exports/digits-cnn.opset21.dynamo.onnx", "digits-cnn"),
        groupnorm("digits-cnn-groupnorm.onnx"),
        groupnorm("exports/digits-cnn-groupnorm.torchscript.onnx").renamed(NORMS_OF_TORCHSCRIPT),
        groupnorm("exports/digits-cnn-groupnorm.dynamo.onnx").renamed(NORMS_OF_DYNAMO),
        groupnorm("exports/groupnorm.opset13.torchscript.onnx").renamed(NORMS_OF_TORCHSCRIPT),
        groupnorm("exports/groupnorm.opset21.dynamo.onnx"),
        Case::new("mnist-cnn.onnx", "mnist-cnn"),
        Case::new("exports/mnist-cnn.dynamo.onnx", "mnist-cnn"),
        Case::new("sensor-cnn.onnx", "sensor-cnn"),
        Case::new("exports/reshaped.torchscript.onnx", "reshaped"),
        Case::new("exports/reshaped.dynamo.onnx", "reshaped"),
        Case::new("exports/fixed-batch.torchscript.onnx", "reshaped"),
        Case::new("exports/fixed-batch.dynamo.onnx", "reshaped"),
        Case::new("exports/fixed-batch-4.torchscript.onnx", "reshaped"),
        Case::new("exports/fixed-batch-4.dynamo.onnx", "reshaped"),
        operators("exports/operators.torchscript.onnx").renamed(MATRICES_OF_TORCHSCRIPT),
        operators("exports/operators.dynamo.onnx").renamed(MATRICES_OF_DYNAMO),
        instancenorm("exports/instancenorm.torchscript.onnx"),
        instancenorm("exports/instancenorm.dynamo.onnx"),
        merged("exports/merged-norms.torchscript.onnx").renamed(MERGED_NORMS_OF_TORCHSCRIPT),
        merged("exports/merged-norms.dynamo.onnx").renamed(MERGED_NORMS_OF_DYNAMO),
        merged("exports/merged-norms.unfolded.onnx"),
        Case::new("exports/recurrences.unfolded.onnx", "recurrences"),
    ]
}

/// Files that cannot be trained, with words of their one-line error.
const REFUSED: [(&str, &[&str]); 7] = [
    ("exports/batchnorm.torchscript.onnx", &["'/norm/BatchNormalization'", "(BatchNormalization)", "GroupNorm"]),
    (
        "exports/batchnorm.dynamo.onnx",
        &["'node__native_batch_norm_legit_no_training__0'", "(BatchNormalization)", "GroupNorm"],
    ),
    ("exports/bert.fused.onnx", &["'SkipLayerNorm_AddBias_0'", "SkipLayerNormalization has no rule", "`only`"]),
    ("exports/dynamic-axis.torchscript.onnx", &["axis 2", "'axis2'", "'x'", "`shape` axis2=SIZE"]),
    ("exports/dynamic-axis.dynamo.onnx", &["axis 2", "'axis2'", "'x'", "`shape` axis2=SIZE"]),
    ("exports/no-parameters.torchscript.onnx", &["no trainable initializer", "`train`"]),
    ("exports/no-parameters.dynamo.onnx", &["no trainable initializer", "`train`"]),
];

/// A `.npz` file of `vectors/`.
struct Vectors(BTreeMap<String, Array>);

struct Array {
    shape: Vec<usize>,
    floats: Vec<f64>,
}

impl Vectors {
    fn read(name: &str) -> Self {
        let mut archive = NpzArchive::open(path(&format!("vectors/{name}.npz"))).expect("the vectors are there");
        let names: Vec<String> = archive.array_names().collect();
        let mut arrays = BTreeMap::new();
        for name in names {
            let file = archive.by_name(&name).unwrap().unwrap();
            let shape = file.shape().iter().map(|&extent| extent as usize).collect();
            let floats = match name.as_str() {
                "loss64" => file.into_vec::<f64>().unwrap(),
                "labels" if file.dtype().descr().contains("i8") => {
                    file.into_vec::<i64>().unwrap().iter().map(|&label| label as f64).collect()
                }
                _ => file.into_vec::<f32>().unwrap().iter().map(|&x| f64::from(x)).collect(),
            };
            arrays.insert(name, Array { shape, floats });
        }
        Self(arrays)
    }

    fn f32(&self, name: &str) -> Vec<f32> {
        self.0[name].floats.iter().map(|&x| x as f32).collect()
    }

    /// Returns the names of the parameters: those of `named_parameters()`.
    fn parameters(&self) -> Vec<&str> {
        self.0.keys().filter_map(|name| name.strip_prefix("grad.")).collect()
    }

    fn samples(&self) -> usize {
        self.0["loss"].floats.len()
    }
}

/// Returns the parameter of initializer `name`, and true if it is transposed.
fn meaning<'a>(case: &Case, name: &'a str) -> (&'a str, bool) {
    let renamed = case.renamed.iter().find(|(initializer, ..)| *initializer == name);
    renamed.map_or((name, false), |&(_, parameter, transposed)| (parameter, transposed))
}

/// Returns the extents of one sample's gradient.
fn extents(grad: &GradGraph, index: usize) -> Vec<usize> {
    let fixed = |dim: &Dim| if let Dim::Fixed(extent) = dim { *extent } else { panic!("a parameter has no batch") };
    grad.parameters[index].shape.iter().map(fixed).collect()
}

/// Transposes a matrix `[rows, columns]` to `[columns, rows]`.
fn transposed(matrix: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|column| (0..rows).map(move |row| matrix[row * columns + column])).collect()
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |largest, value| largest.max(value.abs()))
}

/// Runs `case` on the vectors' samples, compares, and returns the largest difference in units of the bound.
fn check(case: &Case, backend: &dyn Backend) -> f64 {
    let vectors = Vectors::read(case.vectors);
    let graph = graph(case.file, &choice(case.file)).unwrap();
    let grad = derive(&graph, &DeriveOptions::new(case.loss.clone())).unwrap();
    let n = vectors.samples();
    let (x, values) = (vectors.f32("x"), values(&graph, &grad));
    let labels = vectors.f32("labels");
    let classes: Vec<i64> = labels.iter().map(|&label| label as i64).collect();
    let labels = match grad.labels.as_ref().unwrap().dtype {
        DType::I64 => TensorRef::I64(&classes),
        _ => TensorRef::F32(&labels),
    };
    let fed: Vec<_> =
        [TensorRef::F32(&x), labels].into_iter().chain(values.iter().map(|v| TensorRef::F32(v))).collect();
    let outputs = run(session(backend, &grad, n).as_mut(), &fed);

    let mut worst = 0.0f64;
    let mut compare = |got: &[f32], want: &[f64], bound: f64, what: &dyn Fn() -> String| {
        assert_eq!(got.len(), want.len(), "{}", what());
        for (at, (&got, &want)) in got.iter().zip(want).enumerate() {
            let off = (f64::from(got) - want).abs();
            assert!(off <= bound, "{}, entry {at}: {got}, not {want}: off by {:.2} of the bound", what(), off / bound);
            worst = worst.max(if bound > 0.0 { off / bound } else { 0.0 });
        }
    };
    // Against PyTorch in f32, and against the same in f64.
    for precision in ["", "64"] {
        let loss = &vectors.0[&format!("loss{precision}")].floats;
        let named = |name: &str| &vectors.0[&format!("grad{precision}.{name}")];
        for sample in 0..n {
            let what = || format!("{} on {}, loss of sample {sample}", case.file, backend.name());
            compare(&outputs[0][sample..=sample], &loss[sample..=sample], CLOSE * loss[sample].abs(), &what);
            let of = |name: &str| {
                let floats = &named(name).floats;
                let width = floats.len() / n;
                &floats[sample * width..][..width]
            };
            let whole = vectors.parameters().iter().fold(0.0f64, |most, name| most.max(largest(of(name))));
            for (index, spec) in grad.parameters.iter().enumerate() {
                let (name, transpose) = meaning(case, &spec.name);
                let want = of(name);
                let got = &outputs[1 + index][sample * want.len()..][..want.len()];
                let what = || format!("{} on {}, sample {sample}, {}", case.file, backend.name(), spec.name);
                let bound = CLOSE * largest(want) + case.floor * whole;
                if transpose {
                    let [rows, columns] = extents(&grad, index)[..] else { panic!("a matrix is transposed") };
                    compare(&transposed(got, rows, columns), want, bound, &what);
                } else {
                    compare(got, want, bound, &what);
                }
            }
        }
    }
    worst
}

// Per-sample losses and gradients match PyTorch.
#[test]
fn losses_and_gradients_match_pytorch() {
    for backend in backends() {
        let cases = cases();
        let failed = cases.iter().filter(|case| {
            let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(case, backend.as_ref())));
            if let Ok(worst) = &checked {
                println!("{} {}: {worst:.3} of the bound", backend.name(), case.file);
            }
            checked.is_err()
        });
        let failed: Vec<&str> = failed.map(|case| case.file).collect();
        assert!(failed.is_empty(), "on {}: {failed:#?}", backend.name());
    }
}

// The trained set equals the named parameters of the source.
#[test]
fn trained_set_is_named_parameters() {
    for case in &cases() {
        let vectors = Vectors::read(case.vectors);
        let grad = grad_graph(case.file, case.loss.clone());
        let mut trained: Vec<&str> = grad.parameters.iter().map(|spec| meaning(case, &spec.name).0).collect();
        trained.sort_unstable();
        assert_eq!(trained, vectors.parameters(), "{}", case.file);
        for (index, spec) in grad.parameters.iter().enumerate() {
            let (name, transpose) = meaning(case, &spec.name);
            let mut want = vectors.0[&format!("grad.{name}")].shape[1..].to_vec();
            if transpose {
                want.reverse();
            }
            let got = extents(&grad, index);
            // Folding adds axes of extent 1 after a norm's only extent.
            let trimmed: Vec<usize> = got.iter().copied().filter(|&extent| extent != 1).collect();
            let renamed = case.renamed.iter().any(|(initializer, ..)| *initializer == spec.name);
            assert_eq!(if renamed { &trimmed } else { &got }, &want, "{}: {}", case.file, spec.name);
        }
    }
}

#[test]
fn every_file_is_compared_or_refused() {
    let cases = cases();
    for folder in ["", "exports/"] {
        for entry in std::fs::read_dir(path(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".onnx") {
                let file = format!("{folder}{name}");
                let compared = cases.iter().any(|case| case.file == file);
                let elsewhere = SKELETONS.iter().any(|name| file == format!("{name}.onnx"));
                let refused = REFUSED.iter().any(|(refused, _)| *refused == file);
                assert!(
                    usize::from(compared) + usize::from(elsewhere) + usize::from(refused) == 1,
                    "{file} is in no list, or in several"
                );
            }
        }
    }
}

// The error for a model that cannot be trained is one line and names the cause.
#[test]
fn untrainable_model_error_is_one_line() {
    for (file, words) in REFUSED {
        let error = graph(file, &GraphOptions::default()).expect_err(file);
        assert!(!error.contains('\n'), "{error}");
        for word in words {
            assert!(error.contains(word), "{file}: '{word}' is not in: {error}");
        }
    }
}

// A dynamic axis with a fixed size is accepted.
#[test]
fn fixed_dynamic_axis_is_accepted() {
    for exporter in ["torchscript", "dynamo"] {
        let shape = vec![("axis2".into(), 8), ("axis3".into(), 9)];
        let options = GraphOptions { shape, ..GraphOptions::default() };
        let graph: Graph = graph(&format!("exports/dynamic-axis.{exporter}.onnx"), &options).unwrap();
        let grad = derive(&graph, &DeriveOptions::new(Loss::SoftmaxCrossEntropy)).unwrap();
        assert_eq!(grad.inputs[0].shape, [Dim::Batch, Dim::Fixed(1), Dim::Fixed(8), Dim::Fixed(9)]);
    }
}
