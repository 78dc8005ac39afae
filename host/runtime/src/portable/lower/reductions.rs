//! Reductions over axes.

use super::super::builder::{Builder, Id, Refusal, TOO_MANY_AXES};
use super::super::kernel::Kernel;
use super::super::node::{Node, axis};
use super::super::value::Kind;
use damper_nn::reduce::{Fold, Reduction};

pub(super) fn reduce(b: &mut Builder, node: &Node<'_>, fold: Fold) -> Result<Id, Refusal> {
    let x = node.input(0)?;
    let from = b.shape(x).to_vec();
    let axes = match node.list(b, 1, "axes")? {
        Some(axes) if !axes.is_empty() => axes.iter().map(|at| axis(*at, from.len())).collect::<Result<Vec<_>, _>>()?,
        _ if node.int("noop_with_empty_axes", 0) != 0 => return Ok(x),
        _ => (0..from.len()).collect(),
    };
    over(b, x, &axes, node.int("keepdims", 1) != 0, fold)
}

/// Reduction over all axes after the channels. The reduced axes keep extent 1.
pub(super) fn global(b: &mut Builder, node: &Node<'_>, fold: Fold) -> Result<Id, Refusal> {
    let x = node.input(0)?;
    let axes: Vec<usize> = (2..b.shape(x).len()).collect();
    over(b, x, &axes, true, fold)
}

fn over(b: &mut Builder, x: Id, axes: &[usize], keeps: bool, fold: Fold) -> Result<Id, Refusal> {
    let from = b.shape(x).to_vec();
    if b.kind(x) != Kind::F32 {
        return Err("it is of floats only".into());
    }
    let extents = from.iter().enumerate().filter(|(at, _)| keeps || !axes.contains(at));
    let shape = extents.map(|(at, extent)| if axes.contains(&at) { 1 } else { *extent }).collect();
    let reduction = Reduction::new(&from, |at| axes.contains(&at)).ok_or(TOO_MANY_AXES)?;
    b.step(Kernel::Reduce(fold, reduction), &[x], Kind::F32, shape)
}
