//! The border of a frozen part with operators without a rule. No runtime is needed: each test has the shapes.

use super::*;
use damper_onnx::graph::{OpaquePart, opaque_part};
use damper_onnx::{make_attr_ints as ints, node_name};

/// Returns the part and the rest of `model`, of which `only` is trained. `shape` has the shape of each value for one
/// sample, and `None` for other values.
fn separated(
    model: &ModelProto,
    only: &[&str],
    shape: &dyn Fn(&str) -> Option<Vec<usize>>,
) -> Result<Option<(OpaquePart, Graph)>, GraphError> {
    let only = only.iter().map(|name| (*name).to_owned()).collect();
    let options = GraphOptions { only, ..GraphOptions::default() };
    let error = Graph::from_model(model, &options).expect_err("an operator has no rule");
    let mut shapes = |part: &ModelProto, _: &[onnx::TensorSpec]| {
        Ok(part.graph.iter().flat_map(|graph| &graph.output).map(|output| shape(&output.name)).collect())
    };
    opaque_part(model, &options, &error, &mut shapes)
}

fn part_and_rest(model: &ModelProto, only: &[&str], shape: &dyn Fn(&str) -> Option<Vec<usize>>) -> (OpaquePart, Graph) {
    separated(model, only, shape).unwrap().unwrap()
}

/// Operators of the part's model.
fn operators(part: &OpaquePart) -> Vec<&str> {
    part.model.graph.iter().flat_map(|graph| &graph.node).map(|node| node.op_type.as_str()).collect()
}

/// Names of the data inputs of `graph`.
fn inputs(graph: &Graph) -> Vec<&str> {
    graph.inputs.iter().map(|id| graph.value(*id).name.as_str()).collect()
}

// All frozen layers belong to the part. A weight that only scales the values of the part stays trained, though the same
// weight after an input would be a constant.
#[test]
fn part_ends_before_first_trained_layer() {
    let model = Sketch::new(17, &[N, 4, 3, 3]).weight("w", &[3]).node("Det", &["x"], "det", &[]);
    let model = model.node("Tanh", &["det"], "h", &[]).scaled("h");
    let (part, rest) = part_and_rest(&model, &["scale"], &|name| (name == "h").then(|| vec![1, 4]));
    assert_eq!(operators(&part), ["Det", "Tanh"]);
    assert_eq!((inputs(&rest), &part.read[..]), (vec!["h"], &[][..]));
    assert_eq!(layout(&rest, "h"), (vec![1, 4], Some((0, 1, 1))));
    assert_eq!(rest.trained().map(|one| &*one.name).collect::<Vec<_>>(), ["scale"]);
    assert!(part.note.contains("up to 'h'") && part.note.contains("Det has no rule"), "{}", part.note);
}

// The samples of a value with the sequence first are on axis 1, and a Transpose gives the value its layout.
#[test]
fn samples_may_be_on_another_axis() {
    let model = Sketch::new(17, &[N, 5, 4]).node("Det", &["x"], "d", &[]).weight("w", &[4, 4]);
    let model = model.node("MatMul", &["d", "w"], "h", &[]).scaled("h");
    let (part, rest) = part_and_rest(&model, &["w", "scale"], &|name| (name == "d").then(|| vec![5, 1, 4]));
    assert_eq!(inputs(&rest), ["d/samples_first"]);
    assert_eq!(part.outputs[0].shape, [onnx::Dim::Batch, onnx::Dim::Fixed(5), onnx::Dim::Fixed(4)]);
    assert_eq!(layout(&rest, "d"), (vec![5, 1, 4], Some((1, 1, 1))));
    assert_eq!(layout(&rest, "y"), (vec![5, 1, 4], Some((1, 1, 1))));
}

// If several axes have extent 1, the axis of the samples is that for which the rest has rules.
#[test]
fn rest_chooses_axis_of_samples() {
    let model = Sketch::new(17, &[N, 4]).node("Det", &["x"], "d", &[]).ints("first", &[0]);
    let model = model.node("Squeeze", &["d", "first"], "h", &[]).scaled("h");
    // Squeeze is frozen, but its value has no known shape here, so the border is before it.
    let (_, rest) = part_and_rest(&model, &["scale"], &|name| (name == "d").then(|| vec![1, 1, 4]));
    assert_eq!(layout(&rest, "d"), (vec![1, 1, 4], Some((1, 1, 1))));
    assert_eq!(layout(&rest, "h"), (vec![1, 4], Some((0, 1, 1))));
}

