//! Converts a `ModelProto` to a [`Graph`]. Visits each node once and applies its rule.

mod builder;
mod compact;
mod flow;
mod gelu;
mod inputs;
mod per_sample_ints;
mod picks;
mod steps;

use super::node::{Item, Outcome, Rewritten, Site};
use super::opaque::advice::advised;
use super::opaque::operators::operator;
use super::parameter::quantized;
use super::parameter::{self, Decisions};
use super::shape::norm::batch_of_weight;
use super::standard::{self, Flow, Standard};
use super::{Graph, GraphError, GraphOptions, Origin, Tensor, TensorData, ValueId};
use super::{batch::show, fold, integers, refused, rules};
use crate::pb::{GraphProto, ModelProto, NodeProto};
use crate::{attr_tensor, decode_tensor, find_attr, node_name};
use builder::{Builder, as_ints};

/// Maximum number of branches and loops to inline. Exporters write far fewer.
const MAX_INLINED: usize = 512;

impl Graph {
    /// Builds the typed, canonical graph of `model`.
    ///
    /// # Errors
    /// [`GraphError`]: the node, input, initializer or option at fault, and the fix.
    pub fn from_model(model: &ModelProto, options: &GraphOptions) -> Result<Graph, GraphError> {
        let (graph, outcome) = flat(model, options)?;
        outcome.map_err(|error| advised(error, &graph, options))
    }
}

/// `model` in the form that the rules support, reduced to the required output, with the decisions on its initializers.
pub(super) fn decided(model: &ModelProto, options: &GraphOptions) -> Result<(GraphProto, Decisions), GraphError> {
    let part = options.output.as_ref().and_then(|output| with_output(model, output));
    let (graph, _) = flat_of(part.as_ref().unwrap_or(model), options)?;
    let decisions = parameter::decide(&graph, options)?;
    Ok((graph, decisions))
}

/// Name, type and one-sample shape of each data input of `graph`, and the batch size if the export fixed it.
pub(super) fn data_inputs(graph: &GraphProto, options: &GraphOptions) -> Result<inputs::Inputs, GraphError> {
    inputs::read(graph, options)
}

/// `model` in the form that the rules support, with statically known branches and loops inlined, and its graph.
///
/// # Errors
/// [`GraphError`] if the model has no form that the rules support. If only its graph cannot be read, the second result
/// is the error.
pub(super) fn flat(
    model: &ModelProto,
    options: &GraphOptions,
) -> Result<(GraphProto, Result<Graph, GraphError>), GraphError> {
    let whole = flat_of(model, options);
    if matches!(whole, Ok((_, Ok(_)))) {
        return whole;
    }
    // An operator without a rule may belong only to other outputs.
    let part = options.output.as_ref().and_then(|output| with_output(model, output));
    match part.map(|part| flat_of(&part, options)) {
        Some(part @ Ok((_, Ok(_)))) => part,
        _ => whole,
    }
}

/// `model` with only one of its outputs, if it has others.
fn with_output(model: &ModelProto, output: &str) -> Option<ModelProto> {
    let outputs = &model.graph.as_ref()?.output;
    let kept = outputs.iter().find(|info| info.name == output).filter(|_| outputs.len() > 1)?.clone();
    let mut part = model.clone();
    part.graph.as_mut()?.output = vec![kept];
    Some(part)
}

fn flat_of(model: &ModelProto, options: &GraphOptions) -> Result<(GraphProto, Result<Graph, GraphError>), GraphError> {
    let Standard { mut graph, opset, notes } = standard::standard(model, options)?;
    if !graph.sparse_initializer.is_empty() {
        let text = "the model has sparse initializers, which are not read; export dense tensors";
        return Err(GraphError::Model(text.into()));
    }
    reserved_names(&graph)?;
    for _ in 0..MAX_INLINED {
        let error = match read(&graph, opset, options) {
            Ok(Step::Done(mut done)) => {
                done.warnings.splice(0..0, notes);
                return Ok((graph, Ok(*done)));
            }
            Ok(Step::Inline(flow)) => match standard::inline(&mut graph, flow) {
                Ok(()) => continue,
                Err(error) => error,
            },
            Err(error) => error,
        };
        return Ok((graph, Err(error)));
    }
    let text = format!("the model has more than {MAX_INLINED} branches and loops; export it without");
    Ok((graph, Err(GraphError::Model(text))))
}

/// Finished graph, or control flow to inline first.
enum Step {
    Done(Box<Graph>),
    Inline(Flow),
}

fn read(graph: &GraphProto, opset: i64, options: &GraphOptions) -> Result<Step, GraphError> {
    let mut builder = Builder::new(graph, opset, options)?;
    for (index, node) in graph.node.iter().enumerate() {
        if !builder.decisions.live.contains(&index) {
            continue;
        }
        if let Some(flow) = builder.known_flow(node)? {
            return Ok(Step::Inline(flow));
        }
        builder.add_node(index, node)?;
    }
    builder.join_gelu_chains();
    Ok(Step::Done(Box::new(builder.finish()?)))
}

