//! Gradients at zeros, infinities, NaN, huge and tiny values. They must be finite if those of PyTorch are, and equal to
//! them.
//!
//! `special/generate.py` writes the vectors.

use super::builder::{Case, GraphBuilder};
use super::emit;
use super::run::{Feed, Runner};
use damper_grad::{DeriveOptions, Loss};
use damper_onnx::graph::{DType, ValueId};
use damper_onnx::pb::AttributeProto;
use damper_onnx::{make_attr_float, make_attr_int, make_attr_string};

/// Line with an operator, its attributes, the inputs, and the gradients of the first inputs. The other inputs are
/// constants.
struct Line {
    op: String,
    attributes: Vec<AttributeProto>,
    inputs: Vec<Vec<f32>>,
    gradients: Vec<Vec<f32>>,
    /// Gradients for an output gradient of 0, because a `Where` selects the other side.
    left_out: Vec<Vec<f32>>,
}

impl Line {
    fn read(line: &str) -> Self {
        let parts: Vec<&str> = line.split("\t=\t").collect();
        let [given, gradients, left_out] = parts[..] else { panic!("inputs and two lists of gradients") };
        let floats = |text: &str| text.split(' ').map(|number| number.parse().unwrap()).collect();
        let (call, inputs) = given.split_once('\t').expect("an input");
        let mut words = call.split(' ');
        let op = words.next().unwrap_or_default().to_owned();
        let attribute = |word: &str| {
            let (name, value) = word.split_once('=').unwrap();
            value.parse().map_or_else(|_| make_attr_string(name, value), |value| make_attr_float(name, value))
        };
        Self {
            op,
            attributes: words.map(attribute).collect(),
            inputs: inputs.split('\t').map(floats).collect(),
            gradients: gradients.split('\t').map(floats).collect(),
            left_out: left_out.split('\t').map(floats).collect(),
        }
    }

    /// Graph of the sum of the outputs if `taken`, an input, is above 0. For a softmax it is only the first output.
    fn case(&self) -> Case {
        let mut b = GraphBuilder::new(20);
        let taken = b.input(&[1]);
        let rank = self.inputs[0].len();
        let inputs: Vec<ValueId> = self
            .inputs
            .iter()
            .enumerate()
            .map(|(slot, values)| match slot < self.gradients.len() {
                true => {
                    let (x, w) = (b.input(&[rank]), b.param(&[rank]));
                    b.node("Add", &[x, w], vec![], &[1, rank])
                }
                false => b.floats(&[], &[f64::from(values[0])]),
            })
            .collect();
        let keep = || vec![make_attr_int("keepdims", 1)];
        let last = b.ints(&[-1]);
        let y = match self.op.as_str() {
            "ReduceSum" => return self.end(b, taken, inputs[0]),
            op if op.starts_with("Reduce") => b.node(op, &[inputs[0], last], keep(), &[1, 1]),
            "Softmax" | "LogSoftmax" => {
                let y = b.node(&self.op, &inputs, vec![], &[1, rank]);
                let [zero, one] = [0, 1].map(|at| b.ints(&[at]));
                b.node("Slice", &[y, zero, one, one, one], vec![], &[1, 1])
            }
            op => b.node(op, &inputs, self.attributes.clone(), &[1, rank]),
        };
        self.end(b, taken, y)
    }

    fn end(&self, mut b: GraphBuilder, taken: ValueId, y: ValueId) -> Case {
        let zero = b.floats(&[], &[0.0]);
        let shape = b.shape(y);
        let taken = b.node_of(DType::Bool, "Greater", &[taken, zero], vec![], &[1, 1]);
        let y = b.node("Where", &[taken, y, zero], vec![], &shape);
        let last = b.ints(&[-1]);
        let sum = b.node("ReduceSum", &[y, last], vec![make_attr_int("keepdims", 0)], &[1]);
        let mut case = b.case(&self.op, sum);
        case.options = DeriveOptions::new(Loss::Output(case.graph.values[sum.0].name.clone()));
        case
    }

    /// Differences from PyTorch. A gradient must be finite if PyTorch's is, and equal to it unless an input is NaN.
    fn differences(&self) -> Vec<String> {
        let grad = emit(&self.case());
        let mut runners = [
            ("tract", Some(Runner::tract(&grad, 1))),
            ("portable", Runner::portable(&grad, 1).ok()),
            ("ort", Runner::ort(&grad, 1)),
        ];
        let mut found = vec![];
        for (taken, all) in [(1.0, &self.gradients), (0.0, &self.left_out)] {
            let data = self.inputs[..all.len()].iter().cloned();
            // Adding −0 does not change a value.
            let weights = all.iter().map(|gradient| vec![-0.0; gradient.len()]);
            let feeds: Vec<Feed> = [vec![taken]].into_iter().chain(data).chain(weights).map(Feed::Float).collect();
            for (name, runner) in &mut runners {
                // In tract, the maximum of minus infinities is the lowest float.
                let is_lowest = self.op == "ReduceMax" && self.inputs[0].iter().all(|x| *x == f32::NEG_INFINITY);
                let Some(runner) = runner.as_mut().filter(|_| *name != "tract" || !is_lowest) else { continue };
                let outputs = runner.run(&grad, &feeds, 1);
                let first = outputs.len() - all.len();
                for (slot, (got, want)) in outputs[first..].iter().zip(all).enumerate() {
                    for (at, (got, want)) in got.iter().zip(want).enumerate() {
                        let read: Vec<f32> = self.inputs.iter().map(|of| of[at.min(of.len() - 1)]).collect();
                        let is_close = match read.iter().any(|x| x.is_nan()) {
                            true => got.is_finite(),
                            false => (got - want).abs() <= 1e-4 * want.abs() + 2e-6,
                        };
                        if want.is_finite() && !is_close {
                            found.push(format!(
                                "{} {read:?} times {taken}: input {slot} at {at} on {name} has {got}, not {want}",
                                self.op
                            ));
                        }
                    }
                }
            }
        }
        found
    }
}

#[test]
fn gradients_are_as_finite_as_pytorchs() {
    let lines: Vec<Line> = include_str!("special/vectors.tsv").lines().map(Line::read).collect();
    let found: Vec<String> = lines.iter().flat_map(Line::differences).collect();
    assert!(found.is_empty(), "{} {found:#?}", found.len());
}

// ln(0 + 0 + 0).
#[test]
fn log_sum_exp_of_nothing_is_infinite() {
    let none = vec![f32::NEG_INFINITY; 3];
    let line = Line {
        op: "ReduceLogSumExp".into(),
        attributes: vec![],
        inputs: vec![none.clone()],
        gradients: vec![none.clone()],
        left_out: vec![],
    };
    let grad = emit(&line.case());
    let feeds = [vec![1.0], none, vec![0.0; 3]].map(Feed::Float);
    let runners = [Some(Runner::tract(&grad, 1)), Some(Runner::portable(&grad, 1).unwrap()), Runner::ort(&grad, 1)];
    for mut runner in runners.into_iter().flatten() {
        assert_eq!(runner.run(&grad, &feeds, 1)[0], [f32::NEG_INFINITY]);
    }
}
