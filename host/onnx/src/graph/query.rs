//! Questions that the stages behind the graph ask.

mod part;

use super::{Graph, Origin, Parameter, Tensor, Value, ValueId};

impl Graph {
    /// The value behind an id.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0]
    }

    /// The value called `name`.
    pub fn find(&self, name: &str) -> Option<ValueId> {
        self.values.iter().position(|value| value.name == name).map(ValueId)
    }

    /// For each value, the nodes that read it, as (index in `nodes`, input slot), in order.
    pub fn consumers(&self) -> Vec<Vec<(usize, usize)>> {
        let mut consumers = vec![Vec::new(); self.values.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for (slot, input) in node.inputs.iter().enumerate() {
                if let Some(id) = input {
                    consumers[id.0].push((index, slot));
                }
            }
        }
        consumers
    }

    /// The tensor of a value that is the same for the whole run: a constant, or a parameter that is not trained.
    pub fn constant(&self, id: ValueId) -> Option<&Tensor> {
        match &self.value(id).origin {
            Origin::Constant(tensor) => Some(tensor),
            Origin::Parameter(index) => {
                let parameter = &self.parameters[*index];
                (!parameter.trained).then_some(&parameter.initial)
            }
            Origin::Input | Origin::Node { .. } => None,
        }
    }

    /// The trained parameters, in order.
    pub fn trained(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(|parameter| parameter.trained)
    }
}
