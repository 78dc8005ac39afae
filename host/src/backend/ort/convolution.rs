//! Convolutions of 3×3 windows on the processor, as an operator of our own in onnxruntime: with weights that are inputs, as training has
//! them, onnxruntime neither packs nor blocks beforehand, and [`crate::winograd`] takes fewer products.

use super::super::{Plan, bound_shape};
use crate::onnx::{attr_int, attr_ints, attr_string, find_attr, make_attr_int, make_attr_ints, pb};
use crate::winograd::{Convolution, Planes, worthwhile};
use ort::operator::{
    ComputeContext, Kernel, KernelContext, Operator, OperatorDomain, OperatorInput, OperatorOutput,
    ShapeInferenceContext,
};
use ort::value::{Shape, TensorElementType, ValueType};

/// Name of the operators' domain.
const DOMAIN: &str = "damper";
const NAME: &str = "Convolution";

/// The operator, for sessions' options.
pub(super) fn domain() -> ort::Result<OperatorDomain> {
    OperatorDomain::new(DOMAIN)?.add(Convolve)
}

/// Puts the operator in the place of each `Conv` and `ConvTranspose` that is better done by it. `model` is bound to `plan`.
pub(super) fn put(model: &mut pb::ModelProto, plan: &Plan) {
    let Some(graph) = &mut model.graph else { return };
    let mut is_used = false;
    for node in &mut graph.node {
        let weights = node.input.get(1).and_then(|name| plan.inputs.iter().find(|spec| spec.name == *name));
        let Some(&[a, b, 3, 3]) = weights.map(|spec| bound_shape(spec, plan.batch)).as_deref() else { continue };
        let is_plain = node.domain.is_empty()
            && attr_int(&node.attribute, "group", 1) == 1
            && attr_string(&node.attribute, "auto_pad", "NOTSET") == "NOTSET"
            && ["strides", "dilations"].iter().all(|name| all(&node.attribute, name, 1));
        let pads = attr_ints(&node.attribute, "pads").unwrap_or(&[0; 4]).to_vec();
        if !is_plain || !worthwhile(a, b) || pads.len() != 4 || pads.iter().any(|pad| !(0..=2).contains(pad)) {
            continue;
        }
        let is_transposed = match node.op_type.as_str() {
            "Conv" => false,
            "ConvTranspose"
                if find_attr(&node.attribute, "output_shape").is_none()
                    && all(&node.attribute, "output_padding", 0) =>
            {
                true
            }
            _ => continue,
        };
        let pads: Vec<i64> = pads.iter().map(|pad| if is_transposed { 2 - pad } else { *pad }).collect();
        node.op_type = NAME.into();
        node.domain = DOMAIN.into();
        node.attribute = vec![make_attr_ints("pads", &pads), make_attr_int("transposed", is_transposed.into())];
        is_used = true;
    }
    if is_used {
        model.opset_import.push(pb::OperatorSetIdProto { domain: DOMAIN.into(), version: 1 });
    }
}

/// Whether the list `name` has no other entry than `value`.
fn all(attributes: &[pb::AttributeProto], name: &str, value: i64) -> bool {
    attr_ints(attributes, name).is_none_or(|list| list.iter().all(|entry| *entry == value))
}

/// `(x [N, C, H, W], weights [O, C, 3, 3], bias [O]?) → y [N, O, H + pads − 2, W + pads − 2]`, with the attributes `pads` as `Conv` has
/// them and `transposed`, where the weights are `[C, O, 3, 3]`, turned.
struct Convolve;

impl Operator for Convolve {
    type Kernel<'attr> = Convolving;

    fn name(&self) -> &str {
        NAME
    }

    fn inputs(&self) -> impl IntoIterator<Item = OperatorInput> {
        let float = TensorElementType::Float32;
        [OperatorInput::required(float), OperatorInput::required(float), OperatorInput::optional(float)]
    }

    fn outputs(&self) -> impl IntoIterator<Item = OperatorOutput> {
        [OperatorOutput::required(TensorElementType::Float32)]
    }

