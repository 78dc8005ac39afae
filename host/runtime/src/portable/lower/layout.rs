//! Operators that move elements or reshape tensors.

use super::super::builder::{Builder, Id, Refusal, TOO_MANY_AXES, broadcast, len, strides};
use super::super::kernel::Kernel;
use super::super::node::{Node, axis};
use super::super::value::{Data, Kind};
use damper_nn::Walk;
use damper_onnx::{attr_float, attr_tensor, decode_tensor, find_attr};

pub(super) fn concat(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let parts = (0..node.inputs.len()).map(|at| node.input(at)).collect::<Result<Vec<_>, _>>()?;
    let first = *parts.first().ok_or("it has no input")?;
    let mut shape = b.shape(first).to_vec();
    let axis = axis(node.int("axis", 0), shape.len())?;
    let fits = |id: &Id| {
        let part = b.shape(*id);
        let same = part.iter().zip(&shape).enumerate().all(|(at, (a, b))| at == axis || a == b);
        part.len() == shape.len() && same && b.kind(*id) == b.kind(first)
    };
    if !parts.iter().all(fits) || b.kind(first) == Kind::Bool {
        return Err("its inputs do not fit together".into());
    }
    shape[axis] = parts.iter().map(|id| b.shape(*id)[axis]).sum();
    let whole = strides(&shape);
    let steps: Vec<isize> = whole.iter().map(|stride| *stride as isize).collect();
    let mut start = 0;
    let mut walks = vec![];
    for id in &parts {
        walks.push(Walk::new(b.shape(*id), [&steps], [start * whole[axis]]).ok_or(TOO_MANY_AXES)?);
        start += b.shape(*id)[axis];
    }
    b.step(Kernel::Concat(walks), &parts, b.kind(first), shape)
}

pub(super) fn constant(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    if let Some(tensor) = attr_tensor(node.attributes, "value") {
        return tensor_of(b, tensor);
    }
    if find_attr(node.attributes, "value_float").is_some() {
        return Ok(b.constant(vec![], Data::F32(vec![attr_float(node.attributes, "value_float", 0.0)])));
    }
    if find_attr(node.attributes, "value_int").is_some() {
        return Ok(b.constant(vec![], Data::I64(vec![node.int("value_int", 0)])));
    }
    let ints = node.ints("value_ints").ok_or("its value is of a type that no portable kernel reads")?;
    Ok(b.constant(vec![ints.len()], Data::I64(ints.to_vec())))
}

/// Adds a constant tensor.
pub(in super::super) fn tensor_of(b: &mut Builder, tensor: &damper_onnx::pb::TensorProto) -> Result<Id, Refusal> {
    let tensor = decode_tensor(tensor).map_err(|error| error.to_string())?;
    let shape = tensor.shape.clone();
    let data = Data::of(tensor).ok_or("there are no portable kernels of float64")?;
    Ok(b.constant(shape, data))
}

pub(super) fn constant_of_shape(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let shape = b.ints(node.input(0)?).ok_or("its shape is not constant")?;
    let shape = shape.iter().map(|extent| *extent as usize).collect::<Vec<_>>();
    let value = match attr_tensor(node.attributes, "value") {
        Some(tensor) => tensor_of(b, tensor)?,
        None => b.constant(vec![1], Data::F32(vec![0.0])),
    };
    let scalar = b.alias(value, vec![])?;
    expanded(b, scalar, shape)
}

pub(super) fn expand(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let x = node.input(0)?;
    let to = b.ints(node.input(1)?).ok_or("its shape is not constant")?;
    let to: Vec<usize> = to.iter().map(|extent| *extent as usize).collect();
    let shape = broadcast(&[b.shape(x), &to])?;
    expanded(b, x, shape)
}

fn expanded(b: &mut Builder, x: Id, shape: Vec<usize>) -> Result<Id, Refusal> {
    if len(b.shape(x)) == len(&shape) {
        return b.alias(x, shape);
    }
    let walk = Walk::broadcast(&shape, [b.shape(x)]).ok_or(TOO_MANY_AXES)?;
    b.step(Kernel::Copy(walk), &[x], b.kind(x), shape)
}

