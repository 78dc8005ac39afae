//! Part of a network that does not depend on trained parameters. Its results for a sample are the same in every step,
//! so they can be computed once and stored.
//!
//! # What is stored
//!
//! The values that the rest of the network reads. Each is float32, with only the samples on an axis. The rest
//! recomputes values for which storing is not worth the memory. These are values that need at most one product of other
//! stored values, such as frozen keys for trained queries. Values without any product, such as embedding lookups or
//! masks, are recomputed from the data.

mod border;

use super::super::cost::Cost;
use super::super::emit::{Emitter, Var};
use super::assemble::{model_of, spec, with_inputs};
use super::{Point, depends_on_trained, emit_forward};
use border::{turn_inputs, turn_outputs};
use damper_onnx::TensorSpec;
use damper_onnx::graph::{DType, Graph, OpaquePart, Origin, ValueId};
use damper_onnx::pb::ModelProto;
use std::collections::BTreeSet;

/// Frozen part of a network.
#[derive(Clone, PartialEq, Debug)]
pub struct FrozenPart {
    /// Model that computes `stored` from all data inputs.
    pub model: ModelProto,
    /// Data inputs, in the network's order.
    pub inputs: Vec<TensorSpec>,
    /// Stored values.
    pub stored: Vec<TensorSpec>,
    /// Data inputs that the rest of the network also reads, as indices into `inputs`.
    pub read: Vec<usize>,
    /// Cost of a run.
    pub cost: Cost,
    /// True if some operators have no rule. The model then runs as it is written, on one sample at a time.
    pub is_opaque: bool,
}

impl From<OpaquePart> for FrozenPart {
    fn from(part: OpaquePart) -> Self {
        let OpaquePart { model, inputs, outputs: stored, read, .. } = part;
        Self { model, inputs, stored, read, cost: Cost::default(), is_opaque: true }
    }
}

impl FrozenPart {
    /// Splits `graph`, whose output `output` feeds the loss. Returns the frozen part and the rest. The data inputs of
    /// the rest are those in `read`, then `stored`. Returns `None` if nothing is worth storing.
    #[must_use]
    pub fn of(graph: &Graph, output: &str) -> Option<(Self, Graph)> {
        let split = Split::new(graph, output);
        let stored: Vec<ValueId> = split.stored.iter().copied().collect();
        if stored.is_empty() {
            return None;
        }
        let values = split.read_by_rest();
        let read: Vec<usize> = (0..graph.inputs.len()).filter(|at| values.contains(&graph.inputs[*at])).collect();
        let inputs: Vec<ValueId> = read.iter().map(|at| graph.inputs[*at]).chain(stored.iter().copied()).collect();
        let (mut rest, mut part) = (graph.part(&inputs, &split.outputs), graph.part(&graph.inputs, &stored));
        turn_inputs(&mut rest);
        turn_outputs(&mut part);
        let (model, [inputs, stored], cost) = forward_model(&part);
        Some((Self { model, inputs, stored, read, cost, is_opaque: false }, rest))
    }

    /// Bytes of a sample's stored values.
    #[must_use]
    pub fn sample_bytes(&self) -> u64 {
        self.stored.iter().map(|spec| (spec.elements(1) * size_of::<f32>()) as u64).sum()
    }
}

/// Forward pass of `graph` as a model, with specifications of its inputs and outputs, and its cost. Samples are on axis
/// 0 of each.
fn forward_model(graph: &Graph) -> (ModelProto, [Vec<TensorSpec>; 2], Cost) {
    let mut em = Emitter::new(graph.opset);
    let forward = emit_forward(&mut em, graph, Point { index: 0, of: 1, current: None });
    let named = |id: &ValueId| {
        let var = forward[id.0].clone().expect("inputs and outputs are emitted");
        (graph.value(*id).name.clone(), var)
    };
    let outputs: Vec<(String, Var)> = graph.outputs.iter().map(named).collect();
    let (nodes, initializers, known) = em.finish();
    let mut model = model_of(graph.opset, nodes, initializers, &outputs);
    let specs = |ids: &[ValueId]| ids.iter().map(named).map(|(name, var)| spec(&name, &var)).collect::<Vec<_>>();
    let inputs = specs(&graph.inputs);
    let cost = with_inputs(&mut model, &inputs, &known);
    (model, [inputs, specs(&graph.outputs)], cost)
}

/// Split of a graph.
struct Split<'a> {
    graph: &'a Graph,
    /// Outputs of the rest.
    outputs: Vec<ValueId>,
    /// For each node, true if the rest runs it whenever it needs its outputs.
    in_rest: Vec<bool>,
    stored: BTreeSet<ValueId>,
}

impl<'a> Split<'a> {
    fn new(graph: &'a Graph, output: &str) -> Self {
        let moves = depends_on_trained(graph);
        let is_kept = |id: &&ValueId| moves[id.0] || graph.value(**id).name == output;
        let outputs = graph.outputs.iter().filter(is_kept).copied().collect();
        // Values that do not depend on samples need no memory per sample.
        let is_of_rest = |id: &ValueId| moves[id.0] || graph.value(*id).batch.is_none();
        let in_rest = graph.nodes.iter().map(|node| node.outputs.iter().any(is_of_rest)).collect();
        let mut split = Self { graph, outputs, in_rest, stored: BTreeSet::new() };
        while let Some(node) = split.store() {
            split.in_rest[node] = true;
        }
        split.compute_what_is_cheap();
        split
    }