fn reserved_names(graph: &GraphProto) -> Result<(), GraphError> {
    let inputs = graph.input.iter().map(|value| &value.name);
    let tensors = graph.initializer.iter().map(|tensor| &tensor.name);
    let mut names = inputs.chain(tensors).chain(graph.node.iter().flat_map(|node| &node.output));
    match names.find(|name| name.starts_with("dp.")) {
        Some(name) => Err(GraphError::Model(format!(
            "the model uses the name '{name}', and names that begin with 'dp.' are damper's own; rename it"
        ))),
        None => Ok(()),
    }
}

impl Builder<'_> {
    fn add_node(&mut self, index: usize, node: &NodeProto) -> Result<(), GraphError> {
        let name = node_name(node, index);
        let invalid = |reason: String| GraphError::Invalid { node: name.clone(), op: node.op_type.clone(), reason };
        let Some(output) = node.output.first() else {
            return Err(invalid("it has no output".into()));
        };
        if self.items.contains_key(output) && matches!(&*node.op_type, "Identity" | "Constant" | "DequantizeLinear") {
            // Already present as a separate parameter.
            return Ok(());
        }
        if self.is_of_quantized_weight(node) {
            return Ok(());
        }
        if self.add_pick(index, &name, node)? || self.add_rows(index, node)? {
            return Ok(());
        }
        let inputs = self.inputs_of(index, &name, node)?;
        let site = Site {
            node,
            name: &name,
            opset: self.opset,
            fixed_batch: self.fixed_batch,
            inputs,
            values: &self.values,
            parameters: &self.parameters,
        };
        let outcome = evaluate(&site)?;
        let inputs = site.inputs;
        let item = match outcome {
            Outcome::Rewritten(rewritten) => return self.add_rewritten(index, &name, node, rewritten),
            Outcome::Alias(item) => item,
            Outcome::Ints(ints) => Item::Ints(ints),
            Outcome::Constant(tensor) => Item::Value(self.add_constant(output, tensor)?),
            Outcome::Canonical { op, input, output: shaped } => {
                Item::Value(self.emit(&name, op, vec![Some(input)], vec![], &[output], vec![shaped])?)
            }
            Outcome::Expanded { constant, output: shaped } => {
                let id = self.add_constant(&format!("{output}/one"), constant)?;
                Item::Value(self.emit(&name, "Expand", vec![Some(id)], vec![], &[output], vec![shaped])?)
            }
            Outcome::Parts(parts) => {
                for (output, ints) in node.output.iter().zip(parts) {
                    self.items.insert(output.clone(), Item::Ints(ints));
                }
                return Ok(());
            }
            Outcome::Steps { steps, outputs } => return self.add_steps(&name, node, steps, &outputs),
            Outcome::Node(shaped) => {
                let ids = self.read_as_data(&name, node, inputs)?;
                let outputs: Vec<&String> = node.output.iter().collect();
                Item::Value(self.emit(&name, &node.op_type, ids, node.attribute.clone(), &outputs, shaped)?)
            }
        };
        self.items.insert(output.clone(), item);
        Ok(())
    }

    /// Resolved inputs of the node. `None` for an omitted input.
    fn inputs_of(&self, index: usize, name: &str, node: &NodeProto) -> Result<Vec<Option<Item>>, GraphError> {
        let item = |input: &String| {
            let split = self.decisions.splits.get(&(index, input.clone()));
            match self.items.get(split.unwrap_or(input)) {
                _ if input.is_empty() => Ok(None),
                Some(item) => Ok(Some(item.clone())),
                None => Err(self.missing(name, node, input)),
            }
        };
        node.input.iter().map(item).collect()
    }

    /// Values that the node reads, with known integers as data, and without omitted inputs at the end.
    fn read_as_data(
        &mut self,
        name: &str,
        node: &NodeProto,
        inputs: Vec<Option<Item>>,
    ) -> Result<Vec<Option<ValueId>>, GraphError> {
        let mut ids = Vec::with_capacity(inputs.len());
        for (slot, item) in inputs.into_iter().enumerate() {
            ids.push(match item {
                None => None,
                Some(Item::Value(id)) => Some(id),
                Some(Item::Ints(ints)) => Some(self.materialise(name, node, slot, ints)?),
            });
        }
        while ids.last().is_some_and(Option::is_none) {
            ids.pop();
        }
        Ok(ids)
    }

    /// Returns true if `node` is an integer constant that stores a weight.
    fn is_of_quantized_weight(&self, node: &NodeProto) -> bool {
        let reads = |reader: &&NodeProto| reader.input.iter().any(|input| node.output.first() == Some(input));
        let is_weight = |reader: &NodeProto| {
            reader.op_type == "DequantizeLinear"
                && reader.output.first().is_some_and(|out| self.items.contains_key(out))
        };
        node.op_type == "Constant"
            && attr_tensor(&node.attribute, "value").is_some_and(quantized::is_quantized)
            && self.graph.node.iter().filter(reads).all(is_weight)
    }

    /// Adds the nodes to which `node` is rewritten. Errors in them refer to `node`.
    fn add_rewritten(
        &mut self,
        index: usize,
        name: &str,
        node: &NodeProto,
        rewritten: Rewritten,
    ) -> Result<(), GraphError> {
        let made = rewritten.nodes.iter().flat_map(|part| &part.output).filter(|made| **made != node.output[0]);
        for made in made.chain(rewritten.ints.iter().map(|(made, _)| made)) {
            if self.items.contains_key(made) || self.picks.contains_key(made) || self.rows.contains_key(made) {
                return Err(GraphError::Model(format!(
                    "the name '{made}' is needed for a part of node '{name}' ({}); rename it",
                    node.op_type
                )));
            }
        }
        for (name, ints) in rewritten.ints {
            self.items.insert(name, Item::Ints(ints));
        }
        let first = self.values.len();
        for part in &rewritten.nodes {
            self.add_node(index, part).map_err(|error| error.of(name, &node.op_type))?;
        }
        // The node that computes the output gets the name of `node`.
        let output = &node.output[0];
        if let Some(&Item::Value(id)) = self.items.get(output)
            && let Origin::Node { node: last, .. } = self.values[id.0].origin
            && id.0 >= first
            && self.names.insert(output.clone())
        {
            self.values[id.0].name = output.clone();
            self.nodes[last].name = name.into();
        }
        Ok(())
    }
}

