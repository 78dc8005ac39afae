//! Rows brought to mean 0 and variance 1, or to mean square 1, in one pass over memory: `x̂ = (x − mean) · scale` with
//! `scale = 1 / √(variance + ε)`, and `y = x̂ · γ + β` behind it. As nodes they are twelve passes; onnxruntime's own operator adds a row up
//! in an order that depends on where it lies. The order of [`rows`](super::rows) does not.

use super::graph_index::{Fusion, GraphIndex};
use super::operator::{Arity, Attributes, Kernel, Operator, node};
use super::rows::{self, ABREAST};
use damper_onnx::{make_attr_float, make_attr_int, make_attr_ints, pb};
use pulp::{Arch, Simd, WithSimd};

const NAME: &str = "Normalize";

/// Where the operator can stand: for what the emitter writes for a normalisation over the last axis.
pub(super) fn places(graph: &pb::GraphProto, graph_index: &GraphIndex<'_>) -> Vec<Fusion> {
    (0..graph.node.len())
        .filter(|&index| graph.node[index].op_type == "Reciprocal")
        .filter_map(|index| place(graph_index, index))
        .collect()
}

fn place(graph_index: &GraphIndex<'_>, reciprocal: usize) -> Option<Fusion> {
    let scale = graph_index.output(reciprocal);
    let (reciprocal, root) = graph_index.producer("Reciprocal", scale)?;
    let (root, sum) = graph_index.producer("Sqrt", root[0])?;
    let (add, terms) = graph_index.pair("Add", sum[0])?;
    let (variance, epsilon) = either(terms, |name| graph_index.scalar(name))?;
    let (means, square, n) = graph_index.mean(variance)?;
    let (multiply, [centred, again]) = graph_index.pair("Mul", square).filter(|(_, [left, right])| left == right)?;
    let mut nodes = vec![reciprocal, root, add, means[0], means[1], multiply];
    let centring = || {
        let (sub, [x, mean]) = graph_index.pair("Sub", centred)?;
        let (means, of, width) = graph_index.mean(mean)?;
        (of == x && width == n).then_some((sub, means, x))
    };
    let (x, is_centred) = match centring() {
        Some((sub, means, x)) => {
            nodes.extend([sub, means[0], means[1]]);
            (x, true)
        }
        None => (again, false),
    };
    // The product of `name` with what `other` takes, made by one node that reads `name`.
    let behind = |op: &str, name: &str, other: &dyn Fn(&str) -> bool| {
        graph_index.readers(name).iter().find_map(|&reader| {
            let (index, terms) = graph_index.pair(op, graph_index.output(reader))?;
            let (one, second) = either(terms, |term| other(term).then_some(term))?;
            (one == name).then_some((index, second))
        })
    };
    let (product, _) = behind("Mul", scale, &|name| name == centred)?;
    nodes.push(product);
    let value = graph_index.output(product);
    let mut inputs = vec![x];
    let mut affine = "";
    if let Some((scaled, gamma)) = behind("Mul", value, &|name| graph_index.is_vector(name, n)) {
        nodes.push(scaled);
        inputs.push(gamma);
        affine = graph_index.output(scaled);
        if let Some((shifted, beta)) = behind("Add", affine, &|name| graph_index.is_vector(name, n))
            && !graph_index.is_read_beside(affine, &[shifted])
        {
            nodes.push(shifted);
            inputs.push(beta);
            affine = graph_index.output(shifted);
        }
    }
    let given = [affine, value, scale];
    if !graph_index.can_go(&nodes, &given) {
        return None;
    }
    let gives = given.map(|name| !name.is_empty() && graph_index.is_read_beside(name, &nodes));
    let outputs = [0, 1, 2].map(|at| if gives[at] { given[at] } else { "" });
    let count = gives.iter().rposition(|gives| *gives)? + 1;
    let attributes = vec![
        make_attr_int("width", n as i64),
        make_attr_int("centred", is_centred.into()),
        make_attr_float("epsilon", epsilon),
        make_attr_ints("gives", &gives.map(i64::from)),
    ];
    Some(Fusion { nodes, operator: node(NAME, &inputs, &outputs[..count], attributes) })
}

