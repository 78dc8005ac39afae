//! Queries on a graph for later stages.

mod part;

use super::{Graph, Origin, Parameter, Tensor, Value, ValueId};

impl Graph {
    /// Value with the given id.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0]
    }

    /// Id of the value with the name `name`.
    pub fn find(&self, name: &str) -> Option<ValueId> {
        self.values.iter().position(|value| value.name == name).map(ValueId)
    }

    /// Readers of each value, as (index in `nodes`, input slot), in order.
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

    /// Tensor of a value that is the same for the whole run: a constant, or a parameter that is not trained.
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

    /// Trained parameters, in order.
    pub fn trained(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(|parameter| parameter.trained)
    }
}
