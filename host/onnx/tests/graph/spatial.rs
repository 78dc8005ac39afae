//! Operators over spatial axes, and contractions: shapes, batch axes, and errors.

use super::*;
use damper_onnx::{make_attr_int as int, make_attr_ints as ints, make_attr_string as string};
use proptest::prelude::*;

fn examined(model: &ModelProto) -> Graph {
    let graph = graph(model).unwrap();
    examine(model, &graph, 3);
    graph
}

fn mixes(model: &ModelProto) -> String {
    match graph(model) {
        Err(GraphError::Mixes { node, op, reason, .. }) => format!("{node} ({op}): {reason}"),
        other => panic!("not refused for mixing samples: {other:?}"),
    }
}

fn einsum(equation: &str, inputs: &[&str], x: &[usize], z: &[usize]) -> ModelProto {
    Sketch::new(17, x)
        .input("z", z)
        .weight("w", &[4, 2])
        .node("Einsum", inputs, "h", &[string("equation", equation)])
        .node("Mul", &["h", "w"], "y", &[])
        .returns(&["h", "y"])
}

// An Einsum keeps the batch at the axis of its label.
#[test]
fn einsum_keeps_batch_at_its_label() {
    let layouts = |equation, inputs: &[&str], x: &[usize], z: &[usize]| {
        let model = Sketch::new(17, x).input("z", z).weight("w", &[4, 2]).weight("s", &[1]);
        let model = model.node("Einsum", inputs, "h", &[string("equation", equation)]);
        let graph = examined(&model.node("Mul", &["h", "s"], "y", &[]).returns(&["y", "z"]));
        layout(&graph, "h")
    };
    assert_eq!(layouts("nd,de->ne", &["x", "w"], &[N, 4], &[N, 1]), (vec![1, 2], Some((0, 1, 1))));
    assert_eq!(layouts("nd,de->en", &["x", "w"], &[N, 4], &[N, 1]), (vec![2, 1], Some((1, 1, 1))));
    assert_eq!(layouts("de,nd->ne", &["w", "x"], &[N, 4], &[N, 1]), (vec![1, 2], Some((0, 1, 1))));
    assert_eq!(layouts("nij,nkj->nik", &["x", "z"], &[N, 3, 4], &[N, 5, 4]), (vec![1, 3, 5], Some((0, 1, 1))));
    assert_eq!(layouts("nij,nkj->ink", &["x", "z"], &[N, 3, 4], &[N, 5, 4]), (vec![3, 1, 5], Some((1, 1, 1))));
    assert_eq!(layouts("nhd,hd->nh", &["x", "w"], &[N, 4, 2], &[N, 1]), (vec![1, 4], Some((0, 1, 1))));
    assert_eq!(layouts("ni,nj->nij", &["x", "z"], &[N, 3], &[N, 5]), (vec![1, 3, 5], Some((0, 1, 1))));
    assert_eq!(layouts("nij->jn", &["x"], &[N, 3, 4], &[N, 1]), (vec![4, 1], Some((1, 1, 1))));
}

#[test]
fn a_contraction_over_samples_is_refused() {
    assert_eq!(
        mixes(&einsum("nd,ne->de", &["x", "z"], &[N, 4], &[N, 2])),
        "h (Einsum): it sums over 'n', along which the samples of 'x' lie"
    );
    assert_eq!(
        mixes(&einsum("nd->d", &["x"], &[N, 4], &[N, 2])),
        "h (Einsum): it sums over 'n', along which the samples of 'x' lie"
    );
    assert_eq!(
        mixes(&einsum("nd,md->nm", &["x", "z"], &[N, 4], &[N, 4])),
        "h (Einsum): it multiplies every sample of 'x' with every sample of 'z'"
    );
    assert_eq!(
        mixes(&einsum("nd,ne->de", &["x", "w"], &[N, 3], &[N, 4])),
        "h (Einsum): 'w' has different rows along 'n', which holds the samples"
    );
    assert_eq!(
        refusal(&einsum("ndd->nd", &["x"], &[N, 4, 4], &[N, 2])),
        "node 'h' (Einsum): 'ndd' takes a diagonal (the label 'd' is repeated); multiply by a mask, as \
         x * torch.eye(n), and sum"
    );
    assert!(
        refusal(&einsum("nd,de->ne", &["x"], &[N, 4], &[N, 2]))
            .contains("the equation 'nd,de->ne' does not fit 1 inputs")
    );
    assert!(refusal(&einsum("nd,de->nz", &["x", "w"], &[N, 4], &[N, 2])).contains("the label 'z' of the result"));
}

