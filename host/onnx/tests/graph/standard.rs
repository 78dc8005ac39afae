//! Files of other opsets and exporters, converted to the form that the rules support.

use super::{N, Sketch, examine, graph, layout};
use damper_onnx::graph::{Graph, GraphOptions, Origin, open_inputs};
use damper_onnx::pb::attribute_proto::AttributeType;
use damper_onnx::pb::{AttributeProto, GraphProto, ModelProto, ValueInfoProto};
use damper_onnx::{self as onnx, attr_string, make_attr_float, make_attr_int, make_attr_ints, make_attr_string};
use damper_onnx::{DType, Extent, make_attr_tensor, make_tensor_f32, write_trained};

fn ops(graph: &Graph) -> Vec<&str> {
    graph.nodes.iter().map(|node| node.op.as_str()).collect()
}

fn floats(name: &str, floats: &[f32]) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        floats: floats.to_vec(),
        r#type: AttributeType::Floats as i32,
        ..AttributeProto::default()
    }
}

// Before opset 13, a softmax normalises over all axes from its axis on.
#[test]
fn old_softmax_flattens() {
    let model = Sketch::new(11, &[N, 2, 3]).node("Softmax", &["x"], "h", &[]).scaled("h");
    let read = graph(&model).unwrap();
    assert_eq!(ops(&read), ["Reshape", "Softmax", "Reshape", "Mul"]);
    let softmax = &read.nodes[1];
    assert_eq!(read.value(softmax.outputs[0]).shape, [1, 6]);
    assert_eq!(layout(&read, "h"), (vec![1, 2, 3], Some((0, 1, 1))));
    // With a single axis longer than 1, it equals the current operator.
    let last = Sketch::new(11, &[N, 3, 1]).node("Softmax", &["x"], "h", &[]).scaled("h");
    let read = graph(&last).unwrap();
    assert_eq!(ops(&read), ["Softmax", "Mul"]);
    assert_eq!(onnx::attr_int(&read.nodes[0].attributes, "axis", 0), 1);
    assert_eq!(read.nodes[0].attributes.len(), 1);
    // From axis 0 on, it mixes samples.
    let first = Sketch::new(11, &[N, 3]).node("Softmax", &["x"], "h", &[make_attr_int("axis", 0)]).scaled("h");
    assert!(graph(&first).unwrap_err().to_string().contains("mixes samples"));
}

// Attributes of older opsets become inputs.
#[test]
fn old_attributes_become_inputs() {
    let ints = |name, list: &[i64]| make_attr_ints(name, list);
    let sketch = Sketch::new(9, &[N, 2, 6])
        .node("Slice", &["x"], "cut", &[ints("starts", &[1]), ints("ends", &[5]), ints("axes", &[2])])
        .node("Clip", &["cut"], "clipped", &[make_attr_float("min", -0.25), make_attr_float("max", 0.5)])
        .node("Unsqueeze", &["clipped"], "wide", &[ints("axes", &[1])])
        .node("Pad", &["wide"], "padded", &[ints("pads", &[0, 0, 0, 1, 0, 0, 0, 2]), make_attr_float("value", 0.75)])
        .node("Squeeze", &["padded"], "narrow", &[ints("axes", &[1])])
        .node("ReduceSum", &["narrow"], "h", &[ints("axes", &[2]), make_attr_int("keepdims", 0)]);
    let model = sketch.scaled("h");
    let read = graph(&model).unwrap();
    assert_eq!(read.opset, 17);
    assert_eq!(layout(&read, "cut").0, [1, 2, 4]);
    assert_eq!(layout(&read, "padded").0, [1, 1, 2, 7]);
    assert_eq!(layout(&read, "h").0, [1, 2]);
    let clip = read.nodes.iter().find(|node| node.op == "Clip").unwrap();
    let bound = |slot: usize| read.constant(clip.inputs[slot].unwrap()).unwrap().as_f32().unwrap().to_vec();
    assert_eq!([bound(1), bound(2)], [[-0.25], [0.5]]);
    // Tensors that the conversion added are not trained.
    assert_eq!(read.trained().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["scale"]);
    examine(&model, &read, 3);
}

// Element i of an Upsample comes from floor(i / scale), as in ONNX's conversion to Resize.
#[test]
fn upsample_is_asymmetric_resize() {
    let attributes = [floats("scales", &[1.0, 1.0, 2.0, 2.0]), make_attr_string("mode", "nearest")];
    let read = graph(&Sketch::new(7, &[N, 1, 2, 3]).node("Upsample", &["x"], "h", &attributes).scaled("h")).unwrap();
    let resize = &read.nodes[0];
    assert_eq!((resize.op.as_str(), layout(&read, "h").0), ("Resize", vec![1, 1, 4, 6]));
    let mode = |name| attr_string(&resize.attributes, name, "");
    assert_eq!(mode("coordinate_transformation_mode"), "asymmetric");
    assert_eq!(mode("nearest_mode"), "floor");
}