    /// Selects the values that the rest reads from the frozen part. Returns the node of the first value that cannot be
    /// stored.
    fn store(&mut self) -> Option<usize> {
        self.stored = BTreeSet::new();
        for id in self.read_by_rest() {
            if let Origin::Node { node, .. } = self.graph.value(id).origin
                && !self.in_rest[node]
            {
                let value = self.graph.value(id);
                let has_axis_of_samples = value.batch.is_some_and(|batch| batch.outer * batch.inner == 1);
                if value.dtype != DType::F32 || !has_axis_of_samples {
                    return Some(node);
                }
                self.stored.insert(id);
            }
        }
        None
    }

    /// Values on the paths from stored values to the outputs of the rest.
    fn read_by_rest(&self) -> BTreeSet<ValueId> {
        let mut read: BTreeSet<ValueId> = self.outputs.iter().copied().collect();
        for (node, in_rest) in self.graph.nodes.iter().zip(&self.in_rest).rev() {
            if *in_rest && node.outputs.iter().any(|id| read.contains(id)) {
                read.extend(node.inputs.iter().flatten());
            }
        }
        read
    }

    /// Moves values to the rest that it can compute with at most one product.
    fn compute_what_is_cheap(&mut self) {
        let mut needed = BTreeSet::new();
        for id in self.stored.clone().into_iter().rev() {
            if needed.contains(&id) {
                continue;
            }
            if let Some(Cone { nodes, from }) = self.cone(id) {
                self.stored.remove(&id);
                needed.extend(from);
                nodes.into_iter().for_each(|node| self.in_rest[node] = true);
            }
        }
    }

    /// Nodes that compute `id` from other stored values, or from the data without a product.
    fn cone(&self, id: ValueId) -> Option<Cone> {
        let mut cone = Cone::default();
        let (mut products, mut reads_data) = (0, false);
        let mut next = vec![id];
        while let Some(at) = next.pop() {
            match self.graph.value(at).origin {
                Origin::Parameter(_) | Origin::Constant(_) => {}
                Origin::Input => reads_data = true,
                Origin::Node { .. } if at != id && self.stored.contains(&at) => {
                    cone.from.insert(at);
                }
                Origin::Node { node, .. } if cone.nodes.contains(&node) => {}
                Origin::Node { node: index, .. } => {
                    let node = &self.graph.nodes[index];
                    if node.outputs.iter().any(|other| *other != id && self.stored.contains(other)) {
                        return None;
                    }
                    // A node that the rest runs anyway adds no cost.
                    products += usize::from(is_product(&node.op) && !self.in_rest[index]);
                    cone.nodes.insert(index);
                    next.extend(node.inputs.iter().flatten());
                }
            }
        }
        (products == 0 || (products == 1 && !reads_data)).then_some(cone)
    }
}

/// Computation of a value from stored values.
#[derive(Default)]
struct Cone {
    nodes: BTreeSet<usize>,
    /// Stored values that it reads.
    from: BTreeSet<ValueId>,
}

/// Returns true if the operator multiplies each entry by many others.
fn is_product(op: &str) -> bool {
    let all = ["MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "RNN", "LSTM", "GRU", "Attention", "DeformConv"];
    all.contains(&op)
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_onnx::graph::GraphOptions;
    use std::path::Path;

    /// Split of a model in the repository, if only the parameters in `only` are trained.
    fn divided(model: &str, only: &[&str]) -> Option<(FrozenPart, Graph)> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../onnx-models").join(model);
        let only = only.iter().map(|pattern| (*pattern).to_owned()).collect();
        let seed = model.starts_with("bert").then_some(1);
        let model = damper_edit::init::load(&path, seed).unwrap().model;
        let graph = Graph::from_model(&model, &GraphOptions { only, ..Default::default() }).unwrap();
        FrozenPart::of(&graph, &graph.value(graph.outputs[0]).name)
    }

    /// Number of entries of each stored value, for one sample.
    fn lengths(part: &FrozenPart) -> Vec<usize> {
        part.stored.iter().map(|spec| spec.elements(1)).collect()
    }

    // Before a linear layer, only its input is stored. The rest does not read the data.
    #[test]
    fn head_reads_its_input() {
        let (part, rest) = divided("digits-cnn.onnx", &["*fc*"]).unwrap();
        assert_eq!((lengths(&part), &part.read[..], part.sample_bytes()), (vec![256], &[][..], 4 * 256));
        assert!(rest.nodes.iter().all(|node| node.op != "Conv"), "{:?}", rest.nodes);
        let model = part.model.graph.unwrap();
        assert!(model.node.iter().any(|node| node.op_type == "Conv"));
        // The frozen part does not include the weights of the head, and the rest does not include those of
        // convolutions.
        assert!(!model.initializer.iter().any(|tensor| tensor.name.contains("fc")));
        assert!(rest.parameters.iter().all(|parameter| parameter.trained), "{:?}", rest.warnings);
    }

    // Queries, keys and values of the first trained layer each need one product of the same input. Only this input is
    // stored.
    #[test]
    fn rest_computes_products_of_stored_values() {
        let (part, _) = divided("bert-tiny.onnx", &["blocks.1.attention.query.*", "classifier.*"]).unwrap();
        let lengths = lengths(&part);
        let hidden = lengths.iter().max().unwrap();
        assert_eq!(lengths.iter().filter(|length| *length == hidden).count(), 1, "{lengths:?}");
    }

    // Embedding lookups and masks are not stored. If a network trains its first products, there is nothing to store.
    #[test]
    fn lookups_are_not_stored() {
        assert!(divided("bert-tiny.onnx", &["blocks.0.attention.*"]).is_none());
        assert!(divided("digits-cnn.onnx", &["*"]).is_none());
    }
}
