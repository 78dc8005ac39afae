//! Text form of a graph, one value per line, for debugging and tests.

use std::fmt;

use super::batch::show;
use super::{Graph, Origin, ValueId};

impl fmt::Display for Graph {
    /// Writes `name: dtype[shape] = Op(inputs)`. The batch axis includes `N`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let typed = |id: ValueId| {
            let value = self.value(id);
            format!("{}: {}{}", value.name, value.dtype.name(), show(&value.shape, value.batch))
        };
        for id in &self.inputs {
            writeln!(f, "{} = input", typed(*id))?;
        }
        for parameter in &self.parameters {
            let kind = if parameter.trained { "trained" } else { "frozen" };
            writeln!(f, "{} = {kind}", typed(parameter.value))?;
        }
        for (index, value) in self.values.iter().enumerate() {
            if matches!(value.origin, Origin::Constant(_)) {
                writeln!(f, "{} = constant", typed(ValueId(index)))?;
            }
        }
        for node in &self.nodes {
            let outputs: Vec<String> = node.outputs.iter().map(|&id| typed(id)).collect();
            let name = |id: &Option<ValueId>| id.map_or("_", |id| self.value(id).name.as_str());
            let inputs: Vec<&str> = node.inputs.iter().map(name).collect();
            writeln!(f, "{} = {}({})", outputs.join(", "), node.op, inputs.join(", "))?;
        }
        let outputs: Vec<&str> = self.outputs.iter().map(|&id| self.value(id).name.as_str()).collect();
        writeln!(f, "return {}", outputs.join(", "))
    }
}
