//! Input and result of a shape rule for one node.

use super::affine::Affine;
use super::{BatchAxis, DType, GraphError, Origin, Parameter, Tensor, TensorData, Value, ValueId};
use crate::pb::{AttributeProto, NodeProto};
use crate::{attr_ints, attr_string};

/// Maximum number of elements in a value of one sample, so that products of extents cannot overflow.
pub(super) const MAX_ELEMENTS: usize = match 1usize.checked_shl(40) {
    Some(most) => most,
    // On 32-bit targets.
    None => usize::MAX,
};

/// Maximum attribute or extent, so that index arithmetic cannot overflow.
pub(super) const MAX_EXTENT: i64 = 1 << 31;

/// Maximum number of axes.
pub(super) const MAX_RANK: usize = 32;

/// Maximum number of elements in a folded constant. Exporters write far smaller constants.
pub(super) const MAX_FOLDED: usize = 1 << 22;

/// Known integers of the form `a·N + b`: integer constants and shape arithmetic.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Ints {
    pub dtype: DType,
    pub shape: Vec<usize>,
    pub entries: Vec<Affine>,
}

impl Ints {
    /// Entries, if none depends on `N`.
    pub fn constants(&self) -> Option<Vec<i64>> {
        self.entries.iter().map(|entry| entry.constant()).collect()
    }

    /// Tensor of the entries, if none depends on `N`.
    pub fn tensor(&self) -> Option<Tensor> {
        let values = self.constants()?;
        let data = match self.dtype {
            DType::I32 => TensorData::I32(values.iter().map(|&x| x as i32).collect()),
            DType::Bool => TensorData::Bool(values.iter().map(|&x| x != 0).collect()),
            _ => TensorData::I64(values),
        };
        Some(Tensor { shape: self.shape.clone(), data })
    }
}

/// Meaning of a name in the model.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Item {
    Value(ValueId),
    Ints(Ints),
}

/// Type, one-sample shape and batch axis of an output.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Shaped {
    pub dtype: DType,
    pub shape: Vec<usize>,
    pub batch: Option<BatchAxis>,
}

impl Shaped {
    pub fn of(value: &Value) -> Shaped {
        Shaped { dtype: value.dtype, shape: value.shape.clone(), batch: value.batch }
    }
}

/// Result of a rule.
pub(super) enum Outcome {
    /// Output 0 is this input.
    Alias(Item),
    /// Output 0 is known integers.
    Ints(Ints),
    /// Output 0 is a constant.
    Constant(Tensor),
    /// The node is kept, with these outputs.
    Node(Vec<Shaped>),
    /// A `Reshape` or `Expand` of one input.
    Canonical { op: &'static str, input: ValueId, output: Shaped },
    /// A constant, expanded to a shape that includes the batch.
    Expanded { constant: Tensor, output: Shaped },
    /// Other nodes, each processed by its own rule.
    Rewritten(Rewritten),
    /// All outputs are known integers.
    Parts(Vec<Ints>),
    /// Other nodes that replace this node. Output `k` is that of step `outputs[k]`.
    Steps { steps: Vec<Step>, outputs: Vec<usize> },
}

/// Node expressed by other nodes.
#[derive(Default)]
pub(super) struct Rewritten {
    /// Nodes in order. The last writes output 0.
    pub nodes: Vec<NodeProto>,
    /// Integers that they read, by name.
    pub ints: Vec<(String, Ints)>,
}

/// Node with one output that implements a part of another node.
pub(super) struct Step {
    pub op: &'static str,
    pub inputs: Vec<Source>,
    pub attributes: Vec<AttributeProto>,
    pub output: Shaped,
}

/// Input of a [`Step`].
#[derive(Clone)]
pub(super) enum Source {
    Value(ValueId),
    Constant(Tensor),
    /// Output of an earlier step.
    Step(usize),
}

impl Source {
    /// Known integers that are the same for every number of samples.
    pub fn integers(values: &[i64]) -> Source {
        Source::Constant(Tensor { shape: vec![values.len()], data: TensorData::I64(values.to_vec()) })
    }
}

/// Input as data: a value, or known integers as a constant.
#[derive(Clone)]
pub(super) struct Data<'a> {
    pub name: &'a str,
    pub source: Source,
    pub shaped: Shaped,
}

pub(super) type Ruled = Result<Outcome, GraphError>;

/// Node with resolved inputs.
pub(super) struct Site<'a> {
    pub node: &'a NodeProto,
    pub name: &'a str,
    pub opset: i64,
    /// Batch size that the export fixed. `None` if the batch is symbolic.
    pub fixed_batch: Option<usize>,
    pub inputs: Vec<Option<Item>>,
    pub values: &'a [Value],
    pub parameters: &'a [Parameter],
}

