//! Extracts a part of a graph as a separate graph.

use super::super::{Graph, Node, Origin, Parameter, Value, ValueId};

impl Graph {
    /// Returns the part that computes `outputs` from `inputs`. Its data inputs are `inputs` in this order, including
    /// those that no output depends on. They must be values of this graph with the samples on axis 0 alone. The part
    /// has the nodes, parameters and constants in between.
    ///
    /// # Panics
    ///
    /// Panics if an output depends on a data input that is not in `inputs`. Also if it depends on another output of a
    /// node that computes one of `inputs`.
    #[must_use]
    pub fn part(&self, inputs: &[ValueId], outputs: &[ValueId]) -> Graph {
        let mut reached = vec![false; self.values.len()];
        let is_input = |id: &ValueId| inputs.contains(id);
        inputs.iter().chain(outputs).for_each(|id| reached[id.0] = true);
        let mut kept = vec![false; self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate().rev() {
            if node.outputs.iter().any(|id| reached[id.0] && !is_input(id)) {
                assert!(!node.outputs.iter().any(is_input), "node {} makes an input of the part", node.name);
                kept[index] = true;
                node.inputs.iter().flatten().chain(&node.outputs).for_each(|id| reached[id.0] = true);
            }
        }
        let ids = places(&reached);
        let (nodes, parameters) =
            (places(&kept), places(&self.parameters.iter().map(|p| reached[p.value.0]).collect::<Vec<_>>()));
        let id = |id: &ValueId| ValueId(ids[id.0].expect("a value that is reached"));
        let values = self.values.iter().enumerate().filter(|(at, _)| reached[*at]).map(|(at, value)| {
            let origin = match &value.origin {
                _ if is_input(&ValueId(at)) => Origin::Input,
                Origin::Input => panic!("{} is no input of the part", value.name),
                Origin::Parameter(index) => Origin::Parameter(parameters[*index].expect("a parameter that is reached")),
                Origin::Constant(tensor) => Origin::Constant(tensor.clone()),
                Origin::Node { node, slot } => {
                    Origin::Node { node: nodes[*node].expect("a node that is kept"), slot: *slot }
                }
            };
            Value { origin, ..value.clone() }
        });
        let ids_of = |all: &[ValueId]| all.iter().map(id).collect();
        Graph {
            opset: self.opset,
            values: values.collect(),
            nodes: (self.nodes.iter().zip(&kept).filter(|(_, kept)| **kept))
                .map(|(node, _)| Node {
                    inputs: node.inputs.iter().map(|input| input.as_ref().map(id)).collect(),
                    outputs: ids_of(&node.outputs),
                    ..node.clone()
                })
                .collect(),
            inputs: ids_of(inputs),
            outputs: ids_of(outputs),
            parameters: (self.parameters.iter().filter(|p| reached[p.value.0]))
                .map(|p| Parameter { value: id(&p.value), ..p.clone() })
                .collect(),
            warnings: vec![],
        }
    }
}

/// Index of each true flag among all true flags.
fn places(flags: &[bool]) -> Vec<Option<usize>> {
    let mut next = 0..;
    flags.iter().map(|flag| if *flag { next.next() } else { None }).collect()
}
