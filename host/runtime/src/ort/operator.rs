//! What an custom operator says of itself, and how onnxruntime loads and runs it.
//!
//! Shapes are worked out when a model is loaded, for what comes behind, and at the first call of a node. As long as the inputs keep their
//! shapes, a call is little more than its work.

use super::tensors::{Call, Tensor};
use damper_onnx::{make_node, pb};
use ort::operator::{ComputeContext, KernelContext, OperatorInput, OperatorOutput, ShapeInferenceContext};
use ort::value::{SymbolicDimensions, TensorElementType, ValueType};

/// Name of their domain.
pub(super) const DOMAIN: &str = "damper";

/// An custom operator, over floats.
pub(super) trait Operator: Send + Sync + 'static {
    type Kernel: Kernel + 'static;

    fn name(&self) -> &'static str;

    fn inputs(&self) -> Arity;

    fn outputs(&self) -> Arity {
        Arity::Listed { required: 1, optional: 0 }
    }

    /// The kernel of a node with these attributes.
    fn kernel(&self, attributes: &Attributes<'_>) -> Self::Kernel;
}

/// How many tensors an operator takes or gives.
#[derive(Clone, Copy)]
pub(super) enum Arity {
    Listed {
        required: usize,
        optional: usize,
    },
    /// At least one.
    Any,
}

/// A node's, with the memory that it keeps from call to call.
pub(super) trait Kernel: Send {
    /// The shapes of the outputs, `None` of one that is not given, over inputs of these shapes, `None` of one that is absent; `None` where
    /// they do not fit. All that follows runs over such inputs.
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Option<Vec<i64>>>>;

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

/// An operator as onnxruntime sees it.
pub(super) struct Declared<O>(pub(super) O);

impl<O: Operator> ort::operator::Operator for Declared<O> {
    type Kernel<'attr> = Node<O::Kernel>;

    fn name(&self) -> &str {
        self.0.name()
    }

    fn inputs(&self) -> impl IntoIterator<Item = OperatorInput> {
        let float = TensorElementType::Float32;
        match self.0.inputs() {
            Arity::Any => vec![OperatorInput::variadic(1).homogenous(float)],
            Arity::Listed { required, optional } => {
                let required = (0..required).map(|_| OperatorInput::required(float));
                required.chain((0..optional).map(|_| OperatorInput::optional(float))).collect()
            }
        }
    }

    fn outputs(&self) -> impl IntoIterator<Item = OperatorOutput> {
        let float = TensorElementType::Float32;
        match self.0.outputs() {
            Arity::Any => vec![OperatorOutput::variadic(1).homogenous(float)],
            Arity::Listed { required, optional } => {
                let required = (0..required).map(|_| OperatorOutput::required(float));
                required.chain((0..optional).map(|_| OperatorOutput::optional(float))).collect()
            }
        }
    }

    fn create_kernel<'attr>(&self, context: &KernelContext<'attr>) -> ort::Result<Node<O::Kernel>> {
        let kernel = self.0.kernel(&Attributes::OfKernel(context));
        Ok(Node { name: self.0.name(), kernel, inputs: vec![], outputs: vec![] })
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
        let Some(outputs) = self.0.kernel(&Attributes::OfShapes(context)).fit(&shapes) else { return Ok(()) };
        for (index, shape) in outputs.into_iter().enumerate() {
            let Some(shape) = shape else { continue };
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
    outputs: Vec<Option<Vec<i64>>>,
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
