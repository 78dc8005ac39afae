//! Operators that select, join, repeat and move elements: batch axes of their outputs, and errors.

use super::refusals::mixes;
use super::shapes::examined;
use super::*;
use damper_onnx::{make_attr_int as int, make_attr_ints as ints, make_attr_string as string};

fn ops(graph: &Graph) -> Vec<&str> {
    graph.nodes.iter().map(|node| node.op.as_str()).collect()
}

/// `x` through one node. Further inputs are integers.
fn one(x: &[usize], op: &str, further: &[&[i64]], attributes: &[AttributeProto]) -> ModelProto {
    let names = ["a", "b", "c", "d"];
    let mut sketch = Sketch::new(18, x);
    for (name, values) in names.iter().zip(further) {
        sketch = sketch.ints(name, values);
    }
    let inputs = [&["x"], &names[..further.len()]].concat();
    sketch.node(op, &inputs, "h", attributes).scaled("h")
}

// A lookup of tokens in an embedding matrix keeps them with their sample.
#[test]
fn token_lookup_keeps_sample() {
    for (ids, shape) in [(&[N, 5][..], vec![1, 5, 2]), (&[N], vec![1, 2]), (&[N, 4, 1], vec![1, 4, 1, 2])] {
        let model = Sketch::new(13, &[N, 1]).ids("ids", ids).weight("table", &[3, 2]);
        let model = model.node("Gather", &["table", "ids"], "h", &[]).returns(&["h", "x"]);
        assert_eq!(layout(&examined(&model), "h"), (shape, Some((0, 1, 1))), "{ids:?}");
    }
    let columns = Sketch::new(13, &[N, 1]).ids("ids", &[N, 5]).weight("table", &[2, 3]);
    let columns = columns.node("Gather", &["table", "ids"], "h", &[int("axis", -1)]).returns(&["h", "x"]);
    assert_eq!(layout(&examined(&columns), "h"), (vec![2, 1, 5], Some((1, 1, 1))));
    let merged = Sketch::new(13, &[N, 1]).ids("ids", &[N, 5]).weight("table", &[3, 2]).ints("flat", &[-1]);
    let merged = merged.node("Reshape", &["ids", "flat"], "rows", &[]).node("Gather", &["table", "rows"], "h", &[]);
    assert_eq!(layout(&examined(&merged.returns(&["h", "x"])), "h"), (vec![5, 2], Some((0, 1, 5))));
}

// A lookup by position leaves the batch axis in place.
#[test]
fn position_lookup_keeps_batch_axis() {
    let graph = examined(&one(&[N, 4, 3], "Gather", &[&[-1, 0]], &[int("axis", 1)]));
    assert_eq!(layout(&graph, "h"), (vec![1, 2, 3], Some((0, 1, 1))));
    let turned = Sketch::new(17, &[N, 4, 3])
        .int("last", -1)
        .node("Transpose", &["x"], "t", &[ints("perm", &[1, 0, 2])])
        .node("Gather", &["t", "last"], "h", &[]);
    assert_eq!(layout(&examined(&turned.scaled("h")), "h"), (vec![1, 3], Some((0, 1, 1))));
    assert_eq!(
        refusal(&one(&[N, 4], "Gather", &[&[0, 4]], &[int("axis", 1)])),
        "node 'h' (Gather): index 4 is not one of 4 rows; check the model with onnx.checker, or export it again"
    );
}