/// Applies the operator's rule to the node. Folds known integers and constants first.
fn evaluate(site: &Site<'_>) -> Result<Outcome, GraphError> {
    let node = site.node;
    let unsupported = |op: String| GraphError::Unsupported { feeds: feeds(site), node: site.name.to_string(), op };
    if !matches!(node.domain.as_str(), "" | "ai.onnx") {
        return Err(match refused::find(&node.domain, &node.op_type) {
            Some(known) => site.refused(known.reason, known.remedy),
            None => unsupported(operator(node)),
        });
    }
    if node.op_type == "Constant" {
        constant(site)
    } else if let Some(ints) = integers::evaluate(site) {
        ints.map(Outcome::Ints)
    } else if let Some(known) = fold::evaluate(site) {
        Ok(known)
    } else if let Some(ruled) = batch_of_weight(site) {
        ruled
    } else if let Some(known) = refused::find(&node.domain, &node.op_type) {
        Err(site.refused(known.reason, known.remedy))
    } else if let Some(rule) = rules::find(&node.op_type) {
        rule(site)
    } else {
        Err(unsupported(node.op_type.clone()))
    }
}

/// Inputs of a node, for messages.
fn feeds(site: &Site<'_>) -> String {
    let known: Vec<String> = site
        .inputs
        .iter()
        .flatten()
        .map(|item| match item {
            Item::Value(id) => {
                let value = &site.values[id.0];
                format!("'{}' {}", value.name, show(&value.shape, value.batch))
            }
            Item::Ints(ints) => format!("integers {:?}", ints.shape),
        })
        .collect();
    if known.is_empty() { "nothing".into() } else { known.join(" and ") }
}

/// Evaluates `Constant`: a tensor, or one of the short forms.
fn constant(site: &Site<'_>) -> Result<Outcome, GraphError> {
    let attributes = site.attributes();
    let tensor = if let Some(proto) = attr_tensor(attributes, "value") {
        decode_tensor(proto).map_err(|error| site.invalid(error.to_string()))?
    } else if let Some(attribute) = find_attr(attributes, "value_float") {
        Tensor { shape: vec![], data: TensorData::F32(vec![attribute.f].into()) }
    } else if let Some(attribute) = find_attr(attributes, "value_floats") {
        Tensor { shape: vec![attribute.floats.len()], data: TensorData::F32(attribute.floats.clone().into()) }
    } else if let Some(attribute) = find_attr(attributes, "value_int") {
        Tensor { shape: vec![], data: TensorData::I64(vec![attribute.i]) }
    } else if let Some(attribute) = find_attr(attributes, "value_ints") {
        Tensor { shape: vec![attribute.ints.len()], data: TensorData::I64(attribute.ints.clone()) }
    } else {
        return Err(site.invalid("it holds no dense tensor of numbers"));
    };
    Ok(match as_ints(&tensor) {
        Some(ints) => Outcome::Ints(ints),
        None => Outcome::Constant(tensor),
    })
}
