//! Evaluator of shape arithmetic: operators over known integers, with entries `a·N + b`.

mod broadcast;
mod layout;

pub(super) use broadcast::broadcast_index;
pub(super) use layout::split;

use super::affine::Affine;
use super::node::{Ints, Item, MAX_FOLDED, MAX_RANK, Site};
use super::{DType, GraphError};
use crate::attr_int;
use broadcast::{common, count, not_affine};

/// Evaluates the node if all its inputs are known integers and its operator is part of shape arithmetic.
pub(super) fn evaluate(site: &Site<'_>) -> Option<Result<Ints, GraphError>> {
    let inputs: Vec<&Ints> = site
        .inputs
        .iter()
        .flatten()
        .map(|item| match item {
            Item::Ints(ints) => Some(ints),
            Item::Value(_) => None,
        })
        .collect::<Option<_>>()?;
    if inputs.is_empty() {
        return None;
    }
    let evaluated = match site.op() {
        "Add" => elementwise(site, &inputs, |a, b| a.add(b)),
        "Sub" => elementwise(site, &inputs, |a, b| a.sub(b)),
        "Mul" => elementwise(site, &inputs, |a, b| a.mul(b)),
        "Div" => elementwise(site, &inputs, |a, b| a.div(b)),
        "Equal" => elementwise(site, &inputs, |a, b| Some(Affine::fixed(i64::from(a.equals(b)?))))
            .map(|ints| Ints { dtype: DType::Bool, ..ints }),
        "Greater" => compare(site, &inputs, |a, b| a > b),
        "GreaterOrEqual" => compare(site, &inputs, |a, b| a >= b),
        "Less" => compare(site, &inputs, |a, b| a < b),
        "LessOrEqual" => compare(site, &inputs, |a, b| a <= b),
        "And" => compare(site, &inputs, |a, b| a != 0 && b != 0),
        "Or" => compare(site, &inputs, |a, b| a != 0 || b != 0),
        "Xor" => compare(site, &inputs, |a, b| (a != 0) != (b != 0)),
        "Not" => compare(site, &[inputs[0], inputs[0]], |a, _| a == 0),
        "Max" => extreme(site, &inputs, i64::max),
        "Min" => extreme(site, &inputs, i64::min),
        "Mod" if attr_int(site.attributes(), "fmod", 0) == 0 => elementwise(site, &inputs, remainder),
        "Abs" => elementwise(site, &[inputs[0], inputs[0]], |a, _| Some(Affine::fixed(a.constant()?.checked_abs()?))),
        "Sign" => elementwise(site, &[inputs[0], inputs[0]], |a, _| Some(Affine::fixed(a.constant()?.signum()))),
        "Where" => choose(site, &inputs),
        "Neg" => elementwise(site, &[inputs[0], inputs[0]], |a, _| Affine::fixed(0).sub(a)),
        "ReduceMax" => reduce(site, &inputs, |a, b| Some(Affine::fixed(a.constant()?.max(b.constant()?)))),
        "ReduceMin" => reduce(site, &inputs, |a, b| Some(Affine::fixed(a.constant()?.min(b.constant()?)))),
        "ReduceProd" => reduce(site, &inputs, Affine::mul),
        "ReduceSum" => reduce(site, &inputs, Affine::add),
        "Cast" => return cast(site, inputs[0]),
        _ => layout::evaluate(site, &inputs)?,
    };
    Some(evaluated.and_then(|ints| {
        if ints.entries.len() > MAX_FOLDED || ints.shape.len() > MAX_RANK {
            return Err(site.invalid("an integer constant is too large"));
        }
        Ok(ints)
    }))
}

fn elementwise(
    site: &Site<'_>,
    inputs: &[&Ints],
    f: impl Fn(Affine, Affine) -> Option<Affine>,
) -> Result<Ints, GraphError> {
    let [a, b] = inputs else {
        return Err(site.invalid("two inputs are expected"));
    };
    let shape = common(site, inputs)?;
    let entries = (0..count(site, &shape)?)
        .map(|flat| {
            let x = a.entries[broadcast_index(flat, &shape, &a.shape)];
            f(x, b.entries[broadcast_index(flat, &shape, &b.shape)])
        })
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| not_affine(site))?;
    Ok(Ints { dtype: a.dtype, shape, entries })
}