// Opsets 22 to 24 are read as opset 21.
#[test]
fn new_sets_are_read() {
    for opset in [22, 23, 24] {
        let read = graph(&Sketch::new(opset, &[N, 4]).node("Relu", &["x"], "h", &[]).scaled("h")).unwrap();
        assert_eq!(read.opset, 21);
    }
}

fn constant(name: &str, shape: &[usize], data: &[f32]) -> AttributeProto {
    make_attr_tensor("value", make_tensor_f32(name, shape, data))
}

// Weights in Constant nodes are trained and scalars are not. Trained parameters are written back.
#[test]
fn constant_weights_are_trained() {
    let model = Sketch::new(11, &[N, 2])
        .node("Constant", &[], "w", &[constant("", &[2, 2], &[1.0, 2.0, 3.0, 4.0])])
        .node("Constant", &[], "b", &[constant("", &[2], &[0.5, 0.25])])
        .node("Constant", &[], "six", &[constant("", &[1], &[6.0])])
        .node("MatMul", &["x", "w"], "u", &[])
        .node("Add", &["u", "b"], "v", &[])
        .node("Div", &["v", "six"], "y", &[])
        .returns(&["y"]);
    let read = Graph::from_model(&model, &GraphOptions::default()).unwrap();
    assert_eq!(read.trained().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["w", "b"]);
    let written = write_trained(&model, &[("w", &[9.0; 4]), ("b", &[8.0; 2])]).unwrap();
    let again = Graph::from_model(&written, &GraphOptions::default()).unwrap();
    assert_eq!(again.parameters[0].initial.as_f32().unwrap(), [9.0; 4]);
}

