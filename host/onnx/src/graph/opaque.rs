//! Separates the frozen part of a model from the rest, if it has operators without a rule.
//!
//! No trained parameter reaches the frozen part, so it is run and not differentiated. Its values are data inputs of the
//! rest. The runtime gets one sample at a time. So the values of a sample depend on that sample alone, whatever an
//! operator does with axis 0. Operators that draw random numbers are an error, because their state lives on from run
//! to run.
//!
//! The rest is the network for a batch of one sample. If its rules accept a larger batch, each sample's result is that
//! of a batch of one. So any axis of extent 1 may be the axis of the samples.

pub(super) mod advice;
mod dependence;
pub(super) mod operators;
mod random;

use super::build::{data_inputs, decided};
use super::node::Shaped;
use super::{Graph, GraphError, GraphOptions, standard};
use crate::pb::{GraphProto, ModelProto, NodeProto, ValueInfoProto};
use crate::{DType, Dim, Extent, TensorSpec, make_attr_ints, make_node, make_value_info};
use dependence::{Dependence, Trained, names_read};
use operators::{has_rule, operator};
use random::is_refused;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Maximum number of times that the border moves. Each time the runtime loads the frozen part.
const MAX_MOVES: usize = 16;

/// Frozen part of a model that is run on one sample at a time.
#[derive(Clone, PartialEq, Debug)]
pub struct OpaquePart {
    /// Model of one sample, which computes `outputs`. Its inputs are those of `inputs` that it reads.
    pub model: ModelProto,
    /// Data inputs of the whole model, in its order.
    pub inputs: Vec<TensorSpec>,
    /// Values that the rest reads, with the samples first.
    pub outputs: Vec<TensorSpec>,
    /// Data inputs that the rest also reads, as indices into `inputs`. The data inputs of the rest are these, then
    /// `outputs`.
    pub read: Vec<usize>,
    /// Description in one line.
    pub note: String,
}

/// Returns the shape of each output of a model of one sample. `None` for an output that is not float32, or whose shape
/// differs between samples. An error is that of the runtime.
pub type OutputShapes<'a> = dyn FnMut(&ModelProto, &[TensorSpec]) -> Result<Vec<Option<Vec<usize>>>, String> + 'a;

/// Separates the frozen part of `model` from the rest, if `error`, that of [`Graph::from_model`], is of a node that no
/// trained parameter reaches. Returns `None` if the error stands.
///
/// # Errors
/// [`GraphError`] if the frozen part draws random numbers, has no value of fixed shape that the rest could read, or
/// cannot be run. Also if the rest cannot be trained.
pub fn opaque_part(
    model: &ModelProto,
    options: &GraphOptions,
    error: &GraphError,
    shapes: &mut OutputShapes<'_>,
) -> Result<Option<(OpaquePart, Graph)>, GraphError> {
    let Some(mut border) = Border::new(model, options)? else { return Ok(None) };
    if !border.is_frozen(error) {
        return Ok(None);
    }
    for _ in 0..MAX_MOVES {
        let values = border.values();
        let unknown: Vec<String> = values.iter().filter(|name| !border.shapes.contains_key(*name)).cloned().collect();
        if values.is_empty() {
            return Ok(None);
        }
        if unknown.is_empty() {
            return border.separate(&values, error).map(Some);
        }
        let part = border.model(&unknown)?;
        let found = shapes(&part, &border.inputs).map_err(GraphError::Model)?;
        for (name, shape) in unknown.into_iter().zip(found) {
            match shape {
                Some(shape) if shape.contains(&1) => drop(border.shapes.insert(name, shape)),
                shape => border.move_before(&name, shape.as_deref())?,
            }
        }
    }
    Ok(None)
}

/// Border between the frozen part and the rest.
struct Border<'a> {
    model: &'a ModelProto,
    options: &'a GraphOptions,
    /// Graph with its nodes as written, and bound inputs.
    graph: GraphProto,
    notes: Vec<String>,
    inputs: Vec<TensorSpec>,
    fixed_batch: Option<usize>,
    trained: Trained,
    dependence: Dependence,
    /// Frozen nodes that the rest computes.
    moved: HashSet<usize>,
    /// Shapes of values for one sample.
    shapes: HashMap<String, Vec<usize>>,
}

