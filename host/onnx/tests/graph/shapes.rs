//! Every rule against tract, and the canonical form.

use super::*;
use damper_onnx::{make_attr_float as float, make_attr_int as int, make_attr_ints as ints, make_attr_string as string};

/// Graph of one operator on an input of shape `x`, examined with three samples.
fn one(opset: i64, x: &[usize], op: &str, attributes: &[AttributeProto]) -> Graph {
    let model = Sketch::new(opset, x).node(op, &["x"], "h", attributes).scaled("h");
    examined(&model)
}

pub(super) fn examined(model: &ModelProto) -> Graph {
    let graph = graph(model).unwrap();
    examine(model, &graph, 3);
    graph
}

#[test]
fn activations_keep_shape_and_batch() {
    for op in
        ["Relu", "Tanh", "Sigmoid", "Neg", "Exp", "Sqrt", "Reciprocal", "Log", "LeakyRelu", "Softmax", "LogSoftmax"]
    {
        let graph = one(17, &[N, 4, 5], op, &[]);
        assert_eq!(layout(&graph, "h"), (vec![1, 4, 5], Some((0, 1, 1))), "{op}");
    }
}

// Gemm takes the batch from rows or columns.
#[test]
fn gemm_takes_batch_of_rows_or_columns() {
    let base = || Sketch::new(17, &[N, 3]).weight("w", &[2, 3]).weight("b", &[2]);
    let graph = examined(&base().node("Gemm", &["x", "w", "b"], "y", &[int("transB", 1)]).returns(&["y"]));
    assert_eq!(layout(&graph, "y"), (vec![1, 2], Some((0, 1, 1))));
    let left = base().node("Gemm", &["w", "x"], "y", &[int("transB", 1), float("alpha", 0.5)]).returns(&["y"]);
    assert_eq!(layout(&examined(&left), "y"), (vec![2, 1], Some((1, 1, 1))));
    let turned = base()
        .node("Transpose", &["x"], "t", &[])
        .node("Gemm", &["t", "w"], "y", &[int("transA", 1), int("transB", 1)])
        .returns(&["y"]);
    assert_eq!(layout(&examined(&turned), "y"), (vec![1, 2], Some((0, 1, 1))));
}

// MatMul keeps the batch at any rank.
#[test]
fn matmul_keeps_batch_at_any_rank() {
    let base = || Sketch::new(17, &[N, 4, 3]).weight("w", &[3, 2]).weight("l", &[5, 4]).weight("v", &[3]);
    for (inputs, shape, batch) in [
        (["x", "w"], vec![1, 4, 2], (0, 1, 1)),
        (["l", "x"], vec![1, 5, 3], (0, 1, 1)),
        (["x", "v"], vec![1, 4], (0, 1, 1)),
    ] {
        let graph = examined(&base().node("MatMul", &inputs, "h", &[]).scaled("h"));
        assert_eq!(layout(&graph, "h"), (shape, Some(batch)), "{inputs:?}");
    }
    let square =
        base().node("Transpose", &["x"], "t", &[ints("perm", &[0, 2, 1])]).node("MatMul", &["x", "t"], "h", &[]);
    assert_eq!(layout(&examined(&square.scaled("h")), "h"), (vec![1, 4, 4], Some((0, 1, 1))));
    // Samples as rows of a matrix on the right become columns of the product.
    let columns = Sketch::new(17, &[N, 3]).weight("w", &[2, 3]).node("Transpose", &["x"], "t", &[]).node(
        "MatMul",
        &["w", "t"],
        "h",
        &[],
    );
    assert_eq!(layout(&examined(&columns.scaled("h")), "h"), (vec![2, 1], Some((1, 1, 1))));
}

// Broadcasting aligns the batch from the last axis.
#[test]
fn broadcast_aligns_batch_from_the_end() {
    let model = Sketch::new(17, &[N, 3]).weight("w", &[4, 1, 3]).node("Add", &["x", "w"], "h", &[]).scaled("h");
    assert_eq!(layout(&examined(&model), "h"), (vec![4, 1, 3], Some((1, 1, 1))));
    let model = Sketch::new(17, &[N, 4, 2, 2]).weight("w", &[4, 1, 1]).node("Mul", &["w", "x"], "h", &[]).scaled("h");
    assert_eq!(layout(&examined(&model), "h"), (vec![1, 4, 2, 2], Some((0, 1, 1))));
}