fn branch(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto { name: name.into(), g: Some(graph), r#type: AttributeType::Graph as i32, ..Default::default() }
}

/// Branch that multiplies `x` by its own weight, which both branches name `w`.
fn product(factor: f32) -> GraphProto {
    let model = Sketch::new(17, &[N, 2])
        .tensor("w", &[2, 2], &[factor, 0.0, 1.0, factor])
        .node("MatMul", &["x", "w"], "inner", &[])
        .returns(&["inner"]);
    GraphProto { input: vec![], ..model.graph.unwrap() }
}

/// `If(rate == 16) x · w else x · w'`.
fn chosen() -> ModelProto {
    let mut sketch = Sketch::new(17, &[N, 2]);
    sketch.graph.input.push(onnx::make_value_info("rate", DType::I64, &[]));
    sketch
        .int("wanted", 16)
        .node("Equal", &["rate", "wanted"], "is_wanted", &[])
        .node("If", &["is_wanted"], "y", &[branch("then_branch", product(2.0)), branch("else_branch", product(3.0))])
        .returns(&["y"])
}

fn given(name: &str, value: &str) -> GraphOptions {
    GraphOptions { input: vec![(name.into(), value.into())], ..GraphOptions::default() }
}

// A public value of an input selects a branch. Only the weight of this branch is trained and written back.
#[test]
fn given_input_decides_branch() {
    let model = chosen();
    let error = Graph::from_model(&model, &GraphOptions::default()).unwrap_err().to_string();
    assert!(error.contains("'rate' is a scalar") && error.contains("`input` rate=VALUE"), "{error}");
    for (value, factor, branch) in [("16", 2.0, 0), ("8", 3.0, 1)] {
        let read = Graph::from_model(&model, &given("rate", value)).unwrap();
        let [parameter] = &read.parameters[..] else { panic!("{read}") };
        assert_eq!(parameter.initial.as_f32().unwrap()[0], factor);
        assert_eq!(read.inputs.len(), 1);
        let written = write_trained(&model, &[(&parameter.name, &[7.0; 4])]).unwrap();
        let node = written.graph.as_ref().unwrap().node.iter().find(|node| node.op_type == "If").unwrap();
        let stored = |at: usize| &node.attribute[at].g.as_ref().unwrap().initializer[0];
        assert_eq!(onnx::decode_tensor(stored(branch)).unwrap().as_f32().unwrap(), [7.0; 4]);
        assert_eq!(
            stored(1 - branch),
            &model.graph.as_ref().unwrap().node[1].attribute[1 - branch].g.as_ref().unwrap().initializer[0]
        );
        assert_eq!(stored(branch).name, "w");
    }
}

// An invalid value is an error of the setting.
#[test]
fn wrong_given_value_is_error() {
    let error = |name: &str, value: &str| Graph::from_model(&chosen(), &given(name, value)).unwrap_err().to_string();
    assert!(error("rate", "fast").contains("give a number"));
    assert!(error("rate", "0.5").contains("no integer"));
    assert!(error("rate", "1,2").contains("2 numbers for an input of 1"));
    assert!(error("speed", "1").contains("no such input; it has x, rate"));
}

/// `y = x · wⁿ`, by a loop of `n` iterations.
fn looped(rounds: i64) -> ModelProto {
    let body =
        Sketch::new(17, &[N, 2]).node("Identity", &["go"], "goes", &[]).node("MatMul", &["at", "w"], "next", &[]);
    let mut body = body.returns(&["goes", "next"]).graph.unwrap();
    body.input = ["round", "go", "at"].map(|name| ValueInfoProto { name: name.into(), ..Default::default() }).into();
    Sketch::new(17, &[N, 2])
        .tensor("w", &[2, 2], &[1.0, 2.0, 3.0, 4.0])
        .int("rounds", rounds)
        .node("Loop", &["rounds", "", "x"], "y", &[branch("body", body)])
        .returns(&["y"])
}

// A loop with a known number of iterations is inlined, with one weight for all iterations, up to a limit.
#[test]
fn known_loop_is_written_out() {
    let read = Graph::from_model(&looped(3), &GraphOptions::default()).unwrap();
    assert_eq!(read.nodes.iter().filter(|node| node.op == "MatMul").count(), 3);
    assert_eq!(read.trained().count(), 1);
    let error = Graph::from_model(&looped(1_000_000_000), &GraphOptions::default()).unwrap_err().to_string();
    assert!(error.contains("at most 1024"), "{error}");
}

// Names from loop iterations never collide with names in the model.
#[test]
fn rounds_keep_the_names_of_others() {
    let mut model = looped(2);
    let graph = model.graph.as_mut().unwrap();
    graph.node.insert(0, onnx::make_node("Sigmoid", "other", &["x"], &["next/0"], vec![]));
    graph.node.push(onnx::make_node("Mul", "last", &["y", "next/0"], &["z"], vec![]));
    graph.output[0].name = "z".into();
    let read = Graph::from_model(&model, &GraphOptions::default()).unwrap();
    let last = read.nodes.last().unwrap();
    assert_eq!(last.inputs[1], read.find("next/0"));
    assert!(
        matches!(&read.value(last.inputs[1].unwrap()).origin, Origin::Node { node, .. } if read.nodes[*node].op == "Sigmoid")
    );
    let names: std::collections::HashSet<&str> = read.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names.len(), read.nodes.len());
}

// Nested loops end with an error before they fill the memory.
#[test]
fn nested_loops_are_bounded() {
    let mut model = looped(1000);
    for _ in 0..3 {
        let graph = model.graph.as_mut().unwrap();
        let mut outer = graph.node[0].clone();
        let body = outer.attribute[0].g.as_mut().unwrap();
        let mut within = graph.node[0].clone();
        within.input[2] = "at".into();
        within.output[0] = "deep".into();
        body.node[1] = within;
        body.output[1].name = "deep".into();
        graph.node[0] = outer;
    }
    let error = Graph::from_model(&model, &GraphOptions::default()).unwrap_err().to_string();
    assert!(error.contains("nodes would come of it"), "{error}");
}

// Inputs of other integer types are int64 in the graph, followed by a cast.
#[test]
fn small_integers_are_cast() {
    let model = Sketch::new(17, &[N, 2])
        .data("ids", DType::I32, &[N, 2])
        .node("Cast", &["ids"], "f", &[make_attr_int("to", 1)])
        .node("Add", &["x", "f"], "h", &[])
        .scaled("h");
    let read = graph(&model).unwrap();
    assert_eq!(read.value(read.inputs[1]).dtype, DType::I64);
    assert_eq!(ops(&read), ["Cast", "Cast", "Add", "Mul"]);
}

