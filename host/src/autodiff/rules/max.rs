//! `Max` of any number of inputs: `dX_i = dY / k` where `X_i = Y`, else 0, `k` being how many inputs are equal to `Y` there
//! (as PyTorch's `maximum` shares among two).

use super::Rule;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};

pub const RULE: Rule = Rule { op: "Max", pull, cases };

/// The gradients of the inputs that are the extreme.
pub fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (y, gy) = (p.y(), p.gy());
    let (zero, one) = (p.em.scalar(y.dtype, 0.0), p.em.scalar(y.dtype, 1.0));
    let mut chosen = Vec::new();
    let mut count = None;
    for i in 0..p.arity() {
        let x = p.x(i);
        let is_chosen = p.em.compare("Equal", &x, &y);
        let counted = p.em.choose(&is_chosen, &one, &zero);
        count = Some(match count {
            None => counted,
            Some(sum) => p.em.add(&sum, &counted),
        });
        chosen.push(is_chosen);
    }
    let share = p.em.div(&gy, &count.expect("an input"));
    for (i, is_chosen) in chosen.iter().enumerate() {
        if p.wants(i) {
            let gx = p.em.choose(is_chosen, &share, &zero);
            p.gx(i, gx);
        }
    }
    Ok(())
}

fn cases() -> Vec<Case> {
    extreme_cases("Max")
}

/// Cases shared with `Min`.
pub fn extreme_cases(op: &str) -> Vec<Case> {
    let mut cases = GraphBuilder::binary_cases(op, -1.0, 1.0);
    let mut several = GraphBuilder::new(13);
    let (x, z) = (several.activation(&[2, 3]), several.activation(&[2, 1]));
    let (w, c) = (several.param(&[3]), several.floats(&[], &[0.125]));
    let y = several.node(op, &[x, z, w, c], vec![], &[1, 2, 3]);
    cases.push(several.case("of four", y));
    let mut tied = GraphBuilder::new(17);
    let (x, w) = (tied.activation(&[2, 3]), tied.param(&[3]));
    let same = tied.node(op, &[x, x], vec![], &[1, 2, 3]);
    let twice = tied.node(op, &[w, w, w], vec![], &[3]);
    let u = tied.node("Mul", &[same, twice], vec![], &[1, 2, 3]);
    cases.push(tied.case("of equal inputs", u));
    cases
}
