//! `If` and `Loop` with a statically known condition and number of iterations.

use super::super::GraphError;
use super::super::node::{Ints, Item};
use super::super::standard::{Flow, MAX_ROUNDS};
use super::builder::Builder;
use crate::find_attr;
use crate::pb::{GraphProto, NodeProto};

impl Builder<'_> {
    /// Statically known control flow of `node`, if it is a branch or a loop.
    pub(super) fn known_flow(&self, node: &NodeProto) -> Result<Option<Flow>, GraphError> {
        let Some(output) = node.output.first().cloned() else { return Ok(None) };
        Ok(match node.op_type.as_str() {
            "If" => self.known(node, 0).map(|taken| Flow::Branch(output, taken != 0)),
            "Loop" => self.rounds(node)?.map(|rounds| Flow::Rounds(output, rounds)),
            _ => None,
        })
    }

    /// Scalar at input `slot`, if it is known and the same for every number of samples.
    fn known(&self, node: &NodeProto, slot: usize) -> Option<i64> {
        match self.items.get(node.input.get(slot)?)? {
            Item::Ints(Ints { entries, .. }) => match &entries[..] {
                [entry] => entry.constant(),
                _ => None,
            },
            Item::Value(_) => None,
        }
    }

    /// Number of iterations of a loop that ends only by its count.
    fn rounds(&self, node: &NodeProto) -> Result<Option<usize>, GraphError> {
        let is_given = |slot: usize| node.input.get(slot).is_some_and(|name| !name.is_empty());
        let body = find_attr(&node.attribute, "body").and_then(|attribute| attribute.g.as_ref());
        let (Some(body), Some(count)) = (body, self.known(node, 0)) else { return Ok(None) };
        match (is_given(1), self.known(node, 1)) {
            (true, Some(0)) => return Ok(Some(0)),
            (true, None) => return Ok(None),
            _ => {}
        }
        if count > 0 && !goes_on(body) {
            return Ok(None);
        }
        if count > MAX_ROUNDS {
            return Err(GraphError::Refused {
                node: node.name.clone(),
                op: node.op_type.clone(),
                reason: format!("it runs {count} rounds, and at most {MAX_ROUNDS} are written out"),
                remedy: "export the model without the loop".into(),
            });
        }
        Ok(Some(usize::try_from(count).unwrap_or(0)))
    }
}

/// Returns true if the body passes its condition through, or always returns true.
fn goes_on(body: &GraphProto) -> bool {
    let (Some(output), Some(input)) = (body.output.first(), body.input.get(1)) else { return false };
    let mut name = &output.name;
    for _ in 0..=body.node.len() {
        if *name == input.name {
            return true;
        }
        if let Some(tensor) = body.initializer.iter().find(|tensor| tensor.name == *name) {
            return is_true(tensor);
        }
        let Some(node) = body.node.iter().find(|node| node.output.first() == Some(name)) else { return false };
        match (node.op_type.as_str(), node.input.first()) {
            ("Identity" | "Cast", Some(from)) => name = from,
            ("Constant", _) => {
                let value = find_attr(&node.attribute, "value").and_then(|attribute| attribute.t.as_ref());
                return value.is_some_and(is_true);
            }
            _ => return false,
        }
    }
    false
}

fn is_true(tensor: &crate::pb::TensorProto) -> bool {
    matches!(crate::decode_tensor(tensor).map(|tensor| tensor.data), Ok(crate::TensorData::Bool(data)) if data == [true])
}
