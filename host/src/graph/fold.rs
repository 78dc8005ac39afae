//! Folds float constants: the elementwise and reshaping subgraphs that exporters write (`1/sqrt(d)`, an epsilon, a
//! scale of ones unsqueezed). What has no case here stays a node, which is as right and only slower.

use super::integers::broadcast_index;
use super::node::{Item, MAX_FOLDED, Site};
use super::{Origin, Tensor, TensorData};
use crate::onnx::attr_ints;

/// The node's output, if its inputs are float32 constants (and integer shape arguments) and it has a case here.
pub(super) fn evaluate(site: &Site<'_>) -> Option<Tensor> {
    let mut tensors = Vec::new();
    for item in site.inputs.iter().flatten() {
        if let Item::Value(id) = item {
            match &site.values[id.0].origin {
                Origin::Constant(tensor) => tensors.push((tensor.shape.as_slice(), tensor.as_f32()?)),
                _ => return None,
            }
        }
    }
    let f: fn(f32, f32) -> f32 = match (site.op(), tensors.len()) {
        ("Add", 2) => |a, b| a + b,
        ("Sub", 2) => |a, b| a - b,
        ("Mul", 2) => |a, b| a * b,
        ("Div", 2) => |a, b| a / b,
        ("Pow", 2) => f32::powf,
        ("Neg", 1) => |a, _| -a,
        ("Sqrt", 1) => |a, _| a.sqrt(),
        ("Reciprocal", 1) => |a, _| 1.0 / a,
        ("Exp", 1) => |a, _| a.exp(),
        ("Log", 1) => |a, _| a.ln(),
        ("Reshape" | "Squeeze" | "Unsqueeze" | "Flatten", 1) => {
            let shape = super::shape::reshape::plain_target(site, tensors[0].0).ok()?;
            return Some(Tensor { shape, data: TensorData::F32(tensors[0].1.to_vec()) });
        }
        ("Transpose", 1) => return transpose(site, tensors[0]),
        _ => return None,
    };
    if site.inputs.iter().flatten().count() != tensors.len() {
        return None;
    }
    let (a, b) = (tensors[0], *tensors.last()?);
    let rank = a.0.len().max(b.0.len());
    let extent = |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |i| shape[i]);
    let mut shape = Vec::with_capacity(rank);
    for axis in 0..rank {
        match (extent(a.0, axis), extent(b.0, axis)) {
            (x, y) if x == y || y == 1 => shape.push(x),
            (1, y) => shape.push(y),
            _ => return None,
        }
    }
    let count = count(&shape)?;
    let data = (0..count)
        .map(|flat| f(a.1[broadcast_index(flat, &shape, a.0)], b.1[broadcast_index(flat, &shape, b.0)]))
        .collect();
    Some(Tensor { shape, data: TensorData::F32(data) })
}

fn count(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).filter(|&n| n <= MAX_FOLDED)
}

fn transpose(site: &Site<'_>, (shape, data): (&[usize], &[f32])) -> Option<Tensor> {
    count(shape)?;
    let rank = shape.len();
    let perm: Vec<usize> = match attr_ints(site.attributes(), "perm") {
        Some(perm) => perm.iter().map(|&p| usize::try_from(p).ok().filter(|&p| p < rank)).collect::<Option<_>>()?,
        None => (0..rank).rev().collect(),
    };
    if perm.len() != rank || (0..rank).any(|axis| !perm.contains(&axis)) {
        return None;
    }
    let to: Vec<usize> = perm.iter().map(|&p| shape[p]).collect();
    let mut strides = vec![1; rank];
    for axis in (1..rank).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    let elements = (0..data.len()).map(|flat| {
        let (mut rest, mut from) = (flat, 0);
        for axis in (0..rank).rev() {
            from += rest % to[axis] * strides[perm[axis]];
            rest /= to[axis];
        }
        data[from]
    });
    Some(Tensor { data: TensorData::F32(elements.collect()), shape: to })
}