impl<'a> Border<'a> {
    /// Returns the border after the last frozen nodes. `None` if trained parameters or inputs have another form than
    /// the file's nodes.
    fn new(model: &'a ModelProto, options: &'a GraphOptions) -> Result<Option<Self>, GraphError> {
        let Ok((flat, decisions)) = decided(model, options) else { return Ok(None) };
        let trained = Trained::of(&flat, decisions);
        let (mut graph, notes) = standard::bound(model, options)?;
        if let Some(output) = options.output.as_ref().filter(|_| graph.output.len() > 1) {
            graph.output.retain(|info| info.name == *output);
        }
        let (inputs, fixed_batch) = data_inputs(&graph, options)?;
        let is_known = |(_, shaped): &(String, Shaped)| matches!(shaped.dtype, DType::F32 | DType::I64);
        if !trained.are_all_in(&graph) || !inputs.iter().all(is_known) {
            return Ok(None);
        }
        let inputs = inputs.into_iter().map(|(name, shaped)| spec(name, shaped.dtype, &shaped.shape, 0)).collect();
        let dependence = Dependence::of(&graph, &trained);
        let sizes = (0..graph.node.len()).filter(|at| dependence.is_of_sizes[*at]).collect();
        Ok(Some(Self {
            model,
            options,
            graph,
            notes,
            inputs,
            fixed_batch,
            trained,
            dependence,
            moved: sizes,
            shapes: HashMap::new(),
        }))
    }

    /// Returns true if `error` is of a node that no trained parameter reaches, or if another such node has no rule.
    fn is_frozen(&self, error: &GraphError) -> bool {
        let error = if let GraphError::PartlyTrainable { error, .. } = error { error } else { error };
        match error {
            GraphError::Unsupported { node, .. } | GraphError::Refused { node, .. } => {
                let at = self.graph.node.iter().position(|other| dependence::is_in(node, other));
                at.is_some_and(|at| self.dependence.is_data[at] && !self.dependence.is_trained[at])
            }
            GraphError::Mixes { .. } | GraphError::Invalid { .. } => self.opaque().next().is_some(),
            _ => false,
        }
    }

    /// Frozen nodes of the file without a rule.
    fn opaque(&self) -> impl Iterator<Item = &NodeProto> {
        let frozen = |at: &usize| self.dependence.is_data[*at] && !self.dependence.is_trained[*at];
        (0..self.graph.node.len()).filter(frozen).map(|at| &self.graph.node[at]).filter(|node| !has_rule(node))
    }

    /// Nodes of the rest, and the frozen values that they read.
    fn rest(&self) -> (Vec<usize>, BTreeSet<String>, HashSet<&str>) {
        let Self { graph, dependence, moved, .. } = self;
        let mut read: HashSet<&str> = self.outputs().iter().map(|info| info.name.as_str()).collect();
        let (mut nodes, mut values) = (vec![], BTreeSet::new());
        for (at, node) in graph.node.iter().enumerate().rev() {
            let made = node.output.iter().filter(|name| read.contains(name.as_str())).cloned();
            let made: Vec<String> = made.collect();
            if made.is_empty() {
                continue;
            }
            if dependence.is_data[at] && !dependence.is_trained[at] && !moved.contains(&at) {
                values.extend(made);
            } else {
                nodes.push(at);
                read.extend(names_read(node));
            }
        }
        nodes.reverse();
        (nodes, values, read)
    }

    /// Outputs that depend on trained parameters.
    fn outputs(&self) -> Vec<&ValueInfoProto> {
        let Self { graph, dependence, .. } = self;
        let nodes = graph.node.iter().zip(&dependence.is_trained).filter(|(_, is_trained)| **is_trained);
        let trained: HashSet<&String> = nodes.flat_map(|(node, _)| &node.output).collect();
        graph.output.iter().filter(|info| trained.contains(&info.name)).collect()
    }

    /// Frozen values that the rest reads.
    fn values(&self) -> BTreeSet<String> {
        self.rest().1
    }

