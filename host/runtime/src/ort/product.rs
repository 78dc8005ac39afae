//! Products of samples' rows with a parameter, as an custom operator: with weights that are inputs, as training has them, onnxruntime
//! turns them where they are transposed and then packs them, all of them, before it takes a row. [`damper_kernels::product`] packs what stays near.

use super::graph_index::{Fusion, GraphIndex};
use super::operator::{Arity, Attributes, Kernel, Operator, node};
use damper_kernels::product::Product;
use damper_kernels::simd::SimdKernel as _;
use damper_onnx::{attr_ints, make_attr_int, pb};

const NAME: &str = "Product";

/// Outputs from which vectors of them are worth it.
const FEWEST_OUTPUTS: usize = 4;

/// Where the operator can stand: for a `MatMul` with a matrix of parameters, the `Transpose` that turns it, and the `Add` of a vector of
/// parameters behind it.
pub(super) fn places(graph: &pb::GraphProto, graph_index: &GraphIndex<'_>) -> Vec<Fusion> {
    (0..graph.node.len()).filter_map(|index| place(graph, graph_index, index)).collect()
}

fn place(graph: &pb::GraphProto, graph_index: &GraphIndex<'_>, matmul: usize) -> Option<Fusion> {
    let product = graph.node[matmul].output.first()?;
    let (matmul, [x, weights]) = graph_index.pair("MatMul", product)?;
    let transposed = graph_index
        .producer("Transpose", weights)
        .filter(|(index, _)| attr_ints(&graph.node[*index].attribute, "perm").is_none_or(|axes| *axes == [1, 0]));
    let (weights, is_transposed) = transposed.as_ref().map_or((weights, false), |(_, from)| (from[0], true));
    let [_, outputs] = oriented(graph_index.matrix(weights)?, is_transposed);
    if outputs < FEWEST_OUTPUTS {
        return None;
    }
    let mut nodes = vec![matmul];
    // One that others read stays for them.
    nodes.extend(transposed.map(|(index, _)| index).filter(|index| graph_index.can_go(&[matmul, *index], &[product])));
    let (mut inputs, mut result) = (vec![x, weights], product.as_str());
    if let [add] = *graph_index.readers(product)
        && let Some((add, terms)) = graph_index.pair("Add", graph_index.output(add))
        && let Some(bias) = terms.into_iter().find(|term| graph_index.is_vector(term, outputs))
        && !graph_index.is_read_beside(product, &[add])
    {
        nodes.push(add);
        inputs.push(bias);
        result = graph_index.output(add);
    }
    let attributes = if is_transposed { vec![make_attr_int("transposed", 1)] } else { vec![] };
    Some(Fusion { nodes, operator: node(NAME, &inputs, &[result], attributes) })
}

/// `[terms, outputs]` of weights of these extents.
fn oriented<T>([a, b]: [T; 2], is_transposed: bool) -> [T; 2] {
    if is_transposed { [b, a] } else { [a, b] }
}

/// `(x [.., terms], weights [terms, outputs], bias [outputs]?) → y [.., outputs]`, with the attribute `transposed`, of weights `[outputs,
/// terms]`.
pub(super) struct Multiply;

impl Operator for Multiply {
    type Kernel = Multiplying;

    fn name(&self) -> &'static str {
        NAME
    }

    fn inputs(&self) -> Arity {
        Arity::Listed { required: 2, optional: 1 }
    }

    fn kernel(&self, attributes: &Attributes<'_>) -> Multiplying {
        Multiplying { is_transposed: attributes.int("transposed") != 0, product: None }
    }
}

/// A node's.
pub(super) struct Multiplying {
    is_transposed: bool,
    product: Option<Product>,
}

impl Kernel for Multiplying {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Option<Vec<i64>>>> {
        let [Some(x), Some(weights), ref bias @ ..] = *inputs else { return None };
        let [terms, outputs] = oriented(<[i64; 2]>::try_from(weights).ok()?, self.is_transposed);
        let (width, rows) = x.split_last()?;
        if *width != terms || terms < 1 || outputs < 1 || bias.iter().flatten().any(|bias| *bias != [outputs]) {
            return None;
        }
        let extents = [usize::try_from(terms).ok()?, usize::try_from(outputs).ok()?];
        self.product = Some(Product::new(extents, self.is_transposed));
        Some(vec![Some([rows, &[outputs]].concat())])
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
    use super::{NAME, pb};
    use crate::Plan;

    const LINES: usize = 3;
    const EXTENTS: [usize; 2] = [37, 19];

    /// `y = x · w + b`, in the nodes that the emitter writes for it.
    fn written(is_transposed: bool, outputs: &[&str]) -> (pb::ModelProto, Plan) {
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
        assert_eq!(put(&written(true, &["y"])), [NAME]);
        assert_eq!(put(&written(false, &["y"])), [NAME]);
        assert_eq!(put(&written(true, &["y", "p"])), [NAME, ""]);
        assert_eq!(put(&written(true, &["y", "t"])), ["", NAME]);
        // With weights of each sample it is another product.
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
