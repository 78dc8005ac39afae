//! The evaluator of shape arithmetic: operators over integers known now, each entry `a·N + b`.

use super::affine::Affine;
use super::node::{Ints, Item, MAX_FOLDED, MAX_RANK, Site};
use super::{DType, GraphError};
use crate::onnx::attr_int;

/// Evaluates the node if all its inputs are known integers and the operator is one of shape arithmetic.
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
        "Concat" => concat(site, &inputs),
        "Gather" => gather(site, &inputs),
        "Slice" => slice(site, &inputs),
        "Squeeze" | "Unsqueeze" | "Reshape" | "Flatten" => reshape(site, &inputs),
        "Expand" => expand(site, &inputs),
        "ReduceProd" => product(site, &inputs),
        "Range" => range(site, &inputs),
        "Cast" => return cast(site, inputs[0]),
        _ => return None,
    };
    Some(evaluated.and_then(|ints| {
        if ints.entries.len() > MAX_FOLDED || ints.shape.len() > MAX_RANK {
            return Err(site.invalid("an integer constant is too large"));
        }
        Ok(ints)
    }))
}

fn not_affine(site: &Site<'_>) -> GraphError {
    site.refused(
        "its result is not of the form a·N + b in the number of samples N (or overflows)",
        "compute shapes from fixed sizes and the batch size alone",
    )
}