// Convolutions and pools have the sizes that tract computes.
#[test]
fn convs_and_pools_match_tract_shapes() {
    let conv = |x: &[usize], w: &[usize], attributes: &[AttributeProto]| {
        let model = Sketch::new(17, x)
            .weight("w", w)
            .weight("b", &w[..1])
            .node("Conv", &["x", "w", "b"], "y", attributes)
            .returns(&["y"]);
        examined(&model);
    };
    conv(&[N, 2, 9], &[3, 2, 3], &[]);
    conv(&[N, 2, 9], &[3, 2, 3], &[ints("strides", &[2]), ints("pads", &[2, 1]), ints("dilations", &[2])]);
    conv(&[N, 4, 7, 6], &[6, 2, 3, 2], &[int("group", 2), ints("pads", &[1, 0, 0, 1])]);
    conv(&[N, 2, 7, 6], &[2, 2, 3, 2], &[string("auto_pad", "SAME_UPPER"), ints("strides", &[2, 3])]);
    conv(&[N, 2, 7, 6], &[2, 2, 3, 2], &[string("auto_pad", "SAME_LOWER")]);
    conv(&[N, 2, 7, 6], &[2, 2, 3, 2], &[string("auto_pad", "VALID"), ints("strides", &[2, 2])]);
    for op in ["MaxPool", "AveragePool"] {
        one(17, &[N, 2, 7, 6], op, &[ints("kernel_shape", &[2, 3]), ints("strides", &[2, 1])]);
        one(
            17,
            &[N, 2, 7, 6],
            op,
            &[ints("kernel_shape", &[3, 3]), ints("strides", &[2, 2]), ints("pads", &[1, 1, 1, 1])],
        );
        one(17, &[N, 2, 9], op, &[ints("kernel_shape", &[2]), ints("strides", &[2])]);
    }
    one(17, &[N, 2, 7, 6], "GlobalAveragePool", &[]);
}

// With ceil mode, a pool counts the windows that start inside the input.
#[test]
fn ceil_pool_counts_windows_inside() {
    for (input, kernel, stride, begin, end) in [
        (7, 2, 2, 0, 0),
        (8, 2, 2, 0, 0),
        (7, 3, 2, 1, 1),
        (6, 2, 3, 1, 1),
        (5, 2, 2, 1, 1),
        (9, 4, 3, 0, 2),
        (4, 3, 3, 1, 1),
    ] {
        // By definition, windows start every `stride`. There is another window if the last did not reach the end of the
        // padding and the next would start before the end padding.
        let total = input + begin + end;
        let mut windows = 1;
        while (windows - 1) * stride + kernel < total && windows * stride < input + begin {
            windows += 1;
        }
        let attributes = [
            int("ceil_mode", 1),
            ints("kernel_shape", &[kernel as i64]),
            ints("strides", &[stride as i64]),
            ints("pads", &[begin as i64, end as i64]),
        ];
        let model = Sketch::new(17, &[N, 1, input]).node("MaxPool", &["x"], "h", &attributes).scaled("h");
        assert_eq!(layout(&graph(&model).unwrap(), "h").0, [1, 1, windows], "{input} {kernel} {stride} {begin} {end}");
    }
}

// Norms take a scale for each channel or group, as the operator set defines.
#[test]
fn norm_scale_follows_operator_set() {
    let norm = |opset: i64, op: &str, extent: usize| {
        Sketch::new(opset, &[N, 4, 3])
            .weight("s", &[extent])
            .weight("b", &[extent])
            .node(op, &["x", "s", "b"], "y", &[int("num_groups", 2)])
            .returns(&["y"])
    };
    examined(&norm(17, "InstanceNormalization", 4));
    for (opset, extent) in [(18, 2), (20, 2), (21, 4)] {
        let graph = graph(&norm(opset, "GroupNormalization", extent)).unwrap();
        assert_eq!(layout(&graph, "y"), (vec![1, 4, 3], Some((0, 1, 1))));
    }
    assert_eq!(
        refusal(&norm(18, "GroupNormalization", 4)),
        "node 'y' (GroupNormalization): input 1 ('s') has the shape [4], not one number for each of 2 groups; \
         check the model with onnx.checker, or export it again"
    );
}