    /// Model of one sample that computes `values`.
    fn model(&self, values: &[String]) -> Result<ModelProto, GraphError> {
        let mut read: HashSet<&str> = values.iter().map(String::as_str).collect();
        let mut nodes = vec![];
        for node in self.graph.node.iter().rev() {
            if node.output.iter().any(|name| read.contains(name.as_str())) {
                is_refused(&self.graph, node)?;
                nodes.push(node.clone());
                read.extend(names_read(node));
            }
        }
        nodes.reverse();
        let initializer = self.graph.initializer.iter().filter(|tensor| read.contains(tensor.name.as_str()));
        let inputs = self.inputs.iter().filter(|spec| read.contains(spec.name.as_str()));
        let graph = GraphProto {
            name: self.graph.name.clone(),
            initializer: initializer.cloned().collect(),
            input: inputs.map(|spec| declared(spec, Extent::Fixed(1))).collect(),
            // The runtime finds types and shapes.
            output: values.iter().map(|name| ValueInfoProto { name: name.clone(), ..Default::default() }).collect(),
            node: nodes,
            ..GraphProto::default()
        };
        Ok(self.with_graph(graph))
    }

    fn with_graph(&self, graph: GraphProto) -> ModelProto {
        let ModelProto { ir_version, opset_import, producer_name, producer_version, .. } = self.model;
        let (producer_name, producer_version) = (producer_name.clone(), producer_version.clone());
        let opset_import = opset_import.clone();
        let graph = Some(graph);
        ModelProto {
            ir_version: *ir_version,
            opset_import,
            producer_name,
            producer_version,
            graph,
            ..Default::default()
        }
    }

    /// Moves the border before the node that computes `value`, of which `shape` cannot be stored.
    fn move_before(&mut self, value: &str, shape: Option<&[usize]>) -> Result<(), GraphError> {
        let made = |node: &NodeProto| node.output.iter().any(|name| name == value);
        let Some(at) = self.graph.node.iter().position(made) else { return Ok(()) };
        let node = &self.graph.node[at];
        if has_rule(node) {
            self.moved.insert(at);
            return Ok(());
        }
        let is = match shape {
            Some(shape) => format!("has the shape {shape:?}, without an axis of the samples"),
            None => "is no float32 tensor of a shape that all samples share".into(),
        };
        Err(GraphError::Refused {
            node: node.name.clone(),
            op: operator(node),
            reason: format!(
                "it has no rule and runs one sample at a time, but its value '{value}' of one sample {is}, so the \
                 layers after it cannot read it"
            ),
            remedy: "let a frozen operator follow it that gives such a value, as Cast, Reshape or a reduction".into(),
        })
    }

    /// Returns the frozen part that computes `values`, and the graph of the rest.
    fn separate(&self, values: &BTreeSet<String>, error: &GraphError) -> Result<(OpaquePart, Graph), GraphError> {
        let most = values.iter().map(|name| axes(&self.shapes[name]).count()).max().unwrap_or(1);
        // Several axes may be that of the samples.
        let mut first = None;
        for choice in 0..most {
            let axis = |name: &String| axes(&self.shapes[name]).take(choice + 1).last().unwrap_or(0);
            let places: Vec<(&String, usize)> = values.iter().map(|name| (name, axis(name))).collect();
            match self.graph_of_rest(&places) {
                Ok(graph) => return Ok((self.part(&places, error)?, graph)),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| error.clone()))
    }

    /// Graph of the rest, which reads `values` with the samples along these axes.
    fn graph_of_rest(&self, values: &[(&String, usize)]) -> Result<Graph, GraphError> {
        let (nodes, _, read) = self.rest();
        let batch = self.fixed_batch.map_or(Extent::Batch, Extent::Fixed);
        let mut input: Vec<_> = self.inputs.iter().filter(|spec| read.contains(spec.name.as_str())).collect();
        let stored: Vec<TensorSpec> = self.stored(values);
        input.extend(&stored);
        let turned = values.iter().zip(&stored).filter(|((_, axis), _)| *axis != 0);
        let turned = turned.map(|((name, axis), spec)| {
            let perm: Vec<i64> =
                (1..=*axis as i64).chain([0]).chain(*axis as i64 + 1..spec.shape.len() as i64).collect();
            make_node("Transpose", &spec.name, &[&spec.name], &[name], vec![make_attr_ints("perm", &perm)])
        });
        let graph = GraphProto {
            node: turned.chain(nodes.iter().map(|at| self.graph.node[*at].clone())).collect(),
            input: input.into_iter().map(|spec| declared(spec, batch)).collect(),
            output: self.outputs().into_iter().cloned().collect(),
            value_info: vec![],
            ..self.graph.clone()
        };
        let mut graph = Graph::from_model(&self.with_graph(graph), &self.trained.options(self.options))?;
        // A name with `*` or `?` is a pattern that may match others.
        if let Some(other) = graph.trained().find(|parameter| !self.trained.names.contains(&parameter.name)) {
            let text =
                format!("the name of a trained parameter matches that of '{}' as a pattern; rename it", other.name);
            return Err(GraphError::Model(text));
        }
        graph.warnings = self.notes.iter().chain(&self.trained.warnings).cloned().collect();
        for parameter in &mut graph.parameters {
            if let Some(reason) = self.trained.reasons.get(&parameter.name) {
                parameter.reason.clone_from(reason);
            }
        }
        Ok(graph)
    }

