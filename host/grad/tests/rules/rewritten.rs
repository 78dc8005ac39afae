//! Models with operators that a [`Graph`] rewrites to others.

#[path = "rewritten/newer.rs"]
mod newer;

use super::builder::Case;
use damper_grad::{DeriveOptions, Loss};
use damper_onnx::graph::{DType, Graph, GraphOptions};
use damper_onnx::pb::{AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto};
use damper_onnx::{
    Extent, make_attr_float, make_attr_int, make_attr_ints, make_attr_string, make_attr_strings, make_attr_tensor,
    make_node, make_tensor_f32, make_tensor_i64, make_value_info,
};
use damper_testing::Random;

/// Model with the output `y`, and its description.
pub struct Rewritten {
    /// Description.
    pub name: String,
    /// Model as an exporter writes it, but in an opset that may be older.
    pub model: ModelProto,
    /// Opset that has its operators.
    pub opset: i64,
}

impl Rewritten {
    /// Model as an exporter writes it.
    pub fn original(&self) -> ModelProto {
        let mut model = self.model.clone();
        model.opset_import[0].version = self.opset;
        model
    }

    /// Case of its graph with the mean squared error.
    pub fn case(&self) -> Case {
        // This includes initializers that only shift or scale an input.
        let stored = self.model.graph.iter().flat_map(|graph| &graph.initializer).map(|tensor| tensor.name.clone());
        let train = stored.filter(|name| name != "scales").collect();
        let graph = Graph::from_model(&self.model, &GraphOptions { train, ..GraphOptions::default() });
        let graph = graph.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        Case { name: self.name.clone(), graph, options: DeriveOptions::new(Loss::Mse) }
    }
}

/// All models.
pub fn models() -> Vec<Rewritten> {
    let mut models = einsums();
    models.extend(spatial());
    models.extend(recurrent());
    models.extend(casts());
    models.extend(newer::models());
    models
}

/// Cases of all models.
pub fn cases() -> Vec<Case> {
    models().iter().map(Rewritten::case).collect()
}

/// Model under construction. Activations are inputs plus a trained shift.
struct Sketch {
    opset: i64,
    graph: GraphProto,
    random: Random,
}

impl Sketch {
    fn new(opset: i64) -> Self {
        Self { opset, graph: GraphProto { name: "rewritten".into(), ..Default::default() }, random: Random(0) }
    }

    /// Batched value `[N, *shape]`.
    fn activation(mut self, name: &str, shape: &[usize]) -> Self {
        let extents: Vec<Extent> =
            std::iter::once(Extent::Batch).chain(shape.iter().map(|&d| Extent::Fixed(d))).collect();
        let (data, shift) = (format!("{name}.data"), format!("{name}.shift"));
        self.graph.input.push(make_value_info(&data, DType::F32, &extents));
        self.weight(&shift, shape).node("Add", &[&data, &shift], name, vec![])
    }

    /// Input of integers from −1 to 3, `[N, *shape]`.
    fn ids(mut self, name: &str, shape: &[usize]) -> Self {
        let extents = std::iter::once(Extent::Batch).chain(shape.iter().map(|&d| Extent::Fixed(d)));
        self.graph.input.push(make_value_info(name, DType::I64, &extents.collect::<Vec<_>>()));
        self
    }

    fn weight(mut self, name: &str, shape: &[usize]) -> Self {
        let data: Vec<f32> = (0..shape.iter().product()).map(|_| self.random.signed()).collect();
        self.graph.initializer.push(make_tensor_f32(name, shape, &data));
        self
    }

    /// `Constant`, which is never trained.
    fn constant(self, name: &str, data: &[f32]) -> Self {
        let value = make_attr_tensor("value", make_tensor_f32("", &[data.len()], data));
        self.node("Constant", &[], name, vec![value])
    }

    fn floats(mut self, name: &str, data: &[f32]) -> Self {
        self.graph.initializer.push(make_tensor_f32(name, &[data.len()], data));
        self
    }

    fn tensor(mut self, name: &str, shape: &[usize], data: &[i64]) -> Self {
        self.graph.initializer.push(make_tensor_i64(name, shape, data));
        self
    }

    fn ints(mut self, name: &str, data: &[i64]) -> Self {
        self.graph.initializer.push(make_tensor_i64(name, &[data.len()], data));
        self
    }

