//! Node to be lowered, with typed getters for its inputs and attributes.

use super::builder::{Builder, Id, Refusal};
use damper_onnx::pb::AttributeProto;
use damper_onnx::{attr_float, attr_int, attr_ints, attr_string};

/// Node with its inputs as values.
pub(super) struct Node<'a> {
    pub(super) op: &'a str,
    pub(super) attributes: &'a [AttributeProto],
    pub(super) inputs: Vec<Option<Id>>,
    /// Number of outputs that have a name.
    pub(super) outputs: usize,
}

impl Node<'_> {
    pub(super) fn input(&self, at: usize) -> Result<Id, Refusal> {
        self.optional(at).ok_or_else(|| format!("its input {at} is missing"))
    }

    pub(super) fn optional(&self, at: usize) -> Option<Id> {
        self.inputs.get(at).copied().flatten()
    }

    pub(super) fn int(&self, name: &str, default: i64) -> i64 {
        attr_int(self.attributes, name, default)
    }

    pub(super) fn ints(&self, name: &str) -> Option<&[i64]> {
        attr_ints(self.attributes, name)
    }

    pub(super) fn float(&self, name: &str, default: f32) -> f32 {
        attr_float(self.attributes, name, default)
    }

    pub(super) fn string(&self, name: &str, default: &'static str) -> &str {
        attr_string(self.attributes, name, default)
    }

    /// Constant integers of input `at`, or of attribute `name` as in older opsets.
    pub(super) fn list(&self, builder: &Builder, at: usize, name: &str) -> Result<Option<Vec<i64>>, Refusal> {
        match self.optional(at) {
            Some(id) => {
                let list = builder.ints(id).ok_or_else(|| format!("its {name} are not constant integers"))?;
                Ok(Some(list.to_vec()))
            }
            None => Ok(self.ints(name).map(<[i64]>::to_vec)),
        }
    }
}

/// Axis as an index. Negative axes count from the end.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize, Refusal> {
    let from_start = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(from_start)
        .ok()
        .filter(|axis| *axis < rank)
        .ok_or_else(|| format!("axis {axis} is not one of {rank}"))
}
