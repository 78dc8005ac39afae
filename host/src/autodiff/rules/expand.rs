//! `Expand`: `Y = X` repeated ⇒ `dX` = `dY` summed over the repetitions (which is done for every rule in one place).

use super::Rule;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{BATCH_FIRST, Case, GraphBuilder};

pub const RULE: Rule = Rule { op: "Expand", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let gy = p.gy();
    p.gx(0, gy);
    Ok(())
}

fn cases() -> Vec<Case> {
    let mut batched = GraphBuilder::new(17);
    let x = batched.activation(&[1, 3]);
    let y = batched.node("Expand", &[x], vec![], &[1, 4, 3]);
    let mut over_samples = GraphBuilder::new(17);
    over_samples.activation(&[2]);
    let w = over_samples.param(&[1, 1, 3]);
    let z = over_samples.node_at("Expand", &[w], vec![], &[1, 2, 3], Some(BATCH_FIRST));
    let mut parameter = GraphBuilder::new(17);
    let (x, w) = (parameter.activation(&[2, 3]), parameter.param(&[3]));
    let repeated = parameter.node("Expand", &[w], vec![], &[2, 3]);
    let product = parameter.node("Mul", &[x, repeated], vec![], &[1, 2, 3]);
    vec![
        batched.case("of an activation", y),
        over_samples.case("of a parameter over the samples", z),
        parameter.case("of a parameter", product),
    ]
}
