//! Broadcasting of known integers.

use super::super::GraphError;
use super::super::node::{Ints, MAX_FOLDED, Site};

pub(in super::super) fn not_affine(site: &Site<'_>) -> GraphError {
    site.refused(
        "its result is not of the form a·N + b in the number of samples N (or overflows)",
        "compute shapes from fixed sizes and the batch size alone",
    )
}

/// Broadcast shape of integer tensors.
pub(in super::super) fn common(site: &Site<'_>, inputs: &[&Ints]) -> Result<Vec<usize>, GraphError> {
    let rank = inputs.iter().map(|ints| ints.shape.len()).max().unwrap_or(0);
    let mut shape = vec![1; rank];
    for ints in inputs {
        for (axis, &d) in (rank - ints.shape.len()..).zip(&ints.shape) {
            if shape[axis] == 1 {
                shape[axis] = d;
            } else if d != 1 && d != shape[axis] {
                return Err(site.invalid("integer inputs do not broadcast"));
            }
        }
    }
    count(site, &shape)?;
    Ok(shape)
}

pub(in super::super) fn count(site: &Site<'_>, shape: &[usize]) -> Result<usize, GraphError> {
    shape
        .iter()
        .try_fold(1usize, |n, &d| n.checked_mul(d))
        .filter(|&n| n <= MAX_FOLDED)
        .ok_or_else(|| site.invalid("an integer constant is too large"))
}

/// Flat index in `shape` for flat index `flat` of `full`, to which `shape` is broadcast.
pub(in super::super) fn broadcast_index(flat: usize, full: &[usize], shape: &[usize]) -> usize {
    let (mut rest, mut index, mut stride) = (flat, 0, 1);
    for (back, &d) in full.iter().rev().enumerate() {
        let digit = rest % d;
        rest /= d;
        if let Some(axis) = shape.len().checked_sub(back + 1) {
            if shape[axis] != 1 {
                index += digit * stride;
            }
            stride *= shape[axis];
        }
    }
    index
}