    fn node(mut self, op: &str, inputs: &[&str], output: &str, attributes: Vec<AttributeProto>) -> Self {
        let node: NodeProto = make_node(op, output, inputs, &[output], attributes);
        self.graph.node.push(node);
        self
    }

    /// Node with these outputs.
    fn node_of(mut self, op: &str, inputs: &[&str], outputs: &[&str], attributes: Vec<AttributeProto>) -> Self {
        self.graph.node.push(make_node(op, op, inputs, outputs, attributes));
        self
    }

    fn end(mut self, name: &str) -> Rewritten {
        self.graph.output = vec![ValueInfoProto { name: "y".into(), ..Default::default() }];
        let model = ModelProto {
            ir_version: 8,
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: self.opset }],
            graph: Some(self.graph),
            ..Default::default()
        };
        Rewritten { name: name.into(), model, opset: self.opset }
    }
}

/// Boolean mask cast to the float type of an activation.
fn casts() -> Vec<Rewritten> {
    let of_mask = Sketch::new(17)
        .activation("a", &[3])
        .weight("v", &[3])
        .node("Greater", &["v", "a"], "above", vec![])
        .node("CastLike", &["above", "a"], "mask", vec![])
        .node("CastLike", &["a", "mask"], "same", vec![])
        .node("Mul", &["same", "mask"], "y", vec![]);
    vec![of_mask.end("CastLike: of truth values and of floats")]
}

fn einsums() -> Vec<Rewritten> {
    let start = |inputs: &[&[usize]], weights: &[&[usize]]| {
        let mut sketch = Sketch::new(17);
        for (name, shape) in ["a", "b"].iter().zip(inputs) {
            sketch = sketch.activation(name, shape);
        }
        for (name, shape) in ["v", "w"].iter().zip(weights) {
            sketch = sketch.weight(name, shape);
        }
        sketch
    };
    let one = |equation: &str, reads: &[&str], inputs: &[&[usize]], weights: &[&[usize]]| {
        let attributes = vec![make_attr_string("equation", equation)];
        start(inputs, weights).node("Einsum", reads, "y", attributes).end(&format!("Einsum: {equation}"))
    };
    let transposed = |equation: &str, reads: &[&str], inputs: &[&[usize]], weights: &[&[usize]], perm: &[i64]| {
        let attributes = vec![make_attr_string("equation", equation)];
        start(inputs, weights)
            .node("Einsum", reads, "h", attributes)
            .node("Transpose", &["h"], "y", vec![make_attr_ints("perm", perm)])
            .end(&format!("Einsum: {equation}"))
    };
    vec![
        one("bhid,bhjd->bhij", &["a", "b"], &[&[2, 3, 4], &[2, 5, 4]], &[]),
        one("bhij,bhjd->bihd", &["a", "b"], &[&[2, 3, 4], &[2, 4, 5]], &[]),
        one("bi,bi->b", &["a", "b"], &[&[3], &[3]], &[]),
        one("bi,bj->bij", &["a", "b"], &[&[3], &[4]], &[]),
        one("bqc,bkc->bkq", &["a", "b"], &[&[3, 4], &[2, 4]], &[]),
        one("nd,de->ne", &["a", "v"], &[&[3]], &[&[3, 4]]),
        one("ed,nd->ne", &["v", "a"], &[&[3]], &[&[4, 3]]),
        one("nd , de", &["a", "v"], &[&[3]], &[&[3, 4]]),
        one("bsd,dhe->bshe", &["a", "v"], &[&[2, 3]], &[&[3, 2, 4]]),
        one("bshd,hde->bse", &["a", "v"], &[&[3, 2, 4]], &[&[2, 4, 5]]),
        one("bshd,hde->bshe", &["a", "v"], &[&[3, 2, 4]], &[&[2, 4, 5]]),
        one("bhd,hde->bhe", &["a", "v"], &[&[2, 4]], &[&[2, 4, 5]]),
        transposed("bhd,hde->ehb", &["a", "v"], &[&[2, 4]], &[&[2, 4, 5]], &[2, 1, 0]),
        one("...d,de->...e", &["a", "v"], &[&[2, 3]], &[&[3, 4]]),
        one("b...ij,b...jk->b...ik", &["a", "b"], &[&[2, 3, 4], &[1, 4, 5]], &[]),
        one("bi,i->bi", &["a", "v"], &[&[3]], &[&[3]]),
        one("bij,j->bi", &["a", "v"], &[&[2, 3]], &[&[3]]),
        one("bij->bji", &["a"], &[&[2, 3]], &[]),
        one("bij->bj", &["a"], &[&[2, 3]], &[]),
        one("bij,bkl->bil", &["a", "b"], &[&[2, 3], &[4, 2]], &[]),
        one("bi,bi,bj->bj", &["a", "b", "a"], &[&[3], &[3]], &[]),
        one("bi,ir,rj->bj", &["a", "v", "w"], &[&[3]], &[&[3, 2], &[2, 4]]),
        one("ir,rj,bi->bj", &["v", "w", "a"], &[&[3]], &[&[3, 2], &[2, 4]]),
    ]
}

