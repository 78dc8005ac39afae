//! Custom operator for convolutions on the processor. During training, weights are inputs, so onnxruntime can neither
//! pack nor block them in advance. [`damper_kernels::convolution`] computes fewer products and does not unfold the
//! input.

use super::super::backend::{SessionSpec, bound_shape};
use super::operator::{Kernel, Operator};
use damper_kernels::convolution::{Convolution, Windows, suits};
use damper_onnx::{
    CUSTOM_DOMAIN as DOMAIN, attr_int, attr_ints, attr_string, find_attr, make_attr_int, make_attr_ints, pb,
};

/// Replaces each `Conv` and `ConvTranspose` for which the custom operator is faster.
pub(super) fn put(graph: &mut pb::GraphProto, plan: &SessionSpec) {
    for node in &mut graph.node {
        let weights = node.input.get(1).and_then(|name| plan.inputs.iter().find(|spec| spec.name == *name));
        let Some(shape) = weights.map(|spec| bound_shape(spec, plan.batch)) else { continue };
        let Some(attributes) = attributes(node, &shape) else { continue };
        node.op_type = CONVOLUTION.name.into();
        node.domain = DOMAIN.into();
        node.attribute = attributes;
    }
}

/// Attributes of the operator that replaces a node with weights of this shape. `None` if the node stays.
fn attributes(node: &pb::NodeProto, weights: &[usize]) -> Option<Vec<pb::AttributeProto>> {
    let attributes = &node.attribute;
    let (&[a, b], kernel) = weights.split_first_chunk::<2>()?;
    let rank = kernel.len();
    let list = |name: &str, count: usize, otherwise: i64| {
        let list = attr_ints(attributes, name).map_or(vec![otherwise; count], <[i64]>::to_vec);
        (list.len() == count).then_some(list)
    };
    let (strides, dilations, pads) =
        (list("strides", rank, 1)?, list("dilations", rank, 1)?, list("pads", 2 * rank, 0)?);
    let is_plain = node.domain.is_empty()
        && attr_int(attributes, "group", 1) == 1
        && attr_string(attributes, "auto_pad", "NOTSET") == "NOTSET";
    let (is_transposed, pads) = match node.op_type.as_str() {
        "Conv" => (false, pads),
        // With stride 1, the input gradient of a convolution is itself a convolution with flipped kernels.
        "ConvTranspose" => {
            let is_gradient = find_attr(attributes, "output_shape").is_none()
                && list("output_padding", rank, 0)?.iter().all(|extent| *extent == 0)
                && strides.iter().all(|stride| *stride == 1);
            if !is_gradient {
                return None;
            }
            let reach = |i: usize| dilations[i % rank] * (kernel[i % rank] as i64 - 1);
            (true, (0..2 * rank).map(|i| reach(i) - pads[i]).collect())
        }
        _ => return None,
    };
    let stride = strides.iter().map(|stride| usize::try_from(*stride).ok()).collect::<Option<Vec<_>>>()?;
    let outputs = if is_transposed { b } else { a };
    if !is_plain || pads.iter().any(|pad| *pad < 0) || !suits(outputs, &stride) {
        return None;
    }
    let mut own: Vec<_> = [("pads", pads), ("strides", strides), ("dilations", dilations)]
        .map(|(name, list)| make_attr_ints(name, &list))
        .into();
    // Set only if true: in shape inference, onnxruntime does not distinguish an attribute of 0 from an absent
    // attribute.
    if is_transposed {
        own.push(make_attr_int("transposed", 1));
    }
    Some(own)
}

/// `(x [N, C, *input], weights [O, C, *kernel], bias [O]?) → y [N, O, *output]` over one or two axes. The attributes
/// `pads`, `strides` and `dilations` are those of `Conv`. With `transposed`, the weights are `[C, O, *kernel]`,
/// flipped.
pub(super) const CONVOLUTION: Operator<Convolving> = Operator {
    name: "Convolution",
    inputs: [2, 1],
    outputs: [1, 0],
    kernel: |attributes| {
        let [pads, strides, dilations] = ["pads", "strides", "dilations"].map(|name| attributes.ints(name));
        let transposed = attributes.int("transposed") != 0;
        Convolving { geometry: Geometry { pads, strides, dilations, transposed }, convolution: None }
    },
};

/// Attributes of a node.
struct Geometry {
    pads: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    transposed: bool,
}