proptest! {
    #[test]
    fn an_equation_of_any_letters_never_panics(equation in "[abn.,> -]{0,14}", three: bool) {
        let inputs: &[&str] = if three { &["x", "w", "z"] } else { &["x", "w"] };
        let _ = graph(&einsum(&equation, inputs, &[N, 4], &[N, 2]));
    }
}

// Transposed convolutions have the sizes that tract computes.
#[test]
fn transposed_convs_match_tract_shapes() {
    let extents = |x: &[usize], w: &[usize], attributes: &[AttributeProto]| {
        let model =
            Sketch::new(17, x).weight("w", w).node("ConvTranspose", &["x", "w"], "y", attributes).returns(&["y"]);
        layout(&examined(&model), "y").0
    };
    assert_eq!(extents(&[N, 2, 5], &[2, 3, 4], &[ints("strides", &[2]), ints("pads", &[1, 2])]), [1, 3, 9]);
    let rest = [ints("strides", &[2, 3]), ints("output_padding", &[1, 2]), ints("dilations", &[2, 1])];
    assert_eq!(extents(&[N, 4, 3, 4], &[4, 3, 2, 3], &rest), [1, 3, 8, 14]);
    assert_eq!(extents(&[N, 4, 3, 3], &[4, 3, 2, 2], &[int("group", 2)]), [1, 6, 4, 4]);
    let named = |attributes: &[AttributeProto]| {
        let model = Sketch::new(17, &[N, 2, 5]).weight("w", &[2, 3, 4]);
        let model = model.node("ConvTranspose", &["x", "w"], "y", attributes).returns(&["y"]);
        let graph = graph(&model).unwrap();
        let pads = graph.nodes[0].attributes.iter().find(|a| a.name == "pads").map(|a| a.ints.clone());
        (layout(&graph, "y").0, pads.unwrap_or_default())
    };
    let strides = ints("strides", &[2]);
    assert_eq!(named(&[strides.clone(), string("auto_pad", "SAME_UPPER")]), (vec![1, 3, 10], vec![1, 1]));
    assert_eq!(named(&[strides.clone(), ints("output_shape", &[11])]), (vec![1, 3, 11], vec![1, 0]));
    assert_eq!(named(&[strides, string("auto_pad", "VALID")]), (vec![1, 3, 12], vec![0, 0]));
}

