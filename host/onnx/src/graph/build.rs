//! From a `ModelProto` to a [`Graph`]: walks the nodes once, each by its rule.

mod compact;
mod gelu;
mod inputs;
mod rows;
mod steps;

use std::collections::{HashMap, HashSet};

use super::node::{Ints, Item, Outcome, Rewritten, Shaped, Site};
use super::parameter::{self, Decisions};
use super::{DType, Graph, GraphError, GraphOptions, Node, Origin, Parameter, Tensor, TensorData, Value, ValueId};
use super::{affine::Affine, batch::show, fold, integers, quantized, refused, rules};
use crate::pb::{GraphProto, ModelProto, NodeProto};
use crate::{attr_tensor, decode_tensor, find_attr, node_name};

/// Operator sets that the rules were written for.
const OPSETS: std::ops::RangeInclusive<i64> = 13..=21;

/// No value of one sample has more elements, so that products of extents cannot overflow.
const MAX_ELEMENTS: usize = match 1usize.checked_shl(40) {
    Some(most) => most,
    // Of 32 bits.
    None => usize::MAX,
};

impl Graph {
    /// The typed, canonical graph of `model`.
    ///
    /// # Errors
    /// [`GraphError`]: the node, input, initializer or option at fault, and the remedy.
    pub fn from_model(model: &ModelProto, options: &GraphOptions) -> Result<Graph, GraphError> {
        let fault = |text: String| Err(GraphError::Model(text));
        let model = parameter::retie(model, options)?;
        let Some(graph) = &model.graph else {
            return fault("the model has no graph; export it again".into());
        };
        let standard = |domain: &str| matches!(domain, "" | "ai.onnx");
        let opset = model.opset_import.iter().find(|set| standard(&set.domain)).map_or(0, |set| set.version);
        if !OPSETS.contains(&opset) {
            return fault(format!(
                "the model uses operator set {opset}, and {} to {} are supported; export it with \
                 torch.onnx.export(..., opset_version=17) or dynamo=True and opset_version=18",
                OPSETS.start(),
                OPSETS.end()
            ));
        }
        if !graph.sparse_initializer.is_empty() {
            return fault("the model has sparse initializers, which are not read; export dense tensors".into());
        }
        reserved_names(graph)?;
        let mut builder = Builder::new(graph, opset, options)?;
        for (index, node) in graph.node.iter().enumerate() {
            if builder.decisions.live.contains(&index) {
                builder.add_node(index, node)?;
            }
        }
        builder.join_gelu_chains();
        builder.finish()
    }
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

struct Builder<'a> {
    graph: &'a GraphProto,
    opset: i64,
    fixed_batch: Option<usize>,
    decisions: Decisions,
    values: Vec<Value>,
    nodes: Vec<Node>,
    inputs: Vec<ValueId>,
    parameters: Vec<Parameter>,
    items: HashMap<String, Item>,
    rows: HashMap<String, rows::Rows>,
    names: HashSet<String>,
}