impl Geometry {
    /// Windows for an input and weights of these shapes. `None` if they do not fit.
    fn windows(&self, x: &[i64], weights: &[i64]) -> Option<Windows> {
        let plane = |list: &[i64], line: usize| {
            let extent = |value: i64| usize::try_from(value).ok();
            match *list {
                [columns] => Some([line, extent(columns)?]),
                [lines, columns] => Some([extent(lines)?, extent(columns)?]),
                _ => None,
            }
        };
        let (&[_, channels], input) = x.split_first_chunk::<2>()?;
        let (&[a, b], kernel) = weights.split_first_chunk::<2>()?;
        let (from, outputs) = if self.transposed { (a, b) } else { (b, a) };
        let (before, after) = self.pads.split_at_checked(input.len())?;
        let steps = [plane(kernel, 1)?, plane(&self.strides, 1)?, plane(&self.dilations, 1)?];
        let between = plane(&[channels, outputs], 1)?;
        let windows = Windows::new(between, plane(input, 1)?, [plane(before, 0)?, plane(after, 0)?], steps);
        windows.filter(|_| from == channels && kernel.len() == input.len())
    }
}

/// Shape of the output, for an input of shape `x`.
fn output(x: &[i64], windows: &Windows) -> Vec<i64> {
    let extents = windows.output.map(|extent| extent as i64);
    [&[x[0], windows.outputs as i64], &extents[4 - x.len()..]].concat()
}

/// Kernel of a node, with state for its current shape.
pub(super) struct Convolving {
    geometry: Geometry,
    convolution: Option<Convolution>,
}

impl Kernel for Convolving {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Vec<i64>>> {
        let [Some(x), Some(weights), ref bias @ ..] = *inputs else { return None };
        let windows = self.geometry.windows(x, weights)?;
        if bias.iter().flatten().any(|bias| *bias != [windows.outputs as i64]) {
            return None;
        }
        let shape = output(x, &windows);
        self.convolution = Some(Convolution::new(windows, self.geometry.transposed));
        Some(vec![shape])
    }

