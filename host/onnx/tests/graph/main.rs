//! Properties of the whole stage. Models are built here as protobuf. tract is the reference for shapes, and for the
//! elements that a sample affects.

mod elementwise;
mod exports;
mod free_batch;
mod gelu;
mod hostile;
mod layout;
mod lora;
mod mixing;
mod opaque;
mod parameters;
mod refusals;
mod shapes;
mod source;
mod spatial;
mod standard;

use damper_onnx::graph::{DType, Graph, GraphError, GraphOptions, Origin};
use damper_onnx::pb::{AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto};
use damper_onnx::{self as onnx, Extent, Tensor, TensorData};
use tract_onnx::prelude::{Framework as _, *};

/// Model under construction.
#[derive(Clone)]
struct Sketch {
    opset: i64,
    graph: GraphProto,
}

/// Symbolic batch extent. Other extents are fixed.
const N: usize = 0;

impl Sketch {
    /// Model with one float input `x`. An extent of [`N`] is the symbolic batch.
    fn new(opset: i64, x: &[usize]) -> Sketch {
        Sketch { opset, graph: GraphProto { name: "sketch".into(), ..GraphProto::default() } }.input("x", x)
    }

    fn input(self, name: &str, shape: &[usize]) -> Sketch {
        self.data(name, DType::F32, shape)
    }

    /// Adds an integer input.
    fn ids(self, name: &str, shape: &[usize]) -> Sketch {
        self.data(name, DType::I64, shape)
    }

    fn data(mut self, name: &str, dtype: DType, shape: &[usize]) -> Sketch {
        let extents: Vec<Extent> =
            shape.iter().map(|&d| if d == N { Extent::Batch } else { Extent::Fixed(d) }).collect();
        self.graph.input.push(onnx::make_value_info(name, dtype, &extents));
        self
    }

    /// Adds a float initializer with distinct values.
    fn weight(self, name: &str, shape: &[usize]) -> Sketch {
        let count: usize = shape.iter().product();
        let data: Vec<f32> = (0..count).map(|i| ((i * 37 + 11) % 23) as f32 / 16.0 - 0.6).collect();
        self.tensor(name, shape, &data)
    }

    fn tensor(mut self, name: &str, shape: &[usize], data: &[f32]) -> Sketch {
        self.graph.initializer.push(onnx::make_tensor_f32(name, shape, data));
        self
    }

    fn ints(mut self, name: &str, data: &[i64]) -> Sketch {
        self.graph.initializer.push(onnx::make_tensor_i64(name, &[data.len()], data));
        self
    }

    /// Adds a scalar integer.
    fn int(mut self, name: &str, value: i64) -> Sketch {
        self.graph.initializer.push(onnx::make_tensor_i64(name, &[], &[value]));
        self
    }

    /// Adds a node named after its output.
    fn node(mut self, op: &str, inputs: &[&str], output: &str, attributes: &[AttributeProto]) -> Sketch {
        let node: NodeProto = onnx::make_node(op, output, inputs, &[output], attributes.to_vec());
        self.graph.node.push(node);
        self
    }

    /// Returns the model with these outputs.
    fn returns(mut self, outputs: &[&str]) -> ModelProto {
        let info = |name: &&str| ValueInfoProto { name: name.to_string(), ..ValueInfoProto::default() };
        self.graph.output = outputs.iter().map(info).collect();
        ModelProto {
            ir_version: 8,
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: self.opset }],
            graph: Some(self.graph),
            ..ModelProto::default()
        }
    }

    /// Returns the model with `y = last · scale`, so that there is always something to train.
    fn scaled(self, last: &str) -> ModelProto {
        self.tensor("scale", &[1], &[0.5]).node("Mul", &[last, "scale"], "y", &[]).returns(&["y"])
    }
}

/// Weights of sketches that are trained even if they only scale an input.
const WEIGHTS: [&str; 7] = ["w", "scale", "token", "positions", "three", "square", "row"];

fn graph(model: &ModelProto) -> Result<Graph, GraphError> {
    let stored = &model.graph.as_ref().unwrap().initializer;
    let train =
        stored.iter().map(|tensor| tensor.name.clone()).filter(|name| WEIGHTS.contains(&name.as_str())).collect();
    Graph::from_model(model, &GraphOptions { train, ..GraphOptions::default() })
}

fn refusal(model: &ModelProto) -> String {
    graph(model).expect_err("the model is refused").to_string()
}

