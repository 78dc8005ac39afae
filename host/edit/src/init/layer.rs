//! Role of an initializer in its layer: the default initialisation scheme, and the fans of its weight.
//!
//! The role is derived from the exported model before any operator needs a rule. The search for the reader passes
//! through nodes that only reshape. After `Identity` and `Transpose`, the layout is also known:
//!
//! | weight | layout | fan_in, fan_out |
//! | --- | --- | --- |
//! | Conv | `[out, in/groups, *kernel]` | in/groups · kernel, out · kernel |
//! | ConvTranspose | `[in, out/groups, *kernel]` | as in PyTorch, out/groups · kernel, in · kernel |
//! | Gemm, MatMul on the right | `[…, in, out]`; Gemm with transB `[out, in]` | in, out |
//! | Gemm, MatMul on the left | `[…, out, in]`; Gemm with transA `[in, out]` | in, out |
//! | anything else of rank 2 or more | assumed as `[out, in, *rest]`, as in PyTorch | in · rest, out · rest |
//!
//! A bias has the fans of its layer's weight.

use super::recurrent::{Cells, hidden_of_cell, hidden_of_operator, initialiser};
use super::spec::{Distribution, Fans, Initialiser};
use damper_onnx::pb::{GraphProto, NodeProto};
use damper_onnx::{attr_int, attr_ints, node_name, split_name};
use std::collections::HashMap;

/// Common standard deviation of learned positions and class tokens.
const TOKENS: Initialiser = Initialiser::Plain(Distribution::Normal { mean: 0.0, std: 0.02 });
/// Default of PyTorch's embeddings.
const EMBEDDING: Initialiser = Initialiser::Plain(Distribution::Normal { mean: 0.0, std: 1.0 });
/// Default of PyTorch's PReLU.
const SLOPE: Initialiser = Initialiser::Plain(Distribution::Constant(0.25));

/// Role of an initializer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct LayerRole {
    /// Description.
    pub role: &'static str,
    /// Default scheme for its role. `None` if values should stay unchanged.
    pub usual: Option<Initialiser>,
    /// Fans of the weight, or for a bias those of its layer's weight.
    pub fans: Option<Fans>,
}

impl LayerRole {
    /// Returns the inputs of one output of the layer, if the parameter of shape `shape` is its weight, else 0.
    pub fn fan_in(&self, shape: &[usize]) -> usize {
        match (self.role, shape) {
            ("embedding", _) => 1,
            // The operators take `[directions, gates * hidden, inputs]`.
            ("recurrent weight", &[_, _, inputs]) => inputs,
            ("weight" | "recurrent weight", _) | ("operand", [_, _, ..]) => self.fans.map_or(1, |fans| fans.fan_in),
            _ => 0,
        }
    }
}

/// Readers and producers of a graph.
pub(super) struct Layers<'a> {
    graph: &'a GraphProto,
    shapes: HashMap<&'a str, Vec<usize>>,
    readers: HashMap<&'a str, Vec<(usize, usize)>>,
    producer: HashMap<&'a str, usize>,
}

