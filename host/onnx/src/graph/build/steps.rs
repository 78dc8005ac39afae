//! Adds the nodes to which a single node is rewritten.

use super::super::node::{Source, Step};
use super::super::{GraphError, ValueId};
use super::builder::Builder;
use crate::pb::NodeProto;

impl Builder<'_> {
    /// Adds `steps`. Their outputs get the names of the outputs of `node` listed in `outputs`.
    pub(super) fn add_steps(
        &mut self,
        name: &str,
        node: &NodeProto,
        steps: Vec<Step>,
        outputs: &[usize],
    ) -> Result<(), GraphError> {
        let (first, alone) = (&node.output[0], steps.len() == 1);
        let mut written: Vec<ValueId> = Vec::with_capacity(steps.len());
        for (index, step) in steps.into_iter().enumerate() {
            let own = outputs.iter().position(|&step| step == index).and_then(|slot| node.output.get(slot));
            let output = own.cloned().unwrap_or_else(|| format!("{first}/{index}"));
            let mut inputs = Vec::with_capacity(step.inputs.len());
            for (slot, source) in step.inputs.into_iter().enumerate() {
                inputs.push(Some(match source {
                    Source::Value(id) => id,
                    Source::Step(earlier) => written[earlier],
                    Source::Constant(tensor) => self.add_constant(&format!("{output}/{slot}"), tensor)?,
                }));
            }
            let title = if alone { name.to_string() } else { format!("{name}/{index}") };
            written.push(self.emit(&title, step.op, inputs, step.attributes, &[&output], vec![step.output])?);
        }
        Ok(())
    }
}