/// The broadcast shape of integer tensors.
fn common(site: &Site<'_>, inputs: &[&Ints]) -> Result<Vec<usize>, GraphError> {
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

fn count(site: &Site<'_>, shape: &[usize]) -> Result<usize, GraphError> {
    shape
        .iter()
        .try_fold(1usize, |n, &d| n.checked_mul(d))
        .filter(|&n| n <= MAX_FOLDED)
        .ok_or_else(|| site.invalid("an integer constant is too large"))
}

/// The flat index, in `shape` broadcast to `full`, of flat index `flat` of `full`.
pub(super) fn broadcast_index(flat: usize, full: &[usize], shape: &[usize]) -> usize {
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

/// A truth value of two numbers that do not depend on the number of samples.
fn compare(site: &Site<'_>, inputs: &[&Ints], f: impl Fn(i64, i64) -> bool) -> Result<Ints, GraphError> {
    let truth = |a: Affine, b: Affine| Some(Affine::fixed(i64::from(f(a.constant()?, b.constant()?))));
    Ok(Ints { dtype: DType::Bool, ..elementwise(site, inputs, truth)? })
}

/// The largest or smallest of any number of inputs.
fn extreme(site: &Site<'_>, inputs: &[&Ints], f: impl Fn(i64, i64) -> i64) -> Result<Ints, GraphError> {
    let mut best = inputs[0].clone();
    for other in &inputs[1..] {
        best = elementwise(site, &[&best, other], |a, b| Some(Affine::fixed(f(a.constant()?, b.constant()?))))?;
    }
    Ok(best)
}

/// The remainder with the sign of the divisor.
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

/// Extents around `axis`: (before, the axis, after).
fn around(shape: &[usize], axis: usize) -> (usize, usize, usize) {
    (shape[..axis].iter().product(), shape[axis], shape[axis + 1..].iter().product())
}

fn concat(site: &Site<'_>, inputs: &[&Ints]) -> Result<Ints, GraphError> {
    let rank = inputs[0].shape.len();
    let axis = site.axis(attr_int(site.attributes(), "axis", 0), rank)?;
    let fits =
        |ints: &&&Ints| ints.shape.len() == rank && (0..rank).all(|i| i == axis || ints.shape[i] == inputs[0].shape[i]);
    if inputs.iter().filter(fits).count() != inputs.len() {
        return Err(site.invalid("integer inputs do not concatenate"));
    }
    let mut shape = inputs[0].shape.clone();
    shape[axis] = inputs.iter().map(|ints| ints.shape[axis]).sum();
    count(site, &shape)?;
    let before: usize = shape[..axis].iter().product();
    let mut entries = Vec::new();
    for row in 0..before {
        for ints in inputs {
            let (_, extent, after) = around(&ints.shape, axis);
            entries.extend_from_slice(&ints.entries[row * extent * after..(row + 1) * extent * after]);
        }
    }
    Ok(Ints { dtype: inputs[0].dtype, shape, entries })
}

fn gather(site: &Site<'_>, inputs: &[&Ints]) -> Result<Ints, GraphError> {
    let [data, indices] = inputs else {
        return Err(site.invalid("two inputs are expected"));
    };
    let axis = site.axis(attr_int(site.attributes(), "axis", 0), data.shape.len())?;
    let (before, extent, after) = around(&data.shape, axis);
    let chosen = indices
        .constants()
        .ok_or_else(|| not_affine(site))?
        .into_iter()
        .map(|index| site.axis(index, extent))
        .collect::<Result<Vec<_>, _>>()?;
    let mut shape = data.shape[..axis].to_vec();
    shape.extend(&indices.shape);
    shape.extend(&data.shape[axis + 1..]);
    count(site, &shape)?;
    let mut entries = Vec::new();
    for row in 0..before {
        for &index in &chosen {
            let at = (row * extent + index) * after;
            entries.extend_from_slice(&data.entries[at..at + after]);
        }
    }
    Ok(Ints { dtype: data.dtype, shape, entries })
}

fn slice(site: &Site<'_>, inputs: &[&Ints]) -> Result<Ints, GraphError> {
    let data = inputs[0];
    let missing = || site.invalid("starts and ends are expected");
    let starts = site.constants(1)?.ok_or_else(missing)?;
    let ends = site.constants(2)?.ok_or_else(missing)?;
    let axes = site.constants(3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = site.constants(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    if starts.len() != 1 || ends.len() != 1 || axes.len() != 1 || steps.len() != 1 || data.shape.len() != 1 {
        return Err(site.refused("it slices several axes of an integer constant", "simplify the shape computation"));
    }
    site.axis(axes[0], 1)?;
    let (length, step) = (data.shape[0] as i64, steps[0]);
    let clamp = |at: i64, low: i64, high: i64| if at < 0 { at.saturating_add(length) } else { at }.clamp(low, high);
    let mut entries = Vec::new();
    if step > 0 {
        let (mut at, end) = (clamp(starts[0], 0, length), clamp(ends[0], 0, length));
        while at < end {
            entries.push(data.entries[at as usize]);
            at = at.saturating_add(step);
        }
    } else if step < 0 {
        let (mut at, end) = (clamp(starts[0], -1, length - 1), clamp(ends[0], -1, length - 1));
        while at > end {
            entries.push(data.entries[at as usize]);
            at = at.saturating_add(step);
        }
    } else {
        return Err(site.invalid("the step of a slice is 0"));
    }
    Ok(Ints { dtype: data.dtype, shape: vec![entries.len()], entries })
}

fn reshape(site: &Site<'_>, inputs: &[&Ints]) -> Result<Ints, GraphError> {
    let shape = super::shape::reshape::plain_target(site, &inputs[0].shape)?;
    Ok(Ints { dtype: inputs[0].dtype, shape, entries: inputs[0].entries.clone() })
}

fn expand(site: &Site<'_>, inputs: &[&Ints]) -> Result<Ints, GraphError> {
    let target = site.constants(1)?.ok_or_else(|| site.invalid("a target shape is expected"))?;
    let target: Vec<usize> =
        target.iter().map(|&d| usize::try_from(d)).collect::<Result<_, _>>().map_err(|_| not_affine(site))?;
    let like = Ints { dtype: inputs[0].dtype, shape: target, entries: vec![] };
    let shape = common(site, &[inputs[0], &like])?;
    let entries = (0..count(site, &shape)?)
        .map(|flat| inputs[0].entries[broadcast_index(flat, &shape, &inputs[0].shape)])
        .collect();
    Ok(Ints { dtype: inputs[0].dtype, shape, entries })
}

fn product(site: &Site<'_>, inputs: &[&Ints]) -> Result<Ints, GraphError> {
    let data = inputs[0];
    if data.shape.len() != 1 {
        return Err(site.refused("it reduces an integer constant of several axes", "simplify the shape computation"));
    }
    let total = data.entries.iter().try_fold(Affine::fixed(1), |n, &d| n.mul(d)).ok_or_else(|| not_affine(site))?;
    let shape = if attr_int(site.attributes(), "keepdims", 1) != 0 { vec![1] } else { vec![] };
    Ok(Ints { dtype: data.dtype, shape, entries: vec![total] })
}

fn range(site: &Site<'_>, inputs: &[&Ints]) -> Result<Ints, GraphError> {
    let single = |index: usize| {
        let one = site.constants(index)?.filter(|values| values.len() == 1);
        one.map(|values| values[0]).ok_or_else(|| site.invalid("a scalar is expected"))
    };
    let (start, limit, delta) = (single(0)?, single(1)?, single(2)?);
    if delta == 0 {
        return Err(site.invalid("the step of a range is 0"));
    }
    let span = i128::from(limit) - i128::from(start);
    let delta = i128::from(delta);
    // The number of whole or begun steps from start to limit.
    let length = if span.signum() == delta.signum() { span.abs().div_euclid(delta.abs()) } else { 0 };
    let begun = span.signum() == delta.signum() && span % delta != 0;
    let length = length + i128::from(begun);
    if length > MAX_FOLDED as i128 {
        return Err(site.invalid("an integer constant is too large"));
    }
    let entries: Vec<Affine> = (0..length).map(|i| Affine::fixed((i128::from(start) + i * delta) as i64)).collect();
    Ok(Ints { dtype: inputs[0].dtype, shape: vec![entries.len()], entries })
}

/// To another integer type; to a float type it is no shape arithmetic any more.
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