// An index for each element stays within its sample.
#[test]
fn gather_elements_stays_within_sample() {
    let base = || Sketch::new(13, &[N, 4, 3]).ids("ids", &[N, 2, 3]);
    let graph = examined(&base().node("GatherElements", &["x", "ids"], "h", &[int("axis", 1)]).scaled("h"));
    assert_eq!(layout(&graph, "h"), (vec![1, 2, 3], Some((0, 1, 1))));
    // Columns that no index can reach are cropped.
    let narrow = Sketch::new(13, &[N, 4, 3]).ids("ids", &[N, 2, 1]);
    let graph = examined(&narrow.node("GatherElements", &["x", "ids"], "h", &[int("axis", 1)]).scaled("h"));
    assert_eq!(ops(&graph), ["Slice", "GatherElements", "Mul"]);
    let across = base().node("GatherElements", &["x", "ids"], "h", &[int("axis", 0)]).scaled("h");
    assert_eq!(mixes(&across), "h (GatherElements): it picks samples along the batch axis 0");
    let fixed = Sketch::new(13, &[N, 4]).ints("a", &[0]).ints("f", &[0]).node("Unsqueeze", &["a", "f"], "i", &[]);
    assert_eq!(
        mixes(&fixed.node("GatherElements", &["x", "i"], "h", &[int("axis", 1)]).scaled("h")),
        "h (GatherElements): its data 'x' and indices 'i' do not hold their samples alike"
    );
}

// A lookup at positions on several axes is a lookup in the merged axes.
#[test]
fn gather_nd_is_lookup_in_merged_axes() {
    let places = |x: &[usize], shape: &[usize], values: &[i64], batch_dims| {
        let mut sketch = Sketch::new(17, x).node("Transpose", &["x"], "t", &[ints("perm", &[1, 2, 0])]);
        sketch.graph.initializer.push(onnx::make_tensor_i64("p", shape, values));
        sketch.node("GatherND", &["t", "p"], "h", &[int("batch_dims", batch_dims)]).scaled("h")
    };
    let placed = examined(&places(&[N, 4, 3], &[2, 2], &[3, 2, 0, 1], 0));
    assert_eq!(layout(&placed, "h"), (vec![2, 1], Some((1, 1, 1))));
    let placed = examined(&places(&[N, 4, 3], &[2, 1], &[3, 2], 0));
    assert_eq!(layout(&placed, "h"), (vec![2, 3, 1], Some((2, 1, 1))));
    assert_eq!(
        mixes(&places(&[N, 4, 3], &[1, 3], &[0, 0, 0], 0)),
        "h (GatherND): it picks samples along the batch axis 2"
    );
    let from_end = super::graph(&places(&[N, 4, 3], &[1, 2], &[-1, -3], 0)).unwrap();
    let TensorData::I64(flat) = &from_end.constant(from_end.find("h/1").unwrap()).unwrap().data else { panic!() };
    assert_eq!(*flat, [9]);
    let own = Sketch::new(17, &[N, 4, 3]).ids("ids", &[N, 2, 1]);
    let graph = examined(&own.node("GatherND", &["x", "ids"], "h", &[int("batch_dims", 1)]).scaled("h"));
    assert_eq!(layout(&graph, "h"), (vec![1, 2, 3], Some((0, 1, 1))));
    let others = Sketch::new(17, &[N, 4]).ids("ids", &[N, 1]);
    assert_eq!(
        mixes(&others.node("GatherND", &["x", "ids"], "h", &[]).scaled("h")),
        "h (GatherND): its indices choose among the data of several samples"
    );
    let table = Sketch::new(17, &[N, 1]).ids("ids", &[N, 2, 1]).weight("table", &[3, 2]);
    let graph = examined(&table.node("GatherND", &["table", "ids"], "h", &[]).returns(&["h", "x"]));
    assert_eq!(layout(&graph, "h"), (vec![1, 2, 2], Some((0, 1, 1))));
}

