//! Data flow: initializers that only shift or scale an input, or that weight the loss, are constants of the source.
//!
//! The loss part of a model is everything computed from the labels. Labels are inputs that reach no weight: no product
//! with a matrix, no convolution, no normalisation and no lookup of vectors.

use std::collections::{HashMap, HashSet};

use super::Tensor;
use super::reads::Reads;
use crate::node_name;
use crate::pb::{GraphProto, NodeProto};

/// Dependence of each value of a model on the data.
pub(super) struct DataFlow<'a> {
    graph: &'a GraphProto,
    reads: &'a Reads<'a>,
    /// Values that depend on the elements of an input.
    data: HashSet<&'a str>,
    /// Values that are an input, moved, shifted or scaled by constants. Maps them to the input's name.
    raw: HashMap<&'a str, &'a str>,
    /// Values that depend on labels. Maps them to the labels' name.
    labelled: HashMap<&'a str, &'a str>,
    /// Values computed elementwise from logarithms: log-probabilities and per-class losses.
    logarithms: HashSet<&'a str>,
    /// The same, including sums and selections.
    losses: HashSet<&'a str>,
}

/// Role of an initializer that is not a weight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Constant {
    /// It only shifts or scales an input: node and input.
    OfInput(String, String),
    /// It weights the loss: node and labels.
    OfLoss(String, String),
}

/// Returns true for operators that move elements without changing them, if they read data at input 0.
fn moves(op: &str) -> bool {
    matches!(
        op,
        "Cast"
            | "CastLike"
            | "Expand"
            | "Flatten"
            | "Gather"
            | "Identity"
            | "Reshape"
            | "Slice"
            | "Split"
            | "Squeeze"
            | "Transpose"
            | "Unsqueeze"
    )
}

fn reduces(op: &str) -> bool {
    matches!(op, "ReduceMean" | "ReduceSum")
}

fn is_affine(op: &str) -> bool {
    matches!(op, "Add" | "Sub" | "Mul" | "Div")
}

/// Returns true for operators that have a weight, or that look up vectors.
fn has_weight(node: &NodeProto, slot: usize, tensors: &HashMap<&str, Tensor>) -> bool {
    let op = node.op_type.as_str();
    let table = || node.input.first().and_then(|name| tensors.get(name.as_str()));
    match op {
        "MatMul" | "Gemm" | "Conv" | "ConvTranspose" | "Einsum" | "PRelu" | "GRU" | "LSTM" | "RNN" => true,
        "Gather" => slot == 1 && table().is_some_and(|table| table.shape.len() > 1),
        _ => op.ends_with("Normalization"),
    }
}