    fn run(&mut self, inputs: &[Option<&[f32]>], outputs: &mut [Option<&mut [f32]>]) -> Option<()> {
        let ([Some(x), Some(weights), bias @ ..], [Some(y)]) = (inputs, outputs) else { return None };
        self.convolution.as_mut()?.run(x, weights, bias.first().copied().flatten(), y);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{batched, model, numbers, parameter, put as all_put, run};
    use super::super::{Ort, operators};
    use super::*;
    use damper_onnx::make_node;

    const WEIGHTS: [usize; 4] = [17, 16, 3, 3];
    const PLANE: [usize; 2] = [9, 6];

    /// Model with one node `op` of `x`, `weights` (an input or a constant) and a bias, and its plan.
    fn convolution(op: &str, attributes: &[(&str, &[i64])], constant: Option<&[f32]>) -> (pb::ModelProto, SessionSpec) {
        let (from, to) = if op == "Conv" { (1, 0) } else { (0, 1) };
        let attribute = |(name, list): &(&str, &[i64])| match list {
            [value] => make_attr_int(name, *value),
            list => make_attr_ints(name, list),
        };
        let attributes: Vec<_> = attributes.iter().map(attribute).collect();
        let list = |name: &str, count: usize, otherwise: i64| {
            attr_ints(&attributes, name).map_or(vec![otherwise; count], <[i64]>::to_vec)
        };
        let (pads, rest) = (list("pads", 4, 0), list("output_padding", 2, 0));
        let (strides, dilations) = (list("strides", 2, 1), list("dilations", 2, 1));
        let made = [0, 1].map(|i| {
            let (len, pads, reach) =
                (PLANE[i] as i64, pads[i] + pads[i + 2], dilations[i] * (WEIGHTS[2 + i] as i64 - 1) + 1);
            let made = if op == "Conv" {
                (len + pads - reach) / strides[i] + 1
            } else {
                (len - 1) * strides[i] + reach + rest[i] - pads
            };
            made as usize
        });
        let node = make_node(op, "it", &["x", "weights", "bias"], &["y"], attributes);
        let mut inputs = vec![batched("x", &[WEIGHTS[from], PLANE[0], PLANE[1]]), parameter("bias", &[WEIGHTS[to]])];
        if constant.is_none() {
            inputs.push(parameter("weights", &WEIGHTS));
        }
        let constants: Vec<_> = constant.map(|weights| ("weights", &WEIGHTS[..], weights)).into_iter().collect();
        model(vec![node], &constants, inputs, vec![batched("y", &[WEIGHTS[to], made[0], made[1]])])
    }

    fn is_put(op: &str, attributes: &[(&str, &[i64])]) -> bool {
        all_put(&convolution(op, attributes, None)) == [CONVOLUTION.name]
    }

    type Attributes = [(&'static str, &'static [i64])];

    const TAKEN: [(&str, &Attributes); 10] = [
        ("Conv", &[]),
        ("Conv", &[("pads", &[1, 1, 1, 1]), ("strides", &[1, 1])]),
        ("Conv", &[("pads", &[0, 2, 1, 0]), ("dilations", &[1, 1]), ("group", &[1])]),
        ("ConvTranspose", &[]),
        ("ConvTranspose", &[("pads", &[1, 1, 1, 1]), ("output_padding", &[0, 0])]),
        ("ConvTranspose", &[("pads", &[2, 0, 0, 1])]),
        ("Conv", &[("strides", &[2, 2]), ("pads", &[1, 1, 1, 1])]),
        ("Conv", &[("strides", &[3, 1]), ("pads", &[3, 0, 0, 4])]),
        ("Conv", &[("dilations", &[1, 2]), ("pads", &[0, 2, 0, 2])]),
        ("ConvTranspose", &[("dilations", &[2, 1]), ("pads", &[3, 1, 4, 0])]),
    ];

    #[test]
    fn it_takes_no_other_place() {
        for (op, attributes) in TAKEN {
            assert!(is_put(op, attributes), "{op} {attributes:?}");
        }
        for attributes in [("strides", &[1, 3][..]), ("pads", &[-1, 0, 0, 0])] {
            assert!(!is_put("Conv", &[attributes]), "{attributes:?}");
        }
        assert!(!is_put("ConvTranspose", &[("strides", &[2, 2]), ("output_padding", &[1, 1])]));
        assert!(!is_put("ConvTranspose", &[("pads", &[3, 0, 0, 0])]));
        assert!(!is_put("ConvTranspose", &[("output_shape", &[11, 8])]));
        // onnxruntime packs constant weights.
        assert_eq!(all_put(&convolution("Conv", &[], Some(&[0.0; 17 * 16 * 9]))), [""]);
    }

    #[test]
    fn it_is_the_convolution_that_it_stands_for() {
        for (op, attributes) in TAKEN {
            let fed = convolution(op, attributes, None);
            let inputs = numbers(&fed.1);
            let ours = run(&fed, &inputs);
            let theirs = run(&convolution(op, attributes, Some(&inputs[2])), &inputs[..2]);
            let (Some(ours), Some(theirs)) = (ours, theirs) else { return };
            assert_eq!(ours[0].len(), theirs[0].len());
            for (ours, theirs) in ours[0].iter().zip(&theirs[0]) {
                assert!((ours - theirs).abs() < 2e-4, "{op} {attributes:?}: {ours}, not {theirs}");
            }
            assert!(theirs[0].iter().any(|y| y.abs() > 1.0));
        }
    }

    /// Later nodes are selected by this shape.
    #[test]
    fn output_shape_is_inferred() {
        let Ok(backend) = Ort::open() else { return damper_testing::skip("ort", "there is no onnxruntime") };
        for (op, attributes) in TAKEN {
            let (model, plan) = convolution(op, attributes, None);
            let mut model = super::super::super::bind::bind(&model, &plan).unwrap();
            operators::put(&mut model, &plan);
            let output = &mut model.graph.as_mut().unwrap().output[0];
            let expected = bound_shape(&plan.outputs[0], plan.batch);
            let Some(pb::type_proto::Value::TensorType(kind)) =
                output.r#type.as_mut().and_then(|kind| kind.value.as_mut())
            else {
                panic!("the output is a tensor")
            };
            kind.shape = None;
            let session = backend.session(model, 1).unwrap();
            let shape = session.outputs()[0].dtype().tensor_shape().unwrap();
            assert_eq!(
                shape.iter().map(|extent| *extent as usize).collect::<Vec<_>>(),
                expected,
                "{op} {attributes:?}"
            );
        }
    }
}