impl<'a> Layers<'a> {
    pub fn of(graph: &'a GraphProto) -> Self {
        let shape = |dims: &[i64]| dims.iter().map(|&d| usize::try_from(d).unwrap_or(0)).collect();
        let mut readers: HashMap<&str, Vec<(usize, usize)>> = HashMap::new();
        for (index, node) in graph.node.iter().enumerate() {
            for (slot, name) in node.input.iter().enumerate() {
                readers.entry(name).or_default().push((index, slot));
            }
        }
        let outputs =
            |(index, node): (usize, &'a NodeProto)| node.output.iter().map(move |name| (name.as_str(), index));
        Self {
            graph,
            shapes: graph.initializer.iter().map(|t| (t.name.as_str(), shape(&t.dims))).collect(),
            readers,
            producer: graph.node.iter().enumerate().flat_map(outputs).collect(),
        }
    }

    /// Role of the parameter `name` of shape `shape`: an initializer, an alias, or a parameter split off for one node.
    pub fn place(&self, name: &str, shape: &[usize]) -> LayerRole {
        let fallback = torch_fans(shape);
        let first = self.readers.get(name).and_then(|readers| readers.first()).copied();
        let Some(first) = first.or_else(|| self.split(name)) else {
            return LayerRole { role: "operand", usual: None, fans: fallback };
        };
        let (node, slot, seen) = self.end(first, shape);
        let reader = &self.graph.node[node];
        let fans = seen.as_deref().and_then(|shape| fans(reader, slot, shape)).or(fallback);
        let place = |role, usual: Initialiser| LayerRole { role, usual: Some(usual), fans };
        let bias_of = |fans| LayerRole { role: "bias", usual: Some(Initialiser::LAYER), fans: Some(fans) };
        let is_vector = shape.iter().filter(|&&extent| extent != 1).count() <= 1;
        // Checks every reader because an exporter may have folded a part of an unrolled layer's first step.
        let ends = self.readers.get(name).into_iter().flatten().map(|at| self.end(*at, shape));
        let recurrent = ends.map(|(node, slot, _)| (node, slot)).chain([(node, slot)]);
        if let Some((role, hidden)) = recurrent.filter_map(|(node, slot)| self.recurrent(node, slot)).next() {
            return place(role, initialiser(hidden));
        }
        match (reader.op_type.as_str(), slot) {
            // A tensor that is multiplied by a weight, such as a learned query or initial state, is not a weight.
            ("Gemm" | "MatMul", 0) if self.is_operand(node) => LayerRole { role: "operand", usual: None, fans },
            ("Conv" | "ConvTranspose" | "Gemm", 0 | 1) | ("MatMul", _) => place("weight", Initialiser::LAYER),
            ("Conv" | "ConvTranspose" | "Gemm", 2) => match self.weight_fans(node) {
                Some(fans) => bias_of(fans),
                None => place("bias", Initialiser::ZEROS),
            },
            (op, 1) if op.ends_with("Normalization") => place("scale of a normalisation", Initialiser::ONES),
            (op, 2) if op.ends_with("Normalization") => place("bias of a normalisation", Initialiser::ZEROS),
            ("Gather", 0) => place("embedding", EMBEDDING),
            ("PRelu", 1) => place("slope", SLOPE),
            ("Mul", _) if is_vector && !shape.is_empty() => place("scale", Initialiser::ONES),
            ("Add" | "Sub", slot) => {
                let other = reader.input.get(1 - slot.min(1)).and_then(|name| self.producer.get(name.as_str()));
                match other.and_then(|&layer| self.weight_fans(layer)) {
                    Some(fans) => bias_of(fans),
                    None if is_vector && !shape.is_empty() => place("bias", Initialiser::ZEROS),
                    None if shape.is_empty() => LayerRole { role: "scalar", usual: None, fans },
                    None => place("positions", TOKENS),
                }
            }
            ("Concat", _) if self.is_token(shape) => place("token", TOKENS),
            _ => LayerRole { role: "operand", usual: None, fans },
        }
    }

    /// Returns true if the first input of the product `node` is not a weight because the second input is.
    fn is_operand(&self, node: usize) -> bool {
        self.graph.node[node].input.get(1).is_some_and(|name| self.origin(name).is_some())
    }

    /// Role and hidden size of input `slot` of `node`, if it is part of a recurrent layer.
    fn recurrent(&self, node: usize, slot: usize) -> Option<(&'static str, usize)> {
        let reader = &self.graph.node[node];
        if let Some(hidden) = hidden_of_operator(reader, slot) {
            return Some((if slot == 3 { "recurrent bias" } else { "recurrent weight" }, hidden));
        }
        match (reader.op_type.as_str(), slot) {
            ("Gemm" | "MatMul", 0) if self.is_operand(node) => None,
            ("Gemm" | "MatMul", 0 | 1) => Some(("recurrent weight", hidden_of_cell(self, node)?)),
            ("Gemm", 2) => Some(("recurrent bias", hidden_of_cell(self, node)?)),
            ("Add", slot) => {
                let layer = self.producer_of(reader.input.get(1 - slot.min(1))?)?;
                self.product(layer)?;
                Some(("recurrent bias", hidden_of_cell(self, layer)?))
            }
            _ => None,
        }
    }

    /// Returns true if a tensor of this shape, which is concatenated with data, is a few tokens: `[1, tokens, width]`.
    fn is_token(&self, shape: &[usize]) -> bool {
        matches!(*shape, [1, .., _]) || shape.len() == 1
    }

    /// Returns true if `node` does not depend on data.
    fn is_packing(&self, node: usize) -> bool {
        let (mut seen, mut open) = (std::collections::HashSet::from([node]), vec![node]);
        while let Some(at) = open.pop() {
            for name in self.graph.node[at].input.iter().filter(|name| !name.is_empty()) {
                match self.producer_of(name) {
                    Some(before) if seen.insert(before) => open.push(before),
                    Some(_) => {}
                    None if self.shapes.contains_key(name.as_str()) => {}
                    None => return false,
                }
            }
        }
        true
    }

    /// Initializer that `name` is, or of which it is a transpose.
    fn root(&self, mut name: &'a str) -> Option<&'a str> {
        for _ in 0..=self.graph.node.len() {
            if let Some((known, _)) = self.shapes.get_key_value(name) {
                return Some(known);
            }
            name = self.graph.node[self.producer_of(name)?].input.first()?;
        }
        None
    }

    /// Read of the parameter `name`, which an exporter merged into another.
    fn split(&self, name: &str) -> Option<(usize, usize)> {
        let mut nodes = self.graph.node.iter().enumerate();
        nodes.find_map(|(index, node)| {
            let called = node_name(node, index);
            let slot = node.input.iter().position(|input| split_name(input, &called) == name)?;
            Some((index, slot))
        })
    }

    /// Final node and input slot of a read, after nodes that only reshape, and the shape there, if it is known.
    fn end(&self, (mut node, mut slot): (usize, usize), shape: &[usize]) -> (usize, usize, Option<Vec<usize>>) {
        let mut shape = Some(shape.to_vec());
        // The number of nodes bounds the length of a chain.
        for _ in 0..self.graph.node.len() {
            let at = &self.graph.node[node];
            let Some(&next) = at.output.first().and_then(|name| self.readers.get(name.as_str())?.first()) else {
                break;
            };
            shape = match (at.op_type.as_str(), slot) {
                ("Identity" | "Cast" | "CastLike", 0) => shape,
                ("Transpose", 0) => shape.and_then(|shape| transposed(at, &shape)),
                ("Reshape" | "Slice" | "Squeeze" | "Unsqueeze" | "Flatten" | "Expand" | "Split", 0) => None,
                ("Concat", _) if self.is_packing(node) => None,
                _ => break,
            };
            (node, slot) = next;
        }
        (node, slot, shape)
    }

    /// Fans of the weight of layer `node`, if it has a weight.
    fn weight_fans(&self, node: usize) -> Option<Fans> {
        let layer = &self.graph.node[node];
        let slots: &[usize] = if layer.op_type == "MatMul" || layer.op_type == "Gemm" { &[1, 0] } else { &[1] };
        slots.iter().find_map(|&slot| fans(layer, slot, &self.origin(layer.input.get(slot)?)?))
    }

    /// Shape of a value that is an initializer, or its transpose.
    fn origin(&self, name: &str) -> Option<Vec<usize>> {
        let mut transposes: Vec<&NodeProto> = Vec::new();
        let mut at = name;
        for _ in 0..=self.graph.node.len() {
            if let Some(shape) = self.shapes.get(at) {
                return transposes.iter().rev().try_fold(shape.clone(), |shape, &node| transposed(node, &shape));
            }
            let node = &self.graph.node[*self.producer.get(at)?];
            match node.op_type.as_str() {
                "Identity" | "Cast" | "CastLike" => {}
                "Transpose" => transposes.push(node),
                _ => return None,
            }
            at = node.input.first()?;
        }
        None
    }
}

/// Shape after a `Transpose`.
fn transposed(node: &NodeProto, shape: &[usize]) -> Option<Vec<usize>> {
    match attr_ints(&node.attribute, "perm") {
        None => Some(shape.iter().rev().copied().collect()),
        Some(perm) if perm.len() == shape.len() => {
            perm.iter().map(|&axis| shape.get(usize::try_from(axis).ok()?).copied()).collect()
        }
        Some(_) => None,
    }
}

/// Fans of a weight of this shape as input `slot` of `node`. `None` if it is not a weight there.
fn fans(node: &NodeProto, slot: usize, shape: &[usize]) -> Option<Fans> {
    let is = |name| attr_int(&node.attribute, name, 0) != 0;
    let input_first = match (node.op_type.as_str(), slot) {
        ("Conv" | "ConvTranspose", 1) => return torch_fans(shape),
        ("MatMul", slot) => slot == 1,
        ("Gemm", 0) => is("transA"),
        ("Gemm", 1) => !is("transB"),
        _ => return None,
    };
    let (first, second) = match *shape {
        [.., first, second] => (first, second),
        // A vector is contracted.
        [length] if input_first => (length, 1),
        [length] => (1, length),
        [] => return None,
    };
    let (fan_in, fan_out) = if input_first { (first, second) } else { (second, first) };
    some(fan_in, fan_out)
}

/// Fans for the layout `[out, in, *rest]`.
fn torch_fans(shape: &[usize]) -> Option<Fans> {
    let [out, inputs, rest @ ..] = shape else { return None };
    let rest = rest.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent))?;
    some(inputs.checked_mul(rest)?, out.checked_mul(rest)?)
}