    /// Specifications of `values` as the rest reads them, with the samples first.
    fn stored(&self, values: &[(&String, usize)]) -> Vec<TensorSpec> {
        let of = |(name, axis): &(&String, usize)| {
            let called = if *axis == 0 { (*name).clone() } else { format!("{name}/samples_first") };
            spec(called, DType::F32, &self.shapes[*name], *axis)
        };
        values.iter().map(of).collect()
    }

    fn part(&self, values: &[(&String, usize)], error: &GraphError) -> Result<OpaquePart, GraphError> {
        let names: Vec<String> = values.iter().map(|(name, _)| (*name).clone()).collect();
        let stored = self.stored(values);
        let model = samples_first(self.model(&names)?, values, &stored);
        let (_, _, read) = self.rest();
        let read = (0..self.inputs.len()).filter(|at| read.contains(self.inputs[*at].name.as_str())).collect();
        let nodes = model.graph.as_ref().map_or(&[][..], |graph| &graph.node);
        let mut operators: Vec<String> = nodes.iter().filter(|node| !has_rule(node)).map(operator).collect();
        operators.extend(of_error(error));
        operators.sort();
        operators.dedup();
        let have = if operators.len() == 1 { "has" } else { "have" };
        let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
        let note = format!(
            "the frozen part up to {} is run, not differentiated: {} {have} no rule, so it gets one sample at a time, and the values of all \
             samples are computed once before training",
            quoted.join(", "),
            operators.join(", ")
        );
        Ok(OpaquePart { model, inputs: self.inputs.clone(), outputs: stored, read, note })
    }
}

/// Moves the samples of the outputs of `model` from these axes to the front, under the names of `stored`.
fn samples_first(mut model: ModelProto, values: &[(&String, usize)], stored: &[TensorSpec]) -> ModelProto {
    let Some(graph) = model.graph.as_mut() else { return model };
    for (output, ((name, axis), spec)) in graph.output.iter_mut().zip(values.iter().zip(stored)) {
        if *axis != 0 {
            let others = (0..spec.shape.len() as i64).filter(|at| *at != *axis as i64);
            let perm: Vec<i64> = std::iter::once(*axis as i64).chain(others).collect();
            let perm = make_attr_ints("perm", &perm);
            graph.node.push(make_node("Transpose", &spec.name, &[name], &[&spec.name], vec![perm]));
            output.name.clone_from(&spec.name);
        }
    }
    model
}

/// Axes of extent 1.
fn axes(shape: &[usize]) -> impl Iterator<Item = usize> {
    shape.iter().enumerate().filter(|(_, extent)| **extent == 1).map(|(axis, _)| axis)
}

/// Specification of a value of one sample of this shape, with the samples moved from `axis` to the front.
fn spec(name: String, dtype: DType, shape: &[usize], axis: usize) -> TensorSpec {
    let others = shape.iter().enumerate().filter(|(at, _)| *at != axis).map(|(_, extent)| Dim::Fixed(*extent));
    TensorSpec { name, dtype, shape: std::iter::once(Dim::Batch).chain(others).collect() }
}

fn declared(spec: &TensorSpec, batch: Extent) -> ValueInfoProto {
    let extent = |dim: &Dim| if let Dim::Fixed(extent) = dim { Extent::Fixed(*extent) } else { batch };
    make_value_info(&spec.name, spec.dtype, &spec.shape.iter().map(extent).collect::<Vec<_>>())
}

fn of_error(error: &GraphError) -> Option<String> {
    match error {
        GraphError::PartlyTrainable { error, .. } => of_error(error),
        GraphError::Unsupported { op, .. } | GraphError::Refused { op, .. } => Some(op.clone()),
        _ => None,
    }
}
