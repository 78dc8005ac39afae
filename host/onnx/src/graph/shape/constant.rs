//! `Shape`, `Size`, `ConstantOfShape`, `Cast`, `CastLike`: operators between data and shape arithmetic.

use super::super::affine::Affine;
use super::super::node::{Ints, Item, MAX_EXTENT, MAX_FOLDED, MAX_RANK, Outcome, Ruled, Shaped, Site};
use super::super::{BatchAxis, DType, Tensor, TensorData};
use super::rewrite::Rewrite;
use crate::{attr_int, attr_tensor, data_type, decode_tensor, make_attr_int};

/// `Shape`: the extents, with the batch axis as a multiple of the number of samples.
pub(in super::super) fn shape(site: &Site<'_>) -> Ruled {
    let extents = extents(site)?;
    let rank = extents.len() as i64;
    let clamp = |at: i64| (if at < 0 { at.saturating_add(rank) } else { at }).clamp(0, rank) as usize;
    let start = clamp(attr_int(site.attributes(), "start", 0));
    let end = clamp(attr_int(site.attributes(), "end", rank)).max(start);
    let entries = extents[start..end].to_vec();
    Ok(Outcome::Ints(Ints { dtype: DType::I64, shape: vec![entries.len()], entries }))
}

/// `Size`: the number of elements.
pub(in super::super) fn size(site: &Site<'_>) -> Ruled {
    let total = extents(site)?
        .into_iter()
        .try_fold(Affine::fixed(1), |n, d| n.mul(d))
        .ok_or_else(|| site.invalid("the number of elements is too large"))?;
    Ok(Outcome::Ints(Ints { dtype: DType::I64, shape: vec![], entries: vec![total] }))
}

/// `EyeLike`: 1 on a diagonal of a matrix of the input's shape, 0 elsewhere.
pub(in super::super) fn eye_like(site: &Site<'_>) -> Ruled {
    let extents = extents(site)?.into_iter().map(Affine::constant).collect::<Option<Vec<_>>>();
    let Some([rows, columns]) = extents.as_deref() else {
        return Err(site.mixes(
            "its input is no matrix of fixed size, so the rows of the samples would differ",
            "use a matrix that is the same for all samples",
        ));
    };
    let known = site.data(0)?.shaped.dtype;
    let dtype = match attr_int(site.attributes(), "dtype", 0) {
        0 => known,
        to => DType::from_onnx(i32::try_from(to).unwrap_or(0))
            .map_err(|name| site.refused(format!("it makes {name}"), "export the model in float32"))?,
    };
    let diagonal = attr_int(site.attributes(), "k", 0);
    let count = rows.checked_mul(*columns).filter(|&n| (0..=MAX_FOLDED as i64).contains(&n));
    let count = count.ok_or_else(|| site.invalid("the constant is too large"))?;
    let on = |at: i64| at % columns - at / columns == diagonal;
    let shape = vec![*rows as usize, *columns as usize];
    Ok(match dtype {
        DType::F32 => constant(shape, TensorData::F32((0..count).map(|at| f32::from(u8::from(on(at)))).collect())),
        DType::F64 => constant(shape, TensorData::F64((0..count).map(|at| f64::from(u8::from(on(at)))).collect())),
        _ => {
            let entries = (0..count).map(|at| Affine::fixed(i64::from(on(at)))).collect();
            Outcome::Ints(Ints { dtype, shape, entries })
        }
    })
}

fn constant(shape: Vec<usize>, data: TensorData) -> Outcome {
    Outcome::Constant(Tensor { shape, data })
}

fn extents(site: &Site<'_>) -> Result<Vec<Affine>, super::super::GraphError> {
    if let Some(Some(Item::Ints(ints))) = site.inputs.first() {
        return Ok(ints.shape.iter().map(|&d| Affine::fixed(d as i64)).collect());
    }
    let value = site.value(0)?;
    let extent = |(axis, &d): (usize, &usize)| match value.batch {
        Some(at) if at.axis == axis => Affine::per_sample(d as i64),
        _ => Affine::fixed(d as i64),
    };
    Ok(value.shape.iter().enumerate().map(extent).collect())
}