pub(super) fn flatten(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let x = node.input(0)?;
    let shape = b.shape(x);
    let at = match node.int("axis", 1) {
        at if at == shape.len() as i64 => shape.len(),
        at => axis(at, shape.len())?,
    };
    let flat = vec![len(&shape[..at]), len(&shape[at..])];
    b.alias(x, flat)
}

pub(super) fn pad(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let x = node.input(0)?;
    if node.string("mode", "constant") != "constant" {
        return Err("it pads by a mode that no portable kernel has; constant is one".into());
    }
    let pads = node.list(b, 1, "pads")?.ok_or("its pads are missing")?;
    let around = match node.optional(2) {
        Some(id) => b.alias(id, vec![])?,
        None => b.constant(vec![], Data::F32(vec![node.float("value", 0.0)])),
    };
    let from = b.shape(x).to_vec();
    let rank = from.len();
    let axes = match node.list(b, 3, "axes")? {
        Some(axes) => axes.iter().map(|at| axis(*at, rank)).collect::<Result<Vec<_>, _>>()?,
        None => (0..rank).collect(),
    };
    if pads.len() != 2 * axes.len() || b.kind(x) != Kind::F32 || b.kind(around) != Kind::F32 {
        return Err("its pads do not fit its axes, or it is not of floats".into());
    }
    let (mut before, mut after) = (vec![0i64; rank], vec![0i64; rank]);
    for (at, axis) in axes.iter().enumerate() {
        (before[*axis], after[*axis]) = (pads[at], pads[at + axes.len()]);
    }
    // Negative pads crop.
    let kept_of = |at: usize| {
        let (start, end) = ((-before[at]).max(0), from[at] as i64 - (-after[at]).max(0));
        (start as usize, usize::try_from(end - start).unwrap_or(0), 1)
    };
    let cut: Vec<(usize, usize, i64)> = (0..rank).map(kept_of).collect();
    let inner = sliced(b, x, &cut)?;
    let kept = b.shape(inner).to_vec();
    let shape: Vec<usize> =
        (0..rank).map(|at| kept[at] + before[at].max(0) as usize + after[at].max(0) as usize).collect();
    if shape == kept {
        return Ok(inner);
    }
    let whole = strides(&shape);
    let start = (0..rank).map(|at| whole[at] * before[at].max(0) as usize).sum();
    let steps: Vec<isize> = whole.iter().map(|stride| *stride as isize).collect();
    let walk = Walk::new(&kept, [&steps], [start]).ok_or(TOO_MANY_AXES)?;
    b.step(Kernel::Pad(walk), &[inner, around], Kind::F32, shape)
}

pub(super) fn reshape(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let x = node.input(0)?;
    let to = node.list(b, 1, "shape")?.ok_or("its shape is missing")?;
    let from = b.shape(x);
    let allows_zero = node.int("allowzero", 0) != 0;
    let mut shape = vec![];
    let mut open = None;
    for (at, extent) in to.iter().enumerate() {
        shape.push(match *extent {
            0 if !allows_zero => *from.get(at).ok_or("its shape copies an axis that is not there")?,
            -1 => {
                open = Some(at);
                1
            }
            extent => usize::try_from(extent).map_err(|_| "its shape has a negative extent")?,
        });
    }
    if let Some(at) = open {
        shape[at] = len(from).checked_div(len(&shape)).unwrap_or(0);
    }
    b.alias(x, shape)
}

pub(super) fn shape(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let shape = b.shape(node.input(0)?);
    let rank = shape.len() as i64;
    let bound = |at: i64| (if at < 0 { at + rank } else { at }).clamp(0, rank) as usize;
    let (start, end) = (bound(node.int("start", 0)), bound(node.int("end", rank)));
    let extents: Vec<i64> = shape[start..end.max(start)].iter().map(|extent| *extent as i64).collect();
    Ok(b.constant(vec![extents.len()], Data::I64(extents)))
}

