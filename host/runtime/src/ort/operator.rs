//! Description of a custom operator, and how onnxruntime loads and runs it.
//!
//! Shapes are inferred when a model is loaded, for later nodes, and at the first call of a node. A call has little
//! overhead while the shapes of its inputs stay the same.

use super::tensors::{Call, Tensor};
use damper_onnx::{CUSTOM_DOMAIN as DOMAIN, make_node, pb};
use ort::operator::{ComputeContext, KernelContext, OperatorInput, OperatorOutput, ShapeInferenceContext};
use ort::value::{SymbolicDimensions, TensorElementType, ValueType};

/// Custom operator on floats.
pub(super) struct Operator<K> {
    pub(super) name: &'static str,
    /// Numbers of required and optional inputs.
    pub(super) inputs: [usize; 2],
    /// Numbers of required and optional outputs.
    pub(super) outputs: [usize; 2],
    /// Creates the kernel of a node with these attributes.
    pub(super) kernel: fn(&Attributes<'_>) -> K,
}

/// Kernel of a node, with state that persists between calls.
pub(super) trait Kernel: Send {
    /// Sets the shapes of the inputs, `None` for an absent input, and returns those of the outputs. Returns `None` if
    /// they do not fit. All later runs have inputs of these shapes.
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Vec<i64>>>;

    /// Computes the outputs. Returns `None` if a required input or output is missing.
    fn run(&mut self, inputs: &[Option<&[f32]>], outputs: &mut [Option<&mut [f32]>]) -> Option<()>;
}

/// Attributes of a node. An attribute that is 0 or empty counts as absent: in shape inference, onnxruntime does not
/// distinguish the two.
pub(super) enum Attributes<'a> {
    OfKernel(&'a KernelContext<'a>),
    OfShapes(&'a ShapeInferenceContext),
}

impl Attributes<'_> {
    pub(super) fn int(&self, name: &str) -> i64 {
        match self {
            Self::OfKernel(context) => context.get(name),
            Self::OfShapes(context) => context.attr(name).ok(),
        }
        .unwrap_or_default()
    }

    pub(super) fn ints(&self, name: &str) -> Vec<i64> {
        match self {
            Self::OfKernel(context) => context.get(name),
            Self::OfShapes(context) => context.attr(name).ok(),
        }
        .unwrap_or_default()
    }

    pub(super) fn float(&self, name: &str) -> f32 {
        match self {
            Self::OfKernel(context) => context.get(name),
            Self::OfShapes(context) => context.attr(name).ok(),
        }
        .unwrap_or_default()
    }
}

/// Node of the custom operator `name`, with the name of its first output.
pub(super) fn node(
    name: &str,
    inputs: &[&str],
    outputs: &[&str],
    attributes: Vec<pb::AttributeProto>,
) -> pb::NodeProto {
    let called = outputs.iter().find(|output| !output.is_empty()).unwrap_or(&name);
    pb::NodeProto { domain: DOMAIN.into(), ..make_node(name, called, inputs, outputs, attributes) }
}

impl<K: Kernel + 'static> ort::operator::Operator for Operator<K> {
    type Kernel<'attr> = Node<K>;

    fn name(&self) -> &str {
        self.name
    }

    fn inputs(&self) -> impl IntoIterator<Item = OperatorInput> {
        let [required, optional] = self.inputs;
        let required = (0..required).map(|_| OperatorInput::required(TensorElementType::Float32));
        required.chain((0..optional).map(|_| OperatorInput::optional(TensorElementType::Float32)))
    }

    fn outputs(&self) -> impl IntoIterator<Item = OperatorOutput> {
        let [required, optional] = self.outputs;
        let required = (0..required).map(|_| OperatorOutput::required(TensorElementType::Float32));
        required.chain((0..optional).map(|_| OperatorOutput::optional(TensorElementType::Float32)))
    }

    fn create_kernel<'attr>(&self, context: &KernelContext<'attr>) -> ort::Result<Node<K>> {
        let kernel = (self.kernel)(&Attributes::OfKernel(context));
        Ok(Node { name: self.name, kernel, inputs: vec![], outputs: vec![] })
    }

    fn infer_shape(&self, context: &mut ShapeInferenceContext) -> ort::Result<()> {
        let inputs = context.inputs();
        // An unknown extent is −1. If the rank is unknown, too, the shape is empty.
        let known = |kind: &ValueType| {
            kind.tensor_shape().is_some_and(|shape| !shape.is_empty() && shape.iter().all(|extent| *extent > 0))
        };
        if !inputs.iter().all(known) {
            return Ok(());
        }
        let shapes: Vec<_> = inputs.iter().map(|kind| kind.tensor_shape().map(|shape| &shape[..])).collect();
        let Some(outputs) = (self.kernel)(&Attributes::OfShapes(context)).fit(&shapes) else { return Ok(()) };
        for (index, shape) in outputs.into_iter().enumerate() {
            let dimension_symbols = SymbolicDimensions::empty(shape.len());
            let kind = ValueType::Tensor { ty: TensorElementType::Float32, shape: shape.into(), dimension_symbols };
            context.set_output(index, &kind)?;
        }
        Ok(())
    }
}

/// Node of a session, and the shapes of its last call.
pub(super) struct Node<K> {
    name: &'static str,
    kernel: K,
    inputs: Vec<Option<Vec<i64>>>,
    outputs: Vec<Vec<i64>>,
}

impl<K> Node<K> {
    fn failed(&self, what: &str) -> ort::Error {
        ort::Error::new(format!("a {DOMAIN}:{} cannot be done: {what}", self.name))
    }
}

impl<K: Kernel> ort::operator::Kernel for Node<K> {
    fn compute(&mut self, context: &ComputeContext) -> ort::Result<()> {
        // SAFETY: this is the only `Call` of the context. Custom operators run on the processor and declare only
        // floats.
        let call = unsafe { Call::new(context) };
        let inputs = call.inputs()?;
        let as_before =
            |(input, last): (&Option<Tensor<'_>>, &Option<Vec<i64>>)| input.map(|input| input.shape) == last.as_deref();
        if inputs.len() != self.inputs.len() || !inputs.iter().zip(&self.inputs).all(as_before) {
            self.inputs.clear();
            let shapes: Vec<_> = inputs.iter().map(|input| input.map(|input| input.shape)).collect();
            let outputs = self.kernel.fit(&shapes);
            self.outputs = outputs.ok_or_else(|| self.failed(&format!("its inputs are {shapes:?}")))?;
            self.inputs = shapes.iter().map(|shape| shape.map(<[i64]>::to_vec)).collect();
        }
        let inputs: Vec<_> = inputs.iter().map(|input| input.map(|input| input.entries)).collect();
        let mut outputs = call.outputs(&self.outputs)?;
        let is_done = self.kernel.run(&inputs, &mut outputs);
        is_done.ok_or_else(|| self.failed("an input or an output is missing"))
    }
}
