//! State of a graph under construction, with functions that add values, constants and nodes.

use super::super::node::{Ints, Item, MAX_ELEMENTS, Shaped};
use super::super::parameter::{self, Decisions};
use super::super::{DType, GraphError, GraphOptions, Node, Origin, Parameter, Tensor, TensorData, Value, ValueId};
use super::super::{affine::Affine, batch::show, integers};
use super::inputs;
use crate::decode_tensor;
use crate::pb::{GraphProto, NodeProto};
use std::collections::{HashMap, HashSet};

/// Integers that differ between samples (`per_sample_ints.rs`), in their shape for one sample. The sample index runs
/// along `axis`.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub(super) dtype: DType,
    /// Shape, with extent 1 along `axis`.
    pub(super) shape: Vec<usize>,
    pub(super) axis: usize,
    /// Entries (a, b) for `a·n + b` of sample `n`. `None` for an entry of another form.
    pub(super) entries: Vec<Option<(i64, i64)>>,
}

impl Rows {
    /// Entry `flat` after broadcasting to `shape`.
    pub(super) fn spread(&self, flat: usize, shape: &[usize]) -> Option<(i64, i64)> {
        self.entries[integers::broadcast_index(flat, shape, &self.shape)]
    }
}

/// Index tensor that selects one position in each sample's own rows, from `n` and `index`.
#[derive(Clone, Debug)]
pub(super) struct Pick {
    /// Name of the samples' indices. Their shape is `[N]` in a sum and `[N, 1]` in tuples.
    pub(super) index: String,
    /// Stride of `n · stride + index`. `None` for the tuple of both.
    pub(super) stride: Option<usize>,
}

/// Graph under construction.
pub(super) struct Builder<'a> {
    pub(super) graph: &'a GraphProto,
    pub(super) opset: i64,
    pub(super) fixed_batch: Option<usize>,
    pub(super) decisions: Decisions,
    pub(super) values: Vec<Value>,
    pub(super) nodes: Vec<Node>,
    pub(super) inputs: Vec<ValueId>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) items: HashMap<String, Item>,
    pub(super) rows: HashMap<String, Rows>,
    pub(super) picks: HashMap<String, Pick>,
    pub(super) names: HashSet<String>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(graph: &'a GraphProto, opset: i64, options: &GraphOptions) -> Result<Builder<'a>, GraphError> {
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
            picks: HashMap::new(),
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

    pub(super) fn add_value(&mut self, name: &str, shaped: Shaped, origin: Origin) -> Result<ValueId, GraphError> {
        if !self.names.insert(name.to_string()) {
            return Err(GraphError::Model(format!(
                "the name '{name}' is given twice; check the model with onnx.checker, or export it again"
            )));
        }
        let Shaped { dtype, shape, batch } = shaped;
        self.values.push(Value { name: name.to_string(), dtype, shape, batch, origin });
        Ok(ValueId(self.values.len() - 1))
    }

    pub(super) fn missing(&self, name: &str, node: &NodeProto, input: &str) -> GraphError {
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

    pub(super) fn add_constant(&mut self, name: &str, tensor: Tensor) -> Result<ValueId, GraphError> {
        let shaped = Shaped { dtype: tensor.data.dtype(), shape: tensor.shape.clone(), batch: None };
        self.add_value(name, shaped, Origin::Constant(tensor))
    }

    /// Adds known integers that a node reads as data.
    pub(super) fn materialise(
        &mut self,
        name: &str,
        node: &NodeProto,
        slot: usize,
        ints: Ints,
    ) -> Result<ValueId, GraphError> {
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

    pub(super) fn emit(
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

/// Integers of an integer or Boolean tensor.
pub(super) fn as_ints(tensor: &Tensor) -> Option<Ints> {
    let entries: Vec<Affine> = match &tensor.data {
        TensorData::I32(data) => data.iter().map(|&x| Affine::fixed(x.into())).collect(),
        TensorData::I64(data) => data.iter().map(|&x| Affine::fixed(x)).collect(),
        TensorData::Bool(data) => data.iter().map(|&x| Affine::fixed(x.into())).collect(),
        TensorData::F32(_) | TensorData::F64(_) => return None,
    };
    Some(Ints { dtype: tensor.data.dtype(), shape: tensor.shape.clone(), entries })
}