#[test]
fn a_slice_of_all_samples_is_none() {
    let whole = |end: i64| one(&[N, 4], "Slice", &[&[0, 1], &[end, 3], &[0, 1]], &[]);
    for end in [i64::MAX, i64::from(i32::MAX)] {
        assert_eq!(layout(&examined(&whole(end)), "h"), (vec![1, 2], Some((0, 1, 1))));
    }
    assert_eq!(mixes(&whole(-1)), "h (Slice): it selects samples along the batch axis 0");
    let counted = Sketch::new(17, &[N, 4])
        .ints("zero", &[0])
        .node("Shape", &["x"], "n", &[int("end", 1)])
        .node("Slice", &["x", "zero", "n", "zero"], "h", &[])
        .node("Mul", &["x", "h"], "square", &[])
        .scaled("square");
    assert_eq!(ops(&examined(&counted)), ["Mul", "Mul"]);
    let by_count = Sketch::new(17, &[N, 4])
        .ints("zero", &[0])
        .ints("one", &[1])
        .node("Shape", &["x"], "n", &[int("end", 1)])
        .node("Slice", &["x", "zero", "n", "one"], "h", &[]);
    assert_eq!(mixes(&by_count.scaled("h")), "h (Slice): its bounds along axis 1 depend on the number of samples");
}

// Slices work on several axes and in either direction.
#[test]
fn slices_support_axes_and_directions() {
    for (starts, ends, axes, steps) in [
        (&[1, 0][..], &[3, 2][..], &[2, 1][..], &[1, 1][..]),
        (&[-1, -1], &[i64::MIN, -3], &[1, 2], &[-1, -1]),
        (&[4, 9], &[-5, 0], &[1, 2], &[-2, -3]),
        (&[0, 0], &[i64::MAX, 4], &[1, 2], &[2, 3]),
    ] {
        examined(&one(&[N, 5, 4], "Slice", &[starts, ends, axes, steps], &[]));
    }
    let twice = one(&[N, 5], "Slice", &[&[0, 1], &[3, 4], &[1, -1]], &[]);
    assert!(refusal(&twice).starts_with("node 'h' (Slice): it slices axis 1 twice"));
}

#[test]
fn a_split_is_slices() {
    let split = |opset: i64, sizes: Option<&[i64]>, attributes: &[AttributeProto]| {
        let mut sketch = Sketch::new(opset, &[N, 7]);
        let mut inputs = vec!["x"];
        if let Some(sizes) = sizes {
            sketch = sketch.ints("sizes", sizes);
            inputs.push("sizes");
        }
        let node = onnx::make_node("Split", "s", &inputs, &["p", "q", "r"], attributes.to_vec());
        sketch.graph.node.push(node);
        sketch.node("Concat", &["r", "p", "q"], "h", &[int("axis", 1)]).scaled("h")
    };
    for (model, parts) in [
        (split(13, Some(&[2, 4, 1]), &[int("axis", 1)]), [2, 4, 1]),
        (split(18, None, &[int("axis", -1), int("num_outputs", 3)]), [3, 3, 1]),
    ] {
        let graph = examined(&model);
        assert_eq!(ops(&graph), ["Slice", "Slice", "Slice", "Concat", "Mul"]);
        assert_eq!(["p", "q", "r"].map(|name| layout(&graph, name).0[1]), parts);
    }
    assert_eq!(
        mixes(&split(18, None, &[int("axis", 0), int("num_outputs", 3)])),
        "s (Split): it splits axis 0, which holds the samples"
    );
    assert!(refusal(&split(13, Some(&[2, 4, 2]), &[int("axis", 1)])).contains("do not fill 7 rows"));
    // The parts of a shape remain shape arithmetic.
    let mut sketch = Sketch::new(17, &[N, 4, 3]).node("Shape", &["x"], "shape", &[]).ints("sizes", &[1, 2]);
    sketch.graph.node.push(onnx::make_node("Split", "s", &["shape", "sizes"], &["n", "rest"], vec![]));
    let model =
        sketch.node("ReduceProd", &["rest"], "flat", &[]).node("Concat", &["n", "flat"], "to", &[int("axis", 0)]);
    let graph = examined(&model.node("Reshape", &["x", "to"], "h", &[]).scaled("h"));
    assert_eq!(layout(&graph, "h"), (vec![1, 12], Some((0, 1, 1))));
}

