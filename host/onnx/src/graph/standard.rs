//! Converts models of any supported opset or exporter to the form that the rules support.
//!
//! - Weights in `Constant` nodes become initializers.
//! - Nodes from before opset 13 become nodes of opset 17.
//! - Inputs with a public value become constants.
//! - Samples are along axis 0 of every other input.
//!
//! Names stay the same, so trained parameters can be written to the original file.

mod bind;
mod inline;
mod upgrade;
mod weights;

use super::parameter::retie_graph;
use super::{GraphError, GraphOptions};
use crate::pb::{GraphProto, ModelProto};
use crate::scopes::{has_branches, unique_names};

pub(super) use bind::batch_axes;
pub use bind::{OpenInput, open_inputs};
pub(super) use inline::{Flow, MAX_ROUNDS, inline};
pub(super) use upgrade::FLATTENS;
pub use weights::hoist_weights;

/// Supported opsets.
pub(super) const OPSETS: std::ops::RangeInclusive<i64> = 7..=24;

/// Newest opset whose nodes the rules support. Later opsets, up to the last of [`OPSETS`], only add element types to
/// the same operators.
const NEWEST_RULES: i64 = 21;

/// Opset to which older nodes are converted.
const UPGRADED: i64 = 17;

/// Model in the form that the rules support.
pub(super) struct Standard {
    /// Graph.
    pub graph: GraphProto,
    /// Opset of its nodes.
    pub opset: i64,
    /// Notes, one line each.
    pub notes: Vec<String>,
}

/// Version of the model's standard opset, or 0 if it imports none.
pub(super) fn opset(model: &ModelProto) -> i64 {
    let standard = |domain: &str| matches!(domain, "" | "ai.onnx");
    model.opset_import.iter().find(|set| standard(&set.domain)).map_or(0, |set| set.version)
}

/// Converts `model` to the form that the rules support, with each tied weight once.
///
/// # Errors
/// [`GraphError`] for an unsupported opset, a node that cannot be converted, or an invalid input value.
pub(super) fn standard(model: &ModelProto, options: &GraphOptions) -> Result<Standard, GraphError> {
    let written = opset(model);
    if !OPSETS.contains(&written) {
        return Err(GraphError::Model(format!(
            "the model uses operator set {written}, and {} to {} are supported; export it with \
             torch.onnx.export(..., opset_version=17) or dynamo=True and opset_version=18",
            OPSETS.start(),
            OPSETS.end()
        )));
    }
    let mut graph = named(model, options)?;
    upgrade::upgrade(&mut graph, written)?;
    let notes = bind::bind(&mut graph, options)?;
    let opset = if written < 13 { UPGRADED } else { written.min(NEWEST_RULES) };
    Ok(Standard { graph, opset, notes })
}

/// Returns `model` with bound inputs and each tied weight once, and its nodes as they are written. The second value has
/// a line for each note on an input.
///
/// # Errors
/// [`GraphError`] if a tie or an input value is invalid.
pub(super) fn bound(model: &ModelProto, options: &GraphOptions) -> Result<(GraphProto, Vec<String>), GraphError> {
    let mut graph = named(model, options)?;
    let notes = bind::bind(&mut graph, options)?;
    Ok((graph, notes))
}

/// Graph of `model` with each tied weight once, weights as initializers, and a name for every node.
fn named(model: &ModelProto, options: &GraphOptions) -> Result<GraphProto, GraphError> {
    let mut graph =
        model.graph.clone().ok_or_else(|| GraphError::Model("the model has no graph; export it again".into()))?;
    hoist_weights(&mut graph, false);
    // Weights in subgraphs are not tied because the outer graph does not show their readers.
    if !has_branches(&graph)
        && let Some(tied) = retie_graph(&graph, options)?
    {
        graph = tied;
    }
    unique_names(&mut graph);
    Ok(graph)
}
