//! Who makes and who reads each tensor of a graph, for finding the nodes that an custom operator stands for.

use super::super::backend::{Plan, bound_shape};
use damper_onnx::Dim;
use damper_onnx::{DType, decode_tensor, pb};
use std::collections::{HashMap, HashSet};

pub(super) struct GraphIndex<'g> {
    nodes: &'g [pb::NodeProto],
    makers: HashMap<&'g str, usize>,
    readers: HashMap<&'g str, Vec<usize>>,
    outputs: HashSet<&'g str>,
    constants: HashMap<&'g str, &'g pb::TensorProto>,
    plan: &'g Plan,
}

impl<'g> GraphIndex<'g> {
    pub(super) fn new(graph: &'g pb::GraphProto, plan: &'g Plan) -> Self {
        let mut readers: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut makers = HashMap::new();
        for (index, node) in graph.node.iter().enumerate() {
            makers.extend(node.output.iter().map(|name| (name.as_str(), index)));
            for name in &node.input {
                readers.entry(name).or_default().push(index);
            }
        }
        Self {
            nodes: &graph.node,
            makers,
            readers,
            outputs: graph.output.iter().map(|output| output.name.as_str()).collect(),
            constants: graph.initializer.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect(),
            plan,
        }
    }

    /// The standard operator `op` that makes `name`: its index and inputs.
    pub(super) fn producer(&self, op: &str, name: &str) -> Option<(usize, Vec<&'g str>)> {
        let index = *self.makers.get(name)?;
        let node = &self.nodes[index];
        let is_it = node.op_type == op && node.domain.is_empty() && node.output.len() == 1;
        is_it.then(|| (index, node.input.iter().map(String::as_str).collect()))
    }

    /// As [`producer`](Self::maker), of two inputs.
    pub(super) fn pair(&self, op: &str, name: &str) -> Option<(usize, [&'g str; 2])> {
        let (index, inputs) = self.producer(op, name)?;
        Some((index, inputs.try_into().ok()?))
    }

    /// The output of node `index`.
    pub(super) fn output(&self, index: usize) -> &'g str {
        &self.nodes[index].output[0]
    }

    /// The nodes that read `name`.
    pub(super) fn readers(&self, name: &str) -> &[usize] {
        self.readers.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether `name` is read by others than `nodes`, or is an output of the graph.
    pub(super) fn is_read_beside(&self, name: &str, nodes: &[usize]) -> bool {
        self.outputs.contains(name) || self.readers(name).iter().any(|reader| !nodes.contains(reader))
    }

    /// Whether all of `nodes` can go, of whose outputs `given` remain.
    pub(super) fn can_go(&self, nodes: &[usize], given: &[&str]) -> bool {
        let names = nodes.iter().map(|&index| self.output(index));
        names.filter(|name| !given.contains(name)).all(|name| !self.is_read_beside(name, nodes))
    }

    /// A float constant of one entry.
    pub(super) fn scalar(&self, name: &str) -> Option<f32> {
        let tensor = self.constants.get(name).filter(|tensor| tensor.dims.iter().all(|extent| *extent == 1))?;
        decode_tensor(tensor).ok()?.as_f32()?.first().copied()
    }

    /// A float constant of no axes.
    pub(super) fn point(&self, name: &str) -> Option<f32> {
        self.scalar(name).filter(|_| self.constants[name].dims.is_empty())
    }

    /// `n`, where `name` is the float constant `[n, 1]` of ones.
    fn ones(&self, name: &str) -> Option<usize> {
        let tensor = self.constants.get(name).filter(|tensor| matches!(tensor.dims[..], [_, 1]))?;
        let tensor = decode_tensor(tensor).ok()?;
        tensor.as_f32()?.iter().all(|entry| *entry == 1.0).then_some(tensor.shape[0])
    }

    /// Where `name` is the sum of the rows, of `n` entries each, of `x`: its node, `x` and `n`.
    pub(super) fn sum(&self, name: &str) -> Option<(usize, &'g str, usize)> {
        let (index, [x, ones]) = self.pair("MatMul", name)?;
        Some((index, x, self.ones(ones)?))
    }

    /// Where `name` is the mean of the rows, of `n` entries each, of `x`: its nodes, `x` and `n`.
    pub(super) fn mean(&self, name: &str) -> Option<([usize; 2], &'g str, usize)> {
        let (index, [sum, factor]) = self.pair("Mul", name)?;
        let (below, x, n) = self.sum(sum)?;
        (self.scalar(factor)? == (1.0 / n as f64) as f32).then_some(([below, index], x, n))
    }

    /// The extents of `name`, where it is a matrix of parameters.
    pub(super) fn matrix(&self, name: &str) -> Option<[usize; 2]> {
        let spec = self.plan.inputs.iter().find(|spec| spec.name == name && spec.dtype == DType::F32)?;
        match spec.shape[..] {
            [Dim::Fixed(a), Dim::Fixed(b)] => Some([a, b]),
            _ => None,
        }
    }

    /// Whether `name` is a parameter or a constant of shape `[n]`.
    pub(super) fn is_vector(&self, name: &str, n: usize) -> bool {
        match (self.constants.get(name), self.plan.inputs.iter().find(|spec| spec.name == name)) {
            (Some(tensor), _) => {
                tensor.dims == [n as i64] && tensor.data_type == pb::tensor_proto::DataType::Float as i32
            }
            (None, Some(spec)) => spec.dtype == DType::F32 && bound_shape(spec, self.plan.batch) == [n],
            (None, None) => false,
        }
    }
}

/// An operator, and the nodes in whose place it comes.
#[derive(Clone)]
pub(super) struct Fusion {
    pub(super) nodes: Vec<usize>,
    pub(super) operator: pb::NodeProto,
}

/// Puts each operator at the first of its nodes, which reads what the operator reads. Tells whether there was one. Of places that share a
/// node only the first is taken.
pub(super) fn put(graph: &mut pb::GraphProto, places: Vec<Fusion>) -> bool {
    let mut gone: HashSet<usize> = HashSet::new();
    let mut operators = HashMap::new();
    for place in places {
        if place.nodes.iter().any(|node| gone.contains(node)) {
            continue;
        }
        gone.extend(&place.nodes);
        operators.extend(place.nodes.iter().min().map(|&first| (first, place.operator)));
    }
    let is_put = !operators.is_empty();
    let nodes = std::mem::take(&mut graph.node).into_iter().enumerate();
    let kept = nodes.filter_map(|(index, node)| operators.remove(&index).or((!gone.contains(&index)).then_some(node)));
    graph.node = kept.collect();
    is_put
}
