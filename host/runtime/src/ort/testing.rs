//! Helpers for the tests of the custom operators.

use super::super::backend::{Backend, SessionSpec, bound_shape};
use super::Ort;
use super::operators;
use damper_onnx::graph::DType;
use damper_onnx::{CUSTOM_DOMAIN as DOMAIN, TensorRef};
use damper_onnx::{Dim, TensorSpec};
use damper_onnx::{Extent, make_node, make_tensor_f32, make_value_info, pb};

/// Batch size.
pub(super) const BATCH: usize = 5;

/// Spec of a batched input `[N, *extents]`.
pub(super) fn batched(name: &str, extents: &[usize]) -> TensorSpec {
    let shape = [Dim::Batch].into_iter().chain(extents.iter().map(|&extent| Dim::Fixed(extent))).collect();
    TensorSpec { name: name.into(), dtype: DType::F32, shape }
}

/// Spec of a parameter.
pub(super) fn parameter(name: &str, extents: &[usize]) -> TensorSpec {
    TensorSpec {
        name: name.into(),
        dtype: DType::F32,
        shape: extents.iter().map(|&extent| Dim::Fixed(extent)).collect(),
    }
}

/// Node with one output, parsed from `output = op(inputs)`.
pub(super) fn node(written: &str) -> pb::NodeProto {
    let parts: Vec<&str> = written.split([' ', '=', '(', ')', ',']).filter(|part| !part.is_empty()).collect();
    make_node(parts[1], parts[0], &parts[2..], &[parts[0]], vec![])
}

/// Model of `nodes` with constants, and its plan.
pub(super) fn model(
    nodes: Vec<pb::NodeProto>,
    constants: &[(&str, &[usize], &[f32])],
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
) -> (pb::ModelProto, SessionSpec) {
    let value = |spec: &TensorSpec| {
        let extents = spec.shape.iter().map(|dim| match dim {
            Dim::Batch => Extent::Batch,
            Dim::Fixed(extent) => Extent::Fixed(*extent),
        });
        make_value_info(&spec.name, spec.dtype, &extents.collect::<Vec<_>>())
    };
    let graph = pb::GraphProto {
        name: "g".into(),
        node: nodes,
        input: inputs.iter().map(value).collect(),
        output: outputs.iter().map(value).collect(),
        initializer: constants.iter().map(|(name, shape, data)| make_tensor_f32(name, shape, data)).collect(),
        ..Default::default()
    };
    let standard = pb::OperatorSetIdProto { domain: String::new(), version: 17 };
    let model =
        pb::ModelProto { ir_version: 8, opset_import: vec![standard], graph: Some(graph), ..Default::default() };
    (model, SessionSpec { batch: BATCH, threads: 1, inputs, outputs })
}

/// Custom operators that a session puts in a model. Other nodes are `""`.
pub(super) fn put((model, plan): &(pb::ModelProto, SessionSpec)) -> Vec<String> {
    let mut model = model.clone();
    operators::put(&mut model, plan);
    let is_ours = |node: pb::NodeProto| if node.domain == DOMAIN { node.op_type } else { String::new() };
    model.graph.unwrap().node.into_iter().map(is_ours).collect()
}

/// Runs a model on these inputs. Prints a message and returns `None` without onnxruntime.
pub(super) fn run((model, plan): &(pb::ModelProto, SessionSpec), inputs: &[Vec<f32>]) -> Option<Vec<Vec<f32>>> {
    let backend = match Ort::open() {
        Ok(backend) => backend,
        Err(error) => {
            crate::tests::skip(&error);
            return None;
        }
    };
    let mut session = backend.load(model, plan).unwrap();
    let inputs: Vec<_> = inputs.iter().map(|input| TensorRef::F32(input)).collect();
    let mut outputs = vec![];
    session.run(&inputs, &mut |made| outputs = made.iter().map(|made| made.to_vec()).collect()).unwrap();
    Some(outputs)
}

/// Values of both signs for each input of a plan.
pub(super) fn numbers(plan: &SessionSpec) -> Vec<Vec<f32>> {
    let numbers = |(step, spec): (usize, &TensorSpec)| {
        let len = bound_shape(spec, plan.batch).iter().product();
        (0..len).map(|i: usize| ((i * (17 + 6 * step) + 7) % 61) as f32 / 20.3 - 1.5).collect()
    };
    plan.inputs.iter().enumerate().map(numbers).collect()
}

/// Largest difference, relative to the larger of 1 and the value.
pub(super) fn apart(ours: &[f32], theirs: &[f64]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    let apart = |(ours, theirs): (&f32, &f64)| (f64::from(*ours) - theirs).abs() / theirs.abs().max(1.0);
    ours.iter().zip(theirs).map(apart).fold(0.0, f64::max)
}

/// Asserts that a sample's bits depend neither on its row nor on other samples. One of the others may contain a value
/// of `bad` and be non-finite. The first `count` inputs are batched.
pub(super) fn assert_samples_stay_alone((model, plan): &(pb::ModelProto, SessionSpec), count: usize, bad: &[f32]) {
    let inputs = numbers(plan);
    let Some(first) = run(&(model.clone(), plan.clone()), &inputs) else { return };
    for bad in bad.iter().copied().chain([0.25]) {
        let mut moved = inputs.clone();
        for input in &mut moved[..count] {
            let width = input.len() / BATCH;
            input.rotate_right(2 * width);
            input[width + width / 2] = bad;
        }
        let second = run(&(model.clone(), plan.clone()), &moved).unwrap();
        for (first, second) in first.iter().zip(&second) {
            let width = first.len() / BATCH;
            for sample in (0..BATCH).filter(|sample| (sample + 2) % BATCH != 1) {
                let bits = |made: &[f32], at: usize| -> Vec<u32> {
                    made[at * width..(at + 1) * width].iter().map(|entry| entry.to_bits()).collect()
                };
                assert_eq!(bits(first, sample), bits(second, (sample + 2) % BATCH), "{bad} moved sample {sample}");
            }
            assert_eq!(second[width..2 * width].iter().all(|entry| entry.is_finite()), bad.is_finite());
        }
    }
}