pub(super) fn slice(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let x = node.input(0)?;
    let from = b.shape(x).to_vec();
    let starts = node.list(b, 1, "starts")?.ok_or("its starts are missing")?;
    let ends = node.list(b, 2, "ends")?.ok_or("its ends are missing")?;
    let axes = node.list(b, 3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = node.list(b, 4, "steps")?.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        return Err("its starts, ends, axes and steps do not fit together".into());
    }
    let mut cut: Vec<(usize, usize, i64)> = from.iter().map(|extent| (0, *extent, 1)).collect();
    for (at, first) in starts.into_iter().enumerate() {
        let axis = axis(axes[at], from.len())?;
        let (extent, step) = (from[axis] as i64, steps[at]);
        let place = |at: i64| if at < 0 { at.saturating_add(extent) } else { at };
        let (low, high) = if step > 0 { (0, extent) } else { (-1, extent - 1) };
        let start = place(first).clamp(if step > 0 { 0 } else { -1 }, high.max(low));
        let end = place(ends[at]).clamp(low, high.max(low));
        let count = match step {
            0 => return Err("a step is 0".into()),
            step if step > 0 => (end - start).max(0),
            _ => (start - end).max(0),
        };
        cut[axis] = (start.max(0) as usize, count.unsigned_abs().div_ceil(step.unsigned_abs()) as usize, step);
    }
    sliced(b, x, &cut)
}

/// Strided slice. For each axis, `cut` has the start, the number of entries and the step.
fn sliced(b: &mut Builder, x: Id, cut: &[(usize, usize, i64)]) -> Result<Id, Refusal> {
    let shape: Vec<usize> = cut.iter().map(|(_, count, _)| *count).collect();
    let whole = strides(b.shape(x));
    let start = cut.iter().zip(&whole).map(|((start, ..), stride)| start * stride).sum();
    let steps: Vec<isize> =
        cut.iter().zip(&whole).map(|((.., step), stride)| *step as isize * *stride as isize).collect();
    if shape == b.shape(x) && cut.iter().all(|(.., step)| *step > 0) {
        return Ok(x);
    }
    let walk = Walk::new(&shape, [&steps], [start]).ok_or(TOO_MANY_AXES)?;
    b.step(Kernel::Copy(walk), &[x], b.kind(x), shape)
}

pub(super) fn squeeze(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let x = node.input(0)?;
    let from = b.shape(x).to_vec();
    let axes = match node.list(b, 1, "axes")? {
        Some(axes) => axes.iter().map(|at| axis(*at, from.len())).collect::<Result<Vec<_>, _>>()?,
        None => (0..from.len()).filter(|at| from[*at] == 1).collect(),
    };
    let shape = (0..from.len()).filter(|at| !axes.contains(at)).map(|at| from[at]).collect();
    b.alias(x, shape)
}

pub(super) fn transpose(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let x = node.input(0)?;
    let rank = b.shape(x).len();
    let perm = match node.ints("perm") {
        Some(perm) => perm.iter().map(|at| axis(*at, rank)).collect::<Result<Vec<_>, _>>()?,
        None => (0..rank).rev().collect(),
    };
    let mut sorted = perm.clone();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..rank) {
        return Err("its perm is no order of its axes".into());
    }
    b.transpose(x, &perm)
}

pub(super) fn unsqueeze(b: &mut Builder, node: &Node<'_>) -> Result<Id, Refusal> {
    let x = node.input(0)?;
    let axes = node.list(b, 1, "axes")?.ok_or("its axes are missing")?;
    let rank = b.shape(x).len() + axes.len();
    let axes = axes.iter().map(|at| axis(*at, rank)).collect::<Result<Vec<_>, _>>()?;
    let mut rest = b.shape(x).iter().copied();
    let shape: Vec<usize> = (0..rank).map(|at| if axes.contains(&at) { 1 } else { rest.next().unwrap_or(1) }).collect();
    b.alias(x, shape)
}