/// What `take` finds in one of two, behind the other.
fn either<'g, T>([left, right]: [&'g str; 2], take: impl Fn(&'g str) -> Option<T>) -> Option<(&'g str, T)> {
    match take(right) {
        Some(taken) => Some((left, taken)),
        None => Some((right, take(left)?)),
    }
}

/// `(x [.., n], γ [n]?, β [n]?) → (y [.., n]?, x̂ [.., n]?, scale [.., 1]?)`, with the attributes `width` (`n`), `centred`, `epsilon`, and
/// `gives`, which of the outputs there are.
pub(super) struct Normalize;

impl Operator for Normalize {
    type Kernel = Normalizing;

    fn name(&self) -> &'static str {
        NAME
    }

    fn inputs(&self) -> Arity {
        Arity::Listed { required: 1, optional: 2 }
    }

    fn outputs(&self) -> Arity {
        Arity::Listed { required: 0, optional: 3 }
    }

    fn kernel(&self, attributes: &Attributes<'_>) -> Normalizing {
        Normalizing {
            width: attributes.int("width"),
            is_centred: attributes.int("centred") != 0,
            epsilon: attributes.float("epsilon"),
            gives: attributes.ints("gives"),
            row: vec![],
            vectors: Arch::new(),
        }
    }
}

/// A node's.
pub(super) struct Normalizing {
    width: i64,
    is_centred: bool,
    epsilon: f32,
    gives: Vec<i64>,
    /// x̂ of some rows, where it is not given.
    row: Vec<f32>,
    vectors: Arch,
}

impl Kernel for Normalizing {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Option<Vec<i64>>>> {
        let [Some(x), ref vectors @ ..] = *inputs else { return None };
        let (width, rows) = x.split_last().filter(|(width, _)| **width == self.width && self.width > 0)?;
        if vectors.iter().flatten().any(|vector| *vector != [*width]) {
            return None;
        }
        self.row.resize(ABREAST * self.width as usize, 0.0);
        let shapes = [x.to_vec(), x.to_vec(), [rows, &[1]].concat()];
        Some(shapes.into_iter().zip(&self.gives).map(|(shape, gives)| (*gives != 0).then_some(shape)).collect())
    }

    fn run(&mut self, inputs: &[Option<&[f32]>], outputs: &mut [Option<&mut [f32]>]) -> Option<()> {
        let ([Some(x), vectors @ ..], [y, value, scale]) = (inputs, outputs) else { return None };
        let vector = |index: usize| vectors.get(index).copied().flatten();
        self.vectors.dispatch(Run {
            x,
            n: self.width as usize,
            epsilon: self.epsilon,
            is_centred: self.is_centred,
            gamma: vector(0),
            beta: vector(1),
            y: y.as_deref_mut(),
            value: value.as_deref_mut(),
            scale: scale.as_deref_mut(),
            row: &mut self.row,
        });
        Some(())
    }
}

struct Run<'a> {
    x: &'a [f32],
    n: usize,
    epsilon: f32,
    is_centred: bool,
    gamma: Option<&'a [f32]>,
    beta: Option<&'a [f32]>,
    y: Option<&'a mut [f32]>,
    value: Option<&'a mut [f32]>,
    scale: Option<&'a mut [f32]>,
    row: &'a mut [f32],
}