// Reductions within a sample move the batch axis.
#[test]
fn reductions_in_sample_move_batch_axis() {
    let turned = |attributes: &[AttributeProto]| {
        Sketch::new(13, &[N, 4, 3])
            .node("Transpose", &["x"], "t", &[ints("perm", &[1, 0, 2])])
            .node("ReduceMean", &["t"], "h", attributes)
            .scaled("h")
    };
    let kept = examined(&turned(&[ints("axes", &[0])]));
    assert_eq!(layout(&kept, "h"), (vec![1, 1, 3], Some((1, 1, 1))));
    let dropped = examined(&turned(&[ints("axes", &[0, -1]), int("keepdims", 0)]));
    assert_eq!(layout(&dropped, "h"), (vec![1], Some((0, 1, 1))));
    let by_input =
        Sketch::new(18, &[N, 4, 3]).ints("axes", &[-1]).node("ReduceSum", &["x", "axes"], "h", &[]).scaled("h");
    assert_eq!(layout(&examined(&by_input), "h"), (vec![1, 4, 1], Some((0, 1, 1))));
}

#[test]
fn reshapes_keep_samples_apart() {
    let reshape = |x: &[usize], target: &[i64]| {
        Sketch::new(17, x).ints("target", target).node("Reshape", &["x", "target"], "h", &[]).scaled("h")
    };
    for (target, shape, batch) in [
        (&[0, -1][..], vec![1, 12], (0, 1, 1)),
        (&[-1, 12], vec![1, 12], (0, 1, 1)),
        (&[-1, 3], vec![4, 3], (0, 1, 4)),
        (&[-1], vec![12], (0, 1, 12)),
        (&[0, 2, -1], vec![1, 2, 6], (0, 1, 1)),
        (&[1, -1, 4, 3], vec![1, 1, 4, 3], (1, 1, 1)),
        (&[1, -1], vec![1, 12], (1, 1, 12)),
    ] {
        let graph = examined(&reshape(&[N, 4, 3], target));
        assert_eq!(layout(&graph, "h"), (shape, Some(batch)), "{target:?}");
        let node = graph.nodes.iter().find(|node| node.op == "Reshape").unwrap();
        assert_eq!((node.inputs.len(), node.attributes.len()), (1, 0));
    }
    for axis in 0..4 {
        one(17, &[N, 4, 3], "Flatten", &[int("axis", axis)]);
    }
}

// A batch axis in the middle merges and splits again.
#[test]
fn middle_batch_axis_merges_and_splits() {
    let model = Sketch::new(17, &[N, 4, 3])
        .ints("merged", &[-1, 3])
        .ints("columns", &[4, -1])
        .ints("back", &[4, -1, 3])
        .node("Transpose", &["x"], "t", &[ints("perm", &[1, 0, 2])])
        .node("Reshape", &["t", "merged"], "rows", &[])
        .node("Reshape", &["rows", "columns"], "wide", &[])
        .node("Reshape", &["wide", "back"], "h", &[])
        .scaled("h");
    let graph = examined(&model);
    assert_eq!(layout(&graph, "t"), (vec![4, 1, 3], Some((1, 1, 1))));
    assert_eq!(layout(&graph, "rows"), (vec![4, 3], Some((0, 4, 1))));
    assert_eq!(layout(&graph, "wide"), (vec![4, 3], Some((1, 1, 3))));
    assert_eq!(layout(&graph, "h"), (vec![4, 1, 3], Some((1, 1, 1))));
}

