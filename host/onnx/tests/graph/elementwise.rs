//! Elementwise operators, comparisons, reductions and normalisations: shapes against tract, constants, errors.

use super::*;
use damper_onnx::{make_attr_float as float, make_attr_int as int, make_attr_ints as ints};

const BOOL: i64 = 9;
const INT64: i64 = 7;
const FLOAT: i64 = 1;

/// Batch alone on axis 0.
const FIRST: Option<(usize, usize, usize)> = Some((0, 1, 1));

fn examined(model: &ModelProto) -> Graph {
    let graph = graph(model).unwrap();
    examine(model, &graph, 3);
    graph
}

fn constant(graph: &Graph, name: &str) -> TensorData {
    graph.constant(graph.find(name).unwrap_or_else(|| panic!("no value '{name}' in\n{graph}"))).unwrap().data.clone()
}

// Operators on single elements keep the shape and the batch.
#[test]
fn unary_operators_keep_shape_and_batch() {
    for op in [
        "Abs",
        "Ceil",
        "Celu",
        "Cos",
        "Elu",
        "Erf",
        "Floor",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "Mish",
        "Round",
        "Selu",
        "Sign",
        "Sin",
        "Softplus",
        "Softsign",
        "ThresholdedRelu",
    ] {
        let model = Sketch::new(20, &[N, 4, 5]).node(op, &["x"], "h", &[]).node("Add", &["h", "x"], "i", &[]);
        assert_eq!(layout(&examined(&model.scaled("i")), "h"), (vec![1, 4, 5], FIRST), "{op}");
    }
}

#[test]
fn any_number_of_inputs_broadcasts() {
    for op in ["Max", "Mean", "Min", "Sum"] {
        let model = Sketch::new(17, &[N, 4, 1]).weight("w", &[5]).weight("v", &[1, 4, 1]);
        let model = model.node(op, &["x", "w", "v"], "h", &[]).node("Add", &["h", "x"], "i", &[]);
        let graph = examined(&model.scaled("i"));
        assert_eq!(layout(&graph, "h"), (vec![1, 4, 5], FIRST), "{op}");
        let one = Sketch::new(17, &[N, 4]).node(op, &["x"], "h", &[]).scaled("h");
        assert_eq!(graph_ops(&one), ["Mul"], "{op} of one input is that input");
    }
}

fn graph_ops(model: &ModelProto) -> Vec<String> {
    graph(model).unwrap().nodes.iter().map(|node| node.op.clone()).collect()
}

// Comparisons and logical operators make conditions for `Where`.
#[test]
fn comparisons_select_with_where() {
    let model = Sketch::new(17, &[N, 4])
        .weight("w", &[4])
        .tensor("half", &[], &[0.5])
        .node("Greater", &["x", "half"], "above", &[])
        .node("Not", &["above"], "below", &[])
        .node("Or", &["above", "below"], "any", &[])
        .node("And", &["any", "above"], "both", &[])
        .node("Where", &["both", "x", "w"], "h", &[])
        .scaled("h");
    let graph = examined(&model);
    assert_eq!(graph.value(graph.find("above").unwrap()).dtype, DType::Bool);
    assert_eq!(layout(&graph, "h"), (vec![1, 4], FIRST));
}

#[test]
fn integers_of_data_are_values_like_others() {
    let model = Sketch::new(17, &[N, 4])
        .ints("two", &[2])
        .ints("axes", &[1])
        .node("Cast", &["x"], "ids", &[int("to", INT64)])
        .node("Mul", &["ids", "two"], "doubled", &[])
        .node("Equal", &["doubled", "two"], "is_two", &[])
        .node("Cast", &["is_two"], "ones", &[int("to", INT64)])
        .node("ReduceSum", &["ones", "axes"], "count", &[])
        .node("Cast", &["count"], "weight", &[int("to", FLOAT)])
        .node("Add", &["x", "weight"], "h", &[])
        .scaled("h");
    let graph = examined(&model);
    assert_eq!(graph.value(graph.find("count").unwrap()).dtype, DType::I64);
    assert_eq!(layout(&graph, "count"), (vec![1, 1], FIRST));
}

#[test]
fn bounds_are_numbers_and_may_be_absent() {
    let base = || Sketch::new(17, &[N, 4]).tensor("low", &[], &[-0.5]).tensor("row", &[4], &[0.5, 1.0, 1.5, 2.0]);
    for inputs in [&["x", "low"][..], &["x", "", "low"], &["x", "low", "low"]] {
        let graph = graph(&base().node("Clip", inputs, "h", &[]).scaled("h")).unwrap();
        assert_eq!(layout(&graph, "h"), (vec![1, 4], FIRST));
        assert_eq!(graph.nodes[0].inputs.len(), inputs.len());
    }
    assert_eq!(graph_ops(&base().node("Clip", &["x"], "h", &[]).scaled("h")), ["Mul"]);
    assert_eq!(
        refusal(&base().node("Clip", &["x", "row"], "h", &[]).scaled("h")),
        "node 'h' (Clip): the bound 'row' is [4], not one number; check the model with onnx.checker, or export it again"
    );
}

