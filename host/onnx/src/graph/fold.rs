//! Folds constants that include floats: elementwise and reshaping subgraphs that exporters write. Examples are
//! `1/sqrt(d)`, an epsilon, a mask of fill values, and the angles of rotary positions. Any other operator stays a node,
//! which is correct but slower.
//!
//! Elementwise operators are computed in f64 and rounded once. For `+ − × ÷ √` in f32 this gives the bits of f32
//! arithmetic.

use super::affine::Affine;
use super::integers::broadcast_index;
use super::node::{Ints, Item, MAX_FOLDED, Outcome, Site};
use super::{DType, Origin, Tensor, TensorData, ValueId};
use crate::{attr_int, attr_ints};

/// Constant input. Its elements are f64, Booleans as 0 and 1.
struct Known<'a> {
    dtype: DType,
    shape: &'a [usize],
    data: Vec<f64>,
}

/// Output of the node. `None` unless its inputs are constants that include floats, and the operator is supported here.
pub(super) fn evaluate(site: &Site<'_>) -> Option<Outcome> {
    let mut floats = Vec::new();
    for item in site.inputs.iter().flatten() {
        if let Item::Value(id) = item {
            floats.push(constant_value(site, *id)?);
        }
    }
    let first = *floats.first()?;
    if let Some(layout) = moved(site, first) {
        return layout.map(Outcome::Constant);
    }
    let known = site.inputs.iter().map(|item| known(site, item.as_ref()?)).collect::<Option<Vec<_>>>()?;
    match site.op() {
        "Range" => return range(&known).map(Outcome::Constant),
        "Concat" => return joined(&known).map(Outcome::Constant),
        _ => {}
    }
    let (f, dtype) = function(site, &known)?;
    let shape = broadcast(&known)?;
    let data: Vec<f64> = (0..count(&shape)?)
        .map(|flat| {
            let at = |x: &Known<'_>| x.data[broadcast_index(flat, &shape, x.shape)];
            f(&known.iter().map(at).collect::<Vec<_>>())
        })
        .collect();
    Some(match dtype {
        DType::F32 => constant(shape, TensorData::F32(data.into_iter().map(|x| x as f32).collect())),
        DType::F64 => constant(shape, TensorData::F64(data)),
        // Toward zero, as ONNX casts.
        _ => Outcome::Ints(Ints { dtype, shape, entries: data.iter().map(|&x| Affine::fixed(x as i64)).collect() }),
    })
}

/// Constant of the graph, or a scalar that is stored among the weights and not trained.
fn constant_value<'a>(site: &Site<'a>, id: ValueId) -> Option<&'a Tensor> {
    match &site.values[id.0].origin {
        Origin::Constant(tensor) => Some(tensor),
        Origin::Parameter(at) => {
            let parameter = &site.parameters[*at];
            let is_read = |tensor: &&Tensor| site.op() == "Range" || tensor.data.len() == 1;
            Some(&parameter.initial).filter(|tensor| !parameter.trained && is_read(tensor))
        }
        Origin::Input | Origin::Node { .. } => None,
    }
}

fn constant(shape: Vec<usize>, data: TensorData) -> Outcome {
    Outcome::Constant(Tensor { shape, data })
}

fn known<'a>(site: &'a Site<'_>, item: &'a Item) -> Option<Known<'a>> {
    Some(match item {
        Item::Ints(ints) => {
            let data = ints.constants()?.into_iter().map(|x| x as f64).collect();
            Known { dtype: ints.dtype, shape: &ints.shape, data }
        }
        Item::Value(id) => {
            let tensor = constant_value(site, *id)?;
            let data = match &tensor.data {
                TensorData::F32(data) => data.iter().map(|&x| f64::from(x)).collect(),
                TensorData::F64(data) => data.clone(),
                _ => return None,
            };
            Known { dtype: tensor.data.dtype(), shape: &tensor.shape, data }
        }
    })
}

type Function = fn(&[f64]) -> f64;

