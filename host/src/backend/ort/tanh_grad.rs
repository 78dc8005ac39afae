//! `dY · (1 − Y²)`, the gradient of `Tanh`, in one pass over memory as an operator of our own: as three nodes it is bound by memory,
//! and networks that are trained privately have many. Each entry is rounded as the nodes round it: the bits are theirs.

use super::operators::DOMAIN;
use crate::onnx::{decode_tensor, make_node, pb};
use ort::operator::{
    ComputeContext, Kernel, KernelContext, Operator, OperatorInput, OperatorOutput, ShapeInferenceContext,
};
use ort::value::{TensorElementType, ValueType};
use pulp::{Arch, Simd, WithSimd};
use std::collections::{HashMap, HashSet};

const NAME: &str = "TanhGrad";

/// Puts the operator in the place of the nodes that the emitter writes for it, and tells whether there was one.
pub(super) fn put(graph: &mut pb::GraphProto) -> bool {
    let ones: HashSet<&str> = graph.initializer.iter().filter(|tensor| is_one(tensor)).map(|t| &*t.name).collect();
    let makers: HashMap<&str, &pb::NodeProto> =
        graph.node.iter().flat_map(|node| node.output.iter().map(move |name| (&**name, node))).collect();
    let mut readers: HashMap<&str, usize> = HashMap::new();
    let read = graph.node.iter().flat_map(|node| &node.input).chain(graph.output.iter().map(|output| &output.name));
    for name in read {
        *readers.entry(name).or_default() += 1;
    }
    // What `op` makes of two inputs for one reader.
    let made_by = |op: &str, name: &str| {
        let node = makers.get(name).filter(|node| node.op_type == op && node.domain.is_empty())?;
        (readers.get(name) == Some(&1)).then(|| (&*node.input[0], &*node.input[1]))
    };
    // `y`, where `name` is 1 − y².
    let slope_of = |name: &str| {
        let (one, square) = made_by("Sub", name)?;
        let (y, again) = made_by("Mul", square).filter(|_| ones.contains(one))?;
        (y == again && makers.get(y).is_some_and(|node| node.op_type == "Tanh")).then_some((y, square))
    };
    let mut places = vec![];
    let mut idle = HashSet::new();
    for (index, node) in graph.node.iter().enumerate() {
        // The emitter's own, which broadcasts nothing.
        if node.op_type != "Mul" || !node.domain.is_empty() || !node.output[0].starts_with("dp.") {
            continue;
        }
        let (left, right) = (&*node.input[0], &*node.input[1]);
        for (grad, slope) in [(left, right), (right, left)] {
            if let Some((y, square)) = slope_of(slope) {
                let mut put = make_node(NAME, &node.name, &[grad, y], &[&node.output[0]], vec![]);
                put.domain = DOMAIN.into();
                places.push((index, put));
                idle.extend([slope.to_string(), square.to_string()]);
                break;
            }
        }
    }
    let is_put = !places.is_empty();
    for (index, node) in places {
        graph.node[index] = node;
    }
    graph.node.retain(|node| !node.output.iter().any(|name| idle.contains(name)));
    is_put
}

/// Whether `tensor` is the float 1.
fn is_one(tensor: &pb::TensorProto) -> bool {
    tensor.dims.iter().all(|extent| *extent == 1)
        && decode_tensor(tensor).is_ok_and(|tensor| tensor.as_f32() == Some(&[1.0]))
}

/// `(dY, Y) → dX`, all of one shape.
pub(super) struct TanhGrad;

impl Operator for TanhGrad {
    type Kernel<'attr> = Multiply;

    fn name(&self) -> &str {
        NAME
    }

    fn inputs(&self) -> impl IntoIterator<Item = OperatorInput> {
        [(); 2].map(|()| OperatorInput::required(TensorElementType::Float32))
    }

    fn outputs(&self) -> impl IntoIterator<Item = OperatorOutput> {
        [OperatorOutput::required(TensorElementType::Float32)]
    }

    fn create_kernel<'attr>(&self, _: &KernelContext<'attr>) -> ort::Result<Multiply> {
        Ok(Multiply(Arch::new()))
    }

    fn infer_shape(&self, context: &mut ShapeInferenceContext) -> ort::Result<()> {
        // Extents that are not known are −1, and are none where not even their number is known.
        let is_known = |kind: &ValueType| {
            kind.tensor_shape().is_some_and(|shape| !shape.is_empty() && shape.iter().all(|extent| *extent > 0))
        };
        match &context.inputs()[..] {
            [grad, y] if is_known(grad) && grad.tensor_shape() == y.tensor_shape() => context.set_output(0, grad),
            _ => Ok(()),
        }
    }
}

/// With the vectors that the processor has.
pub(super) struct Multiply(Arch);

