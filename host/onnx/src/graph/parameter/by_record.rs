//! Decisions based on the exporter's record of the source.

use super::float::Note;
use super::{Candidate, Judge, Judged, Source, Tensor, constants, decoded::is_uniform, frozen, reads};
use crate::node_name;
use crate::source::SourceKind;

impl Judge<'_> {
    /// Decides by the exporter's record of the source. A table of sines is a constant, even if it is a parameter
    /// without gradient.
    pub(super) fn by_record(&self, candidate: Candidate<'_>) -> Option<Judged> {
        let Candidate { name, tensor, source, read_by } = candidate;
        let stored = if let Source::Alias(base) | Source::Split(base) = source { base } else { name };
        match self.record.kind(stored)? {
            SourceKind::Constant => Some(frozen("a buffer or a constant of the source")),
            SourceKind::Parameter => {
                let (node, slot) = self.reads.end_of(self.graph, *read_by.first()?);
                let reader = &self.graph.node[node];
                let role = reads::role(&reader.op_type, slot);
                let note = self.record.is_computed(self.graph, stored).then_some(Note::Computed);
                let judged =
                    (true, format!("trained: {role} of {} '{}'", reader.op_type, node_name(reader, node)), note);
                Some(constants::written(tensor, tensor.as_f32()?).map_or(judged, frozen))
            }
        }
    }

    /// Returns true if all readers of the initializer also share it in the source. Either the exporter recorded this,
    /// or all readers belong to one module.
    pub(super) fn is_shared_in_source(&self, name: &str, tensor: &Tensor, read_by: &[(usize, usize)]) -> bool {
        let is_parameter = || !is_uniform(tensor) && self.record.kind(name) == Some(SourceKind::Parameter);
        let is_of_one_module = || self.reads.are_of_one_module(self.graph, read_by.iter().map(|read| read.0));
        self.reads.is_recorded(name) || is_parameter() || is_of_one_module()
    }
}
