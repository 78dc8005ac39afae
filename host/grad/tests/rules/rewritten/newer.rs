//! Operators of newer opsets, losses, and statistics of weights.

use super::{Rewritten, Sketch};
use damper_onnx::pb::AttributeProto;
use damper_onnx::{make_attr_float, make_attr_int, make_attr_ints, make_attr_string};

/// All models.
pub fn models() -> Vec<Rewritten> {
    let mut models = attentions();
    models.extend(rotary());
    models.extend(functions());
    models.extend(losses());
    models.extend(scatters());
    models.push(standardised(&[1, 3, 4]));
    models.push(standardised(&[3, 2, 2]));
    models.push(standardised(&[6, 2]));
    models
}

/// Declares an older opset without the operator, which the graph's rules do not check.
fn of(opset: i64, rewritten: Rewritten) -> Rewritten {
    Rewritten { opset, ..rewritten }
}

fn attentions() -> Vec<Rewritten> {
    let plain = |name: &str, heads: [usize; 2], attributes: Vec<AttributeProto>| {
        let sketch = Sketch::new(21)
            .activation("q", &[heads[0], 3, 2])
            .activation("k", &[heads[1], 4, 2])
            .activation("v", &[heads[1], 4, 3]);
        of(23, sketch.node("Attention", &["q", "k", "v"], "y", attributes).end(name))
    };
    let heads = |q, kv| vec![make_attr_int("q_num_heads", q), make_attr_int("kv_num_heads", kv)];
    let joined = Sketch::new(21)
        .activation("q", &[3, 8])
        .activation("k", &[3, 4])
        .activation("v", &[3, 6])
        .activation("m", &[1, 3, 3])
        .node("Attention", &["q", "k", "v", "m"], "y", [heads(4, 2), vec![make_attr_float("scale", 0.5)]].concat());
    // An activation determines the visible keys. Some queries see no key.
    let masked = Sketch::new(21)
        .activation("q", &[2, 3, 2])
        .activation("k", &[2, 3, 2])
        .activation("v", &[2, 3, 2])
        .activation("m", &[1, 3, 3])
        .constant("bound", &[0.25])
        .node("Greater", &["m", "bound"], "seen", vec![])
        .node("Attention", &["q", "k", "v", "seen"], "y", vec![make_attr_int("is_causal", 1)]);
    vec![
        plain("Attention: of heads", [2, 2], vec![]),
        plain(
            "Attention: causal, capped",
            [2, 2],
            vec![make_attr_int("is_causal", 1), make_attr_float("softcap", 0.75)],
        ),
        plain("Attention: heads that share keys", [4, 2], vec![]),
        of(23, joined.end("Attention: joined heads, an added mask")),
        of(23, masked.end("Attention: queries that see no key")),
    ]
}

fn rotary() -> Vec<Rewritten> {
    let cached = |name: &str, shape: &[usize], width: usize, attributes: Vec<AttributeProto>| {
        let sketch = Sketch::new(21)
            .activation("x", shape)
            .weight("cosine", &[5, width])
            .weight("sine", &[5, width])
            .ids("id", &[3])
            .ints("zero", &[0])
            .node("Max", &["id", "zero"], "place", vec![]);
        of(23, sketch.node("RotaryEmbedding", &["x", "cosine", "sine", "place"], "y", attributes).end(name))
    };
    let own = Sketch::new(21)
        .activation("x", &[2, 3, 4])
        .activation("cosine", &[3, 2])
        .activation("sine", &[3, 2])
        .node("RotaryEmbedding", &["x", "cosine", "sine"], "y", vec![]);
    let interleaved = || make_attr_int("interleaved", 1);
    vec![
        of(23, own.end("RotaryEmbedding: by each sample's angles")),
        cached("RotaryEmbedding: by positions", &[2, 3, 4], 2, vec![]),
        cached("RotaryEmbedding: interleaved", &[2, 3, 4], 2, vec![interleaved()]),
        cached(
            "RotaryEmbedding: of a part of joined heads",
            &[3, 12],
            2,
            vec![make_attr_int("num_heads", 2), make_attr_int("rotary_embedding_dim", 4), interleaved()],
        ),
    ]
}

fn functions() -> Vec<Rewritten> {
    let one = |opset, op: &str, attributes: Vec<AttributeProto>| {
        let sketch = Sketch::new(21).activation("a", &[2, 5]);
        of(opset, sketch.node(op, &["a"], "y", attributes).end(&format!("{op}: of an activation")))
    };
    let norm = |axis, scale: &[usize], name: &str| {
        let sketch = Sketch::new(21).activation("a", &[2, 4]).weight("w", scale);
        let attributes = vec![make_attr_int("axis", axis), make_attr_float("epsilon", 1e-4)];
        of(23, sketch.node("RMSNormalization", &["a", "w"], "y", attributes).end(name))
    };
    vec![
        one(24, "Swish", vec![]),
        one(24, "Swish", vec![make_attr_float("alpha", 1.5)]),
        one(21, "Shrink", vec![make_attr_float("bias", 0.25), make_attr_float("lambd", 0.75)]),
        norm(-1, &[4], "RMSNormalization: of rows"),
        norm(1, &[2, 4], "RMSNormalization: of two axes"),
    ]
}

