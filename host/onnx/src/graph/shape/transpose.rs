//! `Transpose`. The batch moves with its axis.

use super::super::GraphError;
use super::super::node::{Outcome, Ruled, Shaped, Site};

/// `Transpose`.
pub(in super::super) fn transpose(site: &Site<'_>) -> Ruled {
    let x = site.value(0)?;
    let perm = permutation(site, x.shape.len())?;
    let shape = perm.iter().map(|&axis| x.shape[axis]).collect();
    let batch = x.batch.and_then(|at| Some(at.at(perm.iter().position(|&axis| axis == at.axis)?)));
    Ok(Outcome::Node(vec![Shaped { dtype: x.dtype, shape, batch }]))
}

/// Source axis of each of the `rank` axes of the result.
pub(in super::super) fn permutation(site: &Site<'_>, rank: usize) -> Result<Vec<usize>, GraphError> {
    let perm = match site.attr_ints("perm")? {
        Some(perm) => perm.into_iter().map(|axis| site.axis(axis, rank)).collect::<Result<Vec<_>, _>>()?,
        None => (0..rank).rev().collect(),
    };
    let whole = perm.len() == rank && (0..rank).all(|axis| perm.contains(&axis));
    if !whole {
        return Err(site.invalid(format!("perm {perm:?} is no permutation of {rank} axes")));
    }
    Ok(perm)
}
