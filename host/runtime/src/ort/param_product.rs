//! Custom operator for products of samples' rows with a parameter matrix. During training, weights are inputs.
//! onnxruntime transposes and packs all of them before it reads a row. [`damper_kernels::product`] packs only a part
//! that stays in the cache.

use super::super::backend::{SessionSpec, bound_shape};
use super::operator::{Kernel, Operator, node};
use damper_kernels::product::SimdProduct;
use damper_kernels::simd::SimdKernel as _;
use damper_onnx::{DType, Dim, attr_ints, data_type, make_attr_int, pb};
use std::collections::HashMap;

/// Minimum number of outputs for which SIMD over outputs is faster.
const FEWEST_OUTPUTS: usize = 4;

/// Replaces each `MatMul` with a matrix of parameters. The operator includes the `Transpose` of the matrix and an `Add`
/// of a parameter vector after the product.
pub(super) fn put(graph: &mut pb::GraphProto, plan: &SessionSpec) {
    let places: Vec<_> = {
        let reads = Reads::new(graph, plan);
        (0..graph.node.len()).filter_map(|matmul| Some((matmul, reads.place(matmul)?))).collect()
    };
    for (matmul, Place { gone, operator }) in places {
        graph.node[matmul] = operator;
        gone.into_iter().for_each(|node| graph.node[node].output.clear());
    }
    graph.node.retain(|node| !node.output.is_empty());
}

/// Fused operator, and the nodes that it replaces.
struct Place {
    gone: Vec<usize>,
    operator: pb::NodeProto,
}

/// Producer and readers of each tensor of a graph.
struct Reads<'g> {
    graph: &'g pb::GraphProto,
    plan: &'g SessionSpec,
    makers: HashMap<&'g str, usize>,
    /// A graph output has a reader with an index that no node has.
    readers: HashMap<&'g str, Vec<usize>>,
}

impl<'g> Reads<'g> {
    fn new(graph: &'g pb::GraphProto, plan: &'g SessionSpec) -> Self {
        let mut readers: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut makers = HashMap::new();
        for (index, node) in graph.node.iter().enumerate() {
            makers.extend(node.output.iter().map(|name| (name.as_str(), index)));
            for name in &node.input {
                readers.entry(name).or_default().push(index);
            }
        }
        for output in &graph.output {
            readers.entry(&output.name).or_default().push(usize::MAX);
        }
        Self { graph, plan, makers, readers }
    }

    /// Inputs and output of node `index`, if it is the standard operator `op` with `N` inputs.
    fn standard<const N: usize>(&self, op: &str, index: usize) -> Option<([&'g str; N], &'g str)> {
        let node = self.graph.node.get(index).filter(|node| node.op_type == op && node.domain.is_empty())?;
        let inputs: Vec<&str> = node.input.iter().map(String::as_str).collect();
        Some((inputs.try_into().ok()?, node.output.first()?))
    }

    /// Fused operator for a `MatMul`, with the nodes that it replaces.
    fn place(&self, matmul: usize) -> Option<Place> {
        let ([x, right], product) = self.standard::<2>("MatMul", matmul)?;
        let (mut gone, mut weights, mut is_transposed) = (vec![], right, false);
        if let Some(&turn) = self.makers.get(right)
            && let Some(([from], _)) = self.standard::<1>("Transpose", turn)
            && attr_ints(&self.graph.node[turn].attribute, "perm").is_none_or(|axes| *axes == [1, 0])
        {
            (weights, is_transposed) = (from, true);
            // A transpose with other readers stays for them.
            gone.extend((self.readers[right] == [matmul]).then_some(turn));
        }
        let [_, outputs] = oriented(self.matrix(weights)?, is_transposed);
        if outputs < FEWEST_OUTPUTS {
            return None;
        }
        let (mut inputs, mut result) = (vec![x, weights], product);
        if let Some(&[add]) = self.readers.get(product).map(Vec::as_slice)
            && let Some((terms, sum)) = self.standard::<2>("Add", add)
            && let Some(bias) = terms.into_iter().find(|term| self.is_vector(term, outputs))
        {
            gone.push(add);
            inputs.push(bias);
            result = sum;
        }
        let attributes = if is_transposed { vec![make_attr_int("transposed", 1)] } else { vec![] };
        Some(Place { gone, operator: node(PRODUCT.name, &inputs, &[result], attributes) })
    }

    /// Extents of `name`, if it is a matrix of parameters.
    fn matrix(&self, name: &str) -> Option<[usize; 2]> {
        let spec = self.plan.inputs.iter().find(|spec| spec.name == name && spec.dtype == DType::F32)?;
        match spec.shape[..] {
            [Dim::Fixed(a), Dim::Fixed(b)] => Some([a, b]),
            _ => None,
        }
    }

    /// Returns true if `name` is a parameter or a constant of shape `[n]`.
    fn is_vector(&self, name: &str, n: usize) -> bool {
        if let Some(tensor) = self.graph.initializer.iter().find(|tensor| tensor.name == name) {
            return tensor.dims == [n as i64] && tensor.data_type == data_type(DType::F32) as i32;
        }
        let spec = self.plan.inputs.iter().find(|spec| spec.name == name);
        spec.is_some_and(|spec| spec.dtype == DType::F32 && bound_shape(spec, self.plan.batch) == [n])
    }
}

/// `[terms, outputs]` of weights with these extents.
fn oriented<T>([a, b]: [T; 2], is_transposed: bool) -> [T; 2] {
    if is_transposed { [b, a] } else { [a, b] }
}

/// `(x [.., terms], weights [terms, outputs], bias [outputs]?) → y [.., outputs]`. With the attribute `transposed`, the
/// weights are `[outputs, terms]`.
pub(super) const PRODUCT: Operator<Multiplying> = Operator {
    name: "Product",
    inputs: [2, 1],
    outputs: [1, 0],
    kernel: |attributes| Multiplying { is_transposed: attributes.int("transposed") != 0, product: None },
};

/// Kernel of a node.
pub(super) struct Multiplying {
    is_transposed: bool,
    product: Option<SimdProduct>,
}

impl Kernel for Multiplying {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Vec<i64>>> {
        let [Some(x), Some(weights), ref bias @ ..] = *inputs else { return None };
        let [terms, outputs] = oriented(<[i64; 2]>::try_from(weights).ok()?, self.is_transposed);
        let (width, rows) = x.split_last()?;
        if *width != terms || terms < 1 || outputs < 1 || bias.iter().flatten().any(|bias| *bias != [outputs]) {
            return None;
        }
        let extents = [usize::try_from(terms).ok()?, usize::try_from(outputs).ok()?];
        self.product = Some(SimdProduct::new(extents, self.is_transposed));
        Some(vec![[rows, &[outputs]].concat()])
    }