/// Losses of each label, weighted. Labels of −1 are not counted.
fn losses() -> Vec<Rewritten> {
    let none = || vec![make_attr_string("reduction", "none"), make_attr_int("ignore_index", -1)];
    let entropy = Sketch::new(17).activation("a", &[5]).ids("labels", &[]).weight("w", &[5]);
    let likelihood = Sketch::new(17).activation("a", &[5, 3]).ids("labels", &[3]).weight("w", &[5]);
    vec![
        entropy
            .node("SoftmaxCrossEntropyLoss", &["a", "labels", "w"], "y", none())
            .end("SoftmaxCrossEntropyLoss: weighted"),
        likelihood
            .node("LogSoftmax", &["a"], "log", vec![make_attr_int("axis", 1)])
            .node("NegativeLogLikelihoodLoss", &["log", "labels", "w"], "y", none())
            .end("NegativeLogLikelihoodLoss: of tokens, weighted"),
        Sketch::new(17)
            .activation("a", &[5, 3])
            .ids("labels", &[3])
            .node_of("SoftmaxCrossEntropyLoss", &["a", "labels"], &["loss", "log"], none())
            .node("ReduceMax", &["log"], "top", vec![make_attr_ints("axes", &[1]), make_attr_int("keepdims", 0)])
            .node("Add", &["loss", "top"], "y", vec![])
            .end("SoftmaxCrossEntropyLoss: and logarithms"),
    ]
}

/// Assignments to slices, as PyTorch's exporters write them.
fn scatters() -> Vec<Rewritten> {
    let swap = || vec![make_attr_ints("perm", &[1, 0, 2])];
    let along = |axis| make_attr_int("axis", axis);
    let adding = || make_attr_string("reduction", "add");
    let places = |name: &str, places: &[i64], attributes: Vec<AttributeProto>| {
        Sketch::new(17)
            .activation("a", &[4, 3])
            .activation("u", &[places.len(), 3])
            .tensor("places", &[places.len(), 1], places)
            .node("Transpose", &["a"], "data", swap())
            .node("Transpose", &["u"], "updates", swap())
            .node("ScatterND", &["data", "places", "updates"], "written", attributes)
            .node("Transpose", &["written"], "y", swap())
            .end(name)
    };
    // x[:, 2] = u
    let rows = Sketch::new(17)
        .activation("a", &[4, 3])
        .activation("u", &[3])
        .ints("first", &[0])
        .ints("one", &[1])
        .ints("column", &[-1, 1])
        .ints("second", &[2])
        .tensor("zero", &[], &[0])
        .tensor("step", &[], &[1])
        .node("Shape", &["a"], "shape", vec![])
        .node("Gather", &["shape", "zero"], "count", vec![])
        .node("Gather", &["shape", "first"], "counted", vec![])
        .node("Range", &["zero", "count", "step"], "numbers", vec![])
        .node("Reshape", &["numbers", "column"], "sample", vec![])
        .node("Concat", &["counted", "one"], "target", vec![along(0)])
        .node("Expand", &["second", "target"], "place", vec![])
        .node("Concat", &["sample", "place"], "places", vec![along(1)])
        .node("ScatterND", &["a", "places", "u"], "y", vec![]);
    // x.select_scatter(u, 1, -2)
    let selected = Sketch::new(17)
        .activation("a", &[4, 3])
        .activation("u", &[1, 3])
        .ints("place", &[-2])
        .node("Shape", &["u"], "shape", vec![])
        .node("Expand", &["place", "shape"], "places", vec![])
        .node("ScatterElements", &["a", "places", "u"], "y", vec![along(1)]);
    let by_data = |name: &str, count: usize, attributes: Vec<AttributeProto>| {
        Sketch::new(17)
            .activation("a", &[4, 3])
            .activation("u", &[count, 3])
            .ids("places", &[count, 3])
            .node("ScatterElements", &["a", "places", "u"], "y", attributes)
            .end(name)
    };
    vec![
        places("ScatterND: rows of a transposed batch", &[2, 0], vec![]),
        places("ScatterND: rows added, one twice", &[2, 0, 2], vec![adding()]),
        rows.end("ScatterND: a row of each sample"),
        selected.end("ScatterElements: a constant row"),
        by_data("ScatterElements: one element of each column", 1, vec![along(1)]),
        by_data("ScatterElements: added by data", 3, vec![along(1), adding()]),
    ]
}

/// Weight standardised by a BatchNormalization in training mode, as in timm's convolutions.
fn standardised(shape: &[usize]) -> Rewritten {
    let channels = shape[1];
    Sketch::new(17)
        .activation("a", shape)
        .weight("w", shape)
        .weight("gain", &[channels])
        .weight("bias", &[channels])
        .constant("zeros", &vec![0.0; channels])
        .constant("ones", &vec![1.0; channels])
        .node_of(
            "BatchNormalization",
            &["w", "gain", "bias", "zeros", "ones"],
            &["unit", "mean", "variance"],
            vec![make_attr_int("training_mode", 1), make_attr_float("epsilon", 1e-3)],
        )
        .node("Mul", &["a", "unit"], "y", vec![])
        .end(&format!("BatchNormalization: of a weight {shape:?}"))
}