/// One-sample shape and (axis, outer, inner) of a value.
fn layout(graph: &Graph, name: &str) -> (Vec<usize>, Option<(usize, usize, usize)>) {
    let value = graph.value(graph.find(name).unwrap_or_else(|| panic!("no value '{name}' in\n{graph}")));
    (value.shape.clone(), value.batch.map(|b| (b.axis, b.outer, b.inner)))
}

/// Runs `model` in tract with `n` samples and a small change of sample `changed`. Returns `wanted` as (shape,
/// elements).
fn run(model: &ModelProto, graph: &Graph, n: usize, changed: usize, wanted: &[String]) -> Vec<(Vec<usize>, Vec<f32>)> {
    let mut probe = model.clone();
    let info = |name: &String| ValueInfoProto { name: name.clone(), ..ValueInfoProto::default() };
    let body = probe.graph.as_mut().unwrap();
    body.output = wanted.iter().map(info).collect();
    // Exporters record intermediate shapes with the batch's name, which tract does not equate with the number.
    body.value_info.clear();
    let mut inference = tract_onnx::onnx().model_for_read(&mut &onnx::encode(&probe)[..]).unwrap();
    let mut inputs = tvec!();
    for (slot, &id) in graph.inputs.iter().enumerate() {
        let mut shape = graph.value(id).shape.clone();
        shape[0] *= n;
        let per_sample: usize = shape[1..].iter().product();
        let moved = |i: usize| usize::from(i / per_sample == changed);
        let count = shape[0] * per_sample;
        if graph.value(id).dtype == DType::I64 {
            // Valid indices for any table of three rows.
            let data: Vec<i64> = (0..count).map(|i| ((i * 29 + slot + moved(i)) % 3) as i64).collect();
            inference.set_input_fact(slot, i64::fact(&shape).into()).unwrap();
            inputs.push(tract_onnx::prelude::Tensor::from_shape(&shape, &data).unwrap().into());
            continue;
        }
        let data: Vec<f32> =
            (0..count).map(|i| ((i * 29 + slot) % 31) as f32 / 31.0 + 0.25 * moved(i) as f32).collect();
        inference.set_input_fact(slot, f32::fact(&shape).into()).unwrap();
        inputs.push(tract_onnx::prelude::Tensor::from_shape(&shape, &data).unwrap().into());
    }
    let outputs = inference.into_typed().unwrap().into_runnable().unwrap().run(inputs).unwrap();
    outputs
        .iter()
        .map(|output| {
            let array = output.to_plain_array_view::<f32>().unwrap();
            (array.shape().to_vec(), array.iter().copied().collect())
        })
        .collect()
}

/// Checks every computed value against tract. It has the expected shape with `n` samples. Changing one sample changes
/// only that sample's elements, as given by (axis, outer, inner).
fn examine(model: &ModelProto, graph: &Graph, n: usize) {
    let written: Vec<&String> = model.graph.as_ref().unwrap().node.iter().flat_map(|node| &node.output).collect();
    let checked: Vec<_> = graph
        .values
        .iter()
        .filter(|value| matches!(value.origin, Origin::Node { .. }) && written.contains(&&value.name))
        .filter(|value| value.dtype == DType::F32)
        .collect();
    let names: Vec<String> = checked.iter().map(|value| value.name.clone()).collect();
    let base = run(model, graph, n, usize::MAX, &names);
    for changed in 0..n {
        let moved = run(model, graph, n, changed, &names);
        let mut reached = false;
        for (value, ((shape, before), (_, after))) in checked.iter().zip(base.iter().zip(&moved)) {
            let mut expected = value.shape.clone();
            if let Some(at) = value.batch {
                expected[at.axis] *= n;
            }
            assert_eq!(*shape, expected, "shape of '{}' in\n{graph}", value.name);
            for flat in (0..before.len()).filter(|&flat| before[flat] != after[flat]) {
                let at = value.batch.unwrap_or_else(|| panic!("'{}' depends on samples:\n{graph}", value.name));
                let after_axis: usize = shape[at.axis + 1..].iter().product();
                let sample = flat / after_axis % shape[at.axis] / at.inner % n;
                assert_eq!(sample, changed, "element {flat} of '{}' in\n{graph}", value.name);
                reached = true;
            }
        }
        assert!(reached, "sample {changed} changes nothing in\n{graph}");
    }
}