/// `ConstantOfShape`: the same value everywhere. If the shape includes the batch, it is an expanded constant.
pub(in super::super) fn of_shape(site: &Site<'_>) -> Ruled {
    let target = site.ints(0)?;
    let value = match attr_tensor(site.attributes(), "value") {
        Some(proto) => decode_tensor(proto).map_err(|error| site.invalid(error.to_string()))?,
        None => Tensor { shape: vec![1], data: TensorData::F32(vec![0.0].into()) },
    };
    if value.data.len() != 1 {
        return Err(site.invalid("its value has not one element"));
    }
    let dtype = value.data.dtype();
    if target.entries.len() > MAX_RANK {
        return Err(site.invalid("the target has too many axes"));
    }
    let mut shape = Vec::new();
    let mut batch = None;
    for (axis, entry) in target.entries.iter().enumerate() {
        let range = |d: i64| (0..=MAX_EXTENT).contains(&d).then_some(d as usize);
        let extent = match (entry.per_sample, entry.fixed) {
            (0, d) => range(d),
            (a, 0) if batch.is_none() => {
                let a = range(a).filter(|&a| a > 0);
                batch = a.map(|inner| BatchAxis { axis, outer: 1, inner });
                a
            }
            _ => None,
        };
        shape.push(extent.ok_or_else(|| site.invalid(format!("the extent {entry} of axis {axis} has no rule")))?);
    }
    let count = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).filter(|&n| n <= MAX_FOLDED);
    let count = count.ok_or_else(|| site.invalid("the constant is too large"))?;
    let integer = match &value.data {
        TensorData::I32(data) => Some(i64::from(data[0])),
        TensorData::I64(data) => Some(data[0]),
        TensorData::Bool(data) => Some(i64::from(data[0])),
        TensorData::F32(_) | TensorData::F64(_) => None,
    };
    match (batch, integer) {
        (None, Some(x)) => Ok(Outcome::Ints(Ints { dtype, shape, entries: vec![Affine::fixed(x); count] })),
        (None, None) => {
            let data = match value.data {
                TensorData::F32(data) => TensorData::F32(vec![data[0]; count].into()),
                TensorData::F64(data) => TensorData::F64(vec![data[0]; count]),
                other => other,
            };
            Ok(Outcome::Constant(Tensor { shape, data }))
        }
        (Some(_), _) => {
            let constant = Tensor { shape: vec![1; shape.len()], data: value.data };
            Ok(Outcome::Expanded { constant, output: Shaped { dtype, shape, batch } })
        }
    }
}

/// `Cast` of data from one type to another, or of known integers to float.
pub(in super::super) fn cast(site: &Site<'_>) -> Ruled {
    let to = attr_int(site.attributes(), "to", 0);
    let dtype = DType::from_onnx(i32::try_from(to).unwrap_or(0))
        .map_err(|name| site.refused(format!("it casts to {name}"), "export the model in float32"))?;
    if let Some(Some(Item::Ints(ints))) = site.inputs.first() {
        let Some(values) = ints.constants() else {
            return Err(site.mixes(
                "it turns the number of samples into a float, so every sample's result would depend on it",
                "divide by fixed sizes instead, and average the loss outside the model",
            ));
        };
        let data = match dtype {
            DType::F32 => TensorData::F32(values.iter().map(|&x| x as f32).collect()),
            _ => TensorData::F64(values.iter().map(|&x| x as f64).collect()),
        };
        return Ok(Outcome::Constant(Tensor { shape: ints.shape.clone(), data }));
    }
    let value = site.value(0)?;
    if value.dtype == dtype {
        return Ok(Outcome::Alias(Item::Value(site.id(0)?)));
    }
    Ok(Outcome::Node(vec![Shaped { dtype, ..Shaped::of(value) }]))
}

/// `CastLike`, as a `Cast` to the type of its second input, whose values do not matter.
pub(in super::super) fn cast_like(site: &Site<'_>) -> Ruled {
    let dtype = match site.inputs.get(1) {
        Some(Some(Item::Ints(ints))) => ints.dtype,
        _ => site.value(1)?.dtype,
    };
    let to = make_attr_int("to", data_type(dtype) as i64);
    Ok(Rewrite::of(site).end("Cast", &[&site.node.input[0]], vec![to]))
}