// A value that all samples share expands to join a batch that the export fixed at one.
#[test]
fn shared_value_joins_fixed_batch_of_one() {
    let joined = |n: usize| {
        Sketch::new(17, &[n, 4, 3]).weight("token", &[1, 1, 3]).node("Concat", &["token", "x"], "h", &[int("axis", 1)])
    };
    let model = joined(1).returns(&["h"]);
    let graph = graph(&model).unwrap();
    examine(&model, &graph, 1);
    assert_eq!(ops(&graph), ["Expand", "Concat"]);
    assert_eq!(layout(&graph, "h"), (vec![1, 5, 3], Some((0, 1, 1))));
    assert_eq!(
        mixes(&joined(N).returns(&["h"])),
        "h (Concat): 'x' [N, 4, 3] and 'token' [1, 1, 3] hold their samples differently"
    );
}

// Attention heads that are merged with the batch split again.
#[test]
fn merged_heads_split_from_batch() {
    // nn.MultiheadAttention: [N, T, E] with positions first, [T, N·h, d], [N·h, T, T], and back.
    let model = Sketch::new(17, &[N, 4, 6])
        .ints("heads", &[4, -1, 3])
        .ints("rows", &[-1, 6])
        .ints("apart", &[4, -1, 6])
        .node("Transpose", &["x"], "t", &[ints("perm", &[1, 0, 2])])
        .node("Reshape", &["t", "heads"], "split", &[])
        .node("Transpose", &["split"], "q", &[ints("perm", &[1, 0, 2])])
        .node("Transpose", &["split"], "k", &[ints("perm", &[1, 2, 0])])
        .node("MatMul", &["q", "k"], "scores", &[])
        .node("Softmax", &["scores"], "weights", &[int("axis", -1)])
        .node("MatMul", &["weights", "q"], "mix", &[])
        .node("Transpose", &["mix"], "u", &[ints("perm", &[1, 0, 2])])
        .node("Reshape", &["u", "rows"], "flat", &[])
        .node("Reshape", &["flat", "apart"], "h", &[])
        .scaled("h");
    let graph = examined(&model);
    for (name, shape, batch) in [
        ("split", vec![4, 2, 3], (1, 1, 2)),
        ("q", vec![2, 4, 3], (0, 1, 2)),
        ("scores", vec![2, 4, 4], (0, 1, 2)),
        ("flat", vec![4, 6], (0, 4, 1)),
        ("h", vec![4, 1, 6], (1, 1, 1)),
    ] {
        assert_eq!(layout(&graph, name), (shape, Some(batch)), "{name}");
    }
}

// A fixed batch of one binds to rows rather than to features.
#[test]
fn fixed_batch_binds_to_rows() {
    // [T, 1, h, d] reshaped to [T, E]: rows of (T·N, E), not columns of [T, N·E].
    let model = Sketch::new(17, &[1, 2, 4, 3])
        .weight("w", &[6, 5])
        .ints("rows", &[4, 6])
        .ints("apart", &[4, 1, 5])
        .node("Transpose", &["x"], "t", &[ints("perm", &[2, 0, 1, 3])])
        .node("Reshape", &["t", "rows"], "flat", &[])
        .node("Gemm", &["flat", "w"], "product", &[])
        .node("Reshape", &["product", "apart"], "h", &[])
        .returns(&["h"]);
    let graph = graph(&model).unwrap();
    assert_eq!(layout(&graph, "flat"), (vec![4, 6], Some((0, 4, 1))));
    assert_eq!(layout(&graph, "h"), (vec![4, 1, 5], Some((1, 1, 1))));
}

