//! `ArgMax`, `ArgMin`, `OneHot` and `TopK`: indices from data and back, within samples.

use super::super::DType;
use super::super::node::{Outcome, Rewritten, Ruled, Shaped, Site, Source, Step};
use crate::{attr_int, make_attr_int};

/// `ArgMax` and `ArgMin` along one axis.
pub(in super::super) fn arg(site: &Site<'_>) -> Ruled {
    let x = site.value(0)?;
    let axis = site.axis(attr_int(site.attributes(), "axis", 0), x.shape.len())?;
    if x.batch.is_some_and(|at| at.axis == axis) {
        return Err(site.mixes(
            format!("it compares elements along axis {axis}, which holds the samples"),
            "take it along an axis of each sample, as x.argmax(dim=1)",
        ));
    }
    let (mut shape, mut batch) = (x.shape.clone(), x.batch);
    if attr_int(site.attributes(), "keepdims", 1) != 0 {
        shape[axis] = 1;
    } else {
        shape.remove(axis);
        batch = batch.map(|at| at.at(at.axis - usize::from(at.axis > axis)));
    }
    Ok(Outcome::Node(vec![Shaped { dtype: DType::I64, shape, batch }]))
}

/// `TopK` with constant `k` along one axis: values and their indices.
pub(in super::super) fn top_k(site: &Site<'_>) -> Ruled {
    let x = site.float(0)?;
    let axis = site.axis(attr_int(site.attributes(), "axis", -1), x.shape.len())?;
    if x.batch.is_some_and(|at| at.axis == axis) {
        return Err(site.mixes(
            format!("it compares elements along axis {axis}, which holds the samples"),
            "take it along an axis of each sample, as x.topk(3, dim=1)",
        ));
    }
    let count = match site.constants(1)?.as_deref() {
        Some(&[count]) if (1..=x.shape[axis] as i64).contains(&count) => count as usize,
        _ => return Err(site.invalid(format!("its k is not a number from 1 to {}", x.shape[axis]))),
    };
    let outputs = &site.node.output;
    if outputs.len() < 2 || outputs.iter().any(String::is_empty) {
        // The gradient of the values needs their indices.
        let mut whole = site.node.clone();
        let first = outputs.iter().find(|name| !name.is_empty()).cloned().unwrap_or_default();
        whole.output = (0..2)
            .map(|slot| outputs.get(slot).filter(|name| !name.is_empty()).cloned().unwrap_or(format!("{first}/{slot}")))
            .collect();
        return Ok(Outcome::Rewritten(Rewritten { nodes: vec![whole], ints: vec![] }));
    }
    let mut shape = x.shape.clone();
    shape[axis] = count;
    let values = Shaped { dtype: x.dtype, shape, batch: x.batch };
    let places = Shaped { dtype: DType::I64, ..values.clone() };
    Ok(Outcome::Node(vec![values, places]))
}

/// `OneHot` of a constant depth, which is that of the output. The inputs are indices and values (off, on).
pub(in super::super) fn one_hot(site: &Site<'_>) -> Ruled {
    let (indices, values) = (site.data(0)?, site.data(2)?);
    if indices.shaped.dtype.is_float() || values.shaped.shape != [2] || values.shaped.batch.is_some() {
        return Err(site.invalid("it takes integer indices and two values, off and on"));
    }
    let depth = match site.constants(1)?.as_deref() {
        Some(&[depth]) if depth > 0 => depth as usize,
        _ => return Err(site.invalid("its depth is not one number above 0")),
    };
    let mut shape = indices.shaped.shape.clone();
    let axis = site.axis(attr_int(site.attributes(), "axis", -1), shape.len() + 1)?;
    shape.insert(axis, depth);
    let batch = indices.shaped.batch.map(|at| at.at(at.axis + usize::from(at.axis >= axis)));
    let output = Shaped { dtype: values.shaped.dtype, shape, batch };
    let inputs = vec![indices.source, Source::integers(&[depth as i64]), values.source];
    let attributes = vec![make_attr_int("axis", axis as i64)];
    Ok(Outcome::Steps { steps: vec![Step { op: "OneHot", inputs, attributes, output }], outputs: vec![0] })
}