impl<'a> DataFlow<'a> {
    pub fn of(graph: &'a GraphProto, reads: &'a Reads<'a>, tensors: &HashMap<&str, Tensor>) -> DataFlow<'a> {
        let stored: HashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
        let inputs: Vec<&str> =
            graph.input.iter().map(|input| input.name.as_str()).filter(|name| !stored.contains(name)).collect();
        let mut flow = DataFlow {
            graph,
            reads,
            data: inputs.iter().copied().collect(),
            raw: inputs.iter().map(|name| (*name, *name)).collect(),
            labelled: HashMap::new(),
            logarithms: HashSet::new(),
            losses: HashSet::new(),
        };
        flow.find_logarithms();
        let labels: Vec<&str> = {
            let (with, without): (Vec<&str>, Vec<&str>) =
                inputs.iter().partition(|input| flow.reaches_weight(input, tensors));
            if with.is_empty() { vec![] } else { without }
        };
        flow.labelled = labels.iter().map(|name| (*name, *name)).collect();
        for node in graph.node.iter().filter(|node| !matches!(node.op_type.as_str(), "Shape" | "Size")) {
            let outputs = || node.output.iter().map(String::as_str).filter(|name| !name.is_empty());
            let first =
                |of: &HashMap<&'a str, &'a str>| node.input.iter().find_map(|name| of.get(name.as_str()).copied());
            if node.input.iter().any(|name| flow.data.contains(name.as_str())) {
                flow.data.extend(outputs());
            }
            if let Some(labels) = first(&flow.labelled) {
                flow.labelled.extend(outputs().map(|name| (name, labels)));
            }
            if let Some(input) = flow.raw_of(node) {
                flow.raw.extend(outputs().map(|name| (name, input)));
            }
        }
        flow
    }

    fn find_logarithms(&mut self) {
        for node in &self.graph.node {
            let any = |of: &HashSet<&str>| node.input.iter().any(|name| of.contains(name.as_str()));
            let outputs = || node.output.iter().map(String::as_str).filter(|name| !name.is_empty());
            let op = node.op_type.as_str();
            let keeps = is_affine(op) || moves(op) || op == "Neg";
            if matches!(op, "Log" | "LogSoftmax" | "ReduceLogSum" | "ReduceLogSumExp" | "Softplus")
                || any(&self.logarithms) && keeps
            {
                self.logarithms.extend(outputs());
                self.losses.extend(outputs());
            } else if any(&self.losses) && (keeps || reduces(op) || matches!(op, "GatherElements" | "GatherND")) {
                self.losses.extend(outputs());
            }
        }
    }

    /// Returns true if `node` multiplies a matrix by a vector, and the result only scales losses. This is a lookup of
    /// class weights by one-hot labels.
    fn looks_up_class_weight(&self, node: &'a NodeProto, slot: usize, tensors: &HashMap<&str, Tensor>) -> bool {
        let is_vector = |name: &String| {
            let shape = tensors.get(name.as_str()).map(|tensor| &tensor.shape);
            shape.is_some_and(|shape| shape.iter().filter(|extent| **extent != 1).count() < 2)
        };
        if !matches!(&*node.op_type, "MatMul" | "Gemm") || !node.input.get(1 - slot.min(1)).is_some_and(is_vector) {
            return false;
        }
        let mut open: Vec<&str> = node.output.iter().map(String::as_str).collect();
        let mut scales = false;
        while let Some(name) = open.pop() {
            for &(reader, slot) in self.reads.of_name(name) {
                let reader = &self.graph.node[reader];
                let op = reader.op_type.as_str();
                let other = reader.input.get(1 - slot.min(1));
                if matches!(op, "Mul" | "Div") && other.is_some_and(|other| self.losses.contains(other.as_str())) {
                    scales = true;
                } else if moves(op) || reduces(op) {
                    open.extend(reader.output.iter().map(String::as_str));
                } else {
                    return false;
                }
            }
        }
        scales
    }

    /// Input that `node` moves, shifts or scales by values that do not depend on data.
    fn raw_of(&self, node: &NodeProto) -> Option<&'a str> {
        let op = node.op_type.as_str();
        let mut data = node.input.iter().enumerate().filter(|(_, name)| self.data.contains(name.as_str()));
        let (slot, name) = data.next()?;
        let alone = data.next().is_none();
        let fits = slot == 0 && moves(op) || is_affine(op) && (slot == 0 || op != "Div");
        self.raw.get(name.as_str()).copied().filter(|_| alone && fits)
    }

    fn reaches_weight(&self, input: &str, tensors: &HashMap<&str, Tensor>) -> bool {
        let mut reached: HashSet<&str> = HashSet::from([input]);
        for node in self.graph.node.iter().filter(|node| !matches!(node.op_type.as_str(), "Shape" | "Size")) {
            let mut slots =
                (0..node.input.len()).filter(|&slot| reached.contains(node.input[slot].as_str())).peekable();
            if slots.peek().is_some() {
                if slots.any(|slot| has_weight(node, slot, tensors) && !self.looks_up_class_weight(node, slot, tensors))
                {
                    return true;
                }
                reached.extend(node.output.iter().map(String::as_str));
            }
        }
        false
    }

    /// Nodes at which values computed from `read_by` first meet data: (node, slot).
    pub fn meetings(&self, read_by: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let mut open = read_by.to_vec();
        let mut seen: HashSet<(usize, usize)> = open.iter().copied().collect();
        let mut met = Vec::new();
        while let Some((node, slot)) = open.pop() {
            let outputs = &self.graph.node[node].output;
            if outputs.iter().any(|name| self.data.contains(name.as_str())) {
                met.push((node, slot));
                continue;
            }
            let next = outputs.iter().flat_map(|name| self.reads.of_name(name)).copied();
            open.extend(next.filter(|read| seen.insert(*read)));
        }
        met.sort_unstable();
        met
    }

