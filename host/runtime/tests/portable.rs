//! Programs of the portable backend: named errors, constant folding, shared memory.

use damper_onnx::graph::DType;
use damper_onnx::pb::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto};
use damper_onnx::{Dim, Extent, TensorRef, TensorSpec, make_attr_int, make_attr_ints, make_node, make_value_info};
use damper_runtime::portable::{Portable, Program, ProgramForm};
use damper_runtime::{Backend as _, SessionSpec};

fn spec(name: &str, shape: &[Dim]) -> TensorSpec {
    TensorSpec { name: name.into(), dtype: DType::F32, shape: shape.to_vec() }
}

/// Model of `nodes`, and the plan for batches of `batch` rows.
fn model(batch: usize, inputs: &[TensorSpec], output: &TensorSpec, node: Vec<NodeProto>) -> (ModelProto, SessionSpec) {
    let info = |spec: &TensorSpec| {
        let extent = |dim: &Dim| if let Dim::Fixed(extent) = dim { Extent::Fixed(*extent) } else { Extent::Batch };
        make_value_info(&spec.name, spec.dtype, &spec.shape.iter().map(extent).collect::<Vec<_>>())
    };
    let graph = GraphProto {
        node,
        input: inputs.iter().map(info).collect(),
        output: vec![info(output)],
        ..GraphProto::default()
    };
    let model = ModelProto {
        ir_version: 8,
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 17 }],
        graph: Some(graph),
        ..ModelProto::default()
    };
    (model, SessionSpec { batch, threads: 1, inputs: inputs.to_vec(), outputs: vec![output.clone()] })
}

fn node(op: &str, inputs: &[&str], output: &str) -> NodeProto {
    make_node(op, &format!("node_{output}"), inputs, &[output], vec![])
}

// If an operator has no kernel, loading fails with the node's name.
#[test]
fn refusal_names_the_node() {
    let (x, y) = (spec("x", &[Dim::Batch, Dim::Fixed(3)]), spec("y", &[Dim::Batch, Dim::Fixed(3)]));
    let (graph, plan) = model(2, &[x], &y, vec![node("Softplus", &["x"], "y")]);
    let error = Portable.load(&graph, &plan).err().unwrap().to_string();
    assert!(error.starts_with("portable cannot run node 'node_y' (Softplus): "), "{error}");
}

// Outputs that join samples are errors because samples run one at a time.
#[test]
fn outputs_of_all_samples_are_refused() {
    let (x, y) = (spec("x", &[Dim::Batch, Dim::Fixed(3)]), spec("y", &[Dim::Fixed(3)]));
    let mut sum = node("ReduceMax", &["x"], "y");
    sum.attribute = vec![make_attr_ints("axes", &[0]), make_attr_int("keepdims", 0)];
    let (graph, plan) = model(2, &[x], &y, vec![sum]);
    let error = Portable.load(&graph, &plan).err().unwrap().to_string();
    assert!(error.contains("'y' joins the samples"), "{error}");
}

// Values of a sample with disjoint lifetimes share memory. Values that depend only on parameters are computed once per
// step.
#[test]
fn chain_shares_memory() {
    let (x, w) = (spec("x", &[Dim::Batch, Dim::Fixed(64)]), spec("w", &[Dim::Fixed(64)]));
    let y = spec("y", &[Dim::Batch, Dim::Fixed(64)]);
    let mut nodes = vec![node("Exp", &["w"], "e"), node("Mul", &["x", "e"], "v0")];
    nodes.extend((1..9).map(|at| node("Tanh", &[&format!("v{}", at - 1)], &format!("v{at}"))));
    nodes.push(node("Add", &["v8", "e"], "y"));
    let (graph, plan) = model(4, &[x, w], &y, nodes);
    let program = Program::new(&graph, &plan, ProgramForm::Small).unwrap();
    assert_eq!((program.of_parameters.len(), program.of_sample.len()), (1, 10));
    // The sample, the parameter, its function, and two values of the chain.
    assert_eq!(program.areas, [5 * 64, 0, 0]);
}

// If the batch axis is the second, the session reads and writes sample by sample.
#[test]
fn batch_axis_may_be_the_second() {
    let (x, y) = (spec("x", &[Dim::Fixed(2), Dim::Batch]), spec("y", &[Dim::Fixed(2), Dim::Batch]));
    let (graph, plan) = model(3, &[x], &y, vec![node("Neg", &["x"], "y")]);
    let mut session = Portable.load(&graph, &plan).unwrap();
    let mut read = vec![];
    let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    session.run(&[TensorRef::F32(&x)], &mut |outputs| read = outputs[0].to_vec()).unwrap();
    assert_eq!(read, x.map(|x| -x));
}

// A product reads through a transpose, with the values of the transposed matrix.
#[test]
fn product_reads_through_a_transpose() {
    let (x, y) = (
        spec("x", &[Dim::Batch, Dim::Fixed(2), Dim::Fixed(3)]),
        spec("y", &[Dim::Batch, Dim::Fixed(3), Dim::Fixed(3)]),
    );
    let mut turned = node("Transpose", &["x"], "t");
    turned.attribute = vec![make_attr_ints("perm", &[0, 2, 1])];
    let (graph, plan) = model(1, &[x], &y, vec![turned, node("MatMul", &["t", "x"], "y")]);
    assert_eq!(Program::new(&graph, &plan, ProgramForm::Small).unwrap().of_sample.len(), 1);
    let mut session = Portable.load(&graph, &plan).unwrap();
    let mut read = vec![];
    let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    session.run(&[TensorRef::F32(&x)], &mut |outputs| read = outputs[0].to_vec()).unwrap();
    assert_eq!(read, [17.0, 22.0, 27.0, 22.0, 29.0, 36.0, 27.0, 36.0, 45.0]);
}
