//! Elementwise operators. One input keeps shape and batch axis. Several inputs broadcast, and their batch axes must
//! match.

use super::super::batch::show;
use super::super::node::{Data, Item, Outcome, Ruled, Shaped, Site};
use super::super::{BatchAxis, DType, GraphError};
use crate::attr_int;

/// Elementwise activations and other functions of one float.
pub(in super::super) fn unary(site: &Site<'_>) -> Ruled {
    Ok(Outcome::Node(vec![Shaped::of(site.float(0)?)]))
}

/// `Abs`, `Neg`, `Sign` of floats and integers.
pub(in super::super) fn signed(site: &Site<'_>) -> Ruled {
    let x = number(site, 0)?;
    Ok(Outcome::Node(vec![x.shaped]))
}

/// `IsInf`, `IsNaN`: tests on floats.
pub(in super::super) fn probe(site: &Site<'_>) -> Ruled {
    Ok(Outcome::Node(vec![Shaped { dtype: DType::Bool, ..Shaped::of(site.float(0)?) }]))
}

/// `Add`, `Sub`, `Mul`, `Div`, `Mod`.
pub(in super::super) fn binary(site: &Site<'_>) -> Ruled {
    let operands = [number(site, 0)?, number(site, 1)?];
    let dtype = operands[0].shaped.dtype;
    if matches!(site.op(), "Div" | "Mod") && !dtype.is_float() && !divides(site) {
        return Err(site.refused(
            "it divides integers by data, or by 0 or -1: the quotient of some sample may not exist, which would end the run",
            "cast to float first, or divide by a positive constant",
        ));
    }
    combined(site, &operands, dtype)
}

/// `Pow`. The type of the exponent may differ from that of the base.
pub(in super::super) fn pow(site: &Site<'_>) -> Ruled {
    let (dtype, mut exponent) = (site.float(0)?.dtype, number(site, 1)?);
    exponent.shaped.dtype = dtype;
    combined(site, &[site.data(0)?, exponent], dtype)
}

/// `Max`, `Mean`, `Min`, `Sum` of any number of inputs.
pub(in super::super) fn variadic(site: &Site<'_>) -> Ruled {
    let operands = (0..site.inputs.len()).map(|i| number(site, i)).collect::<Result<Vec<_>, _>>()?;
    match &operands[..] {
        [] => Err(site.invalid("input 0 is missing")),
        [_] => Ok(Outcome::Alias(Item::Value(site.id(0)?))),
        [first, ..] => combined(site, &operands, first.shaped.dtype),
    }
}

/// `Equal`, `Greater`, `GreaterOrEqual`, `Less`, `LessOrEqual`.
pub(in super::super) fn compare(site: &Site<'_>) -> Ruled {
    combined(site, &[site.data(0)?, site.data(1)?], DType::Bool)
}

/// `And`, `Or`, `Xor`.
pub(in super::super) fn logic(site: &Site<'_>) -> Ruled {
    combined(site, &[truth(site, 0)?, truth(site, 1)?], DType::Bool)
}

/// `Not`.
pub(in super::super) fn not(site: &Site<'_>) -> Ruled {
    let x = truth(site, 0)?;
    Ok(Outcome::Node(vec![x.shaped]))
}

/// `Where`: a condition, and two values of one type.
pub(in super::super) fn choose(site: &Site<'_>) -> Ruled {
    let (condition, a, b) = (truth(site, 0)?, site.data(1)?, site.data(2)?);
    let operands = [a, b, condition];
    one_type(site, &operands[..2])?;
    let (shape, batch) = broadcast(site, &operands)?;
    Ok(Outcome::Node(vec![Shaped { dtype: operands[0].shaped.dtype, shape, batch }]))
}

/// `Clip`. Both bounds are scalars, and either may be absent.
pub(in super::super) fn clip(site: &Site<'_>) -> Ruled {
    let x = number(site, 0)?;
    for index in (1..3).filter(|&index| site.has(index)) {
        let bound = number(site, index)?;
        one_type(site, &[x.clone(), bound.clone()])?;
        let Shaped { shape, batch, .. } = &bound.shaped;
        if batch.is_some() || shape.iter().any(|&d| d != 1) || shape.len() > 1 {
            return Err(site.invalid(format!("the bound '{}' is {}, not one number", bound.name, show(shape, *batch))));
        }
    }
    if !site.has(1) && !site.has(2) {
        return Ok(Outcome::Alias(Item::Value(site.id(0)?)));
    }
    Ok(Outcome::Node(vec![x.shaped]))
}

/// `PRelu`. The slope broadcasts to the data, never the other way.
pub(in super::super) fn prelu(site: &Site<'_>) -> Ruled {
    let operands = [site.data(0)?, site.data(1)?];
    let x = site.float(0)?;
    one_type(site, &operands)?;
    let (shape, batch) = broadcast(site, &operands)?;
    if shape != x.shape || batch != x.batch {
        return Err(
            site.invalid(format!("the slope '{}' does not broadcast to the data '{}'", operands[1].name, x.name))
        );
    }
    Ok(Outcome::Node(vec![Shaped::of(x)]))
}

fn combined(site: &Site<'_>, operands: &[Data<'_>], dtype: DType) -> Ruled {
    one_type(site, operands)?;
    let (shape, batch) = broadcast(site, operands)?;
    Ok(Outcome::Node(vec![Shaped { dtype, shape, batch }]))
}