    /// Role of an initializer with the readers `read_by`, if it is not a weight.
    pub fn constant(&self, read_by: &[(usize, usize)], tensors: &HashMap<&str, Tensor>) -> Option<Constant> {
        let met = self.meetings(read_by);
        let node = |index: usize| &self.graph.node[index];
        let output = |index: usize| node(index).output.first().map_or("", String::as_str);
        let &(first, _) = met.first()?;
        let called = format!("{} '{}'", node(first).op_type, node_name(node(first), first));
        if met.iter().all(|&(at, _)| is_affine(&node(at).op_type) && self.raw.contains_key(output(at))) {
            return Some(Constant::OfInput(called, self.raw[output(first)].to_string()));
        }
        let weights = |at: usize| {
            self.labelled.get(output(at)).copied().or_else(|| {
                let scales = matches!(node(at).op_type.as_str(), "Mul" | "Div");
                let data = node(at).input.iter().filter(|name| self.data.contains(name.as_str()));
                let of_logarithm =
                    data.clone().count() == 1 && data.clone().all(|name| self.logarithms.contains(&**name));
                if scales && of_logarithm { self.loss_behind(output(at), tensors) } else { None }
            })
        };
        let labels = met.iter().map(|&(at, _)| weights(at)).collect::<Option<Vec<_>>>()?;
        Some(Constant::OfLoss(called, labels.first()?.to_string()))
    }

