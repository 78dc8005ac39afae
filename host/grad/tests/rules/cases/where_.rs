//! `Where`.

use super::prelude::*;

pub fn cases() -> Vec<Case> {
    let mut data = GraphBuilder::new(17);
    let (x, a, w) = (data.input(&[2, 3]), data.activation(&[2, 3]), data.param(&[3]));
    let zero = data.floats(&[], &[0.0]);
    let positive = data.node_of(DType::Bool, "Greater", &[x, zero], vec![], &[1, 2, 3]);
    let y = data.node("Where", &[positive, a, w], vec![], &[1, 2, 3]);

    let mut masked = GraphBuilder::new(17);
    let scores = masked.activation(&[3, 3]);
    let causal = masked.bools(&[3, 3], &[true, false, false, true, true, false, true, true, true]);
    let fill = masked.floats(&[], &[f64::NEG_INFINITY]);
    let hidden = masked.node("Where", &[causal, scores, fill], vec![], &[1, 3, 3]);
    let z = masked.node("Softmax", &[hidden], vec![], &[1, 3, 3]);

    let mut root = GraphBuilder::new(17);
    let (x, a) = (root.input(&[4]), root.activation_in(&[4], 0.5, 1.5));
    let zero = root.floats(&[], &[0.0]);
    let not_a_number = root.node("Sqrt", &[x], vec![], &[1, 4]);
    let negative = root.node_of(DType::Bool, "Less", &[x, zero], vec![], &[1, 4]);
    let u = root.node("Where", &[negative, a, not_a_number], vec![], &[1, 4]);

    let mut parameter = GraphBuilder::new(17);
    let (x, v, w) = (parameter.activation(&[2, 3]), parameter.param(&[2, 3]), parameter.param(&[3]));
    let pattern = parameter.bools(&[2, 1], &[true, false]);
    let mixed = parameter.node("Where", &[pattern, v, w], vec![], &[2, 3]);
    let t = parameter.node("Mul", &[x, mixed], vec![], &[1, 2, 3]);
    vec![
        data.case("a condition on data, a parameter broadcast", y),
        masked.case("a causal mask of minus infinity under a softmax", z),
        root.case("beside values that are not numbers", u),
        parameter.case("of parameters", t),
    ]
}