fn one_type(site: &Site<'_>, operands: &[Data<'_>]) -> Result<(), GraphError> {
    match operands.iter().find(|operand| operand.shaped.dtype != operands[0].shaped.dtype) {
        Some(other) => Err(site.invalid(format!(
            "it combines {} with {}",
            operands[0].shaped.dtype.name(),
            other.shaped.dtype.name()
        ))),
        None => Ok(()),
    }
}

/// Returns true if input 1 is known integers that can divide every integer.
fn divides(site: &Site<'_>) -> bool {
    let Some(Some(Item::Ints(ints))) = site.inputs.get(1) else {
        return false;
    };
    ints.entries.iter().all(|entry| !matches!(entry.constant(), None | Some(0 | -1)))
}

/// Input `index`, of floats or integers.
fn number<'a>(site: &'a Site<'_>, index: usize) -> Result<Data<'a>, GraphError> {
    let operand = site.data(index)?;
    match operand.shaped.dtype {
        DType::Bool => Err(site.invalid(format!("input {index} ('{}') is bool, not a number", operand.name))),
        _ => Ok(operand),
    }
}

/// Input `index`, of Booleans.
fn truth<'a>(site: &'a Site<'_>, index: usize) -> Result<Data<'a>, GraphError> {
    let operand = site.data(index)?;
    match operand.shaped.dtype {
        DType::Bool => Ok(operand),
        other => Err(site.invalid(format!("input {index} ('{}') is {}, not bool", operand.name, other.name()))),
    }
}

/// `Identity`. Its readers read its input.
pub(in super::super) fn identity(site: &Site<'_>) -> Ruled {
    match site.inputs.first() {
        Some(Some(item)) => Ok(Outcome::Alias(item.clone())),
        _ => Err(site.invalid("input 0 is missing")),
    }
}

/// `Dropout`. At inference it is the identity. In training it draws randomness that the run does not control.
pub(in super::super) fn dropout(site: &Site<'_>) -> Ruled {
    let training = match site.inputs.get(2) {
        None | Some(None) => false,
        Some(Some(Item::Ints(ints))) => ints.entries.iter().any(|entry| entry.constant() != Some(0)),
        Some(Some(Item::Value(_))) => true,
    };
    if training || attr_int(site.attributes(), "training_mode", 0) != 0 {
        return Err(site.refused(
            "it is in training mode, so it drops elements at random outside the run's seed",
            "export in evaluation mode (model.eval(), or training=torch.onnx.TrainingMode.EVAL)",
        ));
    }
    Ok(Outcome::Alias(Item::Value(site.id(0)?)))
}

/// Broadcast shape and batch axis of `operands`, for one sample.
fn broadcast(site: &Site<'_>, operands: &[Data<'_>]) -> Result<(Vec<usize>, Option<BatchAxis>), GraphError> {
    broadcast_shapes(site, &operands.iter().map(|x| (&x.shaped.shape[..], x.shaped.batch, x.name)).collect::<Vec<_>>())
}

/// See [`broadcast`], for (shape, batch, name).
pub(super) fn broadcast_shapes(
    site: &Site<'_>,
    values: &[(&[usize], Option<BatchAxis>, &str)],
) -> Result<(Vec<usize>, Option<BatchAxis>), GraphError> {
    let rank = values.iter().map(|(shape, ..)| shape.len()).max().unwrap_or(0);
    let aligned = |shape: &[usize], batch: Option<BatchAxis>| batch.map(|b| b.at(b.axis + rank - shape.len()));
    let mut batch: Option<(BatchAxis, &str)> = None;
    for (shape, at, name) in values {
        let Some(at) = aligned(shape, *at) else {
            continue;
        };
        match batch {
            Some((other, first)) if other != at => {
                return Err(site.mixes(
                    format!(
                        "'{first}' has its samples along axis {} of the result and '{name}' along axis {}{}",
                        other.axis,
                        at.axis,
                        if other.axis == at.axis { " in another order or grouping" } else { "" }
                    ),
                    "give both the batch along the same axis",
                ));
            }
            Some(_) => {}
            None => batch = Some((at, name)),
        }
    }
    let batch = batch.map(|(at, _)| at);
    let mut result = vec![1; rank];
    for (shape, at, name) in values {
        let own = aligned(shape, *at);
        for (axis, &d) in (rank - shape.len()..).zip(*shape) {
            if batch.is_some_and(|b| b.axis == axis) && own.is_none() {
                if d != 1 {
                    return Err(site.mixes(
                        format!("'{name}' {} has different rows along the batch axis {axis}", show(shape, None)),
                        format!("use the same values for every sample, or {}", site.export_remedy()),
                    ));
                }
                continue;
            }
            if result[axis] == 1 {
                result[axis] = d;
            } else if d != 1 && d != result[axis] {
                let shapes: Vec<_> = values.iter().map(|(shape, at, _)| show(shape, *at)).collect();
                return Err(site.invalid(format!("shapes {} do not broadcast", shapes.join(" and "))));
            }
        }
    }
    if let Some(b) = batch {
        result[b.axis] = b.extent();
    }
    Ok((result, batch))
}
