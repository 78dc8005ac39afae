//! `Trilu`: keeps a triangle of every matrix in the last two axes, with zeros elsewhere.

use super::super::GraphError;
use super::super::node::{MAX_EXTENT, MAX_FOLDED, Outcome, Ruled, Shaped, Site};
use super::super::{Origin, Tensor, TensorData};
use crate::attr_int;

/// `Trilu` with a constant diagonal, within a sample.
pub(in super::super) fn triangle(site: &Site<'_>) -> Ruled {
    let x = site.value(0)?;
    let keeps = kept(site, &x.shape)?;
    let rank = x.shape.len();
    if let Some(at) = x.batch.filter(|at| at.axis + 2 >= rank) {
        return Err(site.mixes(
            format!("it keeps a triangle along axis {}, which holds the samples", at.axis),
            "apply it to two axes of a sample, such as scores of positions by positions",
        ));
    }
    if let Origin::Constant(tensor) = &x.origin
        && let Some(data) = tensor.as_f32()
    {
        let (rows, columns) = (x.shape[rank - 2], x.shape[rank - 1]);
        let inside = |at: usize| keeps(at / columns % rows, at % columns);
        let data = data.iter().enumerate().map(|(at, &v)| if inside(at) { v } else { 0.0 }).collect();
        return Ok(Outcome::Constant(Tensor { shape: tensor.shape.clone(), data: TensorData::F32(data) }));
    }
    Ok(Outcome::Node(vec![Shaped::of(x)]))
}

/// Predicate on row and column: true if the element is kept.
pub(in super::super) fn kept(
    site: &Site<'_>,
    shape: &[usize],
) -> Result<impl Fn(usize, usize) -> bool + use<>, GraphError> {
    let Some([rows, columns]) = shape.last_chunk() else {
        return Err(site.invalid("its input has no rows and columns"));
    };
    if rows.checked_mul(*columns).is_none_or(|n| n > MAX_FOLDED) {
        return Err(site.invalid(format!("matrices of {rows} by {columns} are too large")));
    }
    let diagonal = match site.constants(1)?.as_deref() {
        None => 0,
        Some(&[k]) => k.clamp(-MAX_EXTENT, MAX_EXTENT),
        Some(_) => return Err(site.invalid("the diagonal is not one number")),
    };
    let upper = attr_int(site.attributes(), "upper", 1) != 0;
    Ok(move |row: usize, column: usize| {
        let above = column as i64 - row as i64;
        if upper { above >= diagonal } else { above <= diagonal }
    })
}
