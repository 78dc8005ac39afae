//! `Pow`: `Y = X^c` with a constant `c` ⇒ `dX = dY · c · X^(c−1)`.

use super::Rule;
use crate::autodiff::refusal::Refusal;
use crate::autodiff::sweep::Pull;
use crate::autodiff::testing::{Case, GraphBuilder};
use crate::graph::TensorData;

pub const RULE: Rule = Rule { op: "Pow", pull, cases };

fn pull(p: &mut Pull<'_>) -> Result<(), Refusal> {
    let exponent = match p.constant(1) {
        Some(tensor) if !p.wants(1) => tensor,
        _ => {
            return Err(p.refuse("its exponent is not a constant", "write it as Exp(c · Log(x))"));
        }
    };
    let c: Vec<f64> = match &exponent.data {
        TensorData::F32(v) => v.iter().map(|&c| f64::from(c)).collect(),
        TensorData::F64(v) => v.clone(),
        TensorData::I32(v) => v.iter().map(|&c| f64::from(c)).collect(),
        TensorData::I64(v) => v.iter().map(|&c| c as f64).collect(),
        TensorData::Bool(_) => return Err(p.refuse("its exponent is boolean", "cast it to float")),
    };
    let (x, gy) = (p.x(0), p.gy());
    let slope = match c[..] {
        [2.0] => p.em.scale(&x, 2.0),
        // At c = 0 the power is 0 · X^-1, which is not 0 at X = 0.
        _ => {
            let less: Vec<f64> = c.iter().map(|&c| if c == 0.0 { 0.0 } else { c - 1.0 }).collect();
            let less = p.em.floats(x.dtype, &exponent.shape, less);
            let factor = p.em.floats(x.dtype, &exponent.shape, c);
            let power = p.em.binary("Pow", &x, &less);
            p.em.mul(&power, &factor)
        }
    };
    let gx = p.em.mul(&gy, &slope);
    p.gx(0, gx);
    Ok(())
}

fn cases() -> Vec<Case> {
    let one = |name, c: f64, lo, hi| {
        let mut b = GraphBuilder::new(17);
        let (x, c) = (b.activation_in(&[5], lo, hi), b.floats(&[], &[c]));
        let y = b.node("Pow", &[x, c], vec![], &[1, 5]);
        b.case(name, y)
    };
    let mut several = GraphBuilder::new(17);
    let (x, c) = (several.activation_in(&[3], 0.5, 1.5), several.floats(&[3], &[0.0, 1.0, -0.5]));
    let y = several.node("Pow", &[x, c], vec![], &[1, 3]);
    vec![
        one("square", 2.0, -1.0, 1.0),
        one("cube", 3.0, -1.0, 1.0),
        one("root", 0.5, 0.5, 1.5),
        several.case("an exponent for each element", y),
    ]
}
