//! `Gather`: `Y` = the rows of `X` at indices along an axis ⇒ row `v` of `dX` = the sum of the rows of `dY` read from
//! `v`.
//!
//! For constant indices, the transpose is padding, or another lookup. An embedding has indices from data into a table
//! that is the same for all samples. Then the gradient of the table's rows is factored, with the indices as one factor.
//! The gradient of its columns is a product with one-hot vectors of the indices.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::BATCH_FIRST;
use crate::factor::{FactorSide, FactoredGrad};
use crate::lookup::{checked, embedding_gradient, scatter, split_at_axis};
use damper_onnx::graph::BatchAxis;

pub const RULE: GradRule = GradRule { op: "Gather", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, index, gy) = (p.x(0), p.x(1), p.gy());
    let axis = p.int("axis", 0) as usize;
    let extent = x.shape[axis];
    if index.batch.is_none() {
        let Some(indices) = p.constant_ints(1) else {
            return Err(p.refuse(
                "its indices follow from no data and are not known before a run",
                "use constant indices, or data",
            ));
        };
        let indices: Vec<usize> = indices.iter().map(|&i| i as usize).collect();
        let axis = axis + p.shift();
        // Merge the indices' axes.
        let mut shape = gy.shape[..axis].to_vec();
        shape.push(indices.len());
        shape.extend(&gy.shape[axis + index.rank()..]);
        let batch =
            gy.batch.map(|b| if b.axis < axis { b } else { BatchAxis { axis: b.axis + 1 - index.rank(), ..b } });
        let rows = p.em.reshape(&gy, &shape, batch);
        let gx = scatter(p.em, &rows, axis, &indices, extent);
        p.gx(0, gx);
        return Ok(());
    }
    let [before, _, after] = split_at_axis(&x.shape, axis);
    let index = p.em.per_sample(&index, &[index.len()]);
    let index = checked(p.em, &index, extent).index;
    if before == 1 {
        let rows = p.em.per_sample(&gy, &[index.len(), after]);
        let table = FactorSide::indices(p.em, &index, extent, gy.dtype);
        p.gx_factored(0, FactoredGrad::new(table, FactorSide::positions_first(rows)).reshape(&x.shape));
        return Ok(());
    }
    let grad = p.em.per_sample(&gy, &[before, index.len(), after]);
    let gx = embedding_gradient(p.em, &index, &grad, extent);
    let gx = p.em.reshape(&gx, &[&[1], &x.shape[..]].concat(), Some(BATCH_FIRST));
    p.gx(0, gx);
    Ok(())
}