impl<'a> Builder<'a> {
    fn new(graph: &'a GraphProto, opset: i64, options: &GraphOptions) -> Result<Builder<'a>, GraphError> {
        let decisions = parameter::decide(graph, options)?;
        let mut builder = Builder {
            graph,
            opset,
            fixed_batch: None,
            decisions,
            values: Vec::new(),
            nodes: Vec::new(),
            inputs: Vec::new(),
            parameters: Vec::new(),
            items: HashMap::new(),
            rows: HashMap::new(),
            names: HashSet::new(),
        };
        let (inputs, fixed_batch) = inputs::read(graph, options)?;
        builder.fixed_batch = fixed_batch;
        for (name, shaped) in inputs {
            let id = builder.add_value(&name, shaped, Origin::Input)?;
            builder.inputs.push(id);
            builder.items.insert(name, Item::Value(id));
        }
        for float in std::mem::take(&mut builder.decisions.floats) {
            let shaped = Shaped { dtype: float.tensor.data.dtype(), shape: float.tensor.shape.clone(), batch: None };
            let value = builder.add_value(&float.name, shaped, Origin::Parameter(builder.parameters.len()))?;
            builder.items.insert(float.name.clone(), Item::Value(value));
            builder.parameters.push(Parameter {
                name: float.name,
                value,
                initial: float.tensor,
                quantized: float.quantized,
                trained: float.trained,
                reason: float.reason,
            });
        }
        for proto in &graph.initializer {
            if matches!(DType::from_onnx(proto.data_type), Ok(DType::I32 | DType::I64 | DType::Bool)) {
                let tensor = decode_tensor(proto).map_err(|error| GraphError::Model(error.to_string()))?;
                if let Some(ints) = as_ints(&tensor) {
                    builder.items.insert(proto.name.clone(), Item::Ints(ints));
                }
            }
        }
        Ok(builder)
    }

    fn add_value(&mut self, name: &str, shaped: Shaped, origin: Origin) -> Result<ValueId, GraphError> {
        if !self.names.insert(name.to_string()) {
            return Err(GraphError::Model(format!(
                "the name '{name}' is given twice; check the model with onnx.checker, or export it again"
            )));
        }
        let Shaped { dtype, shape, batch } = shaped;
        self.values.push(Value { name: name.to_string(), dtype, shape, batch, origin });
        Ok(ValueId(self.values.len() - 1))
    }

    fn add_node(&mut self, index: usize, node: &NodeProto) -> Result<(), GraphError> {
        let name = node_name(node, index);
        let invalid = |reason: String| GraphError::Invalid { node: name.clone(), op: node.op_type.clone(), reason };
        let Some(output) = node.output.first() else {
            return Err(invalid("it has no output".into()));
        };
        if self.items.contains_key(output) && matches!(&*node.op_type, "Identity" | "Constant" | "DequantizeLinear") {
            // Already there as a parameter of its own.
            return Ok(());
        }
        if self.is_of_quantized_weight(node) {
            return Ok(());
        }
        if self.add_rows(index, node)? {
            return Ok(());
        }
        let mut inputs = Vec::with_capacity(node.input.len());
        for input in &node.input {
            if input.is_empty() {
                inputs.push(None);
                continue;
            }
            let split = self.decisions.splits.get(&(index, input.clone()));
            match self.items.get(split.unwrap_or(input)) {
                Some(item) => inputs.push(Some(item.clone())),
                None => return Err(self.missing(&name, node, input)),
            }
        }
        let site = Site {
            node,
            name: &name,
            opset: self.opset,
            fixed_batch: self.fixed_batch,
            inputs,
            values: &self.values,
            parameters: &self.parameters,
        };
        if !matches!(node.domain.as_str(), "" | "ai.onnx") {
            let op = format!("{}.{}", node.domain, node.op_type);
            return Err(GraphError::Unsupported { feeds: feeds(&site), node: name, op });
        }
        let outcome = if node.op_type == "Constant" {
            constant(&site)?
        } else if let Some(ints) = integers::evaluate(&site) {
            Outcome::Ints(ints?)
        } else if let Some(known) = fold::evaluate(&site) {
            known
        } else if let Some(known) = refused::find(&node.op_type) {
            return Err(site.refused(known.reason, known.remedy));
        } else if let Some(rule) = rules::find(&node.op_type) {
            rule(&site)?
        } else {
            return Err(GraphError::Unsupported { feeds: feeds(&site), node: name, op: node.op_type.clone() });
        };
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
                let mut ids = Vec::with_capacity(inputs.len());
                for (slot, item) in inputs.into_iter().enumerate() {
                    ids.push(match item {
                        None => None,
                        Some(Item::Value(id)) => Some(id),
                        Some(Item::Ints(ints)) => Some(self.materialise(&name, node, slot, ints)?),
                    });
                }
                while ids.last().is_some_and(Option::is_none) {
                    ids.pop();
                }
                let outputs: Vec<&String> = node.output.iter().collect();
                Item::Value(self.emit(&name, &node.op_type, ids, node.attribute.clone(), &outputs, shaped)?)
            }
        };
        self.items.insert(output.clone(), item);
        Ok(())
    }

    /// Returns true if `node` is a constant of integers that are a weight's.
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

    /// The nodes that `node` is written as; what is wrong with them is said of `node`.
    fn add_rewritten(
        &mut self,
        index: usize,
        name: &str,
        node: &NodeProto,
        rewritten: Rewritten,
    ) -> Result<(), GraphError> {
        let made = rewritten.nodes.iter().flat_map(|part| &part.output).filter(|made| **made != node.output[0]);
        for made in made.chain(rewritten.ints.iter().map(|(made, _)| made)) {
            if self.items.contains_key(made) || self.rows.contains_key(made) {
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
        // The part that computes the output goes by its name.
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

    fn missing(&self, name: &str, node: &NodeProto, input: &str) -> GraphError {
        let stored = self.graph.initializer.iter().find(|tensor| tensor.name == input);
        let stored = stored.and_then(|tensor| decode_tensor(tensor).err());
        GraphError::Invalid {
            node: name.into(),
            op: node.op_type.clone(),
            reason: stored.map_or_else(
                || format!("it reads '{input}', which no earlier node computes"),
                |error| error.to_string(),
            ),
        }
    }

    fn add_constant(&mut self, name: &str, tensor: Tensor) -> Result<ValueId, GraphError> {
        let shaped = Shaped { dtype: tensor.data.dtype(), shape: tensor.shape.clone(), batch: None };
        self.add_value(name, shaped, Origin::Constant(tensor))
    }

    /// Known integers that a node of the graph reads as data.
    fn materialise(&mut self, name: &str, node: &NodeProto, slot: usize, ints: Ints) -> Result<ValueId, GraphError> {
        let Some(tensor) = ints.tensor() else {
            return Err(GraphError::Mixes {
                node: name.into(),
                op: node.op_type.clone(),
                reason: format!("input {slot} holds the number of samples"),
                remedy: "use fixed sizes".into(),
            });
        };
        let source = &node.input[slot];
        let free = (0..).map(|i| if i == 0 { source.clone() } else { format!("{source}/{i}") });
        for candidate in free {
            match self.values.iter().position(|value| value.name == candidate) {
                Some(id) if self.values[id].origin == Origin::Constant(tensor.clone()) => {
                    return Ok(ValueId(id));
                }
                Some(_) => {}
                None => {
                    let shaped = Shaped { dtype: ints.dtype, shape: tensor.shape.clone(), batch: None };
                    return self.add_value(&candidate, shaped, Origin::Constant(tensor));
                }
            }
        }
        unreachable!("one of unboundedly many names is free")
    }

    fn emit(
        &mut self,
        name: &str,
        op: &str,
        inputs: Vec<Option<ValueId>>,
        attributes: Vec<crate::pb::AttributeProto>,
        names: &[&String],
        shaped: Vec<Shaped>,
    ) -> Result<ValueId, GraphError> {
        let index = self.nodes.len();
        let empty = |id: &ValueId| Some(&self.values[id.0]).filter(|it| it.dtype.is_float() && it.shape.contains(&0));
        if let Some(value) = inputs.iter().flatten().find_map(empty) {
            return Err(GraphError::Invalid {
                node: name.into(),
                op: op.into(),
                reason: format!("it reads '{}', which has no elements", value.name),
            });
        }
        let mut outputs = Vec::with_capacity(shaped.len());
        for (slot, shaped) in shaped.into_iter().enumerate() {
            let count = shaped.shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
            if !count.is_some_and(|n| (1..=MAX_ELEMENTS).contains(&n)) {
                return Err(GraphError::Invalid {
                    node: name.into(),
                    op: op.into(),
                    reason: format!("its output {} is empty or too large", show(&shaped.shape, shaped.batch)),
                });
            }
            let id = self.add_value(names[slot], shaped, Origin::Node { node: index, slot })?;
            self.items.insert(names[slot].clone(), Item::Value(id));
            outputs.push(id);
        }
        let first = outputs[0];
        self.nodes.push(Node { name: name.into(), op: op.into(), inputs, outputs, attributes });
        Ok(first)
    }
}

/// The inputs of a node, for messages.
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

fn as_ints(tensor: &Tensor) -> Option<Ints> {
    let entries: Vec<Affine> = match &tensor.data {
        TensorData::I32(data) => data.iter().map(|&x| Affine::fixed(x.into())).collect(),
        TensorData::I64(data) => data.iter().map(|&x| Affine::fixed(x)).collect(),
        TensorData::Bool(data) => data.iter().map(|&x| Affine::fixed(x.into())).collect(),
        TensorData::F32(_) | TensorData::F64(_) => return None,
    };
    Some(Ints { dtype: tensor.data.dtype(), shape: tensor.shape.clone(), entries })
}

/// `Constant`: a tensor, or one of the short forms.
fn constant(site: &Site<'_>) -> Result<Outcome, GraphError> {
    let attributes = site.attributes();
    let tensor = if let Some(proto) = attr_tensor(attributes, "value") {
        decode_tensor(proto).map_err(|error| site.invalid(error.to_string()))?
    } else if let Some(attribute) = find_attr(attributes, "value_float") {
        Tensor { shape: vec![], data: TensorData::F32(vec![attribute.f]) }
    } else if let Some(attribute) = find_attr(attributes, "value_floats") {
        Tensor { shape: vec![attribute.floats.len()], data: TensorData::F32(attribute.floats.clone()) }
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