    /// Labels in the computation after `value`, if no weight is.
    fn loss_behind(&self, value: &str, tensors: &HashMap<&str, Tensor>) -> Option<&'a str> {
        if self.reaches_weight(value, tensors) {
            return None;
        }
        let mut reached: HashSet<&str> = HashSet::from([value]);
        for node in &self.graph.node {
            if node.input.iter().any(|name| reached.contains(name.as_str())) {
                reached.extend(node.output.iter().map(String::as_str));
            }
        }
        reached.iter().filter_map(|name| self.labelled.get(name).copied()).min()
    }

    /// Returns true if `read_by` may read a constant of the source. Either it is subtracted or divides, or a layer
    /// reads it in the position of data. Or it scales an output, like the inverse of a target scaling.
    pub fn is_doubtful(&self, read_by: &[(usize, usize)]) -> bool {
        let in_place_of_data = |&(at, slot): &(usize, usize)| {
            let node = &self.graph.node[at];
            let is_layer = matches!(&*node.op_type, "MatMul" | "Gemm" | "Conv");
            is_layer && slot == 0 && node.input.iter().all(|name| !self.data.contains(name.as_str()))
        };
        if read_by.iter().all(in_place_of_data) {
            return !read_by.is_empty();
        }
        let met = self.meetings(read_by);
        let node = |index: usize| &self.graph.node[index];
        let inverse = |&(at, slot): &(usize, usize)| matches!(node(at).op_type.as_str(), "Sub" | "Div") && slot == 1;
        let last = |&(at, slot): &(usize, usize)| {
            let other = node(at).input.get(1 - slot.min(1));
            node(at).op_type == "Mul"
                && self.ends_in_outputs(at)
                && other.is_some_and(|other| !self.is_normalised(other))
        };
        !met.is_empty() && (met.iter().all(inverse) || met.iter().all(last))
    }

    /// Node that adds `tensor` with the readers `read_by` to scores (a softmax follows) or to an output. `None` if it
    /// is the bias of a product or a convolution.
    pub fn unexplained(&self, name: &str, tensor: &Tensor, read_by: &[(usize, usize)]) -> Option<String> {
        // Biases of frameworks other than PyTorch have axes of 1 before the channels, and after those of a convolution.
        let may_have_axes = !name.starts_with("onnx::") && (name.contains(['/', ':']) || !name.contains('.'));
        let of_channels = match tensor.shape.split_last() {
            Some((_, before)) => before.is_empty() || may_have_axes && before.iter().all(|extent| *extent == 1),
            None => true,
        };
        let long: Vec<usize> = tensor.shape.iter().copied().filter(|&extent| extent != 1).collect();
        let of_convolution = |layer| may_have_axes && self.kernels(layer).is_some_and(|kernels| long == [kernels]);
        let added = |&(at, slot): &(usize, usize)| {
            let node = &self.graph.node[at];
            let other = node.input.get(1 - slot.min(1)).filter(|other| self.data.contains(other.as_str()));
            let layer = || other.and_then(|other| self.layer(other));
            let is_bias = || layer().is_some_and(|layer| of_channels || of_convolution(layer));
            matches!(&*node.op_type, "Add" | "Sub")
                && other.is_some()
                && !is_bias()
                && (self.is_score(at) || !of_channels && self.ends_in_outputs(at))
        };
        let &(first, _) = read_by.first().filter(|_| read_by.iter().all(added))?;
        let node = &self.graph.node[first];
        Some(format!("{} '{}'", node.op_type, node_name(node, first)))
    }

    /// Product with a weight, or convolution, from which `value` comes with at most moves in between.
    fn layer(&self, value: &str) -> Option<&NodeProto> {
        let mut value = value;
        for _ in 0..self.graph.node.len() {
            let node = self.reads.producer(value).map(|at| &self.graph.node[at])?;
            match node.input.first() {
                Some(from) if moves(&node.op_type) => value = from,
                _ => {
                    let has_weight = node.input.iter().take(2).any(|input| !self.data.contains(input.as_str()));
                    let is_layer = matches!(&*node.op_type, "MatMul" | "Gemm" | "Conv" | "ConvTranspose");
                    return Some(node).filter(|_| has_weight && is_layer);
                }
            }
        }
        None
    }

    /// Number of output channels of a `Conv` with stored kernels.
    fn kernels(&self, layer: &NodeProto) -> Option<usize> {
        let name = layer.input.get(1).filter(|_| layer.op_type == "Conv")?;
        let kernels = self.graph.initializer.iter().find(|tensor| tensor.name == *name)?;
        usize::try_from(*kernels.dims.first()?).ok()
    }

    /// Returns true if a softmax follows `node`, with only shifts, scalings, moves and selections in between.
    fn is_score(&self, node: usize) -> bool {
        let mut open = vec![node];
        let mut seen = HashSet::from([node]);
        while let Some(at) = open.pop() {
            for &(reader, _) in self.graph.node[at].output.iter().flat_map(|name| self.reads.of_name(name)) {
                let op = self.graph.node[reader].op_type.as_str();
                if op == "Softmax" {
                    return true;
                }
                if (is_affine(op) || moves(op) || op == "Where") && seen.insert(reader) {
                    open.push(reader);
                }
            }
        }
        false
    }

    /// Returns true if only shifts, scalings and moves are between `node` and the outputs.
    fn ends_in_outputs(&self, node: usize) -> bool {
        let outputs: HashSet<&str> = self.graph.output.iter().map(|output| output.name.as_str()).collect();
        let mut open = vec![node];
        let mut seen = HashSet::from([node]);
        while let Some(at) = open.pop() {
            for name in &self.graph.node[at].output {
                let next = self.reads.of_name(name);
                let plain = |&(reader, _): &(usize, usize)| {
                    let reader = &self.graph.node[reader];
                    let data = reader.input.iter().filter(|name| self.data.contains(name.as_str())).count();
                    data == 1 && (is_affine(&reader.op_type) || moves(&reader.op_type))
                };
                if next.is_empty() && !outputs.contains(name.as_str()) || !next.iter().all(plain) {
                    return false;
                }
                open.extend(next.iter().map(|read| read.0).filter(|reader| seen.insert(*reader)));
            }
        }
        true
    }

    /// Returns true if `value` comes from a normalisation, whose scale follows it.
    fn is_normalised(&self, value: &str) -> bool {
        let mut value = value;
        // The number of nodes bounds the length of a chain.
        for _ in 0..self.graph.node.len() {
            let Some(node) = self.graph.node.iter().find(|node| node.output.iter().any(|name| name == value)) else {
                return false;
            };
            let op = node.op_type.as_str();
            match node.input.first() {
                Some(from) if moves(op) => value = from,
                _ => return op == "Div" || op.ends_with("Normalization"),
            }
        }
        false
    }
}
