//! Elementwise functions rewritten to other operators: `Shrink`, `Swish`.

use super::super::node::{Ruled, Site};
use super::rewrite::Rewrite;
use crate::attr_float;

/// `Swish`: `X · σ(α · X)`.
pub(in super::super) fn swish(site: &Site<'_>) -> Ruled {
    site.float(0)?;
    let x = site.node.input[0].as_str();
    let mut out = Rewrite::of(site);
    let alpha = attr_float(site.attributes(), "alpha", 1.0);
    let scaled = match alpha {
        1.0 => x.to_string(),
        _ => {
            let alpha = out.floats(&[], vec![alpha]);
            out.node("Mul", &[x, &alpha], vec![])
        }
    };
    let gate = out.node("Sigmoid", &[&scaled], vec![]);
    Ok(out.end("Mul", &[x, &gate], vec![]))
}

/// `Shrink`: `X + bias` below `−λ`, `X − bias` above `λ`, and 0 in between.
pub(in super::super) fn shrink(site: &Site<'_>) -> Ruled {
    site.float(0)?;
    let x = site.node.input[0].as_str();
    let mut out = Rewrite::of(site);
    let (bias, bound) = (attr_float(site.attributes(), "bias", 0.0), attr_float(site.attributes(), "lambd", 0.5));
    let [zero, bias, low, high] = [0.0, bias, -bound, bound].map(|value| out.floats(&[], vec![value]));
    let is_below = out.node("Less", &[x, &low], vec![]);
    let is_above = out.node("Greater", &[x, &high], vec![]);
    let below = out.node("Add", &[x, &bias], vec![]);
    let above = out.node("Sub", &[x, &bias], vec![]);
    let above = out.node("Where", &[&is_above, &above, &zero], vec![]);
    Ok(out.end("Where", &[&is_below, &below, &above], vec![]))
}