// Sizes are computed by the rest, from the input itself.
#[test]
fn sizes_belong_to_rest() {
    let model = Sketch::new(17, &[N, 4, 3, 3]).node("Det", &["x"], "det", &[]).node("Shape", &["x"], "sizes", &[]);
    let model = model.int("zero", 0).ints("rest", &[2, 2]).ints("axes", &[0]);
    let model =
        model.node("Gather", &["sizes", "zero"], "samples", &[]).node("Unsqueeze", &["samples", "axes"], "n", &[]);
    let model = model.node("Concat", &["n", "rest"], "target", &[onnx::make_attr_int("axis", 0)]).weight("w", &[4]);
    let model = model.node("Mul", &["det", "w"], "h", &[]).node("Reshape", &["h", "target"], "r", &[]).scaled("r");
    let (part, rest) = part_and_rest(&model, &["w", "scale"], &|name| (name == "det").then(|| vec![1, 4]));
    assert_eq!((inputs(&rest), &part.read[..]), (vec!["x", "det"], &[0][..]));
    assert_eq!(layout(&rest, "r"), (vec![1, 2, 2], Some((0, 1, 1))));
}

// Without a frozen value that the rest could read, the error names the last operator.
#[test]
fn value_without_samples_is_error() {
    let model = Sketch::new(17, &[N, 4]).node("NonZero", &["x"], "list", &[]);
    let model = model.node("Cast", &["list"], "h", &[onnx::make_attr_int("to", 1)]).scaled("h");
    let error = separated(&model, &["scale"], &|_| None).unwrap_err().to_string();
    assert!(error.starts_with("node 'list' (NonZero): it has no rule and runs one sample at a time"), "{error}");
    assert!(error.contains("its value 'list' of one sample is no float32 tensor"), "{error}");
    let model = Sketch::new(17, &[N, 4]).node("Det", &["x"], "h", &[]).scaled("h");
    let error = separated(&model, &["scale"], &|_| Some(vec![3, 4])).unwrap_err().to_string();
    assert!(
        error.contains("its value 'h' of one sample has the shape [3, 4], without an axis of the samples"),
        "{error}"
    );
}

// If a trained parameter precedes the operator, the error stands, and names the layers after it.
#[test]
fn error_names_layers_after_operator() {
    let model = |after: &str| {
        let sketch =
            Sketch::new(17, &[N, 4]).weight("body.weight", &[4, 4]).weight(after, &[4, 4]).weight("head.bias", &[4]);
        let sketch = sketch.node("Gemm", &["x", "body.weight"], "b", &[]).node("Det", &["b"], "d", &[]);
        sketch.node("Gemm", &["d", after, "head.bias"], "y", &[]).returns(&["y"])
    };
    let refused = |model: &ModelProto| Graph::from_model(model, &GraphOptions::default()).unwrap_err().to_string();
    let error = refused(&model("head.weight"));
    assert!(error.ends_with("or train only the layers after it, with `only` 'head.*'"), "{error}");
    let error = refused(&model("body.late"));
    assert!(error.ends_with("with `only` 'body.late' `only` 'head.*'"), "{error}");
    let outcome = separated(&model("head.weight"), &["body.weight", "head.weight"], &|_| panic!("it is not run"));
    assert_eq!(outcome, Ok(None));
}

// Mixing operators alone stay an error, because the network means a batch. Next to one without a rule they run.
#[test]
fn mixing_operator_alone_is_error() {
    let mixing = |sketch: Sketch| sketch.node("ReduceMean", &["x"], "m", &[ints("axes", &[0])]);
    let model = mixing(Sketch::new(17, &[N, 4])).scaled("m");
    assert_eq!(separated(&model, &["scale"], &|_| Some(vec![1, 4])), Ok(None));
    let model = mixing(Sketch::new(17, &[N, 4])).node("Det", &["m"], "h", &[]).scaled("h");
    let (part, _) = part_and_rest(&model, &["scale"], &|_| Some(vec![1, 4]));
    assert_eq!(operators(&part), ["ReduceMean", "Det"]);
    let graph = part.model.graph.unwrap();
    assert_eq!(node_name(&graph.node[1], 1), "h");
}