impl WithSimd for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let n = self.n;
        let factor = (1.0 / n as f64) as f32;
        for (number, x) in self.x.chunks(ABREAST * n).enumerate() {
            let at = number * ABREAST * n..number * ABREAST * n + x.len();
            let values = match &mut self.value {
                Some(value) => &mut value[at.clone()],
                None => &mut self.row[..x.len()],
            };
            let mut means = [0.0; ABREAST];
            if self.is_centred {
                for (mean, x) in means.iter_mut().zip(x.chunks_exact(n)) {
                    *mean = rows::sum(x) * factor;
                }
            }
            for ((x, value), mean) in x.chunks_exact(n).zip(values.chunks_exact_mut(n)).zip(means) {
                for (value, x) in value.iter_mut().zip(x) {
                    *value = x - mean;
                }
            }
            let mut scales = [0.0; ABREAST];
            for (scale, value) in scales.iter_mut().zip(values.chunks_exact(n)) {
                *scale = 1.0 / (rows::dot(value, value) * factor + self.epsilon).sqrt();
            }
            if let Some(given) = &mut self.scale {
                let count = x.len() / n;
                given[number * ABREAST..][..count].copy_from_slice(&scales[..count]);
            }
            for (value, scale) in values.chunks_exact_mut(n).zip(scales) {
                for value in value {
                    *value *= scale;
                }
            }
            let Some(y) = &mut self.y else { continue };
            for (value, y) in values.chunks_exact(n).zip(y[at].chunks_exact_mut(n)) {
                affine(value, self.gamma, self.beta, y);
            }
        }
    }
}

