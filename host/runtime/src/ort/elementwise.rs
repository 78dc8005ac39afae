//! Functions of one element that a graph writes in several nodes (a Gelu of either kind, the slope of it), in one pass over memory: all
//! of a chain is done for a few hundred elements at a time, which stay in the first cache.
//!
//! A chain starts at a tensor and holds the nodes that read nothing else than that tensor, constants of one entry, and each other, so all
//! of its tensors have one shape. Its bits are an element's own: [`elements`](super::elements).

use super::elements;
use super::graph_index::{Fusion, GraphIndex};
use super::operator::{Arity, Attributes, Kernel, Operator, node};
use damper_onnx::{make_attr_ints, pb};
use pulp::{Arch, Simd, WithSimd};
use std::collections::HashMap;

const NAME: &str = "Elementwise";

/// Elements that are worked on at a time.
const BLOCK: usize = 512;

/// What it can do; the first four are of two operands.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Function {
    Add,
    Sub,
    Mul,
    Div,
    Neg,
    Abs,
    Sqrt,
    Reciprocal,
    Exp,
    Tanh,
    Erf,
    Sigmoid,
}
use Function::{Abs, Add, Div, Erf, Exp, Mul, Neg, Reciprocal, Sigmoid, Sqrt, Sub, Tanh};

/// The functions by the standard operators' names. Programs hold their places here.
const FUNCTIONS: [(&str, Function); 12] = [
    ("Add", Add),
    ("Sub", Sub),
    ("Mul", Mul),
    ("Div", Div),
    ("Neg", Neg),
    ("Abs", Abs),
    ("Sqrt", Sqrt),
    ("Reciprocal", Reciprocal),
    ("Exp", Exp),
    ("Tanh", Tanh),
    ("Erf", Erf),
    ("Sigmoid", Sigmoid),
];
const BINARY: usize = 4;

/// What marks the end of the forward pass: a chain is not done earlier than it is read.
const LOSS: &str = "dp.loss";

/// Where the operator can stand: for chains of at least two nodes.
pub(super) fn places(graph: &pb::GraphProto, graph_index: &GraphIndex<'_>, taken: &[usize]) -> Vec<Fusion> {
    let makes = |name: &str| graph.node.iter().position(|node| node.output.iter().any(|output| output == name));
    let forward = makes(LOSS).unwrap_or(graph.node.len());
    // For each tensor of a chain where that starts; for each chain its nodes, and whether a constant shows that they are of floats.
    let mut starts: HashMap<&str, &str> = HashMap::new();
    let mut chains: Vec<(&str, bool, Vec<usize>, bool)> = vec![];
    for (index, node) in graph.node.iter().enumerate() {
        let is_one = node.domain.is_empty() && place_of(&node.op_type).is_some() && node.output.len() == 1;
        if !is_one || taken.contains(&index) {
            continue;
        }
        let (constants, tensors): (Vec<&str>, Vec<&str>) =
            node.input.iter().map(String::as_str).partition(|name| graph_index.point(name).is_some());
        let mut of = tensors.iter().map(|name| starts.get(name).unwrap_or(name));
        let Some(&start) = of.next() else { continue };
        if of.any(|other| *other != start) {
            continue;
        }
        starts.insert(&node.output[0], start);
        let is_forward = index < forward;
        match chains.iter_mut().find(|chain| (chain.0, chain.1) == (start, is_forward)) {
            Some((.., nodes, is_float)) => {
                nodes.push(index);
                *is_float |= !constants.is_empty();
            }
            None => chains.push((start, is_forward, vec![index], !constants.is_empty())),
        }
    }
    let chains = chains.into_iter().filter(|(.., nodes, is_float)| *is_float && nodes.len() > 1);
    let places = chains.filter_map(|(.., nodes, _)| place(graph, graph_index, nodes));
    // A Gelu by erf of which nothing else is read is an operator of onnxruntime's, which does it in place.
    let is_theirs = |place: &Fusion| {
        place.operator.output.len() == 1 && place.nodes.iter().any(|&index| graph.node[index].op_type == "Erf")
    };
    places.filter(|place| !is_theirs(place)).collect()
}

/// Where a standard operator is in [`FUNCTIONS`].
fn place_of(op: &str) -> Option<usize> {
    FUNCTIONS.iter().position(|(name, _)| *name == op)
}