/// Elementwise comparison of integers that do not depend on the number of samples.
fn compare(site: &Site<'_>, inputs: &[&Ints], f: impl Fn(i64, i64) -> bool) -> Result<Ints, GraphError> {
    let truth = |a: Affine, b: Affine| Some(Affine::fixed(i64::from(f(a.constant()?, b.constant()?))));
    Ok(Ints { dtype: DType::Bool, ..elementwise(site, inputs, truth)? })
}

/// Maximum or minimum of any number of inputs.
fn extreme(site: &Site<'_>, inputs: &[&Ints], f: impl Fn(i64, i64) -> i64) -> Result<Ints, GraphError> {
    let mut best = inputs[0].clone();
    for other in &inputs[1..] {
        best = elementwise(site, &[&best, other], |a, b| Some(Affine::fixed(f(a.constant()?, b.constant()?))))?;
    }
    Ok(best)
}

/// Remainder with the sign of the divisor.
fn remainder(a: Affine, b: Affine) -> Option<Affine> {
    let (a, b) = (a.constant()?, b.constant()?);
    let rest = a.checked_rem(b)?;
    Some(Affine::fixed(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }))
}

fn choose(site: &Site<'_>, inputs: &[&Ints]) -> Result<Ints, GraphError> {
    let [condition, a, b] = inputs else {
        return Err(site.invalid("three inputs are expected"));
    };
    let shape = common(site, inputs)?;
    let entries = (0..count(site, &shape)?)
        .map(|flat| {
            let chosen = condition.entries[broadcast_index(flat, &shape, &condition.shape)].constant()? != 0;
            let from = if chosen { a } else { b };
            Some(from.entries[broadcast_index(flat, &shape, &from.shape)])
        })
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| not_affine(site))?;
    Ok(Ints { dtype: a.dtype, shape, entries })
}

/// Reduction over axes, or over all axes if none are given.
fn reduce(site: &Site<'_>, inputs: &[&Ints], f: impl Fn(Affine, Affine) -> Option<Affine>) -> Result<Ints, GraphError> {
    let (data, rank) = (inputs[0], inputs[0].shape.len());
    let given = match site.constants(1)? {
        Some(axes) => Some(axes),
        None => site.attr_ints("axes")?,
    };
    let given = given.filter(|axes| !axes.is_empty());
    if given.is_none() && attr_int(site.attributes(), "noop_with_empty_axes", 0) != 0 {
        return Ok(data.clone());
    }
    let axes: Vec<usize> = match given {
        Some(axes) => axes.into_iter().map(|axis| site.axis(axis, rank)).collect::<Result<_, _>>()?,
        None => (0..rank).collect(),
    };
    let kept: Vec<usize> = (0..rank).map(|axis| if axes.contains(&axis) { 1 } else { data.shape[axis] }).collect();
    let mut totals: Vec<Option<Affine>> = vec![None; count(site, &kept)?];
    for (flat, &entry) in data.entries.iter().enumerate() {
        let total = &mut totals[broadcast_index(flat, &data.shape, &kept)];
        *total = Some(match *total {
            None => entry,
            Some(sum) => f(sum, entry).ok_or_else(|| not_affine(site))?,
        });
    }
    let entries = totals.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| site.invalid("it reduces nothing"))?;
    let shape = match attr_int(site.attributes(), "keepdims", 1) {
        0 => (0..rank).filter(|axis| !axes.contains(axis)).map(|axis| kept[axis]).collect(),
        _ => kept,
    };
    Ok(Ints { dtype: data.dtype, shape, entries })
}

/// Cast to another integer type. A cast to a float type is not shape arithmetic.
fn cast(site: &Site<'_>, data: &Ints) -> Option<Result<Ints, GraphError>> {
    let dtype = match DType::from_onnx(attr_int(site.attributes(), "to", 0) as i32) {
        Ok(dtype) => dtype,
        Err(name) => {
            return Some(Err(site.refused(format!("it casts to {name}"), "export the model in float32")));
        }
    };
    if dtype.is_float() {
        return None;
    }
    let mut ints = Ints { dtype, ..data.clone() };
    if dtype == DType::Bool {
        for entry in &mut ints.entries {
            match entry.equals(Affine::fixed(0)) {
                Some(zero) => *entry = Affine::fixed(i64::from(!zero)),
                None => return Some(Err(not_affine(site))),
            }
        }
    }
    Some(Ok(ints))
}