#[test]
fn a_slope_broadcasts_to_the_data_only() {
    let prelu = |slope: &[usize]| {
        Sketch::new(17, &[N, 4, 3]).weight("s", slope).node("PRelu", &["x", "s"], "h", &[]).scaled("h")
    };
    assert_eq!(layout(&examined(&prelu(&[4, 1])), "h"), (vec![1, 4, 3], FIRST));
    assert!(refusal(&prelu(&[2, 1, 4, 3])).contains("the slope 's' does not broadcast to the data 'x'"));
}

#[test]
fn an_exponent_may_be_an_integer() {
    let model = Sketch::new(17, &[N, 4]).ints("two", &[2]).node("Pow", &["x", "two"], "h", &[]).scaled("h");
    assert_eq!(layout(&graph(&model).unwrap(), "h"), (vec![1, 4], FIRST));
}

#[test]
fn every_reduction_shifts_the_batch() {
    for op in [
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceSumSquare",
    ] {
        let turned = |opset| Sketch::new(opset, &[N, 4, 3]).node("Transpose", &["x"], "t", &[ints("perm", &[1, 0, 2])]);
        let attributes = [ints("axes", &[0, -1]), int("keepdims", 0)];
        let by_attribute = turned(13).node(op, &["t"], "h", &attributes).scaled("h");
        assert_eq!(layout(&graph(&by_attribute).unwrap(), "h"), (vec![1], FIRST), "{op}");
        let by_input = turned(18).ints("axes", &[0]).node(op, &["t", "axes"], "h", &[]).scaled("h");
        assert_eq!(layout(&graph(&by_input).unwrap(), "h"), (vec![1, 1, 3], Some((1, 1, 1))), "{op}");
        let over = turned(13).node(op, &["t"], "h", &[ints("axes", &[1])]).scaled("h");
        assert!(refusal(&over).contains("mixes samples: it reduces over the batch axis 1"), "{op}");
        let nothing = Sketch::new(18, &[N, 4]).node(op, &["x"], "h", &[int("noop_with_empty_axes", 1)]).scaled("h");
        match op {
            "ReduceL1" | "ReduceL2" | "ReduceLogSum" | "ReduceSumSquare" => {
                assert!(refusal(&nothing).contains("it reduces no axis"), "{op}");
            }
            _ => assert_eq!(graph_ops(&nothing), ["Mul"], "{op}"),
        }
    }
}

#[test]
fn a_normalisation_stays_within_a_sample() {
    let layer = |axis, outputs: &[&str]| {
        let mut model = Sketch::new(17, &[N, 4, 3]).weight("s", &[3]).weight("b", &[3]);
        model = model.node("LayerNormalization", &["x", "s", "b"], "h", &[int("axis", axis), float("epsilon", 1e-3)]);
        let node = model.graph.node.last_mut().unwrap();
        node.output.extend(outputs.iter().map(|name| name.to_string()));
        model.scaled("h")
    };
    for axis in [-1, 1] {
        assert_eq!(layout(&graph(&layer(axis, &["", ""])).unwrap(), "h"), (vec![1, 4, 3], FIRST));
    }
    assert!(refusal(&layer(0, &[])).contains("mixes samples: it normalises over the axes from 0"));
    assert!(refusal(&layer(-1, &["mean"])).contains("it also returns the mean or the deviation"));
    let wide = Sketch::new(17, &[N, 4, 3]).weight("s", &[4, 3]).node("LayerNormalization", &["x", "s"], "h", &[]);
    assert!(refusal(&wide.scaled("h")).contains("input 1 ('s') has the shape [4, 3], which does not broadcast"));

    let other = |op, attributes: &[AttributeProto]| {
        Sketch::new(17, &[N, 4, 3, 2]).node(op, &["x"], "h", attributes).scaled("h")
    };
    for (op, attributes) in [
        ("LpNormalization", vec![int("axis", 2), int("p", 1)]),
        ("MeanVarianceNormalization", vec![ints("axes", &[1, 3])]),
    ] {
        assert_eq!(layout(&graph(&other(op, &attributes)).unwrap(), "h"), (vec![1, 4, 3, 2], FIRST), "{op}");
    }
    let over = "mixes samples: it normalises over axis 0, which holds the samples of 'x'";
    assert!(refusal(&other("MeanVarianceNormalization", &[])).contains(over));
    assert!(refusal(&other("LpNormalization", &[int("axis", 0)])).contains(over));
}

