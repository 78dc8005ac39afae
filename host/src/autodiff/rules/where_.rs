//! `Where`: `Y = A` where the condition holds, else `B` ⇒ `dA = dY` where it holds, else 0, and `dB` the other way round. The
//! choice masks both, so that an infinity or NaN of the side not taken does not spread from here.

use super::Rule;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};
use crate::graph::DType;

pub const RULE: Rule = Rule { op: "Where", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (condition, gy) = (p.x(0), p.gy());
    let zero = p.em.scalar(gy.dtype, 0.0);
    if p.wants(1) {
        let ga = p.em.choose(&condition, &gy, &zero);
        p.gx(1, ga);
    }
    if p.wants(2) {
        let gb = p.em.choose(&condition, &zero, &gy);
        p.gx(2, gb);
    }
    Ok(())
}

fn cases() -> Vec<Case> {
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
