//! Description of a custom operator, and how onnxruntime loads and runs it.
//!
//! Shapes are worked out when a model is loaded, for what comes behind, and at the first call of a node. As long as the inputs keep their
//! shapes, a call is little more than its work.

use super::tensors::{Call, Tensor};
use damper_onnx::{CUSTOM_DOMAIN as DOMAIN, make_node, pb};
use ort::operator::{ComputeContext, KernelContext, OperatorInput, OperatorOutput, ShapeInferenceContext};
use ort::value::{SymbolicDimensions, TensorElementType, ValueType};

/// A custom operator, over floats.
pub(super) struct Operator<K> {
    pub(super) name: &'static str,
    /// Numbers of required and of optional inputs.
    pub(super) inputs: [usize; 2],
    /// As of the inputs.
    pub(super) outputs: [usize; 2],
    /// The kernel of a node with these attributes.
    pub(super) kernel: fn(&Attributes<'_>) -> K,
}

/// A node's, with the memory that it keeps from call to call.
pub(super) trait Kernel: Send {
    /// The shapes of the outputs over inputs of these shapes, `None` of one that is absent; `None` where they do not fit. All that follows
    /// runs over such inputs.
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Vec<i64>>>;

    /// Makes the outputs; `None` where one that it needs is missing.
    fn run(&mut self, inputs: &[Option<&[f32]>], outputs: &mut [Option<&mut [f32]>]) -> Option<()>;
}

/// A node's. One of 0, or of no entries, is one that is not there: onnxruntime does not tell them apart when it asks for shapes.
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

/// A node of our own operator `name`, called like its first output.
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
        // Extents that are not known are −1, and are none where not even their number is known.
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

/// A node of a session, and the shapes of its last call.
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
        // SAFETY: the only one; ours are the processor's, and declare only floats.
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
