//! Last pass: names the outputs and removes everything that no output needs.

use super::super::node::{Item, Shaped};
use super::super::{Graph, GraphError, Node, Origin, Parameter, ValueId};
use super::builder::Builder;

impl Builder<'_> {
    pub(super) fn finish(mut self) -> Result<Graph, GraphError> {
        let outputs = self.outputs()?;
        let mut used = vec![false; self.values.len()];
        let mut open: Vec<usize> = outputs.iter().chain(&self.inputs).map(|id| id.0).collect();
        let mut live = vec![false; self.nodes.len()];
        while let Some(id) = open.pop() {
            if std::mem::replace(&mut used[id], true) {
                continue;
            }
            if let Origin::Node { node, .. } = self.values[id].origin {
                live[node] = true;
                open.extend(self.nodes[node].outputs.iter().map(|id| id.0));
                open.extend(self.nodes[node].inputs.iter().flatten().map(|id| id.0));
            }
        }
        let places = |kept: &[bool]| {
            let mut next = 0;
            kept.iter()
                .map(|&keep| {
                    next += usize::from(keep);
                    next.wrapping_sub(1)
                })
                .collect::<Vec<_>>()
        };
        let kept: Vec<bool> = self.parameters.iter().map(|parameter| used[parameter.value.0]).collect();
        let (value_at, node_at, parameter_at) = (places(&used), places(&live), places(&kept));
        let at = |id: ValueId| ValueId(value_at[id.0]);

        let values = self.values.into_iter().zip(&used).filter(|(_, used)| **used);
        let values = values.map(|(mut value, _)| {
            match &mut value.origin {
                Origin::Node { node, .. } => *node = node_at[*node],
                Origin::Parameter(index) => *index = parameter_at[*index],
                Origin::Input | Origin::Constant(_) => {}
            }
            value
        });
        let nodes = self.nodes.into_iter().zip(&live).filter(|(_, live)| **live).map(|(node, _)| Node {
            inputs: node.inputs.into_iter().map(|input| input.map(at)).collect(),
            outputs: node.outputs.into_iter().map(at).collect(),
            ..node
        });
        let parameters = self.parameters.into_iter().zip(&kept).filter(|(_, kept)| **kept);
        let parameters = parameters.map(|(mut parameter, _)| {
            parameter.value = at(parameter.value);
            parameter
        });
        let graph = Graph {
            opset: self.opset,
            values: values.collect(),
            nodes: nodes.collect(),
            inputs: self.inputs.iter().map(|&id| at(id)).collect(),
            outputs: outputs.iter().map(|&id| at(id)).collect(),
            parameters: parameters.collect(),
            warnings: self.decisions.warnings,
        };
        if graph.trained().next().is_none() {
            let is_frozen = |parameter: &Parameter| parameter.reason.starts_with("not trained: `freeze`");
            if graph.parameters.iter().any(is_frozen) {
                return Err(GraphError::Frozen);
            }
            return Err(GraphError::Model(if let Some(warning) = graph.warnings.first() {
                format!("nothing is trained: {warning}")
            } else {
                format!(
                    "the model '{}' has no trainable initializer; export it with export_params=True and \
                     keep_initializers_as_inputs=False, or choose some with `train` PATTERN (damper inspect lists them)",
                    self.graph.name
                )
            }));
        }
        Ok(graph)
    }

    /// Values of the outputs, renamed if an alias hid an output's name.
    fn outputs(&mut self) -> Result<Vec<ValueId>, GraphError> {
        let declared: Vec<String> = self.graph.output.iter().map(|output| output.name.clone()).collect();
        let mut outputs: Vec<ValueId> = Vec::with_capacity(declared.len());
        for name in &declared {
            let id = match self.items.get(name) {
                Some(Item::Value(id)) => *id,
                Some(Item::Ints(_)) => {
                    return Err(GraphError::Model(format!(
                        "output '{name}' is a shape or an integer constant, not data; remove it from the model"
                    )));
                }
                None => {
                    return Err(GraphError::Model(format!(
                        "output '{name}' is computed by no node; check the model with onnx.checker, or export it again"
                    )));
                }
            };
            let value = &self.values[id.0];
            let renamed = value.name != *name;
            let free = matches!(value.origin, Origin::Node { .. }) && !declared.contains(&value.name);
            outputs.push(match (renamed, free) {
                (false, _) => id,
                (true, true) => {
                    self.values[id.0].name = name.clone();
                    id
                }
                (true, false) => {
                    let shaped = Shaped::of(value);
                    self.emit(name, "Identity", vec![Some(id)], vec![], &[name], vec![shaped])?
                }
            });
        }
        Ok(outputs)
    }
}
