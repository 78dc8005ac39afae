//! Convolutions of 3×3 windows on the processor, as an operator of our own in onnxruntime: with weights that are inputs, as training has
//! them, onnxruntime neither packs nor blocks beforehand, and [`crate::winograd`] takes fewer products.

use super::super::{Plan, bound_shape};
use super::operators::DOMAIN;
use crate::onnx::{attr_int, attr_ints, attr_string, find_attr, make_attr_int, make_attr_ints, pb};
use crate::winograd::{Convolution, Planes, worthwhile};
use ort::operator::{
    ComputeContext, Kernel, KernelContext, Operator, OperatorInput, OperatorOutput, ShapeInferenceContext,
};
use ort::value::{Shape, TensorElementType, ValueType};

const NAME: &str = "Convolution";

/// Puts the operator in the place of each `Conv` and `ConvTranspose` that is better done by it, and tells whether there was one.
pub(super) fn put(graph: &mut pb::GraphProto, plan: &Plan) -> bool {
    let mut is_put = false;
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
        is_put = true;
    }
    is_put
}

/// Whether the list `name` has no other entry than `value`.
fn all(attributes: &[pb::AttributeProto], name: &str, value: i64) -> bool {
    attr_ints(attributes, name).is_none_or(|list| list.iter().all(|entry| *entry == value))
}

/// `(x [N, C, H, W], weights [O, C, 3, 3], bias [O]?) → y [N, O, H + pads − 2, W + pads − 2]`, with the attributes `pads` as `Conv` has
/// them and `transposed`, where the weights are `[C, O, 3, 3]`, turned.
pub(super) struct Convolve;

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
        // Extents that are not known are −1, and are none where not even their number is known.
        let (Some(&batch), Some(planes)) = (x.first(), geometry.planes(x, weights)) else { return Ok(()) };
        if batch < 1 {
            return Ok(());
        }
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
pub(super) struct Convolving {
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

#[cfg(test)]
mod tests {
    use super::super::super::{Backend, Input};
    use super::super::{Ort, operators};
    use super::*;
    use crate::autodiff::{Dim, TensorSpec};
    use crate::graph::DType;
    use crate::onnx::{Extent, make_node, make_tensor_f32, make_value_info};
    use prost::Message as _;

    const ROWS: usize = 3;
    const WEIGHTS: [usize; 4] = [17, 16, 3, 3];
    const PLANE: [usize; 2] = [9, 6];

    /// One node `op` of `x`, `weights` (an input, or a constant) and a bias, and the plan of it.
    fn model(op: &str, attributes: &[(&str, &[i64])], constant: Option<&[f32]>) -> (pb::ModelProto, Plan) {
        let (from, to) = if op == "Conv" { (1, 0) } else { (0, 1) };
        let attribute = |(name, list): &(&str, &[i64])| match list {
            [value] => make_attr_int(name, *value),
            list => make_attr_ints(name, list),
        };
        let attributes: Vec<_> = attributes.iter().map(attribute).collect();
        let pads = attr_ints(&attributes, "pads").unwrap_or(&[0; 4]).to_vec();
        let rest = attr_ints(&attributes, "output_padding").unwrap_or(&[0; 2]).to_vec();
        let grow =
            |i: usize| if op == "Conv" { pads[i] + pads[i + 2] - 2 } else { 2 + rest[i] - pads[i] - pads[i + 2] };
        let made = [0, 1].map(|i| (PLANE[i] as i64 + grow(i)) as usize);
        let node = make_node(op, "it", &["x", "weights", "bias"], &["y"], attributes);
        let spec = |name: &str, shape: &[Dim]| TensorSpec { name: name.into(), dtype: DType::F32, shape: shape.into() };
        let fixed = Dim::Fixed;
        let x = spec("x", &[Dim::Batch, fixed(WEIGHTS[from]), fixed(PLANE[0]), fixed(PLANE[1])]);
        let bias = spec("bias", &[fixed(WEIGHTS[to])]);
        let y = spec("y", &[Dim::Batch, fixed(WEIGHTS[to]), fixed(made[0]), fixed(made[1])]);
        let mut inputs = vec![x, bias];
        if constant.is_none() {
            inputs.push(spec("weights", &WEIGHTS.map(fixed)));
        }
        let value = |spec: &TensorSpec| {
            let extents = spec.shape.iter().map(|dim| match dim {
                Dim::Batch => Extent::Batch,
                Dim::Fixed(extent) => Extent::Fixed(*extent),
            });
            make_value_info(&spec.name, DType::F32, &extents.collect::<Vec<_>>())
        };
        let graph = pb::GraphProto {
            name: "g".into(),
            node: vec![node],
            input: inputs.iter().map(value).collect(),
            output: vec![value(&y)],
            initializer: constant.iter().map(|weights| make_tensor_f32("weights", &WEIGHTS, weights)).collect(),
            ..Default::default()
        };
        let standard = pb::OperatorSetIdProto { domain: String::new(), version: 17 };
        let model =
            pb::ModelProto { ir_version: 8, opset_import: vec![standard], graph: Some(graph), ..Default::default() };
        (model, Plan { batch: ROWS, threads: 1, inputs, outputs: vec![y] })
    }