// Shape arithmetic folds together with the number of samples.
#[test]
fn folds_shape_arithmetic_with_batch() {
    let model = Sketch::new(17, &[N, 4, 3])
        .int("zero", 0)
        .int("four", 4)
        .ints("front", &[0])
        .ints("three", &[3])
        .node("Shape", &["x"], "shape", &[])
        .node("Gather", &["shape", "zero"], "n", &[])
        .node("Mul", &["n", "four"], "rows", &[])
        .node("Unsqueeze", &["rows", "front"], "rows1", &[])
        .node("Concat", &["rows1", "three"], "target", &[int("axis", 0)])
        .node("Reshape", &["x", "target"], "h", &[])
        .node("Div", &["rows", "four"], "back", &[])
        .node("Unsqueeze", &["back", "front"], "back1", &[])
        .node("Concat", &["back1", "three", "minus"], "target2", &[int("axis", 0)])
        .ints("minus", &[-1])
        .node("Reshape", &["h", "target2"], "g", &[])
        .scaled("g");
    let graph = examined(&model);
    assert_eq!(layout(&graph, "h"), (vec![4, 3], Some((0, 1, 4))));
    assert_eq!(layout(&graph, "g"), (vec![1, 3, 4], Some((0, 1, 1))));
    let ops: Vec<&str> = graph.nodes.iter().map(|node| node.op.as_str()).collect();
    assert_eq!(ops, ["Reshape", "Reshape", "Mul"]);
}

#[test]
fn axes_of_one_come_and_go_around_the_batch() {
    let model = Sketch::new(17, &[N, 1, 3])
        .ints("one", &[1])
        .ints("around", &[0, -1])
        .node("Squeeze", &["x", "one"], "s", &[])
        .node("Unsqueeze", &["s", "around"], "h", &[])
        .scaled("h");
    let graph = examined(&model);
    assert_eq!(layout(&graph, "s"), (vec![1, 3], Some((0, 1, 1))));
    assert_eq!(layout(&graph, "h"), (vec![1, 1, 3, 1], Some((1, 1, 1))));
}

// A parameter that expands to the number of samples is batched.
#[test]
fn parameter_expanded_to_batch_is_batched() {
    let model = Sketch::new(17, &[N, 4, 3])
        .weight("token", &[1, 1, 3])
        .int("zero", 0)
        .ints("front", &[0])
        .ints("rest", &[1, 3])
        .node("Shape", &["x"], "shape", &[])
        .node("Gather", &["shape", "zero"], "n", &[])
        .node("Unsqueeze", &["n", "front"], "n1", &[])
        .node("Concat", &["n1", "rest"], "target", &[int("axis", 0)])
        .node("Expand", &["token", "target"], "tokens", &[])
        .node("Concat", &["tokens", "x"], "h", &[int("axis", 1)])
        .returns(&["h"]);
    let graph = examined(&model);
    assert_eq!(layout(&graph, "tokens"), (vec![1, 1, 3], Some((0, 1, 1))));
    assert_eq!(layout(&graph, "h"), (vec![1, 5, 3], Some((0, 1, 1))));
}

// Slices and lookups within a sample keep the batch.
#[test]
fn slice_and_gather_keep_batch() {
    let slice = Sketch::new(17, &[N, 7])
        .ints("starts", &[6])
        .ints("ends", &[0])
        .ints("axes", &[1])
        .ints("steps", &[-2])
        .node("Slice", &["x", "starts", "ends", "axes", "steps"], "h", &[]);
    assert_eq!(layout(&examined(&slice.scaled("h")), "h"), (vec![1, 3], Some((0, 1, 1))));
    let gather = Sketch::new(17, &[N, 7]).int("two", 2).node("Gather", &["x", "two"], "h", &[int("axis", 1)]);
    assert_eq!(layout(&examined(&gather.scaled("h")), "h"), (vec![1], Some((0, 1, 1))));
}

// Identity and Dropout nodes are removed, but outputs keep their names.
#[test]
fn removed_identity_keeps_output_name() {
    let model = Sketch::new(17, &[N, 3])
        .weight("w", &[3])
        .node("Identity", &["x"], "a", &[])
        .node("Mul", &["a", "w"], "b", &[])
        .node("Dropout", &["b"], "c", &[])
        .node("Identity", &["c"], "y", &[])
        .node("Identity", &["y"], "z", &[])
        .returns(&["y", "z"]);
    let graph = graph(&model).unwrap();
    let printed = graph.to_string();
    assert_eq!(
        printed,
        "x: float32[N, 3] = input\nw: float32[3] = trained\ny: float32[N, 3] = Mul(x, w)\n\
         z: float32[N, 3] = Identity(y)\nreturn y, z\n"
    );
}

