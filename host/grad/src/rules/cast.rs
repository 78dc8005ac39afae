//! `Cast` from one float type to another ⇒ `dX = dY`, cast back. Nothing passes to or from integers and truth values.

use super::rule::Rule;
use crate::pull::Pull;
use crate::refusal::Refusal;

pub const RULE: Rule = Rule { op: "Cast", pull };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let (x, gy) = (p.x(0), p.gy());
    let gx = p.em.cast(&gy, x.dtype);
    p.gx(0, gx);
    Ok(())
}
