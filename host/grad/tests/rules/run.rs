//! Runs emitted graphs on tract, onnxruntime and the portable backend.

use std::sync::OnceLock;

use damper_grad::GradGraph;
use damper_onnx::pb::{ModelProto, TensorShapeProto, tensor_shape_proto::dimension, type_proto};
use damper_onnx::{Dim, TensorRef, TensorSpec, encode};
use damper_runtime::{Backend as _, Session, SessionSpec, portable::Portable};
use prost::Message as _;
use tract_onnx::prelude::{Framework as _, *};

/// Values of one input for a whole batch, in row-major order.
#[derive(Clone, Debug)]
pub enum Feed {
    Float(Vec<f32>),
    Int(Vec<i64>),
}

impl Feed {
    /// The same input with the batch rows `rows`. `count` is its number of rows.
    pub fn select(&self, rows: &[usize], count: usize) -> Self {
        fn pick<T: Copy>(v: &[T], rows: &[usize], count: usize) -> Vec<T> {
            let width = v.len() / count;
            rows.iter().flat_map(|&r| v[r * width..(r + 1) * width].to_vec()).collect()
        }
        match self {
            Feed::Float(v) => Feed::Float(pick(v, rows, count)),
            Feed::Int(v) => Feed::Int(pick(v, rows, count)),
        }
    }
}

/// Inputs of a gradient graph, in its order.
pub fn specs(grad: &GradGraph) -> Vec<TensorSpec> {
    grad.feeds()
}

/// Extents of `spec` for a batch of `n`.
pub fn extents(spec: &TensorSpec, n: usize) -> Vec<usize> {
    spec.shape.iter().map(|d| if let Dim::Fixed(d) = d { *d } else { n }).collect()
}

/// Model with all symbolic extents of its inputs and outputs replaced.
pub fn bound(model: &ModelProto, n: usize) -> ModelProto {
    let mut model = model.clone();
    let graph = model.graph.as_mut().unwrap();
    for info in graph.input.iter_mut().chain(&mut graph.output) {
        if let Some(type_proto::Value::TensorType(t)) = info.r#type.as_mut().and_then(|t| t.value.as_mut()) {
            for dim in &mut t.shape.get_or_insert_with(TensorShapeProto::default).dim {
                if let Some(dimension::Value::DimParam(name)) = &dim.value {
                    let times = name.strip_suffix("*N").map_or(1, |k| k.parse::<usize>().unwrap());
                    dim.value = Some(dimension::Value::DimValue((times * n) as i64));
                }
            }
        }
    }
    model
}

/// Number of elements of the largest tensor that `grad` computes on `n` rows.
pub fn largest_tensor(grad: &GradGraph, n: usize) -> usize {
    let model = tract_onnx::onnx()
        .model_for_read(&mut &encode(&bound(&grad.standard_model(), n))[..])
        .expect("tract reads the graph");
    let model = model.into_typed().expect("tract types the graph");
    let facts = model.nodes.iter().flat_map(|node| &node.outputs).map(|output| &output.fact);
    let len = |fact: &TypedFact| fact.shape.as_concrete().expect("a bound shape").iter().product();
    facts.map(len).max().expect("a graph has nodes")
}

/// Gradient graph loaded for one batch shape.
pub enum Runner {
    Tract(Arc<TypedRunnableModel>),
    Ort(Box<ort::session::Session>),
    Portable(Box<dyn Session>),
}

impl Runner {
    pub fn tract(grad: &GradGraph, n: usize) -> Self {
        let model = tract_onnx::onnx()
            .model_for_read(&mut &encode(&bound(&grad.standard_model(), n))[..])
            .expect("tract reads the graph");
        let model = model.into_optimized().expect("tract optimises the graph");
        Self::Tract(model.into_runnable().expect("tract runs the graph"))
    }

    /// Runner of the portable backend. The error is the message for an operator without a kernel.
    pub fn portable(grad: &GradGraph, n: usize) -> Result<Self, String> {
        let plan = SessionSpec { batch: n, threads: 1, inputs: grad.feeds(), outputs: grad.outputs.clone() };
        let session = Portable.load(&grad.model, &plan).map_err(|error| error.to_string())?;
        Ok(Self::Portable(session))
    }

    /// Runner of onnxruntime. `None` if the library is not found.
    pub fn ort(grad: &GradGraph, n: usize) -> Option<Self> {
        let bytes = bound(&grad.device_model(), n).encode_to_vec();
        let session = ort::session::Session::builder(environment()?)
            .unwrap()
            .with_intra_threads(1)
            .unwrap()
            .commit_from_memory(&bytes)
            .expect("onnxruntime loads the graph");
        Some(Self::Ort(Box::new(session)))
    }