// Tile becomes Expand between reshapes.
#[test]
fn tile_is_expand_between_reshapes() {
    let tile = |x: &[usize], repeats: &[i64]| one(x, "Tile", &[repeats], &[]);
    assert_eq!(ops(&examined(&tile(&[N, 2, 3], &[1, 2, 1]))), ["Reshape", "Expand", "Reshape", "Mul"]);
    assert_eq!(ops(&examined(&tile(&[N, 1, 3], &[1, 4, 2]))), ["Reshape", "Expand", "Reshape", "Mul"]);
    assert_eq!(ops(&examined(&tile(&[N, 1, 3], &[1, 4, 1]))), ["Expand", "Mul"]);
    assert_eq!(ops(&examined(&tile(&[N, 2], &[1, 1]))), ["Mul"]);
    assert_eq!(mixes(&tile(&[N, 2], &[2, 1])), "h (Tile): it repeats the samples along the batch axis 0");
    // A class token for every sample, and positions for the rows of all samples.
    let base = || Sketch::new(17, &[N, 4, 3]).node("Shape", &["x"], "n", &[int("end", 1)]).ints("ones", &[1, 1]);
    let token = base()
        .weight("token", &[1, 1, 3])
        .node("Concat", &["n", "ones"], "times", &[int("axis", 0)])
        .node("Tile", &["token", "times"], "all", &[])
        .node("Concat", &["all", "x"], "h", &[int("axis", 1)]);
    assert_eq!(layout(&examined(&token.returns(&["h"])), "h"), (vec![1, 5, 3], Some((0, 1, 1))));
    let rows = base()
        .weight("positions", &[4, 3])
        .ints("one", &[1])
        .ints("flat", &[-1, 3])
        .node("Concat", &["n", "one"], "times", &[int("axis", 0)])
        .node("Tile", &["positions", "times"], "all", &[])
        .node("Reshape", &["x", "flat"], "rows", &[])
        .node("Add", &["all", "rows"], "h", &[]);
    let graph = examined(&rows.returns(&["h"]));
    assert_eq!(layout(&graph, "all"), (vec![4, 3], Some((0, 1, 4))));
}

// Integers that repeat for every sample are data.
#[test]
fn repeated_integers_are_data() {
    let model = Sketch::new(17, &[N, 4])
        .weight("table", &[4, 3])
        .ints("positions", &[0, 1, 2, 3])
        .node("Shape", &["x"], "to", &[])
        .node("Expand", &["positions", "to"], "ids", &[])
        .node("Gather", &["table", "ids"], "h", &[])
        .returns(&["h", "x"]);
    let graph = graph(&model).unwrap();
    assert_eq!(layout(&graph, "h"), (vec![1, 4, 3], Some((0, 1, 1))));
}

// Blocks of positions become channels and back, and the batch stays in place.
#[test]
fn depth_to_space_and_back_keep_batch() {
    let moved = |x: &[usize], op: &str, attributes: &[AttributeProto]| {
        let graph = examined(&one(x, op, &[], attributes));
        assert_eq!(ops(&graph), ["Reshape", "Transpose", "Reshape", "Mul"]);
        layout(&graph, "h")
    };
    let block = int("blocksize", 2);
    let placed = Some((0, 1, 1));
    assert_eq!(moved(&[N, 8, 2, 3], "DepthToSpace", std::slice::from_ref(&block)), (vec![1, 2, 4, 6], placed));
    assert_eq!(
        moved(&[N, 8, 2, 3], "DepthToSpace", &[block.clone(), string("mode", "CRD")]),
        (vec![1, 2, 4, 6], placed)
    );
    assert_eq!(moved(&[N, 2, 4, 6], "SpaceToDepth", std::slice::from_ref(&block)), (vec![1, 8, 2, 3], placed));
    let turned = Sketch::new(17, &[N, 4, 2, 2]).node("Transpose", &["x"], "t", &[ints("perm", &[1, 0, 2, 3])]);
    assert_eq!(
        mixes(&turned.node("SpaceToDepth", &["t"], "h", &[block]).scaled("h")),
        "h (SpaceToDepth): it moves elements between axes of which one, axis 1, holds the samples"
    );
}