    fn create_kernel<'attr>(&self, context: &KernelContext<'attr>) -> ort::Result<Convolving> {
        let pads: Vec<i64> = context.get("pads").ok_or_else(|| failed("it has no pads"))?;
        let transposed: i64 = context.get("transposed").ok_or_else(|| failed("it does not say its direction"))?;
        Ok(Convolving { geometry: Geometry { pads, transposed: transposed != 0 }, convolution: None })
    }

    fn infer_shape(&self, context: &mut ShapeInferenceContext) -> ort::Result<()> {
        let geometry = Geometry { pads: context.attr("pads")?, transposed: context.attr::<i64>("transposed")? != 0 };
        let inputs = context.inputs();
        let shapes: Vec<&[i64]> = inputs.iter().take(2).filter_map(ValueType::tensor_shape).map(|s| &s[..]).collect();
        let [x, weights] = shapes[..] else { return Ok(()) };
        let (Some(&batch), Some(planes)) = (x.first(), geometry.planes(x, weights)) else { return Ok(()) };
        let shape: Shape = output(batch, &planes).into();
        let dimension_symbols = ort::value::SymbolicDimensions::empty(4);
        context.set_output(0, &ValueType::Tensor { ty: TensorElementType::Float32, shape, dimension_symbols })
    }
}

/// The attributes.
struct Geometry {
    pads: Vec<i64>,
    transposed: bool,
}

impl Geometry {
    /// Between an input and weights of these shapes, where they fit.
    fn planes(&self, x: &[i64], weights: &[i64]) -> Option<Planes> {
        let extent = |value: &i64| usize::try_from(*value).ok();
        let &[_, channels, lines, columns] = &x.iter().map(extent).collect::<Option<Vec<_>>>()?[..] else {
            return None;
        };
        let &[a, b, 3, 3] = &weights.iter().map(extent).collect::<Option<Vec<_>>>()?[..] else { return None };
        let (from, outputs) = if self.transposed { (a, b) } else { (b, a) };
        let &[top, start, bottom, end] = &self.pads.iter().map(extent).collect::<Option<Vec<_>>>()?[..] else {
            return None;
        };
        let planes = Planes::new(channels, outputs, [lines, columns], [[top, start], [bottom, end]]);
        planes.filter(|_| from == channels)
    }
}

/// Shape of the output.
fn output(batch: i64, planes: &Planes) -> [i64; 4] {
    [batch, planes.outputs as i64, planes.output[0] as i64, planes.output[1] as i64]
}

/// A node's, with the memory of its shape.
struct Convolving {
    geometry: Geometry,
    convolution: Option<Convolution>,
}

impl Kernel for Convolving {
    fn compute(&mut self, context: &ComputeContext) -> ort::Result<()> {
        let [x, weights, bias] = [context.input(0)?, context.input(1)?, context.input(2)?];
        let (Some(x), Some(weights)) = (x, weights) else { return Err(failed("an input is missing")) };
        let ((x_shape, x), (shape, weights)) = (x.try_extract_tensor::<f32>()?, weights.try_extract_tensor::<f32>()?);
        let bias = bias.as_ref().map(|bias| bias.try_extract_tensor::<f32>()).transpose()?.map(|(_, bias)| bias);
        let planes = self.geometry.planes(x_shape, shape);
        let planes = planes.ok_or_else(|| failed(&format!("its inputs are {x_shape:?} and {shape:?}")))?;
        if bias.is_some_and(|bias| bias.len() != planes.outputs) {
            return Err(failed("its bias is of another length than its outputs"));
        }
        let mut y = context.output(0, output(x_shape[0], &planes))?.ok_or_else(|| failed("it has no output"))?;
        let (_, y) = y.try_extract_tensor_mut::<f32>()?;
        let convolution = match &mut self.convolution {
            Some(convolution) if *convolution.planes() == planes => convolution,
            other => other.insert(Convolution::new(planes, self.geometry.transposed)),
        };
        convolution.run(x, weights, bias, y);
        Ok(())
    }
}

fn failed(what: &str) -> ort::Error {
    ort::Error::new(format!("a {DOMAIN}:{NAME} cannot be done: {what}"))
}
