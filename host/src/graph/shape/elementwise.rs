//! Elementwise operators: one input keeps everything; several broadcast, and their batch axes must meet.

use super::super::batch::show;
use super::super::node::{Item, Outcome, Ruled, Shaped, Site};
use super::super::{BatchAxis, GraphError, Value};
use crate::onnx::attr_int;

/// Activations and other functions of one element.
pub(in super::super) fn unary(site: &Site<'_>) -> Ruled {
    Ok(Outcome::Node(vec![Shaped::of(site.float(0)?)]))
}

/// `Add`, `Sub`, `Mul`, `Div`, `Pow`.
pub(in super::super) fn binary(site: &Site<'_>) -> Ruled {
    let (a, b) = (site.float(0)?, site.float(1)?);
    if a.dtype != b.dtype {
        return Err(site.invalid(format!("it combines {} with {}", a.dtype.name(), b.dtype.name())));
    }
    let (shape, batch) = broadcast(site, &[a, b])?;
    Ok(Outcome::Node(vec![Shaped { dtype: a.dtype, shape, batch }]))
}

/// `Identity`: its readers read what it reads.
pub(in super::super) fn identity(site: &Site<'_>) -> Ruled {
    match site.inputs.first() {
        Some(Some(item)) => Ok(Outcome::Alias(item.clone())),
        _ => Err(site.invalid("input 0 is missing")),
    }
}

/// `Dropout` at inference is the identity; in training it draws randomness that the run does not control.
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

/// The broadcast of `values`: one-sample shape and batch axis.
pub(super) fn broadcast(site: &Site<'_>, values: &[&Value]) -> Result<(Vec<usize>, Option<BatchAxis>), GraphError> {
    broadcast_shapes(site, &values.iter().map(|v| (v.shape.as_slice(), v.batch, v.name.as_str())).collect::<Vec<_>>())
}

/// As [`broadcast`], of (shape, batch, name).
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
