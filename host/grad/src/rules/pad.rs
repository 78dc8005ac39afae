//! `Pad`: `Y` = `X` with elements before and after along some axes (fewer if a pad is negative). They are a constant,
//! or copies of elements of `X` (`reflect`, `edge`, `wrap`) ⇒ `dX` = `dY` without the padding, plus, for each copy,
//! `dY` there.
//!
//! The forward pass is emitted as slices, gathers and pads of positive width because the runtimes support few of the
//! modes.

use super::rule::GradRule;
use crate::axis_map::AxisMap;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};
use damper_onnx::attr_string;
use damper_onnx::graph::{Graph, Node, TensorData};

pub const RULE: GradRule = GradRule { op: "Pad", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (graph, node) = p.place();
    if p.wants(2) {
        return Err(
            p.refuse("the constant that it pads with is trained", "freeze it (`freeze`), or concatenate instead")
        );
    }
    let Some(pads) = pads(graph, node) else {
        return Err(p.refuse("its pads are not constants", "export the model with fixed sizes"));
    };
    if !p.wants(0) {
        return Ok(());
    }
    let x = p.x(0);
    let shift = p.shift();
    let mut gx = p.gy();
    match copies(node, &x.shape, &pads) {
        Some(maps) => {
            for (axis, map) in maps.iter().enumerate() {
                gx = map.backward(p.em, &gx, axis + shift);
            }
        }
        None => {
            let inside: Vec<_> = (pads.iter().enumerate())
                .map(|(axis, &(before, after))| {
                    let kept = gx.shape[axis + shift] as i64 - before.max(0) - after.max(0);
                    (axis + shift, before.max(0) as usize, 1, kept as usize)
                })
                .collect();
            let cut: Vec<_> = pads.iter().map(|&(b, a)| ((-b).max(0) as usize, (-a).max(0) as usize)).collect();
            gx = p.em.slice(&gx, &inside);
            gx = p.em.pad(&gx, &[&vec![(0, 0); shift], &cut[..]].concat(), 0.0);
        }
    }
    p.gx(0, gx);
    Ok(())
}

/// Output. `None` if the operator is emitted unchanged.
pub fn forward(em: &mut Emitter, graph: &Graph, node: &Node, x: &Var) -> Option<Var> {
    let pads = pads(graph, node)?;
    if let Some(maps) = copies(node, &x.shape, &pads) {
        return Some(maps.iter().enumerate().fold(x.clone(), |y, (axis, map)| map.apply(em, &y, axis)));
    }
    let value = match node.inputs.get(2).copied().flatten() {
        Some(id) => match &graph.constant(id)?.data {
            TensorData::F32(data) => f64::from(*data.first()?),
            TensorData::F64(data) => *data.first()?,
            _ => return None,
        },
        None => 0.0,
    };
    if !x.dtype.is_float() {
        return None;
    }
    let kept: Vec<_> = (pads.iter().zip(&x.shape).enumerate())
        .map(|(axis, (&(before, after), &extent))| {
            let (before, after) = ((-before).max(0) as usize, (-after).max(0) as usize);
            (axis, before, 1, extent - before - after)
        })
        .collect();
    let kept = em.slice(x, &kept);
    let added: Vec<_> = pads.iter().map(|&(b, a)| (b.max(0) as usize, a.max(0) as usize)).collect();
    Some(em.pad(&kept, &added, value))
}

/// Padding before and after each axis.
fn pads(graph: &Graph, node: &Node) -> Option<Vec<(i64, i64)>> {
    let TensorData::I64(pads) = &graph.constant(node.inputs.get(1).copied()??)?.data else {
        return None;
    };
    let (before, after) = pads.split_at(pads.len() / 2);
    Some(before.iter().copied().zip(after.iter().copied()).collect())
}

/// Source of each element along each axis. `None` for constant padding.
fn copies(node: &Node, shape: &[usize], pads: &[(i64, i64)]) -> Option<Vec<AxisMap>> {
    let from: fn(i64, i64) -> i64 = match attr_string(&node.attributes, "mode", "constant") {
        "reflect" => |at, extent| {
            let period = (2 * (extent - 1)).max(1);
            let at = at.rem_euclid(period);
            at.min(period - at).min(extent - 1)
        },
        "edge" => |at, extent| at.clamp(0, extent - 1),
        "wrap" => |at, extent| at.rem_euclid(extent),
        _ => return None,
    };
    let map = |(&extent, &(before, after)): (&usize, &(i64, i64))| {
        let n = extent as i64;
        AxisMap::copying(extent, (-before..n + after).map(|at| from(at, n) as usize))
    };
    Some(shape.iter().zip(pads).map(map).collect())
}
