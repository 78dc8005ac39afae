//! `Clip`: `Y = min(max(X, low), high)` ⇒ `dX = dY` where `low < X < high`, else 0 (as PyTorch has it at the bounds).

use super::Rule;
use crate::autodiff::emit::Var;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};

pub const RULE: Rule = Rule { op: "Clip", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    if p.wants(1) || p.wants(2) {
        return Err(p.refuse("a bound of it is trained", "freeze the bound, or write it with Max and Min"));
    }
    if !p.wants(0) {
        return Ok(());
    }
    let (x, gy) = (p.x(0), p.gy());
    let zero = p.em.scalar(x.dtype, 0.0);
    let mut gx = gy;
    for (i, beyond) in [(1, "Greater"), (2, "Less")] {
        if p.has(i) {
            let bound: Var = p.x(i);
            let bound = p.em.reshape(&bound, &[], None);
            let inside = p.em.compare(beyond, &x, &bound);
            gx = p.em.choose(&inside, &gx, &zero);
        }
    }
    p.gx(0, gx);
    Ok(())
}

fn cases() -> Vec<Case> {
    let one = |name, low: Option<f64>, high: Option<f64>| {
        let mut b = GraphBuilder::new(17);
        let x = b.activation_in(&[2, 4], -2.0, 2.0);
        let mut bound = |v: Option<f64>| v.map(|v| b.floats(&[], &[v]));
        let (low, high) = (bound(low), bound(high));
        let mut inputs = vec![Some(x), low, high];
        while inputs.last().is_some_and(Option::is_none) {
            inputs.pop();
        }
        let y = b.node_with("Clip", &inputs, vec![], &[1, 2, 4]);
        b.case(name, y)
    };
    let mut parameter = GraphBuilder::new(13);
    let (x, w) = (parameter.activation(&[2, 3]), parameter.param_in(&[2, 3], -2.0, 2.0));
    let (low, high) = (parameter.frozen(&[]), parameter.floats(&[1], &[1.0]));
    let clipped = parameter.node("Clip", &[w, low, high], vec![], &[2, 3]);
    let y = parameter.node("Mul", &[x, clipped], vec![], &[1, 2, 3]);
    vec![
        one("between bounds", Some(-0.5), Some(1.0)),
        one("from below", Some(0.0), None),
        one("from above", None, Some(0.25)),
        parameter.case("of a parameter, a bound not trained", y),
    ]
}