impl Kernel for Multiply {
    fn compute(&mut self, context: &ComputeContext) -> ort::Result<()> {
        let missing = || ort::Error::new("a TanhGrad lacks an input or its output");
        let (grad, y) = (context.input(0)?.ok_or_else(missing)?, context.input(1)?.ok_or_else(missing)?);
        let ((shape, grad), (y_shape, y)) = (grad.try_extract_tensor::<f32>()?, y.try_extract_tensor::<f32>()?);
        if shape != y_shape {
            return Err(ort::Error::new(format!("a TanhGrad of a gradient {shape:?} and an output {y_shape:?}")));
        }
        let mut into = context.output(0, shape.to_vec())?.ok_or_else(missing)?;
        let (_, into) = into.try_extract_tensor_mut::<f32>()?;
        self.0.dispatch(Run { grad, y, into });
        Ok(())
    }
}

struct Run<'a> {
    grad: &'a [f32],
    y: &'a [f32],
    into: &'a mut [f32],
}

impl WithSimd for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for ((into, grad), y) in self.into.iter_mut().zip(self.grad).zip(self.y) {
            *into = grad * (1.0 - y * y);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Backend, Input, Plan};
    use super::super::Ort;
    use super::*;
    use crate::autodiff::{Dim, TensorSpec};
    use crate::graph::DType;
    use crate::onnx::{Extent, make_tensor_f32, make_value_info};
    use prost::Message as _;

    const WIDTH: usize = 37;

    /// The nodes of a gradient through `tanh(x)`, its product called `name`, and `extra` readers of 1 − y².
    fn graph(name: &str, one: f32, extra: usize) -> pb::GraphProto {
        let spec = |name: &str| make_value_info(name, DType::F32, &[Extent::Batch, Extent::Fixed(WIDTH)]);
        let mut node = vec![
            make_node("Tanh", "", &["x"], &["y"], vec![]),
            make_node("Mul", "", &["y", "y"], &["dp.v1"], vec![]),
            make_node("Sub", "", &["one", "dp.v1"], &["dp.v2"], vec![]),
            make_node("Mul", "", &["gy", "dp.v2"], &[name], vec![]),
        ];
        node.extend((0..extra).map(|_| make_node("Identity", "", &["dp.v2"], &["slope"], vec![])));
        pb::GraphProto {
            name: "g".into(),
            node,
            input: vec![spec("x"), spec("gy")],
            output: vec![spec(name)],
            // With an axis: other operators of ours take no place then.
            initializer: vec![make_tensor_f32("one", &[1], &[one])],
            ..Default::default()
        }
    }

    #[test]
    fn it_stands_for_a_gradient_and_for_nothing_else() {
        let mut put_in = graph("dp.v3", 1.0, 0);
        assert!(put(&mut put_in));
        let ops: Vec<_> = put_in.node.iter().map(|node| (&*node.domain, &*node.op_type)).collect();
        assert_eq!(ops, [("", "Tanh"), (DOMAIN, NAME)]);
        let mut other = graph("dp.v3", 1.0, 0);
        other.node[0].op_type = "Sigmoid".into();
        for mut graph in [graph("z", 1.0, 0), graph("dp.v3", 2.0, 0), graph("dp.v3", 1.0, 1), other] {
            let before = graph.clone();
            assert!(!put(&mut graph));
            assert_eq!(graph, before);
        }
    }

    #[test]
    fn its_bits_are_those_of_the_nodes() {
        let backend = match Ort::open() {
            Ok(backend) => backend,
            Err(error) => return println!("skipped: {}", error.0.split(" (").next().unwrap_or_default()),
        };
        let spec = |name: &str| TensorSpec {
            name: name.into(),
            dtype: DType::F32,
            shape: vec![Dim::Batch, Dim::Fixed(WIDTH)],
        };
        let numbers =
            |step: usize| -> Vec<f32> { (0..2 * WIDTH).map(|i| ((i * step + 7) % 61) as f32 / 20.3 - 1.5).collect() };
        let (x, gy) = (numbers(17), numbers(23));
        // A name that is not the emitter's keeps the nodes.
        let [ours, theirs] = ["dp.v3", "z"].map(|name| {
            let standard = pb::OperatorSetIdProto { domain: String::new(), version: 17 };
            let model = pb::ModelProto {
                ir_version: 8,
                opset_import: vec![standard],
                graph: Some(graph(name, 1.0, 0)),
                ..Default::default()
            };
            let inputs = vec![spec("x"), spec("gy")];
            let plan = Plan { batch: 2, threads: 1, inputs, outputs: vec![spec(name)] };
            let mut session = backend.load(&model.encode_to_vec(), &plan).unwrap();
            let mut bits = vec![];
            session
                .run(&[Input::F32(&x), Input::F32(&gy)], &mut |outputs| {
                    bits = outputs[0].iter().map(|entry| entry.to_bits()).collect();
                })
                .unwrap();
            bits
        });
        assert_eq!(ours.len(), 2 * WIDTH);
        assert_eq!(ours, theirs);
    }
}