fn some(fan_in: usize, fan_out: usize) -> Option<Fans> {
    (fan_in > 0 && fan_out > 0).then_some(Fans { fan_in, fan_out })
}

impl Cells for Layers<'_> {
    fn node(&self, index: usize) -> &NodeProto {
        &self.graph.node[index]
    }

    fn producer_of(&self, name: &str) -> Option<usize> {
        self.producer.get(name).copied()
    }

    fn readers_of(&self, index: usize) -> Vec<usize> {
        let outputs = self.graph.node[index].output.iter().filter_map(|name| self.readers.get(name.as_str()));
        outputs.flatten().map(|(reader, _)| *reader).collect()
    }

    fn product(&self, index: usize) -> Option<(&str, Fans)> {
        let layer = &self.graph.node[index];
        let is_product = matches!(layer.op_type.as_str(), "MatMul" | "Gemm");
        [1, 0].into_iter().filter(|_| is_product).find_map(|slot| {
            let name = layer.input.get(slot)?;
            Some((self.root(name)?, fans(layer, slot, &self.origin(name)?)?))
        })
    }

    fn products_with(&self, name: &str) -> Vec<usize> {
        (0..self.graph.node.len()).filter(|&at| self.product(at).is_some_and(|(weight, _)| weight == name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_onnx::{make_attr_int, make_attr_ints, make_node, make_tensor_f32};

    /// Roles of `w` and `b` in a graph of these nodes.
    fn places(node: Vec<NodeProto>, w: &[usize], b: &[usize]) -> [LayerRole; 2] {
        let tensor = |name, shape: &[usize]| make_tensor_f32(name, shape, &vec![0.0; shape.iter().product()]);
        let graph = GraphProto { node, initializer: vec![tensor("w", w), tensor("b", b)], ..GraphProto::default() };
        let layers = Layers::of(&graph);
        [layers.place("w", w), layers.place("b", b)]
    }

    fn node(op: &str, inputs: &[&str], output: &str) -> NodeProto {
        make_node(op, &format!("{op}_node"), inputs, &[output], vec![])
    }

    fn with(mut node: NodeProto, name: &str) -> NodeProto {
        node.attribute.push(make_attr_int(name, 1));
        node
    }

    // Fans depend on the layout of the weight. A bias has the fans of its layer.
    #[test]
    fn fans_follow_weight_layout() {
        let expect = |nodes: Vec<NodeProto>, w: &[usize], fan_in, fan_out| {
            for place in places(nodes, w, &[5]) {
                assert_eq!(place.fans, Some(Fans { fan_in, fan_out }), "{w:?}: {place:?}");
                assert_eq!(place.usual, Some(Initialiser::LAYER), "{w:?}: {place:?}");
            }
        };
        expect(vec![node("Conv", &["x", "w", "b"], "y")], &[5, 4, 3, 2], 24, 30);
        expect(vec![node("ConvTranspose", &["x", "w", "b"], "y")], &[5, 4, 3, 2], 24, 30);
        expect(vec![node("Gemm", &["x", "w", "b"], "y")], &[7, 5], 7, 5);
        expect(vec![with(node("Gemm", &["x", "w", "b"], "y"), "transB")], &[5, 7], 7, 5);
        expect(vec![node("Gemm", &["w", "x", "b"], "y")], &[5, 7], 7, 5);
        expect(vec![with(node("Gemm", &["w", "x", "b"], "y"), "transA")], &[7, 5], 7, 5);
        expect(vec![node("MatMul", &["x", "w"], "h"), node("Add", &["h", "b"], "y")], &[7, 5], 7, 5);
        expect(vec![node("MatMul", &["x", "w"], "h"), node("Add", &["b", "h"], "y")], &[2, 7, 5], 7, 5);
        expect(vec![node("MatMul", &["w", "x"], "h"), node("Add", &["b", "h"], "y")], &[5, 7], 7, 5);
        let transpose = |perm: &[i64]| {
            let perm = vec![make_attr_ints("perm", perm)];
            make_node("Transpose", "t", &["w"], &["v"], perm)
        };
        let layer = || [node("MatMul", &["x", "v"], "h"), node("Add", &["h", "b"], "y")];
        expect([transpose(&[1, 0])].into_iter().chain(layer()).collect(), &[5, 7], 7, 5);
        expect([transpose(&[0, 2, 1])].into_iter().chain(layer()).collect(), &[2, 5, 7], 7, 5);
        expect([node("Transpose", &["w"], "v")].into_iter().chain(layer()).collect(), &[5, 7], 7, 5);
        expect([node("Identity", &["w"], "v")].into_iter().chain(layer()).collect(), &[7, 5], 7, 5);
    }

    #[test]
    fn a_role_has_its_usual_initialiser() {
        let of = |nodes, w: &[usize], b: &[usize]| places(nodes, w, b).map(|place| place.usual);
        let (ones, zeros) = (Some(Initialiser::ONES), Some(Initialiser::ZEROS));
        assert_eq!(of(vec![node("LayerNormalization", &["x", "w", "b"], "y")], &[4], &[4]), [ones, zeros]);
        assert_eq!(of(vec![node("GroupNormalization", &["x", "w", "b"], "y")], &[4], &[4]), [ones, zeros]);
        // GroupNorm that an exporter decomposed.
        let apart = vec![node("Mul", &["x", "w"], "h"), node("Add", &["h", "b"], "y")];
        assert_eq!(of(apart, &[4, 1, 1], &[4, 1, 1]), [ones, zeros]);
        let embedded = vec![node("Gather", &["w", "ids"], "h"), node("Add", &["h", "b"], "y")];
        assert_eq!(of(embedded, &[9, 4], &[1, 6, 4]), [Some(EMBEDDING), Some(TOKENS)]);
        let token =
            vec![node("Expand", &["w", "s"], "t"), node("Concat", &["t", "x"], "h"), node("PRelu", &["h", "b"], "y")];
        assert_eq!(of(token, &[1, 1, 4], &[1]), [Some(TOKENS), Some(SLOPE)]);
        // Scalars and tensors without a known role keep their values.
        assert_eq!(
            of(vec![node("Mul", &["x", "w"], "h"), node("Einsum", &["h", "b"], "y")], &[], &[3, 4]),
            [None, None]
        );
        assert_eq!(of(vec![], &[3], &[3, 4]), [None, None]);
    }

    // PyTorch draws all parameters of a recurrent layer within ±1/√hidden, for any number of inputs.
    #[test]
    fn recurrent_weights_follow_hidden_size() {
        let within = |hidden: usize| Some(initialiser(hidden));
        // Packed for the operator by Slice, Concat and Unsqueeze, as exporters write it.
        let lstm = make_node("LSTM", "l", &["x", "v", "r", "b"], &["y"], vec![make_attr_int("hidden_size", 16)]);
        let packed = vec![
            node("Slice", &["w", "s", "e"], "i"),
            node("Concat", &["i", "i"], "c"),
            node("Unsqueeze", &["c", "a"], "v"),
            lstm,
        ];
        let tensor = |name, shape: &[usize]| make_tensor_f32(name, shape, &vec![0.0; shape.iter().product()]);
        let initializer = vec![tensor("w", &[64, 4]), tensor("b", &[1, 128]), tensor("s", &[1]), tensor("e", &[1])];
        let initializer = [initializer, vec![tensor("a", &[1])]].concat();
        let graph = GraphProto { node: packed, initializer, ..GraphProto::default() };
        let layers = Layers::of(&graph);
        assert_eq!(layers.place("w", &[64, 4]).usual, within(16));
        assert_eq!(layers.place("b", &[1, 128]).usual, within(16));

        // Two steps of an unrolled cell with 16 units and 4 inputs, with split gates.
        let step = |x: &str, h: &str, out: &str| {
            let at = |name: &str| format!("{name}{out}");
            let named = |op: &str, inputs: &[&str], output: &str| {
                make_node(op, &format!("{op}{output}"), inputs, &[output], vec![])
            };
            vec![
                with(named("Gemm", &[x, "w", "b"], &at("i")), "transB"),
                with(named("Gemm", &[h, "u", "c"], &at("r")), "transB"),
                named("Split", &[&at("i")], &at("is")),
                named("Split", &[&at("r")], &at("rs")),
                named("Add", &[&at("is"), &at("rs")], &at("g")),
                named("Sigmoid", &[&at("g")], out),
            ]
        };
        let both = [step("x0", "h0", "h1"), step("x1", "h1", "h2")].concat();
        let initializer = vec![
            tensor("w", &[64, 4]),
            tensor("u", &[64, 16]),
            tensor("b", &[64]),
            tensor("c", &[64]),
            tensor("h0", &[1, 16]),
        ];
        let graph = GraphProto { node: both, initializer, ..GraphProto::default() };
        let layers = Layers::of(&graph);
        for (name, shape) in [("w", &[64, 4][..]), ("u", &[64, 16]), ("b", &[64]), ("c", &[64])] {
            assert_eq!(layers.place(name, shape).usual, within(16), "{name}");
        }
        assert_eq!(layers.place("h0", &[1, 16]).usual, None, "a first state keeps its values");
    }

    // A branch that is added to layers with shared weights is a separate layer.
    #[test]
    fn shared_layers_are_not_recurrent() {
        let tied = vec![
            node("MatMul", &["x", "w"], "e"),
            make_node("MatMul", "m1", &["e", "b"], &["f"], vec![]),
            make_node("Add", "a1", &["e", "f"], &["g"], vec![]),
            make_node("LayerNormalization", "n", &["g", "s"], &["h"], vec![]),
            make_node("MatMul", "m2", &["h", "b"], &["y"], vec![]),
        ];
        assert_eq!(places(tied, &[4, 16], &[16, 16]).map(|place| place.usual), [Some(Initialiser::LAYER); 2]);
    }

    // The fans of a reshaped weight are those of PyTorch.
    #[test]
    fn reshaped_weight_counts_as_in_pytorch() {
        let reshaped = || vec![node("Reshape", &["w", "s"], "v"), node("MatMul", &["x", "v"], "y")];
        assert_eq!(places(reshaped(), &[5, 4, 3], &[])[0].fans, Some(Fans { fan_in: 12, fan_out: 15 }));
        assert_eq!(places(reshaped(), &[5], &[])[0].fans, None);
        assert_eq!(places(reshaped(), &[5, 0], &[])[0].fans, None);
    }

    // Counted by hand: inputs of one output.
    #[test]
    fn layers_have_their_inputs() {
        let inputs = |nodes: Vec<NodeProto>, w: &[usize], b: &[usize]| {
            let [of_w, of_b] = places(nodes, w, b);
            (of_w.fan_in(w), of_b.fan_in(b))
        };
        assert_eq!(inputs(vec![with(node("Gemm", &["x", "w", "b"], "y"), "transB")], &[5, 7], &[5]), (7, 0));
        assert_eq!(inputs(vec![node("Gemm", &["x", "w", "b"], "y")], &[7, 5], &[5]), (7, 0));
        assert_eq!(
            inputs(vec![node("MatMul", &["x", "w"], "h"), node("Add", &["h", "b"], "y")], &[7, 5], &[5]),
            (7, 0)
        );
        assert_eq!(inputs(vec![node("Conv", &["x", "w", "b"], "y")], &[8, 3, 5, 5], &[8]), (75, 0));
        assert_eq!(inputs(vec![node("Gather", &["w", "ids"], "y")], &[1000, 16], &[1]).0, 1);
        assert_eq!(inputs(vec![node("LayerNormalization", &["x", "w", "b"], "y")], &[16], &[16]), (0, 0));
        let lstm = with(node("LSTM", &["x", "w", "b"], "y"), "hidden_size");
        assert_eq!(inputs(vec![lstm], &[1, 64, 7], &[1, 64, 16]), (7, 16));
    }

    // A parameter that was split off for a node has the role of that node.
    #[test]
    fn split_parameter_has_role_of_its_node() {
        let nodes = vec![node("Conv", &["x", "c", "w"], "h"), node("LayerNormalization", &["h", "w", "b"], "y")];
        let tensor = |name| make_tensor_f32(name, &[4], &[0.0; 4]);
        let graph = GraphProto { node: nodes, initializer: vec![tensor("w"), tensor("b")], ..GraphProto::default() };
        let place = Layers::of(&graph).place("w::LayerNormalization_node", &[4]);
        assert_eq!(place.usual, Some(Initialiser::ONES));
    }

    #[test]
    fn a_cycle_ends() {
        let nodes =
            vec![node("Transpose", &["w"], "v"), node("Identity", &["u"], "u"), node("MatMul", &["u", "b"], "v")];
        let [weight, _] = places(nodes, &[2, 3], &[2]);
        assert_eq!(weight.role, "operand");
        let nodes =
            vec![node("MatMul", &["x", "u"], "h"), node("Identity", &["u"], "u"), node("Add", &["h", "b"], "y")];
        assert_eq!(places(nodes, &[2, 3], &[2])[1].usual, Some(Initialiser::ZEROS));
    }
}