    fn run(&mut self, inputs: &[Option<&[f32]>], outputs: &mut [Option<&mut [f32]>]) -> Option<()> {
        let ([Some(x), Some(weights), bias @ ..], [Some(y)]) = (inputs, outputs) else { return None };
        self.product.as_mut()?.run(x, weights, bias.first().copied().flatten(), y);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{apart, assert_samples_stay_alone, batched, model, node, numbers, parameter, put, run};
    use super::{PRODUCT, pb};
    use crate::SessionSpec;

    const LINES: usize = 3;
    const EXTENTS: [usize; 2] = [37, 19];

    /// `y = x · w + b`, in the nodes that the emitter writes.
    fn written(is_transposed: bool, outputs: &[&str]) -> (pb::ModelProto, SessionSpec) {
        let [terms, made] = EXTENTS;
        let weights = if is_transposed { [made, terms] } else { [terms, made] };
        let nodes = match is_transposed {
            true => vec![node("t = Transpose(w)"), node("p = MatMul(x, t)"), node("y = Add(p, b)")],
            false => vec![node("p = MatMul(x, w)"), node("y = Add(b, p)")],
        };
        let inputs = vec![batched("x", &[LINES, terms]), parameter("w", &weights), parameter("b", &[made])];
        let outputs = outputs.iter().map(|name| match *name {
            "t" => parameter("t", &EXTENTS),
            name => batched(name, &[LINES, made]),
        });
        model(nodes, &[], inputs, outputs.collect())
    }

    #[test]
    fn it_stands_for_a_product_with_parameters() {
        assert_eq!(put(&written(true, &["y"])), [PRODUCT.name]);
        assert_eq!(put(&written(false, &["y"])), [PRODUCT.name]);
        assert_eq!(put(&written(true, &["y", "p"])), [PRODUCT.name, ""]);
        assert_eq!(put(&written(true, &["y", "t"])), ["", PRODUCT.name]);
        // Per-sample weights do not fit the operator.
        let (model, mut plan) = written(false, &["y"]);
        plan.inputs[1] = batched("w", &EXTENTS);
        assert_eq!(put(&(model, plan)), ["", ""]);
    }

    #[test]
    fn it_is_the_product() {
        let [terms, made] = EXTENTS;
        for (is_transposed, outputs) in [(true, &["y"][..]), (false, &["y"]), (true, &["y", "p"]), (true, &["y", "t"])]
        {
            let of = written(is_transposed, outputs);
            let inputs = numbers(&of.1);
            let Some(ours) = run(&of, &inputs) else { return };
            let exact = inputs[0].chunks(terms).flat_map(|x| {
                let inputs = &inputs;
                (0..made).map(move |output| {
                    let weight = |term: usize| {
                        inputs[1][if is_transposed { output * terms + term } else { term * made + output }]
                    };
                    let products = x.iter().enumerate().map(|(term, x)| f64::from(*x) * f64::from(weight(term)));
                    f64::from(inputs[2][output]) + products.sum::<f64>()
                })
            });
            let exact: Vec<f64> = exact.collect();
            assert!(apart(&ours[0], &exact) < 1e-5, "{outputs:?}: {}", apart(&ours[0], &exact));
        }
    }

    #[test]
    fn a_sample_is_taken_alone() {
        const BAD: [f32; 3] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        for is_transposed in [true, false] {
            assert_samples_stay_alone(&written(is_transposed, &["y"]), 1, &BAD);
        }
    }
}
