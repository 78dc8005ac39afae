//! The form of models that the rules know, whatever operator set or exporter wrote the file.
//!
//! - Weights in `Constant` nodes become initializers.
//! - Nodes of older operator sets become those of set 13.
//! - Inputs with a public value become constants.
//! - Samples lie along axis 0 of every other input.
//!
//! Names stay, so what is trained is written into the file as it was.

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

/// Operator sets whose nodes are read.
pub(super) const OPSETS: std::ops::RangeInclusive<i64> = 7..=24;

/// The newest set whose nodes the rules know. Later sets, up to the last of [`OPSETS`], add element types alone to the same operators.
const NEWEST_RULES: i64 = 21;

/// The set that older nodes are written in.
const UPGRADED: i64 = 17;

/// A model in the form that rules know.
pub(super) struct Standard {
    /// The graph.
    pub graph: GraphProto,
    /// The operator set of its nodes.
    pub opset: i64,
    /// One line each.
    pub notes: Vec<String>,
}

/// The model's version of the standard operator set, or 0 if it names none.
pub(super) fn opset(model: &ModelProto) -> i64 {
    let standard = |domain: &str| matches!(domain, "" | "ai.onnx");
    model.opset_import.iter().find(|set| standard(&set.domain)).map_or(0, |set| set.version)
}

/// Brings `model` into the form that the rules know, each tied weight once.
///
/// # Errors
/// [`GraphError`]: the operator set, a node of it, or an input's value.
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
    let mut graph =
        model.graph.clone().ok_or_else(|| GraphError::Model("the model has no graph; export it again".into()))?;
    hoist_weights(&mut graph, false);
    // Weights in branches are not tied, because the outer graph does not show who reads them.
    if !has_branches(&graph)
        && let Some(tied) = retie_graph(&graph, options)?
    {
        graph = tied;
    }
    unique_names(&mut graph);
    upgrade::upgrade(&mut graph, written)?;
    let notes = bind::bind(&mut graph, options)?;
    let opset = if written < 13 { UPGRADED } else { written.min(NEWEST_RULES) };
    Ok(Standard { graph, opset, notes })
}