fn place(graph: &pb::GraphProto, graph_index: &GraphIndex<'_>, nodes: Vec<usize>) -> Option<Fusion> {
    let parts = |index: usize| {
        let node = &graph.node[index];
        let constants = node.input.iter().map(|name| graph_index.point(name));
        let mut operands: Vec<(&str, Option<f32>)> = node.input.iter().map(String::as_str).zip(constants).collect();
        // A quotient by a constant is a product with its reciprocal.
        match &mut operands[..] {
            [_, (_, Some(by))] if node.op_type == "Div" && by.recip().is_normal() => {
                *by = by.recip();
                ("Mul", operands)
            }
            _ => (node.op_type.as_str(), operands),
        }
    };
    let is_made = |name: &str| nodes.iter().any(|&index| graph_index.output(index) == name);
    let is_same = |one: f32, other: f32| one.to_bits() == other.to_bits();
    let (mut inputs, mut constants): (Vec<&str>, Vec<f32>) = (vec![], vec![]);
    for (name, constant) in nodes.iter().flat_map(|&index| parts(index).1) {
        match constant {
            Some(value) if !constants.iter().any(|other| is_same(*other, value)) => constants.push(value),
            None if !is_made(name) && !inputs.contains(&name) => inputs.push(name),
            _ => {}
        }
    }
    let operand = |(name, constant): (&str, Option<f32>)| {
        let ahead = inputs.len();
        match constant {
            Some(value) => constants.iter().position(|other| is_same(*other, value)).map(|at| ahead + at),
            None => inputs.iter().position(|input| *input == name).or_else(|| {
                let at = nodes.iter().position(|&index| graph_index.output(index) == name)?;
                Some(ahead + constants.len() + at)
            }),
        }
    };
    let mut code = vec![];
    for &index in &nodes {
        let (op, operands) = parts(index);
        let function = place_of(op)?;
        let left = operand(*operands.first()?)?;
        let right = if function < BINARY { operand(*operands.get(1)?)? } else { left };
        code.extend([function, left, right].map(|part| part as i64));
    }
    let given = (0..nodes.len()).filter(|&at| graph_index.is_read_beside(graph_index.output(nodes[at]), &nodes));
    let given: Vec<usize> = given.collect();
    let outputs: Vec<&str> = given.iter().map(|&at| graph_index.output(nodes[at])).collect();
    let attributes = vec![
        make_attr_ints("code", &code),
        make_attr_ints("constants", &constants.iter().map(|value| i64::from(value.to_bits())).collect::<Vec<_>>()),
        make_attr_ints("gives", &given.iter().map(|&at| at as i64).collect::<Vec<_>>()),
    ];
    Some(Fusion { nodes, operator: node(NAME, &inputs, &outputs, attributes) })
}

/// `(x…) → (y…)`, all of one shape, with the attributes `code` (a function and its two operands an instruction: a number of an input, a
/// constant or an earlier instruction, in this order), `constants` (bits of floats) and `gives` (the instructions whose results are
/// outputs).
pub(super) struct Elementwise;

impl Operator for Elementwise {
    type Kernel = Program;

    fn name(&self) -> &'static str {
        NAME
    }

    fn inputs(&self) -> Arity {
        Arity::Any
    }

    fn outputs(&self) -> Arity {
        Arity::Any
    }

    fn kernel(&self, attributes: &Attributes<'_>) -> Program {
        let instructions = attributes.ints("code");
        let instructions = instructions.as_chunks().0.iter();
        Program {
            code: instructions.map(|parts: &[i64; 3]| parts.map(|part| part as usize)).collect(),
            constants: attributes.ints("constants").iter().map(|&bits| f32::from_bits(bits as u32)).collect(),
            gives: attributes.ints("gives").iter().map(|&at| at as usize).collect(),
            blocks: vec![],
            vectors: Arch::new(),
        }
    }
}

/// A node's.
pub(super) struct Program {
    code: Vec<[usize; 3]>,
    constants: Vec<f32>,
    gives: Vec<usize>,
    /// The constants' and the instructions'.
    blocks: Vec<[f32; BLOCK]>,
    vectors: Arch,
}

impl Kernel for Program {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Option<Vec<i64>>>> {
        let shape = (*inputs.first()?)?;
        let operands = inputs.len() + self.constants.len();
        let is_sound = self.code.iter().enumerate().all(|(at, [function, left, right])| {
            *function < FUNCTIONS.len() && *left < operands + at && *right < operands + at
        });
        let fits = is_sound
            && self.gives.iter().all(|at| *at < self.code.len())
            && inputs.iter().all(|input| *input == Some(shape));
        self.blocks.clear();
        self.blocks.extend(self.constants.iter().map(|&value| [value; BLOCK]));
        self.blocks.resize(self.constants.len() + self.code.len(), [0.0; BLOCK]);
        fits.then(|| vec![Some(shape.to_vec()); self.gives.len()])
    }

