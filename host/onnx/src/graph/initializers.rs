//! List of a model's initializers, with the decision on each.

pub use super::parameter::Initializer;
use super::standard::hoist_weights;
use super::{GraphError, GraphOptions, build, parameter};
use crate::pb::{GraphProto, ModelProto};
use crate::scopes::has_branches;

/// Lists every initializer of `model`, whether it is trained, and why. A list without a trained entry is valid here.
///
/// # Errors
/// [`GraphError`] if a pattern of `options` matches nothing, or a tensor cannot be read.
pub fn initializers(model: &ModelProto, options: &GraphOptions) -> Result<Vec<Initializer>, GraphError> {
    let empty = GraphProto::default();
    let given = model.graph.as_ref().unwrap_or(&empty);
    // If the model cannot be read, its initializers are listed as in the file.
    let flat = build::flat(model, options).map(|(flat, _)| flat);
    let decisions = parameter::decide(&flat.unwrap_or_else(|_| given.clone()), options)?;
    let mut given = given.clone();
    hoist_weights(&mut given, false);
    let ties = if has_branches(&given) { vec![] } else { parameter::ties(&given, options)? };
    let named = decisions.floats.into_iter().map(|float| Initializer {
        name: float.name,
        shape: float.tensor.shape,
        trained: float.trained,
        reason: float.reason,
    });
    let copies = ties.into_iter().map(|tie| Initializer {
        trained: false,
        reason: format!("not trained: tied to '{}'{}; `untie` '{}' if it is not", tie.of, tie.form, tie.copy),
        name: tie.copy,
        shape: tie.shape,
    });
    Ok(named.chain(copies).chain(decisions.others).collect())
}