fn spatial() -> Vec<Rewritten> {
    let plane = |opset| Sketch::new(opset).activation("a", &[2, 3, 4]);
    let transposed = |name: &str, attributes: Vec<AttributeProto>| {
        let kernel = Sketch::new(17).activation("a", &[2, 3, 4]).weight("w", &[2, 3, 3, 3]);
        kernel.node("ConvTranspose", &["a", "w"], "y", attributes).end(name)
    };
    let strides = || make_attr_ints("strides", &[2, 2]);
    let local = |size| vec![make_attr_int("size", size), make_attr_float("alpha", 0.5), make_attr_float("beta", 0.6)];
    let pool = |op: &str, kernel: &[i64], steps: &[i64], pads: &[i64]| {
        let attributes = vec![
            make_attr_ints("kernel_shape", kernel),
            make_attr_ints("strides", steps),
            make_attr_ints("pads", pads),
            make_attr_int("ceil_mode", 1),
        ];
        let name = format!("{op} {kernel:?}: no window that begins in the end padding or behind it");
        plane(17).node(op, &["a"], "y", attributes).end(&name)
    };
    vec![
        pool("MaxPool", &[2, 2], &[2, 3], &[1, 1, 1, 1]),
        pool("AveragePool", &[2, 3], &[2, 2], &[1, 0, 1, 1]),
        pool("MaxPool", &[1, 1], &[2, 2], &[0, 0, 0, 0]),
        pool("AveragePool", &[2, 1], &[2, 2], &[0, 0, 0, 0]),
        Sketch::new(17).activation("a", &[5, 2, 2]).node("LRN", &["a"], "y", local(3)).end("LRN: of three channels"),
        Sketch::new(17)
            .activation("a", &[3, 2, 1])
            .node("LRN", &["a"], "y", local(5))
            .end("LRN: of more than there are"),
        Sketch::new(17)
            .activation("a", &[2])
            .weight("v", &[3])
            .weight("w", &[3])
            .node("MatMul", &["v", "w"], "h", vec![])
            .node("Mul", &["a", "h"], "y", vec![])
            .end("MatMul: of two vectors"),
        transposed("ConvTranspose: same upper", vec![strides(), make_attr_string("auto_pad", "SAME_UPPER")]),
        transposed("ConvTranspose: same lower", vec![strides(), make_attr_string("auto_pad", "SAME_LOWER")]),
        transposed("ConvTranspose: valid", vec![strides(), make_attr_string("auto_pad", "VALID")]),
        transposed("ConvTranspose: an output shape", vec![strides(), make_attr_ints("output_shape", &[6, 8])]),
        plane(18)
            .ints("pads", &[1, 2])
            .ints("axes", &[-1])
            .node("Pad", &["a", "pads", "", "axes"], "y", vec![make_attr_string("mode", "reflect")])
            .end("Pad: of one axis"),
        plane(17)
            .floats("none", &[])
            .ints("two", &[5, 6])
            .ints("start", &[0])
            .ints("end", &[2])
            .node("Shape", &["a"], "shape", vec![])
            .node("Slice", &["shape", "start", "end"], "lead", vec![])
            .node("Concat", &["lead", "two"], "sizes", vec![make_attr_int("axis", 0)])
            .node("Resize", &["a", "none", "none", "sizes"], "y", vec![make_attr_string("mode", "linear")])
            .end("Resize: to sizes"),
        plane(18)
            .ints("sizes", &[5, 6])
            .node(
                "Resize",
                &["a", "", "", "sizes"],
                "y",
                vec![
                    make_attr_ints("axes", &[2, 3]),
                    make_attr_string("coordinate_transformation_mode", "align_corners"),
                    make_attr_string("mode", "linear"),
                ],
            )
            .end("Resize: of two axes"),
        plane(17)
            .floats("scales", &[1.0, 1.0, 1.5, 1.8])
            .node(
                "Resize",
                &["a", "", "scales"],
                "y",
                vec![
                    make_attr_string("coordinate_transformation_mode", "asymmetric"),
                    make_attr_string("nearest_mode", "floor"),
                ],
            )
            .end("Resize: by scales"),
    ]
}

