//! Reductions, softmax and normalisations.

use damper::graph::{Graph, Node};
use damper::onnx::{attr_float, attr_int, attr_ints};

use super::{Array, unravel};

/// The output of `node`; `None` for an operator that is not of this family.
pub fn apply(graph: &Graph, node: &Node, x: &[&Array], shape: &[usize]) -> Option<Array> {
    let float = |name: &str, default: f32| f64::from(attr_float(&node.attributes, name, default));
    let int = |name: &str, default: i64| attr_int(&node.attributes, name, default);
    Some(match node.op.as_str() {
        "Softmax" | "LogSoftmax" => {
            let axis = int("axis", -1).rem_euclid(shape.len() as i64) as usize;
            Array::from_fn(shape, |i| {
                let other = |k: usize| x[0].at(&[&i[..axis], &[k], &i[axis + 1..]].concat());
                let sum: f64 = (0..shape[axis]).map(|k| other(k).exp()).sum();
                let log = x[0].at(i) - sum.ln();
                if node.op == "Softmax" { log.exp() } else { log }
            })
        }
        "ReduceSum" | "ReduceMean" => {
            let axes = match attr_ints(&node.attributes, "axes") {
                Some(axes) => axes.to_vec(),
                None => x[1].data.iter().map(|&a| a as i64).collect(),
            };
            let axes: Vec<usize> = axes.iter().map(|a| a.rem_euclid(x[0].shape.len() as i64) as usize).collect();
            let kept: Vec<usize> =
                x[0].shape.iter().enumerate().map(|(i, &d)| if axes.contains(&i) { 1 } else { d }).collect();
            let mut sums = Array::new(&kept, vec![0.0; kept.iter().product()]);
            for (flat, v) in x[0].data.iter().enumerate() {
                let index = unravel(flat, &x[0].shape);
                let to = index.iter().zip(&kept).fold(0, |acc, (&i, &d)| acc * d + if d == 1 { 0 } else { i });
                sums.data[to] += v;
            }
            let count = (x[0].data.len() / sums.data.len()) as f64;
            let divisor = if node.op == "ReduceMean" { count } else { 1.0 };
            Array::new(shape, sums.data.iter().map(|s| s / divisor).collect())
        }
        "InstanceNormalization" => {
            let channels = x[0].shape[1];
            normalize(x, channels, channels, float("epsilon", 1e-5))
        }
        "GroupNormalization" => {
            let groups = int("num_groups", 1) as usize;
            let affine = if graph.opset >= 21 { x[0].shape[1] } else { groups };
            normalize(x, groups, affine, float("epsilon", 1e-5))
        }
        _ => return None,
    })
}

/// Every row is normalised apart; `affine` entries of scale and bias divide its elements.
fn normalize(x: &[&Array], groups: usize, affine: usize, epsilon: f64) -> Array {
    let row = x[0].data.len() / x[0].shape[0];
    let size = row / groups;
    let mut data = Vec::new();
    for group in x[0].data.chunks(size) {
        let mean = group.iter().sum::<f64>() / size as f64;
        let variance = group.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / size as f64;
        data.extend(group.iter().map(|v| (v - mean) / (variance + epsilon).sqrt()));
    }
    for (i, v) in data.iter_mut().enumerate() {
        let entry = i % row / (row / affine);
        *v = *v * x[1].data[entry] + x[2].data[entry];
    }
    Array::new(&x[0].shape, data)
}