    /// Float outputs of `grad`, in its order.
    pub fn run(&mut self, grad: &GradGraph, feeds: &[Feed], n: usize) -> Vec<Vec<f32>> {
        let specs = specs(grad);
        match self {
            Self::Tract(model) => {
                let inputs = specs.iter().zip(feeds).map(|(spec, feed)| {
                    let shape = extents(spec, n);
                    match feed {
                        Feed::Float(v) => Tensor::from_shape(&shape, v),
                        Feed::Int(v) => Tensor::from_shape(&shape, v),
                    }
                    .unwrap()
                    .into_tvalue()
                });
                let outputs = model.run(inputs.collect()).expect("tract runs the graph");
                // An output that merges the batch with another axis has no specification.
                let names: Vec<&str> = grad.model.graph.as_ref().unwrap().output.iter().map(|o| &*o.name).collect();
                let read = |s: &TensorSpec| {
                    let at = names.iter().position(|n| *n == s.name).unwrap();
                    outputs[at].try_as_plain_ram().unwrap().as_slice::<f32>().unwrap().to_vec()
                };
                grad.outputs.iter().map(read).collect()
            }
            Self::Portable(session) => {
                let inputs: Vec<_> = feeds
                    .iter()
                    .map(|feed| match feed {
                        Feed::Float(v) => TensorRef::F32(v),
                        Feed::Int(v) => TensorRef::I64(v),
                    })
                    .collect();
                let mut read = vec![];
                let keep = &mut |outputs: &[&[f32]]| read = outputs.iter().map(|output| output.to_vec()).collect();
                session.run(&inputs, keep).expect("the portable backend runs the graph");
                read
            }
            Self::Ort(session) => {
                let inputs: Vec<(String, ort::session::SessionInputValue<'_>)> = specs
                    .iter()
                    .zip(feeds)
                    .map(|(spec, feed)| {
                        let shape: Vec<i64> = extents(spec, n).iter().map(|&d| d as i64).collect();
                        let value = match feed {
                            Feed::Float(v) => ort::value::Tensor::from_array((shape, v.clone())).unwrap().into(),
                            Feed::Int(v) => ort::value::Tensor::from_array((shape, v.clone())).unwrap().into(),
                        };
                        (spec.name.clone(), value)
                    })
                    .collect();
                let outputs = session.run(inputs).expect("onnxruntime runs the graph");
                let read = |s: &TensorSpec| outputs[s.name.as_str()].try_extract_tensor::<f32>().unwrap().1.to_vec();
                grad.outputs.iter().map(read).collect()
            }
        }
    }
}

/// Output `y` of the model from which `grad` was derived, on the same data and its own parameters, by onnxruntime.
pub fn original(model: &ModelProto, grad: &GradGraph, feeds: &[Feed], n: usize) -> Option<Vec<f32>> {
    let mut session = ort::session::Session::builder(environment()?)
        .unwrap()
        .commit_from_memory(&model.encode_to_vec())
        .expect("onnxruntime loads the model");
    let inputs: Vec<(String, ort::session::SessionInputValue<'_>)> = grad
        .inputs
        .iter()
        .zip(feeds)
        .map(|(spec, feed)| {
            let shape: Vec<i64> = extents(spec, n).iter().map(|&d| d as i64).collect();
            let value = match feed {
                Feed::Float(v) => ort::value::Tensor::from_array((shape, v.clone())).unwrap().into(),
                Feed::Int(v) => ort::value::Tensor::from_array((shape, v.clone())).unwrap().into(),
            };
            (spec.name.clone(), value)
        })
        .collect();
    let outputs = session.run(inputs).expect("onnxruntime runs the model");
    Some(outputs["y"].try_extract_tensor::<f32>().unwrap().1.to_vec())
}

fn environment() -> Option<&'static ort::environment::Environment> {
    static ENVIRONMENT: OnceLock<Option<ort::environment::Environment>> = OnceLock::new();
    ENVIRONMENT
        .get_or_init(|| {
            let Ok(path) = std::env::var("ORT_DYLIB_PATH") else {
                damper_testing::skip("ort", "onnxruntime (set ORT_DYLIB_PATH to its library)");
                return None;
            };
            Some(ort::init_from(path).expect("ORT_DYLIB_PATH names onnxruntime").build().unwrap())
        })
        .as_ref()
}
