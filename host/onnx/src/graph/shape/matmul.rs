//! `MatMul` and `Gemm`. Products may sum over any axis except that of the samples.

use super::super::node::{Outcome, Ruled, Shaped, Site};
use super::super::{BatchAxis, GraphError, Value};
use super::elementwise::broadcast_shapes;
use super::rewrite::Rewrite;
use crate::{attr_int, make_attr_int};

const CONTRACTED: &str = "contract over features, with the batch along another axis";
const CROSSED: &str = "multiply each sample with itself only, as a product with the batch along a leading axis";

/// `MatMul` of any rank, as NumPy defines it.
pub(in super::super) fn matmul(site: &Site<'_>) -> Ruled {
    let (a, b) = (site.float(0)?, site.float(1)?);
    if a.shape.is_empty() || b.shape.is_empty() {
        return Err(site.invalid("an input is a scalar"));
    }
    if let ([k], [other]) = (&a.shape[..], &b.shape[..])
        && k == other
        && a.batch.is_none()
        && b.batch.is_none()
    {
        // Some runtimes cannot multiply two vectors.
        let mut rewrite = Rewrite::of(site);
        let axes = rewrite.fixed([0]);
        let products = rewrite.node("Mul", &[&site.node.input[0], &site.node.input[1]], vec![]);
        return Ok(rewrite.end("ReduceSum", &[&products, &axes], vec![make_attr_int("keepdims", 0)]));
    }
    // A vector is a matrix of one row (left) or one column (right), which the result drops again.
    let (left_vector, right_vector) = (a.shape.len() == 1, b.shape.len() == 1);
    let (mut left, mut right) = (a.shape.clone(), b.shape.clone());
    let (mut left_batch, right_batch) = (a.batch, b.batch);
    if left_vector {
        left.insert(0, 1);
        left_batch = left_batch.map(|at| at.at(1));
    }
    if right_vector {
        right.push(1);
    }
    contracted(site, a, left_batch.is_some_and(|at| at.axis == left.len() - 1))?;
    contracted(site, b, right_batch.is_some_and(|at| at.axis == right.len() - 2))?;
    let rank = left.len().max(right.len());
    let rows = left_batch.filter(|at| at.axis == left.len() - 2);
    let columns = right_batch.filter(|at| at.axis == right.len() - 1);
    if (rows.is_some() && right_batch.is_some()) || (columns.is_some() && left_batch.is_some()) {
        return Err(site
            .mixes(format!("it multiplies every sample of '{}' with every sample of '{}'", a.name, b.name), CROSSED));
    }
    let (m, k, n) = (left[left.len() - 2], left[left.len() - 1], right[right.len() - 1]);
    if k != right[right.len() - 2] {
        return Err(site.invalid(format!("the inner extents {k} and {} differ", right[right.len() - 2])));
    }
    let leading = |shape: &[usize]| shape[..shape.len() - 2].to_vec();
    let outside = |batch: Option<BatchAxis>, shape: &[usize]| batch.filter(|at| at.axis < shape.len() - 2);
    let (left_lead, right_lead) = (leading(&left), leading(&right));
    let (mut shape, mut batch) = broadcast_shapes(
        site,
        &[(&left_lead, outside(left_batch, &left), &a.name), (&right_lead, outside(right_batch, &right), &b.name)],
    )?;
    batch = batch.or(rows.map(|at| at.at(rank - 2))).or(columns.map(|at| at.at(rank - 1)));
    shape.extend([m, n]);
    if left_vector {
        shape.remove(rank - 2);
        batch = batch.map(|at| if at.axis > rank - 2 { at.at(at.axis - 1) } else { at });
    }
    if right_vector {
        shape.pop();
    }
    Ok(Outcome::Node(vec![Shaped { dtype: a.dtype, shape, batch }]))
}

/// `Gemm`: `Y = α·A'·B' + β·C`.
pub(in super::super) fn gemm(site: &Site<'_>) -> Ruled {
    let (a, b) = (site.float(0)?, site.float(1)?);
    if a.shape.len() != 2 || b.shape.len() != 2 {
        return Err(site.invalid("an input is not a matrix"));
    }
    let flag = |name| usize::from(attr_int(site.attributes(), name, 0) != 0);
    // The axis of A for rows, and the axis of B for columns.
    let (rows, columns) = (flag("transA"), 1 - flag("transB"));
    contracted(site, a, a.batch.is_some_and(|at| at.axis != rows))?;
    contracted(site, b, b.batch.is_some_and(|at| at.axis != columns))?;
    if a.shape[1 - rows] != b.shape[1 - columns] {
        return Err(site.invalid(format!(
            "the inner extents {} and {} differ",
            a.shape[1 - rows],
            b.shape[1 - columns]
        )));
    }
    let batch = match (a.batch, b.batch) {
        (Some(_), Some(_)) => {
            return Err(site.mixes(
                format!("it multiplies every sample of '{}' with every sample of '{}'", a.name, b.name),
                CROSSED,
            ));
        }
        (Some(at), None) => Some(at.at(0)),
        (None, Some(at)) => Some(at.at(1)),
        (None, None) => None,
    };
    let shape = vec![a.shape[rows], b.shape[columns]];
    if !site.has(2) {
        return Ok(Outcome::Node(vec![Shaped { dtype: a.dtype, shape, batch }]));
    }
    let c = site.float(2)?;
    let (whole, with) = broadcast_shapes(site, &[(&shape, batch, "A·B"), (&c.shape, c.batch, &c.name)])?;
    if whole != shape || with != batch {
        return Err(site.invalid(format!("input 2 ('{}') does not broadcast to the product", c.name)));
    }
    Ok(Outcome::Node(vec![Shaped { dtype: a.dtype, shape, batch: with }]))
}

fn contracted(site: &Site<'_>, value: &Value, over_samples: bool) -> Result<(), GraphError> {
    if over_samples {
        return Err(site.mixes(format!("the product sums over the samples of '{}'", value.name), CONTRACTED));
    }
    Ok(())
}