    fn run(&mut self, inputs: &[Option<&[f32]>], outputs: &mut [Option<&mut [f32]>]) -> Option<()> {
        self.vectors.dispatch(Run {
            code: &self.code,
            constants: self.constants.len(),
            gives: &self.gives,
            blocks: &mut self.blocks,
            inputs: &inputs.iter().copied().collect::<Option<Vec<_>>>()?,
            outputs: &mut outputs.iter_mut().map(Option::as_deref_mut).collect::<Option<Vec<_>>>()?,
        });
        Some(())
    }
}

struct Run<'a, 'b> {
    code: &'a [[usize; 3]],
    constants: usize,
    gives: &'a [usize],
    blocks: &'a mut [[f32; BLOCK]],
    inputs: &'a [&'b [f32]],
    outputs: &'a mut [&'b mut [f32]],
}

impl WithSimd for Run<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let len = self.inputs[0].len();
        // The last instruction's result is read by no other, and goes where it is given.
        let direct = self.gives.last().copied().filter(|at| at + 1 == self.code.len()).unwrap_or(self.code.len());
        let mut start = 0;
        while start < len {
            let count = BLOCK.min(len - start);
            for (at, &[function, left, right]) in self.code.iter().enumerate() {
                let (before, rest) = self.blocks.split_at_mut(self.constants + at);
                let operands = [left, right].map(|operand| match self.inputs.get(operand) {
                    Some(input) => &input[start..start + count],
                    None => &before[operand - self.inputs.len()][..count],
                });
                let into = match self.outputs.last_mut().filter(|_| at == direct) {
                    Some(output) => &mut output[start..start + count],
                    None => &mut rest[0][..count],
                };
                work(function, operands, into);
            }
            for (output, at) in self.outputs.iter_mut().zip(self.gives).filter(|(_, at)| **at != direct) {
                output[start..start + count].copy_from_slice(&self.blocks[self.constants + at][..count]);
            }
            start += count;
        }
    }
}

