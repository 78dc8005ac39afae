//! `dY · (1 − Y²)`, the gradient of `Tanh`, in one pass over memory as an custom operator: as three nodes it is bound by memory,
//! and networks that are trained privately have many. Each entry is rounded as the nodes round it: the bits are theirs.

use super::operator::{self, Arity, Attributes, Kernel, Operator};
use damper_onnx::{decode_tensor, pb};
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
                places.push((index, operator::node(NAME, &[grad, y], &[&node.output[0]], vec![])));
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
    type Kernel = Multiply;

    fn name(&self) -> &'static str {
        NAME
    }

    fn inputs(&self) -> Arity {
        Arity::Listed { required: 2, optional: 0 }
    }

    fn kernel(&self, _: &Attributes<'_>) -> Multiply {
        Multiply(Arch::new())
    }
}

/// With the vectors that the processor has.
pub(super) struct Multiply(Arch);

impl Kernel for Multiply {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Option<Vec<i64>>>> {
        let [Some(grad), Some(y)] = *inputs else { return None };
        (grad == y).then(|| vec![Some(grad.to_vec())])
    }

    fn run(&mut self, inputs: &[Option<&[f32]>], outputs: &mut [Option<&mut [f32]>]) -> Option<()> {
        let ([Some(grad), Some(y)], [Some(into)]) = (inputs, outputs) else { return None };
        self.0.dispatch(Run { grad, y, into });
        Some(())
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
    use super::super::testing::{batched, model, node, numbers, put as all_put, run};
    use super::*;
    use crate::Plan;

    const WIDTH: usize = 37;

    /// The nodes of a gradient through `tanh(x)`, its product called `name`, and `extra` readers of 1 − y².
    fn gradient(name: &str, one: f32, extra: usize) -> (pb::ModelProto, Plan) {
        let written =
            ["y = Tanh(x)", "dp.v1 = Mul(y, y)", "dp.v2 = Sub(one, dp.v1)", &format!("{name} = Mul(gy, dp.v2)")];
        let mut nodes: Vec<_> = written.map(node).into();
        nodes.extend((0..extra).map(|_| node("slope = Identity(dp.v2)")));
        // With an axis: other operators of ours take no place then.
        let inputs = vec![batched("x", &[WIDTH]), batched("gy", &[WIDTH])];
        model(nodes, &[("one", &[1], &[one])], inputs, vec![batched(name, &[WIDTH])])
    }

    #[test]
    fn it_stands_for_a_gradient_and_for_nothing_else() {
        assert_eq!(all_put(&gradient("dp.v3", 1.0, 0)), ["", NAME]);
        let mut other = gradient("dp.v3", 1.0, 0);
        other.0.graph.as_mut().unwrap().node[0].op_type = "Sigmoid".into();
        for (model, _) in [gradient("z", 1.0, 0), gradient("dp.v3", 2.0, 0), gradient("dp.v3", 1.0, 1), other] {
            let mut graph = model.graph.unwrap();
            let before = graph.clone();
            assert!(!put(&mut graph));
            assert_eq!(graph, before);
        }
    }

    #[test]
    fn its_bits_are_those_of_the_nodes() {
        // A name that is not the emitter's keeps the nodes.
        let made = ["dp.v3", "z"].map(|name| {
            let of = gradient(name, 1.0, 0);
            run(&of, &numbers(&of.1)).map(|made| made[0].iter().map(|entry| entry.to_bits()).collect::<Vec<_>>())
        });
        let [Some(ours), Some(theirs)] = made else { return };
        assert!(ours.len() > 2 * WIDTH);
        assert_eq!(ours, theirs);
    }
}