#[test]
fn folds_float_constants_and_masks() {
    let mut model = Sketch::new(17, &[N, 3])
        .node("Constant", &[], "zero", &[float("value_float", 0.0)])
        .node("Constant", &[], "three", &[float("value_float", 3.0)])
        .node("Constant", &[], "one", &[float("value_float", 1.0)])
        .node("Constant", &[], "low", &[float("value_float", f32::NEG_INFINITY)])
        .node("Range", &["zero", "three", "one"], "positions", &[])
        .node("Cos", &["positions"], "cos", &[])
        .node("GreaterOrEqual", &["one", "positions"], "kept", &[])
        .node("Where", &["kept", "cos", "low"], "mask", &[])
        .node("Max", &["positions", "one"], "least", &[])
        .node("Cast", &["positions"], "whole", &[int("to", INT64)])
        .node("Cast", &["whole"], "back", &[int("to", FLOAT)])
        .node("Pow", &["back", "three"], "cubes", &[])
        .weight("w", &[3])
        .node("Mul", &["x", "w"], "h", &[]);
    for (i, name) in ["mask", "least", "cubes"].into_iter().enumerate() {
        let (from, to) =
            if i == 0 { ("h".to_string(), "h0".to_string()) } else { (format!("h{}", i - 1), format!("h{i}")) };
        model = model.node("Add", &[&from, name], &to, &[]);
    }
    let graph = graph(&model.returns(&["h2"])).unwrap();
    assert_eq!(constant(&graph, "mask"), TensorData::F32(vec![1.0, 1f64.cos() as f32, f32::NEG_INFINITY].into()));
    assert_eq!(constant(&graph, "least"), TensorData::F32(vec![1.0, 1.0, 2.0].into()));
    assert_eq!(constant(&graph, "cubes"), TensorData::F32(vec![0.0, 1.0, 8.0].into()));
    assert_eq!(graph.nodes.len(), 4);
}

// Compares and clips integer constants at load time.
#[test]
fn folds_integer_comparisons() {
    // A causal mask as comparisons of positions.
    let model = Sketch::new(17, &[N, 3, 3])
        .int("zero", 0)
        .int("three", 3)
        .int("one", 1)
        .ints("column", &[1])
        .node("Range", &["zero", "three", "one"], "keys", &[])
        .node("Unsqueeze", &["keys", "column"], "queries", &[])
        .node("LessOrEqual", &["keys", "queries"], "seen", &[])
        .node("Not", &["seen"], "hidden", &[])
        .node("Xor", &["seen", "hidden"], "all", &[])
        .node("And", &["all", "seen"], "causal", &[])
        .node("Min", &["keys", "one"], "capped", &[])
        .node("Mod", &["keys", "minus"], "rest", &[])
        .ints("minus", &[-2])
        .tensor("fill", &[1], &[-1.0])
        .node("Where", &["causal", "x", "fill"], "h", &[])
        .node("Cast", &["capped"], "c", &[int("to", FLOAT)])
        .node("Cast", &["rest"], "r", &[int("to", FLOAT)])
        .node("Mul", &["h", "c"], "i", &[])
        .node("Mul", &["i", "r"], "j", &[])
        .scaled("j");
    let graph = graph(&model).unwrap();
    let causal = [true, false, false, true, true, false, true, true, true];
    assert_eq!(constant(&graph, "causal"), TensorData::Bool(causal.to_vec()));
    assert_eq!(constant(&graph, "c"), TensorData::F32(vec![0.0, 1.0, 1.0].into()));
    assert_eq!(constant(&graph, "r"), TensorData::F32(vec![0.0, -1.0, 0.0].into()));
}

// A comparison with the number of samples is an error.
#[test]
fn batch_size_comparison_is_error() {
    let model = Sketch::new(17, &[N, 3])
        .int("four", 4)
        .int("zero", 0)
        .node("Shape", &["x"], "shape", &[])
        .node("Gather", &["shape", "zero"], "n", &[])
        .node("Less", &["n", "four"], "few", &[])
        .node("Where", &["few", "x", "x"], "h", &[])
        .scaled("h");
    assert!(refusal(&model).contains("node 'few' (Less)"), "{}", refusal(&model));
}

#[test]
fn types_that_do_not_fit_are_named() {
    let base =
        || Sketch::new(17, &[N, 4]).ints("two", &[2]).weight("w", &[4]).node("Cast", &["x"], "b", &[int("to", BOOL)]);
    for (op, inputs, reason) in [
        ("Add", &["x", "two"][..], "it combines float32 with int64"),
        ("Max", &["x", "b"], "input 1 ('b') is bool, not a number"),
        ("And", &["b", "x"], "input 1 ('x') is float32, not bool"),
        ("Where", &["x", "x", "w"], "input 0 ('x') is float32, not bool"),
        ("Where", &["b", "x", "two"], "it combines float32 with int64"),
        ("Sqrt", &["b"], "input 0 ('b') is bool, not float"),
        ("ReduceSum", &["b"], "it reduces the truth values of 'b'"),
    ] {
        let said = refusal(&base().node(op, inputs, "h", &[]).scaled("h"));
        assert!(said.contains(reason), "{op}: {said}");
    }
    let half = Sketch::new(17, &[N, 4]).node("Cast", &["x"], "h", &[int("to", 10)]);
    assert!(refusal(&half.scaled("h")).contains("it casts to float16; export the model in float32"));
}