    fn is_put(op: &str, attributes: &[(&str, &[i64])]) -> bool {
        let (mut model, plan) = model(op, attributes, None);
        operators::put(&mut model, &plan);
        let domains: Vec<_> = model.opset_import.iter().map(|set| set.domain.as_str()).collect();
        let is_put = model.graph.unwrap().node[0].domain == DOMAIN;
        assert_eq!(domains, if is_put { vec!["", DOMAIN] } else { vec![""] });
        is_put
    }

    type Attributes = [(&'static str, &'static [i64])];

    const PADDED: [(&str, &Attributes); 6] = [
        ("Conv", &[]),
        ("Conv", &[("pads", &[1, 1, 1, 1]), ("strides", &[1, 1])]),
        ("Conv", &[("pads", &[0, 2, 1, 0]), ("dilations", &[1, 1]), ("group", &[1])]),
        ("ConvTranspose", &[]),
        ("ConvTranspose", &[("pads", &[1, 1, 1, 1]), ("output_padding", &[0, 0])]),
        ("ConvTranspose", &[("pads", &[2, 0, 0, 1])]),
    ];

    #[test]
    fn it_takes_no_other_place() {
        for (op, attributes) in PADDED {
            assert!(is_put(op, attributes), "{op} {attributes:?}");
        }
        for attributes in
            [("strides", &[2, 1][..]), ("dilations", &[1, 2]), ("pads", &[3, 0, 0, 0]), ("pads", &[-1, 0, 0, 0])]
        {
            assert!(!is_put("Conv", &[attributes]), "{attributes:?}");
        }
        assert!(!is_put("ConvTranspose", &[("strides", &[2, 2]), ("output_padding", &[1, 1])]));
        assert!(!is_put("ConvTranspose", &[("output_shape", &[11, 8])]));
        // Constant weights are onnxruntime's to pack.
        let (mut model, plan) = model("Conv", &[], Some(&[0.0; 17 * 16 * 9]));
        let before = model.clone();
        operators::put(&mut model, &plan);
        assert_eq!(model, before);
    }

    #[test]
    fn it_is_the_convolution_that_it_stands_for() {
        let backend = match Ort::open() {
            Ok(backend) => backend,
            Err(error) => return println!("skipped: {}", error.0.split(" (").next().unwrap_or_default()),
        };
        let numbers = |count: usize, step: usize| -> Vec<f32> {
            (0..count).map(|i| ((i * step + 7) % 61) as f32 / 30.5 - 1.0).collect()
        };
        let weights = numbers(WEIGHTS.iter().product(), 17);
        for (op, attributes) in PADDED {
            let run = |constant: Option<&[f32]>| {
                let (model, plan) = model(op, attributes, constant);
                let mut session = backend.load(&model.encode_to_vec(), &plan).unwrap();
                let made: Vec<Vec<f32>> = plan
                    .inputs
                    .iter()
                    .map(|spec| match spec.name.as_str() {
                        "weights" => weights.clone(),
                        _ => numbers(bound_shape(spec, ROWS).iter().product(), 23),
                    })
                    .collect();
                let inputs: Vec<_> = made.iter().map(|made| Input::F32(made)).collect();
                let mut y = vec![];
                session.run(&inputs, &mut |outputs| y = outputs[0].to_vec()).unwrap();
                y
            };
            let (ours, theirs) = (run(None), run(Some(&weights)));
            assert_eq!(ours.len(), theirs.len());
            for (ours, theirs) in ours.iter().zip(&theirs) {
                assert!((ours - theirs).abs() < 1e-4, "{op} {attributes:?}: {ours}, not {theirs}");
            }
            assert!(theirs.iter().any(|y| y.abs() > 1.0));
        }
    }
}