// Samples on axis 1 of an input are moved to the front, with a warning.
#[test]
fn samples_on_another_axis_are_moved() {
    let mut sketch = Sketch::new(17, &[N, 3]);
    sketch.graph.input.push(onnx::make_value_info(
        "state",
        DType::F32,
        &[Extent::Fixed(2), Extent::Batch, Extent::Fixed(3)],
    ));
    let model = sketch
        .int("zero", 0)
        .node("Gather", &["state", "zero"], "first", &[])
        .node("Add", &["x", "first"], "h", &[])
        .scaled("h");
    let read = graph(&model).unwrap();
    assert_eq!(layout(&read, "state"), (vec![1, 2, 3], Some((0, 1, 1))));
    assert!(read.warnings[0].contains("'state' holds the samples along axis 1"), "{:?}", read.warnings);
    // One value for all samples, repeated for each sample.
    let options = GraphOptions { train: vec!["scale".into()], ..given("state", "0.5") };
    let read = Graph::from_model(&model, &options).unwrap();
    assert_eq!(layout(&read, "first"), (vec![1, 3], Some((0, 1, 1))));
    assert!(
        !read
            .values
            .iter()
            .any(|value| matches!(&value.origin, Origin::Parameter(at) if read.parameters[*at].name.contains("state")))
    );
}

// The axes that data may fix, of inputs without a given value.
#[test]
fn open_axes_are_listed() {
    let model = chosen();
    let open = open_inputs(&model, &given("rate", "16")).unwrap();
    assert_eq!(
        open.iter().map(|input| (input.name.as_str(), &input.extents[..])).collect::<Vec<_>>(),
        [("x", &[Some(2)][..])]
    );
}

/// Row `index` of each sample of `z [N, 4, 3]`: by tuples, or as an index into the rows of all samples.
fn last_token(by_tuples: bool, base: i64) -> ModelProto {
    let mut sketch = Sketch::new(17, &[N, 4, 3])
        .ids("index", &[N])
        .int("zero", 0)
        .int("one", 1)
        .int("four", base)
        .ints("last", &[-1]);
    let shape = sketch.clone();
    sketch = shape.node("Shape", &["x"], "sizes", &[]).node("Gather", &["sizes", "zero"], "samples", &[]).node(
        "Range",
        &["zero", "samples", "one"],
        "numbers",
        &[],
    );
    if by_tuples {
        return sketch
            .node("Unsqueeze", &["numbers", "last"], "a", &[])
            .node("Unsqueeze", &["index", "last"], "b", &[])
            .node("Concat", &["a", "b"], "pairs", &[make_attr_int("axis", -1)])
            .node("GatherND", &["x", "pairs"], "h", &[])
            .scaled("h");
    }
    sketch
        .node("Flatten", &["x"], "rows", &[make_attr_int("axis", 2)])
        .node("Mul", &["numbers", "four"], "starts", &[])
        .node("Add", &["index", "starts"], "places", &[])
        .node("Gather", &["rows", "places"], "h", &[])
        .scaled("h")
}

// A row that the sample's own index selects stays with the sample. A stride that reaches other samples is an error.
#[test]
fn own_row_by_own_index_is_read() {
    for by_tuples in [true, false] {
        let read = graph(&last_token(by_tuples, 4)).unwrap();
        assert_eq!(layout(&read, "h"), (vec![1, 3], Some((0, 1, 1))));
        assert!(read.nodes.iter().any(|node| node.op == "GatherElements"), "{read}");
    }
    assert!(graph(&last_token(false, 3)).unwrap_err().to_string().contains("mixes samples"));
}

// An operator for other outputs needs no rule if the required output is named.
#[test]
fn other_outputs_may_have_no_rule() {
    let model = Sketch::new(17, &[N, 4])
        .weight("fc.weight", &[4, 3])
        .node("MatMul", &["x", "fc.weight"], "y", &[])
        .node("NonZero", &["y"], "places", &[])
        .returns(&["y", "places"]);
    let of = |output: Option<&str>| GraphOptions { output: output.map(String::from), ..GraphOptions::default() };
    let graph = Graph::from_model(&model, &of(Some("y"))).unwrap();
    assert_eq!(graph.outputs.len(), 1);
    for output in [None, Some("places"), Some("none")] {
        let error = Graph::from_model(&model, &of(output)).unwrap_err().to_string();
        assert!(error.contains("NonZero"), "{error}");
    }
    // A model that can be read completely stays complete.
    let plain = Sketch::new(17, &[N, 4])
        .weight("fc.weight", &[4, 3])
        .node("MatMul", &["x", "fc.weight"], "y", &[])
        .node("Abs", &["y"], "z", &[]);
    let options = GraphOptions { output: Some("y".into()), ..GraphOptions::default() };
    assert_eq!(Graph::from_model(&plain.returns(&["y", "z"]), &options).map(|graph| graph.outputs.len()), Ok(2));
}