// Trilu, CumSum and ArgMax stay within a sample.
#[test]
fn trilu_cumsum_and_argmax_keep_samples() {
    examined(&one(&[N, 3, 4], "Trilu", &[], &[int("upper", 0)]));
    assert_eq!(
        mixes(&one(&[N, 4], "Trilu", &[], &[])),
        "h (Trilu): it keeps a triangle along axis 0, which holds the samples"
    );
    let sums = Sketch::new(17, &[N, 3, 4]).int("a", -2);
    examined(&sums.node("CumSum", &["x", "a"], "h", &[int("exclusive", 1)]).scaled("h"));
    assert_eq!(
        mixes(&one(&[N, 4], "CumSum", &[&[-2]], &[])),
        "h (CumSum): it sums along axis 0, which holds the samples"
    );
    let first = Sketch::new(17, &[N, 4, 3]).node("ArgMax", &["x"], "i", &[int("axis", 1)]).node(
        "GatherElements",
        &["x", "i"],
        "h",
        &[int("axis", 1)],
    );
    assert_eq!(layout(&examined(&first.scaled("h")), "i"), (vec![1, 1, 3], Some((0, 1, 1))));
    let dropped = Sketch::new(17, &[N, 4])
        .weight("table", &[4, 2])
        .node("ArgMin", &["x"], "i", &[int("axis", 1), int("keepdims", 0)])
        .node("Gather", &["table", "i"], "h", &[]);
    assert_eq!(layout(&graph(&dropped.returns(&["h"])).unwrap(), "h"), (vec![1, 2], Some((0, 1, 1))));
    assert_eq!(
        mixes(&one(&[N, 4], "ArgMax", &[], &[])),
        "h (ArgMax): it compares elements along axis 0, which holds the samples"
    );
}

#[test]
fn indices_become_hot_at_their_place() {
    let model = |axis| {
        Sketch::new(17, &[N, 3])
            .ids("ids", &[N, 5])
            .int("depth", 3)
            .tensor("values", &[2], &[0.0, 1.0])
            .node("OneHot", &["ids", "depth", "values"], "h", &[int("axis", axis)])
            .node("Mul", &["h", "scale"], "y", &[])
            .tensor("scale", &[1], &[0.5])
            .returns(&["y", "x"])
    };
    assert_eq!(layout(&graph(&model(-1)).unwrap(), "h"), (vec![1, 5, 3], Some((0, 1, 1))));
    assert_eq!(layout(&graph(&model(0)).unwrap(), "h"), (vec![3, 1, 5], Some((1, 1, 1))));
}

// Integer constants fold through layout operators.
#[test]
fn folds_integer_constants_through_layout() {
    let model = Sketch::new(17, &[N, 3, 3])
        .ints("shape", &[3, 3])
        .ints("twos", &[2, 1])
        .ints("ends", &[3, 3])
        .ints("zeros", &[0, 0])
        .ints("steps", &[1, 2])
        .ints("axes", &[0, 1])
        .int("zero", 0)
        .node("ConstantOfShape", &["shape"], "ones", &[damper_onnx::make_attr_tensor("value", one_tensor())])
        .node("Trilu", &["ones"], "mask", &[int("upper", 0)])
        .node("CumSum", &["mask", "zero"], "sums", &[])
        .node("Transpose", &["sums"], "turned", &[])
        .node("Slice", &["turned", "zeros", "ends", "axes", "steps"], "part", &[])
        .node("Tile", &["part", "twos"], "tiled", &[])
        .node("Cast", &["tiled"], "h", &[int("to", 1)])
        .node("EyeLike", &["ones"], "eye", &[])
        .node("NonZero", &["eye"], "places", &[])
        .node("Cast", &["places"], "p", &[int("to", 1)])
        .weight("w", &[6, 2])
        .weight("v", &[3])
        .node("Mul", &["h", "w"], "y", &[])
        .node("Mul", &["p", "v"], "z", &[])
        .returns(&["y", "z", "x"]);
    let graph = graph(&model).unwrap();
    let constant = |name: &str| graph.constant(graph.find(name).unwrap()).unwrap().clone();
    // Cumulative columns of the triangle are [1, 2, 3], [0, 1, 2], [0, 0, 1].
    let rows = [1.0, 3.0, 0.0, 2.0, 0.0, 1.0];
    assert_eq!(constant("h"), Tensor { shape: vec![6, 2], data: TensorData::F32([rows, rows].concat().into()) });
    let places = [0.0, 1.0, 2.0];
    assert_eq!(constant("p"), Tensor { shape: vec![2, 3], data: TensorData::F32([places, places].concat().into()) });
}