/// Elementwise operator and its result type.
fn function(site: &Site<'_>, known: &[Known<'_>]) -> Option<(Function, DType)> {
    let dtype = known.first()?.dtype;
    let truth: Option<Function> = match (site.op(), known.len()) {
        ("Equal", 2) => Some(|x| f64::from(x[0] == x[1])),
        ("Greater", 2) => Some(|x| f64::from(x[0] > x[1])),
        ("GreaterOrEqual", 2) => Some(|x| f64::from(x[0] >= x[1])),
        ("Less", 2) => Some(|x| f64::from(x[0] < x[1])),
        ("LessOrEqual", 2) => Some(|x| f64::from(x[0] <= x[1])),
        ("IsNaN", 1) => Some(|x| f64::from(x[0].is_nan())),
        _ => None,
    };
    if let Some(f) = truth {
        return Some((f, DType::Bool));
    }
    if let ("Cast", [_]) = (site.op(), known) {
        let to = DType::from_onnx(i32::try_from(attr_int(site.attributes(), "to", 0)).ok()?).ok()?;
        return match to {
            DType::Bool => Some((|x| f64::from(x[0] != 0.0), to)),
            DType::I32 => Some((|x| whole(x[0], f64::from(i32::MIN)), to)),
            DType::I64 => Some((|x| whole(x[0], i64::MIN as f64), to)),
            _ => Some((|x| x[0], to)),
        };
    }
    if let ("Where", [condition, a, b]) = (site.op(), known) {
        let fits = condition.dtype == DType::Bool && a.dtype == b.dtype && a.dtype.is_float();
        return fits.then_some((|x| if x[0] != 0.0 { x[1] } else { x[2] }, a.dtype));
    }
    let f: Function = match (site.op(), known.len()) {
        ("Abs", 1) => |x| x[0].abs(),
        ("Add", 2) | ("Sum", _) => |x| x.iter().fold(-0.0, |sum, v| sum + v),
        ("Ceil", 1) => |x| x[0].ceil(),
        ("Cos", 1) => |x| x[0].cos(),
        ("Div", 2) => |x| x[0] / x[1],
        ("Exp", 1) => |x| x[0].exp(),
        ("Floor", 1) => |x| x[0].floor(),
        ("Log", 1) => |x| x[0].ln(),
        ("Max", _) => |x| extreme(x, |a, b| a > b),
        ("Min", _) => |x| extreme(x, |a, b| a < b),
        ("Mul", 2) => |x| x[0] * x[1],
        ("Neg", 1) => |x| -x[0],
        ("Pow", 2) => |x| x[0].powf(x[1]),
        ("Reciprocal", 1) => |x| 1.0 / x[0],
        ("Round", 1) => |x| x[0].round_ties_even(),
        ("Sigmoid", 1) => |x| 1.0 / (1.0 + (-x[0]).exp()),
        ("Sin", 1) => |x| x[0].sin(),
        ("Sqrt", 1) => |x| x[0].sqrt(),
        ("Sub", 2) => |x| x[0] - x[1],
        ("Tanh", 1) => |x| x[0].tanh(),
        _ => return None,
    };
    let alike = known.iter().all(|x| x.dtype == dtype) || site.op() == "Pow";
    (dtype.is_float() && alike).then_some((f, dtype))
}

/// Rounds `x` toward zero. Values out of range, such as the logarithm of 0 that a later `Where` discards, become the
/// lowest integer as on x86.
fn whole(x: f64, lowest: f64) -> f64 {
    if (lowest..-lowest).contains(&x) { x.trunc() } else { lowest }
}

/// Maximum or minimum. NaN if any element is NaN.
fn extreme(x: &[f64], better: fn(f64, f64) -> bool) -> f64 {
    x.iter().copied().reduce(|a, b| if a.is_nan() || better(a, b) { a } else { b }).unwrap_or(f64::NAN)
}

fn broadcast(known: &[Known<'_>]) -> Option<Vec<usize>> {
    let rank = known.iter().map(|x| x.shape.len()).max()?;
    let mut shape = vec![1; rank];
    for x in known {
        for (d, &own) in shape[rank - x.shape.len()..].iter_mut().zip(x.shape) {
            match (*d, own) {
                (a, b) if a == b || b == 1 => {}
                (1, b) => *d = b,
                _ => return None,
            }
        }
    }
    Some(shape)
}

/// `Range` over floats.
fn range(known: &[Known<'_>]) -> Option<Tensor> {
    let [start, limit, delta] = known else {
        return None;
    };
    let (&[start], &[limit], &[step]) = (&start.data[..], &limit.data[..], &delta.data[..]) else {
        return None;
    };
    let length = ((limit - start) / step).ceil();
    if length.is_nan() || length > MAX_FOLDED as f64 {
        return None;
    }
    let entries = (0..length.max(0.0) as usize).map(|i| start + i as f64 * step);
    let data = match delta.dtype {
        DType::F32 => TensorData::F32(entries.map(|x| x as f32).collect()),
        DType::F64 => TensorData::F64(entries.collect()),
        _ => return None,
    };
    Some(Tensor { shape: vec![data.len()], data })
}

/// `Concat` of vectors, such as the scales of a `Resize`.
fn joined(known: &[Known<'_>]) -> Option<Tensor> {
    let vectors = known.iter().all(|x| x.shape.len() == 1 && x.dtype == DType::F32);
    count(&[known.iter().map(|x| x.data.len()).sum()]).filter(|_| vectors)?;
    let data: Vec<f32> = known.iter().flat_map(|x| &x.data).map(|&x| x as f32).collect();
    Some(Tensor { shape: vec![data.len()], data: TensorData::F32(data.into()) })
}

/// Output of an operator that moves elements. `None` for any other operator, `Some(None)` if it is not supported.
fn moved(site: &Site<'_>, tensor: &Tensor) -> Option<Option<Tensor>> {
    match site.op() {
        "Reshape" | "Squeeze" | "Unsqueeze" | "Flatten" => {
            let shape = super::shape::reshape::plain_target(site, &tensor.shape).ok();
            Some(shape.map(|shape| Tensor { shape, data: tensor.data.clone() }))
        }
        "Transpose" => Some(tensor.as_f32().and_then(|data| transpose(site, (&tensor.shape, data)))),
        _ => None,
    }
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