// Padding and resizing stay within a sample.
#[test]
fn pad_and_resize_stay_within_sample() {
    let pad = |pads: &[i64], mode: &str| {
        let model = Sketch::new(17, &[N, 4, 5]).ints("p", pads).node("Pad", &["x", "p"], "h", &[string("mode", mode)]);
        model.scaled("h")
    };
    assert_eq!(layout(&examined(&pad(&[0, 1, 2, 0, 0, 3], "reflect")), "h"), (vec![1, 5, 10], Some((0, 1, 1))));
    assert_eq!(layout(&graph(&pad(&[0, -1, 2, 0, 0, -3], "constant")).unwrap(), "h").0, [1, 3, 4]);
    assert_eq!(
        mixes(&pad(&[0, 0, 0, 1, 0, 0], "constant")),
        "h (Pad): it adds rows along axis 0, which holds the samples"
    );
    assert!(refusal(&pad(&[0, 0, -5, 0, 0, 2], "constant")).contains("pads of -5 and 2 do not fit the extent 5"));

    let resize = |scales: &[f32]| {
        let model = Sketch::new(17, &[N, 2, 4, 5]).tensor("s", &[4], scales);
        model.node("Resize", &["x", "", "s"], "h", &[]).scaled("h")
    };
    assert_eq!(layout(&examined(&resize(&[1.0, 1.0, 2.0, 0.5])), "h"), (vec![1, 2, 8, 2], Some((0, 1, 1))));
    // Scales that the exporter concatenates.
    let scale = |value| damper_onnx::make_attr_tensor("value", damper_onnx::make_tensor_f32("", &[2], &[value, value]));
    let model = Sketch::new(17, &[N, 2, 4, 5])
        .node("Constant", &[], "same", &[scale(1.0)])
        .node("Constant", &[], "twice", &[scale(2.0)])
        .node("Concat", &["same", "twice"], "s", &[int("axis", 0)])
        .node("Resize", &["x", "", "s"], "h", &[])
        .scaled("h");
    assert_eq!(layout(&examined(&model), "h"), (vec![1, 2, 8, 10], Some((0, 1, 1))));
    assert_eq!(
        mixes(&resize(&[2.0, 1.0, 1.0, 1.0])),
        "h (Resize): it interpolates along axis 0, which holds the samples"
    );
    for scale in [f32::NAN, f32::INFINITY, -1.0, 0.0, 0.1, 1e30] {
        assert!(refusal(&resize(&[1.0, 1.0, scale, 1.0])).contains("does not fit the extent 4"), "{scale}");
    }
}

// An export with a fixed batch can be resized to any size.
#[test]
fn fixed_batch_export_resizes_to_any() {
    let model = Sketch::new(17, &[2, 3, 4, 4])
        .ints("sizes", &[2, 3, 8, 6])
        .node("Resize", &["x", "", "", "sizes"], "h", &[string("mode", "linear")])
        .scaled("h");
    assert_eq!(layout(&graph(&model).unwrap(), "h"), (vec![1, 3, 8, 6], Some((0, 1, 1))));
}

// A computed padding value is an error.
#[test]
fn computed_pad_value_is_error() {
    let model = Sketch::new(17, &[N, 4])
        .ints("p", &[0, 1, 0, 0])
        .tensor("c", &[], &[0.5])
        .node("Relu", &["c"], "v", &[])
        .node("Pad", &["x", "p", "v"], "h", &[]);
    assert!(refusal(&model.scaled("h")).contains("node 'h' (Pad): the number it pads with ('v') is computed"));
}

// A pool with windows that may be empty is an error.
#[test]
fn pool_with_empty_window_is_error() {
    let pool = |pads: &[i64]| {
        let attributes = [ints("kernel_shape", &[2]), ints("pads", pads)];
        Sketch::new(17, &[N, 2, 5]).node("AveragePool", &["x"], "h", &attributes).scaled("h")
    };
    assert!(graph(&pool(&[1, 1])).is_ok());
    assert!(refusal(&pool(&[0, 2])).contains("padding of 2 makes windows that hold no element"));
}

// Operators that sample at positions from data are errors.
#[test]
fn data_dependent_sampling_is_error() {
    for op in ["GridSample", "DeformConv", "RoiAlign", "MaxRoiPool", "MaxUnpool", "LpPool"] {
        let text = refusal(&Sketch::new(17, &[N, 4, 3]).node(op, &["x"], "h", &[]).scaled("h"));
        assert!(text.starts_with(&format!("node 'h' ({op}): ")) && text.contains("; "), "{text}");
    }
}

#[test]
fn a_local_response_is_a_pool_over_channels() {
    let model = Sketch::new(17, &[N, 4, 3, 2]).node("LRN", &["x"], "h", &[int("size", 3)]).scaled("h");
    let graph = examined(&model);
    assert_eq!(layout(&graph, "h"), (vec![1, 4, 3, 2], Some((0, 1, 1))));
    assert!(graph.nodes.iter().any(|node| node.op == "AveragePool"));
}