/// Recurrent layers over four steps of three features, with two features of state.
fn recurrent() -> Vec<Rewritten> {
    let layer = |gates: usize, direction: &str, biased: bool, more: Vec<AttributeProto>| {
        let directions = if direction == "bidirectional" { 2 } else { 1 };
        let sketch = Sketch::new(17)
            .activation("a", &[4, 3])
            .weight("w", &[directions, gates * 2, 3])
            .weight("r", &[directions, gates * 2, 2])
            .node("Transpose", &["a"], "x", vec![make_attr_ints("perm", &[1, 0, 2])]);
        let sketch = if biased { sketch.weight("b", &[directions, gates * 4]) } else { sketch };
        let attributes =
            [vec![make_attr_int("hidden_size", 2), make_attr_string("direction", direction)], more].concat();
        (sketch, attributes)
    };
    // All states of the sequence.
    let whole = |op: &str, gates, direction: &str, biased, more: Vec<AttributeProto>, name: &str| {
        let (sketch, attributes) = layer(gates, direction, biased, more);
        let inputs: &[&str] = if biased { &["x", "w", "r", "b"] } else { &["x", "w", "r"] };
        sketch
            .node_of(op, inputs, &["h"], attributes)
            .node("Transpose", &["h"], "y", vec![make_attr_ints("perm", &[2, 0, 1, 3])])
            .end(&format!("{op}: {name}"))
    };
    // State in `output` after the last step, from an initial state that is trained or data.
    let last = |op: &str, gates, outputs: &[&str], direction: &str, more: Vec<AttributeProto>, name: &str| {
        let (sketch, attributes) = layer(gates, direction, true, more);
        let states = if direction == "bidirectional" { 2 } else { 1 };
        let sketch = sketch.activation("s", &[states, 2]).node(
            "Transpose",
            &["s"],
            "start",
            vec![make_attr_ints("perm", &[1, 0, 2])],
        );
        let cell: &[&str] = if op == "LSTM" { &["start"] } else { &[] };
        let inputs = [&["x", "w", "r", "b", "", "start"], cell].concat();
        sketch
            .node_of(op, &inputs, outputs, attributes)
            .node("Transpose", &["l"], "y", vec![make_attr_ints("perm", &[1, 0, 2])])
            .end(&format!("{op}: {name}"))
    };
    let before_reset = || vec![make_attr_int("linear_before_reset", 1)];
    let relu = || vec![make_attr_strings("activations", &["Relu"])];
    vec![
        whole("LSTM", 4, "forward", true, vec![], "all states"),
        whole("LSTM", 4, "reverse", false, vec![], "reverse, no bias"),
        whole("LSTM", 4, "bidirectional", true, vec![], "both directions"),
        last("LSTM", 4, &["", "l"], "forward", vec![], "last state, from a first one"),
        last("LSTM", 4, &["", "", "l"], "bidirectional", vec![], "last cells of both directions"),
        whole("GRU", 3, "forward", true, vec![], "reset before the product"),
        whole("GRU", 3, "forward", true, before_reset(), "reset after the product"),
        whole("GRU", 3, "bidirectional", false, before_reset(), "both directions, no bias"),
        last("GRU", 3, &["", "l"], "reverse", before_reset(), "last state of the reverse, from a first one"),
        last("GRU", 3, &["", "l"], "forward", vec![], "last state, from a first one"),
        whole("RNN", 1, "forward", true, vec![], "tanh"),
        last("RNN", 1, &["", "l"], "forward", relu(), "relu, last state"),
    ]
}