#[test]
fn constants_are_folded() {
    let model = Sketch::new(17, &[N, 3])
        .weight("w", &[3])
        .node("Constant", &[], "two", &[float("value_float", 2.0)])
        .node("Constant", &[], "half", &[float("value_float", 0.25)])
        .node("Sqrt", &["half"], "root", &[])
        .node("Div", &["two", "root"], "four", &[])
        .node("Mul", &["w", "x"], "h", &[])
        .node("Mul", &["h", "four"], "y", &[])
        .returns(&["y"]);
    let graph = graph(&model).unwrap();
    let four = graph.constant(graph.find("four").unwrap()).unwrap();
    assert_eq!(*four, Tensor { shape: vec![], data: TensorData::F32(vec![4.0].into()) });
    assert_eq!(graph.nodes.len(), 2);
    assert_eq!(graph.consumers()[graph.find("h").unwrap().0], [(1, 0)]);
}

// A fixed batch is rebound if one entry of the shape is the batch.
#[test]
fn fixed_batch_binds_to_matching_entry() {
    for size in [1, 4] {
        let b = size as i64;
        let model = Sketch::new(17, &[size, 4, 3])
            .ints("flat", &[b, -1])
            .ints("apart", &[b, 3, 4])
            .ints("rows", &[4 * b, 3])
            .node("Reshape", &["x", "flat"], "h", &[])
            .node("Reshape", &["h", "apart"], "i", &[])
            .node("Reshape", &["i", "rows"], "j", &[])
            .scaled("j");
        let graph = graph(&model).unwrap();
        examine(&model, &graph, size);
        assert_eq!(layout(&graph, "h"), (vec![1, 12], Some((0, 1, 1))), "batch {size}");
        assert_eq!(layout(&graph, "i"), (vec![1, 3, 4], Some((0, 1, 1))), "batch {size}");
        assert_eq!(layout(&graph, "j"), (vec![4, 3], Some((0, 1, 4))), "batch {size}");
    }
}

#[test]
fn several_inputs_share_the_batch() {
    let model = Sketch::new(17, &[N, 3]).input("z", &[N, 3]).weight("w", &[3]);
    let model = model.node("Add", &["x", "z"], "h", &[]).node("Mul", &["h", "w"], "y", &[]).returns(&["y"]);
    let graph = examined(&model);
    assert_eq!(graph.inputs.len(), 2);
    assert_eq!(graph.trained().map(|parameter| parameter.initial.data.len()).collect::<Vec<_>>(), [3]);
}

#[test]
fn dynamic_axis_takes_given_size() {
    let mut model = Sketch::new(17, &[N, 3, 3]).weight("w", &[3]).node("Mul", &["x", "w"], "y", &[]).returns(&["y"]);
    let input = &mut model.graph.as_mut().unwrap().input[0];
    *input = onnx::make_value_info("x", DType::F32, &[Extent::Batch, Extent::Batch, Extent::Fixed(3)]);
    let options = |shape: &[(&str, usize)]| GraphOptions {
        shape: shape.iter().map(|(name, size)| (name.to_string(), *size)).collect(),
        train: vec!["w".into()],
        ..GraphOptions::default()
    };
    let graph = Graph::from_model(&model, &options(&[("x[1]", 5)])).unwrap();
    assert_eq!(layout(&graph, "y"), (vec![1, 5, 3], Some((0, 1, 1))));
    assert_eq!(refusal(&model), "axis 1 ('N') of input 'x' is dynamic; fix it with `shape` N=SIZE");
    assert_eq!(
        Graph::from_model(&model, &options(&[("x[1]", 5), ("width", 5)])).unwrap_err().to_string(),
        "`shape` width: names no dynamic axis of an input (other than the batch); remove it, or check the name"
    );
}