/// `x̂ · γ + β` of a row.
#[inline(always)]
fn affine(value: &[f32], gamma: Option<&[f32]>, beta: Option<&[f32]>, y: &mut [f32]) {
    match (gamma, beta) {
        (Some(gamma), Some(beta)) => {
            for (((y, value), gamma), beta) in y.iter_mut().zip(value).zip(gamma).zip(beta) {
                *y = value * gamma + beta;
            }
        }
        (Some(gamma), None) => {
            for ((y, value), gamma) in y.iter_mut().zip(value).zip(gamma) {
                *y = value * gamma;
            }
        }
        _ => y.copy_from_slice(value),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{
        BATCH, apart, assert_samples_stay_alone, batched, model, node, numbers, parameter, put, run,
    };
    use super::*;
    use crate::Plan;
    use pulp::Scalar;

    const LINES: usize = 3;

    /// What the emitter writes for rows of `n` entries, with further nodes.
    fn written(n: usize, is_centred: bool, further: &[&str], outputs: &[(&str, usize)]) -> (pb::ModelProto, Plan) {
        let (ones, factor) = (vec![1.0; n], [(1.0 / n as f64) as f32]);
        let centring: &[&str] =
            if is_centred { &["s = MatMul(x, ones)", "m = Mul(s, factor)", "c = Sub(x, m)"] } else { &[] };
        let c = if is_centred { "c" } else { "x" };
        let rest = [
            format!("q = Mul({c}, {c})"),
            "t = MatMul(q, ones)".into(),
            "v = Mul(t, factor)".into(),
            "w = Add(v, epsilon)".into(),
            "r = Sqrt(w)".into(),
            "scale = Reciprocal(r)".into(),
            format!("value = Mul({c}, scale)"),
        ];
        let nodes = centring.iter().copied().chain(rest.iter().map(String::as_str)).chain(further.iter().copied());
        let constants: [(&str, &[usize], &[f32]); 3] =
            [("ones", &[n, 1], &ones), ("factor", &[], &factor), ("epsilon", &[], &[1e-5])];
        let inputs = vec![batched("x", &[LINES, n]), parameter("gamma", &[n]), parameter("beta", &[n])];
        let outputs = outputs.iter().map(|(name, n)| batched(name, &[LINES, *n])).collect();
        model(nodes.map(node).collect(), &constants, inputs, outputs)
    }

    const AFFINE: [&str; 2] = ["scaled = Mul(value, gamma)", "y = Add(scaled, beta)"];

    #[test]
    fn it_stands_for_a_normalisation_with_what_is_read_of_it() {
        let n = 37;
        for is_centred in [true, false] {
            assert_eq!(put(&written(n, is_centred, &AFFINE, &[("y", n)])), [NAME]);
            assert_eq!(put(&written(n, is_centred, &AFFINE, &[("scale", 1), ("y", n)])), [NAME]);
            assert_eq!(put(&written(n, is_centred, &AFFINE[..1], &[("value", n), ("scaled", n)])), [NAME]);
            assert_eq!(put(&written(n, is_centred, &[], &[("value", n), ("scale", 1)])), [NAME]);
        }
        // A scaled row that is read by others too ends the operator.
        assert_eq!(put(&written(n, true, &AFFINE, &[("scaled", n), ("y", n)])), [NAME, ""]);
        // The others are not given.
        for other in [("c", n), ("q", n), ("v", 1), ("r", 1), ("m", 1)] {
            assert!(!put(&written(n, true, &AFFINE, &[("y", n), other])).contains(&NAME.to_string()), "{other:?}");
        }
        let (mut other, plan) = written(n, true, &AFFINE, &[("y", n)]);
        other.graph.as_mut().unwrap().initializer[1] = damper_onnx::make_tensor_f32("factor", &[], &[0.5]);
        assert!(!put(&(other, plan)).contains(&NAME.to_string()));
    }

    #[test]
    fn it_is_the_normalisation() {
        for (n, is_centred) in [(2, false), (3, true), (16, true), (37, false), (37, true), (192, true), (259, false)] {
            let outputs = [("y", n), ("value", n), ("scale", 1)];
            let model = written(n, is_centred, &AFFINE, &outputs);
            assert_eq!(put(&model), [NAME]);
            let inputs = numbers(&model.1);
            let Some(made) = run(&model, &inputs) else { return };
            let mut exact: [Vec<f64>; 3] = [vec![], vec![], vec![]];
            for row in inputs[0].chunks(n) {
                let row: Vec<f64> = row.iter().copied().map(f64::from).collect();
                let mean = if is_centred { row.iter().sum::<f64>() / n as f64 } else { 0.0 };
                let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n as f64;
                let scale = 1.0 / (variance + 1e-5).sqrt();
                exact[2].push(scale);
                for (x, (gamma, beta)) in row.iter().zip(inputs[1].iter().zip(&inputs[2])) {
                    exact[1].push((x - mean) * scale);
                    exact[0].push((x - mean) * scale * f64::from(*gamma) + f64::from(*beta));
                }
            }
            for (made, exact) in made.iter().zip(&exact) {
                assert!(apart(made, exact) < 1e-5, "{n}: {}", apart(made, exact));
            }
            assert_eq!(made[1].len(), BATCH * LINES * n);
        }
    }

    #[test]
    fn a_sample_is_normalised_alone() {
        const BAD: [f32; 3] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        assert_samples_stay_alone(&written(65, true, &AFFINE, &[("y", 65), ("value", 65)]), 1, &BAD);
        assert_samples_stay_alone(&written(64, false, &AFFINE[..1], &[("scaled", 64)]), 1, &BAD);
    }

    #[test]
    fn its_bits_are_those_of_any_processor() {
        let n = 259;
        let x: Vec<f32> = (0..5 * n).map(|i| ((i * 17 + 7) % 61) as f32 / 20.3 - 1.5).collect();
        let bits = |work: &dyn Fn(Run<'_>)| -> Vec<u32> {
            let (mut y, mut value, mut scale, mut row) = (x.clone(), x.clone(), vec![0.0; 5], vec![0.0; ABREAST * n]);
            let (gamma, beta) = x.split_at(n);
            work(Run {
                x: &x,
                n,
                epsilon: 1e-5,
                is_centred: true,
                gamma: Some(gamma),
                beta: Some(&beta[..n]),
                y: Some(&mut y),
                value: Some(&mut value),
                scale: Some(&mut scale),
                row: &mut row,
            });
            y.iter().chain(&value).chain(&scale).map(|entry| entry.to_bits()).collect()
        };
        assert_eq!(bits(&|run| Arch::new().dispatch(run)), bits(&|run| run.with_simd(Scalar::new())));
    }
}
