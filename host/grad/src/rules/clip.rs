//! `Clip`: `Y = min(max(X, low), high)` ⇒ `dX = dY` if `low < X < high`, else 0 (as in PyTorch at the bounds).

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::Var;

pub const RULE: GradRule = GradRule { op: "Clip", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
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