fn one_tensor() -> damper_onnx::pb::TensorProto {
    onnx::make_tensor_i64("", &[1], &[1])
}

// Writes stay within a sample, at known positions or with an index for each element.
#[test]
fn writes_across_samples_are_refused() {
    let elements =
        Sketch::new(17, &[N, 4]).ids("i", &[N, 4]).node("ScatterElements", &["x", "i", "x"], "h", &[int("axis", 0)]);
    let refused = refusal(&elements.scaled("h"));
    assert!(refused.contains("it writes along axis 0, which holds the samples"), "{refused}");
    // ONNX would write one row of indices only to the first sample.
    let mut shared = Sketch::new(17, &[N, 4]).tensor("u", &[1, 1], &[2.5]);
    shared.graph.initializer.push(onnx::make_tensor_i64("i", &[1, 1], &[1]));
    let refused = refusal(&shared.node("ScatterElements", &["x", "i", "u"], "h", &[int("axis", 1)]).scaled("h"));
    assert!(refused.contains("data, indices and updates hold their samples differently"), "{refused}");
    let by_data = Sketch::new(17, &[N, 4]).ids("i", &[N, 1]).node("ScatterND", &["x", "i", "x"], "h", &[]);
    let refused = refusal(&by_data.scaled("h"));
    assert_eq!(refused, "node 'h' (ScatterND): its indices are data; write it with torch.where or torch.cat");
}

// The second output of a pool has indices into the whole batch.
#[test]
fn places_of_a_pool_are_refused() {
    let mut pool = Sketch::new(17, &[N, 1, 2, 2]);
    let kernel = vec![ints("kernel_shape", &[2, 2])];
    pool.graph.node.push(onnx::make_node("MaxPool", "pool", &["x"], &["p", "places"], kernel));
    let to = [int("to", 1)];
    let model = pool.node("Cast", &["places"], "f", &to).node("Mul", &["p", "f"], "h", &[]).scaled("h");
    assert!(refusal(&model).contains("counts places over the whole batch"), "{}", refusal(&model));
}

// A constant that is joined to data has one row for each sample, not one for several rows of a sample.
#[test]
fn rows_of_a_sample_are_no_samples() {
    let joined = |rows: i64| {
        let rest = vec![1.0; rows as usize];
        Sketch::new(17, &[1, 4])
            .ints("rows", &[rows, 4 / rows])
            .ints("flat", &[1, 4 + rows])
            .tensor("constant", &[rows as usize, 1], &rest)
            .node("Tanh", &["x"], "t", &[])
            .node("Reshape", &["t", "rows"], "r", &[])
            .node("Concat", &["r", "constant"], "c", &[int("axis", 1)])
            .node("Reshape", &["c", "flat"], "h", &[])
            .scaled("h")
    };
    graph(&joined(1)).unwrap();
    assert!(refusal(&joined(2)).contains("hold their samples differently"), "{}", refusal(&joined(2)));
}

// Sample numbers may index the row of their own sample, but not that of another.
#[test]
fn sample_numbers_index_only_own_row() {
    let model = |from: i64| {
        Sketch::new(17, &[N, 4])
            .int("zero", 0)
            .int("one", 1)
            .int("from", from)
            .node("Shape", &["x"], "shape", &[])
            .node("Gather", &["shape", "zero"], "n", &[])
            .node("Range", &["zero", "n", "one"], "numbers", &[])
            .node("Add", &["numbers", "from"], "rows", &[])
            .node("Gather", &["x", "rows"], "h", &[])
            .scaled("h")
    };
    examined(&model(0));
    let message = mixes(&model(1));
    assert!(message.starts_with("h (Gather): it reads 'rows', the samples' numbers"), "{message}");
}