impl<'a> Site<'a> {
    pub fn op(&self) -> &'a str {
        &self.node.op_type
    }

    pub fn attributes(&self) -> &'a [AttributeProto] {
        &self.node.attribute
    }

    pub fn id(&self, index: usize) -> Result<ValueId, GraphError> {
        match self.inputs.get(index) {
            Some(Some(Item::Value(id))) => Ok(*id),
            Some(Some(Item::Ints(_))) => {
                Err(self.invalid(format!("input {index} is integer shape arithmetic where data is expected")))
            }
            _ => Err(self.invalid(format!("input {index} is missing"))),
        }
    }

    pub fn value(&self, index: usize) -> Result<&'a Value, GraphError> {
        Ok(&self.values[self.id(index)?.0])
    }

    /// Input value with float elements.
    pub fn float(&self, index: usize) -> Result<&'a Value, GraphError> {
        let value = self.value(index)?;
        if value.dtype.is_float() {
            return Ok(value);
        }
        Err(self.invalid(format!("input {index} ('{}') is {}, not float", value.name, value.dtype.name())))
    }

    /// Input `index` as data, including known integers.
    pub fn data(&self, index: usize) -> Result<Data<'a>, GraphError> {
        if let Some(Some(Item::Ints(ints))) = self.inputs.get(index) {
            let tensor = ints
                .tensor()
                .ok_or_else(|| self.mixes(format!("input {index} holds the number of samples"), "use fixed sizes"))?;
            let shaped = Shaped { dtype: ints.dtype, shape: ints.shape.clone(), batch: None };
            return Ok(Data { name: &self.node.input[index], source: Source::Constant(tensor), shaped });
        }
        let (id, value) = (self.id(index)?, self.value(index)?);
        Ok(Data { name: &value.name, source: Source::Value(id), shaped: Shaped::of(value) })
    }

    pub fn has(&self, index: usize) -> bool {
        matches!(self.inputs.get(index), Some(Some(_)))
    }

    /// Known floats, if the input is present.
    pub fn floats(&self, index: usize) -> Result<Option<Vec<f32>>, GraphError> {
        if !self.has(index) {
            return Ok(None);
        }
        let value = self.float(index)?;
        let tensor = match &value.origin {
            Origin::Constant(tensor) => Some(tensor),
            Origin::Parameter(at) => Some(&self.parameters[*at].initial),
            Origin::Input | Origin::Node { .. } => None,
        };
        match tensor.and_then(Tensor::as_f32) {
            Some(data) => Ok(Some(data.to_vec())),
            None => Err(self.invalid(format!("input {index} ('{}') is not a float32 constant", value.name))),
        }
    }

    /// Integers that must be the same for every number of samples, if the input is present.
    pub fn constants(&self, index: usize) -> Result<Option<Vec<i64>>, GraphError> {
        if !self.has(index) {
            return Ok(None);
        }
        let ints = self.ints(index)?;
        let counts = || self.mixes(format!("input {index} depends on the number of samples"), "use a fixed number");
        let values = ints.constants().ok_or_else(counts)?;
        self.bounded(&values)?;
        Ok(Some(values))
    }

    /// Known integers.
    pub fn ints(&self, index: usize) -> Result<&Ints, GraphError> {
        match self.inputs.get(index) {
            Some(Some(Item::Ints(ints))) => Ok(ints),
            Some(Some(Item::Value(id))) => Err(self.invalid(format!(
                "input {index} ('{}') is computed from data, so the shape is not known before a run",
                self.values[id.0].name
            ))),
            _ => Err(self.invalid(format!("input {index} is missing"))),
        }
    }

    /// Integer list attribute, with every entry checked to be in range.
    pub fn attr_ints(&self, name: &str) -> Result<Option<Vec<i64>>, GraphError> {
        let values = attr_ints(self.attributes(), name).map(<[i64]>::to_vec);
        if let Some(values) = &values {
            self.bounded(values)?;
        }
        Ok(values)
    }

    pub fn attr_string(&self, name: &str, default: &'a str) -> &'a str {
        attr_string(self.attributes(), name, default)
    }

    fn bounded(&self, values: &[i64]) -> Result<(), GraphError> {
        // Exporters write "to the end" as the largest integers of either sign.
        match values.iter().find(|v| (MAX_EXTENT as u64 + 1..i64::MAX as u64).contains(&v.unsigned_abs())) {
            Some(v) => Err(self.invalid(format!("the number {v} is out of range"))),
            None => Ok(()),
        }
    }

    /// Non-negative index of `axis` in a value of rank `rank`.
    pub fn axis(&self, axis: i64, rank: usize) -> Result<usize, GraphError> {
        let counted = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
        usize::try_from(counted)
            .ok()
            .filter(|&axis| axis < rank)
            .ok_or_else(|| self.invalid(format!("axis {axis} does not exist in a value of rank {rank}")))
    }

    pub fn invalid(&self, reason: impl Into<String>) -> GraphError {
        GraphError::Invalid { node: self.name.into(), op: self.op().into(), reason: reason.into() }
    }

    pub fn mixes(&self, reason: impl Into<String>, remedy: impl Into<String>) -> GraphError {
        GraphError::Mixes { node: self.name.into(), op: self.op().into(), reason: reason.into(), remedy: remedy.into() }
    }

    pub fn refused(&self, reason: impl Into<String>, remedy: impl Into<String>) -> GraphError {
        GraphError::Refused {
            node: self.name.into(),
            op: self.op().into(),
            reason: reason.into(),
            remedy: remedy.into(),
        }
    }

    /// With a symbolic batch, the export would show which entry is the batch.
    pub fn export_remedy(&self) -> String {
        "export with a symbolic batch (dynamic_axes={'input': {0: 'N'}} for the TorchScript exporter, \
         dynamic_shapes=({0: torch.export.Dim('N')},) with dynamo=True)"
            .to_string()
    }
}
