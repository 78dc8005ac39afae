//! Gather and scatter operators.

use super::super::builder::{Builder, Id, Refusal, len};
use super::super::kernel::Kernel;
use super::super::node::{Node, axis};
use super::super::value::{Data, Kind};
use damper_nn::index::Along;

/// Axis of a node, and `x` split at this axis.
fn along(b: &Builder, node: &Node<'_>, x: Id) -> Result<(usize, Along), Refusal> {
    let shape = b.shape(x);
    let axis = axis(node.int("axis", 0), shape.len())?;
    let along = Along::new(len(&shape[..axis]), shape[axis], len(&shape[axis + 1..]));
    Ok((axis, along.ok_or("its sizes overflow")?))
}

pub(super) fn gather(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let (x, indices) = (node.input(0)?, node.input(1)?);
    let (axis, along) = along(b, node, x)?;
    let from = b.shape(x);
    let shape = [&from[..axis], b.shape(indices), &from[axis + 1..]].concat();
    b.step(Kernel::Gather(along), &[x, indices], b.kind(x), shape)
}

pub(super) fn gather_elements(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let (x, indices) = (node.input(0)?, node.input(1)?);
    let (axis, along) = along(b, node, x)?;
    fits(b.shape(x), b.shape(indices), axis)?;
    b.step(Kernel::GatherElements(along), &[x, indices], b.kind(x), b.shape(indices).to_vec())
}

pub(super) fn scatter_add(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let (x, indices, updates) = (node.input(0)?, node.input(1)?, node.input(2)?);
    if node.string("reduction", "none") != "add" {
        return Err("its reduction is not add".into());
    }
    let (axis, along) = along(b, node, x)?;
    fits(b.shape(x), b.shape(indices), axis)?;
    if b.shape(indices) != b.shape(updates) {
        return Err("its updates do not fit its indices".into());
    }
    b.step(Kernel::ScatterAdd(along), &[x, indices, updates], Kind::F32, b.shape(x).to_vec())
}

/// Fails unless the indices cover every other axis of `x`.
fn fits(x: &[usize], indices: &[usize], axis: usize) -> Result<(), Refusal> {
    let same = x.iter().zip(indices).enumerate().all(|(at, (a, b))| at == axis || a == b);
    if x.len() == indices.len() && same { Ok(()) } else { Err("its indices do not cover its other axes".into()) }
}

/// Nearest-neighbour resize: a gather along each axis, at constant indices.
pub(super) fn resize(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let modes = ["mode", "coordinate_transformation_mode", "nearest_mode"].map(|name| node.string(name, ""));
    let ["nearest" | "", "asymmetric", "floor"] = modes else {
        return Err(format!("its modes {modes:?} have no portable kernel; nearest, asymmetric, floor has one"));
    };
    let mut x = node.input(0)?;
    let scales = match node.optional(2).and_then(|id| b.data(id)) {
        Some(Data::F32(scales)) if scales.len() == b.shape(x).len() => scales.clone(),
        _ => return Err("its scales are not constants of every axis".into()),
    };
    for (axis, scale) in scales.into_iter().enumerate().filter(|(_, scale)| *scale != 1.0) {
        let from = b.shape(x).to_vec();
        let extent = (from[axis] as f32 * scale).floor() as usize;
        let nearest = |at: usize| ((at as f32 / scale).floor() as i64).clamp(0, from[axis] as i64 - 1);
        let indices = b.constant(vec![extent], Data::I64((0..extent).map(nearest).collect()));
        let along = Along::new(len(&from[..axis]), from[axis], len(&from[axis + 1..])).ok_or("its sizes overflow")?;
        let shape = [&from[..axis], &[extent], &from[axis + 1..]].concat();
        x = b.step(Kernel::Gather(along), &[x, indices], b.kind(x), shape)?;
    }
    Ok(x)
}