/// One instruction.
#[inline(always)]
fn work(function: usize, [left, right]: [&[f32]; 2], into: &mut [f32]) {
    macro_rules! each {
        ($left:ident, $right:ident, $value:expr) => {
            for ((into, &$left), &$right) in into.iter_mut().zip(left).zip(right) {
                *into = $value;
            }
        };
        ($x:ident, $value:expr) => {
            for (into, &$x) in into.iter_mut().zip(left) {
                *into = $value;
            }
        };
    }
    match FUNCTIONS[function].1 {
        Add => each!(a, b, a + b),
        Sub => each!(a, b, a - b),
        Mul => each!(a, b, a * b),
        Div => each!(a, b, a / b),
        Neg => each!(x, -x),
        Abs => each!(x, x.abs()),
        Sqrt => each!(x, x.sqrt()),
        Reciprocal => each!(x, 1.0 / x),
        Exp => each!(x, elements::exp(x)),
        Tanh => each!(x, elements::tanh(x)),
        Erf => each!(x, elements::erf(x)),
        Sigmoid => each!(x, elements::sigmoid(x)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{apart, assert_samples_stay_alone, batched, model, node, numbers, parameter, put, run};
    use super::*;
    use crate::Plan;
    use pulp::Scalar;

    const WIDTH: usize = 391;

    /// Both kinds of Gelu of `x`, the slope of the second beside a loss, and every other function.
    const NODES: [&str; 24] = [
        "a1 = Mul(x, x)",
        "a2 = Mul(x, a1)",
        "a3 = Mul(cubic, a2)",
        "a4 = Add(x, a3)",
        "a5 = Mul(root, a4)",
        "a6 = Tanh(a5)",
        "a7 = Add(one, a6)",
        "a8 = Mul(x, a7)",
        "tanh = Mul(a8, half)",
        "u = Mul(x, half)",
        "b1 = Erf(u)",
        "b2 = Add(b1, one)",
        "b3 = Mul(x, b2)",
        "erf = Mul(b3, half)",
        "dp.loss = Identity(x)",
        "c1 = Mul(u, u)",
        "c2 = Neg(c1)",
        "c3 = Exp(c2)",
        "slope = Mul(c3, root)",
        "d1 = Abs(x)",
        "d2 = Add(d1, half)",
        "d3 = Sqrt(d2)",
        "d4 = Reciprocal(d3)",
        "rest = Div(d4, d2)",
    ];

    fn written(nodes: &[&str], outputs: &[&str]) -> (pb::ModelProto, Plan) {
        let constants: [(&str, &[usize], &[f32]); 4] =
            [("one", &[], &[1.0]), ("half", &[], &[0.5]), ("root", &[], &[0.797_884_6]), ("cubic", &[], &[0.044_715])];
        let inputs = vec![batched("x", &[WIDTH]), batched("gy", &[WIDTH]), parameter("w", &[WIDTH])];
        let outputs = outputs.iter().map(|name| batched(name, &[WIDTH])).collect();
        model(nodes.iter().map(|written| node(written)).collect(), &constants, inputs, outputs)
    }

    #[test]
    fn it_stands_for_the_chains_before_the_loss_and_for_those_behind_it() {
        let outputs = ["tanh", "erf", "slope", "rest", "a6", "dp.loss"];
        assert_eq!(put(&written(&NODES, &outputs)), [NAME, "", NAME]);
        let sigmoid = ["s = Sigmoid(x)", "y = Mul(s, x)", "z = Sub(y, half)"];
        assert_eq!(put(&written(&sigmoid, &["z"])), [NAME]);
        // Of one node, of whatever type, of another tensor.
        assert_eq!(put(&written(&NODES[..1], &["a1"])), [""]);
        assert_eq!(put(&written(&NODES[..2], &["a2"])), ["", ""]);
        assert_eq!(put(&written(&["y = Mul(x, half)", "z = Mul(y, gy)"], &["z"])), ["", ""]);
        assert_eq!(put(&written(&["y = Mul(x, half)", "z = Add(y, w)"], &["z"])), ["", ""]);
    }

    #[test]
    fn it_is_what_the_nodes_are() {
        let model = written(&NODES, &["tanh", "erf", "slope", "rest", "a6"]);
        let inputs = numbers(&model.1);
        let Some(made) = run(&model, &inputs) else { return };
        let each = |of: &dyn Fn(f64) -> f64| -> Vec<f64> { inputs[0].iter().map(|x| of(f64::from(*x))).collect() };
        let inner = |x: f64| (0.797_884_6 * (x + 0.044_715 * x * x * x)).tanh();
        let erf = |x: f64| {
            let terms = (0..60).scan(x, |term, n| {
                let this = *term / f64::from(2 * n + 1);
                *term *= -x * x / f64::from(n + 1);
                Some(this)
            });
            terms.sum::<f64>() * std::f64::consts::FRAC_2_SQRT_PI
        };
        let exact = [
            each(&|x| 0.5 * x * (1.0 + inner(x))),
            each(&|x| 0.5 * x * (1.0 + erf(0.5 * x))),
            each(&|x| 0.797_884_6 * (-0.25 * x * x).exp()),
            each(&|x| (x.abs() + 0.5).powf(-1.5)),
            each(&inner),
        ];
        for (made, exact) in made.iter().zip(&exact) {
            assert!(apart(made, exact) < 1e-6, "{}", apart(made, exact));
        }
    }

    #[test]
    fn a_sample_is_taken_alone() {
        const BAD: [f32; 3] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        assert_samples_stay_alone(&written(&NODES[..9], &["a2", "tanh"]), 1, &BAD);
    }

    #[test]
    fn its_bits_are_those_of_any_processor() {
        let x: Vec<f32> = (0..3 * BLOCK + 37).map(|i| ((i * 17 + 7) % 613) as f32 / 30.0 - 10.0).collect();
        let code: Vec<[usize; 3]> = (0..FUNCTIONS.len()).map(|function| [function, 0, 1]).collect();
        let gives: Vec<usize> = (0..code.len()).collect();
        let bits = |work: &dyn Fn(Run<'_, '_>)| -> Vec<u32> {
            let mut blocks = vec![[0.3; BLOCK]; 1 + code.len()];
            let mut made = vec![x.clone(); code.len()];
            let mut outputs: Vec<&mut [f32]> = made.iter_mut().map(Vec::as_mut_slice).collect();
            work(Run {
                code: &code,
                constants: 1,
                gives: &gives,
                blocks: &mut blocks,
                inputs: &[&x],
                outputs: &mut outputs,
            });
            made.concat().iter().map(|entry| if entry.is_nan() { 0 } else { entry.to_bits() }).collect()
        };
        assert_eq!(bits(&|run| Arch::new().dispatch(run)), bits(&|run| run.with_simd(Scalar::new())));
    }
}
