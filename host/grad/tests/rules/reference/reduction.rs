//! Reductions, softmax and normalisations.

use damper_onnx::graph::{Graph, Node};
use damper_onnx::{attr_float, attr_int, attr_ints};

use super::{Array, unravel};

/// Output of `node`. `None` for an operator of another family.
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
        "ArgMax" | "ArgMin" => {
            let axis = int("axis", 0).rem_euclid(x[0].shape.len() as i64) as usize;
            let sign = if node.op == "ArgMax" { 1.0 } else { -1.0 };
            assert_eq!(int("select_last_index", 0), 0);
            Array::from_fn(shape, |i| {
                let rest = axis + usize::from(int("keepdims", 1) != 0);
                let at = |k: usize| sign * x[0].at(&[&i[..axis], &[k], &i[rest..]].concat());
                // The first of equal elements.
                (1..x[0].shape[axis]).fold(0, |best, k| if at(k) > at(best) { k } else { best }) as f64
            })
        }
        op if op.starts_with("Reduce") => {
            let axes = match attr_ints(&node.attributes, "axes") {
                Some(axes) => axes.to_vec(),
                None => x[1].data.iter().map(|&a| a as i64).collect(),
            };
            let axes: Vec<usize> = axes.iter().map(|a| a.rem_euclid(x[0].shape.len() as i64) as usize).collect();
            let kept: Vec<usize> =
                x[0].shape.iter().enumerate().map(|(i, &d)| if axes.contains(&i) { 1 } else { d }).collect();
            let mut groups: Vec<Vec<f64>> = vec![vec![]; kept.iter().product()];
            for (flat, v) in x[0].data.iter().enumerate() {
                let index = unravel(flat, &x[0].shape);
                let to = index.iter().zip(&kept).fold(0, |acc, (&i, &d)| acc * d + if d == 1 { 0 } else { i });
                groups[to].push(*v);
            }
            Array::new(shape, groups.iter().map(|group| reduce(op, group)).collect())
        }
        "LayerNormalization" => {
            let axis = int("axis", -1).rem_euclid(shape.len() as i64) as usize;
            let width: usize = shape[axis..].iter().product();
            let rows = x[0].data.chunks(width).flat_map(|row| normalized(row, float("epsilon", 1e-5)));
            let rows = Array::new(shape, rows.collect());
            let bias = |i: &[usize]| x.get(2).map_or(0.0, |bias| bias.spread(i));
            Array::from_fn(shape, |i| rows.at(i) * x[1].spread(i) + bias(i))
        }
        "LpNormalization" => {
            let axis = int("axis", -1).rem_euclid(shape.len() as i64) as usize;
            Array::from_fn(shape, |i| {
                let others = (0..shape[axis]).map(|k| x[0].at(&[&i[..axis], &[k], &i[axis + 1..]].concat()));
                let norm = match int("p", 2) {
                    1 => others.map(f64::abs).sum::<f64>(),
                    _ => others.map(|v| v * v).sum::<f64>().sqrt(),
                };
                if norm == 0.0 { 0.0 } else { x[0].at(i) / norm }
            })
        }
        "MeanVarianceNormalization" => {
            let axes: Vec<usize> = attr_ints(&node.attributes, "axes")
                .unwrap()
                .iter()
                .map(|a| a.rem_euclid(shape.len() as i64) as usize)
                .collect();
            Array::from_fn(shape, |i| {
                let beside = |j: &[usize]| (0..shape.len()).all(|k| axes.contains(&k) || i[k] == j[k]);
                let group: Vec<f64> = (0..x[0].data.len())
                    .filter(|&flat| beside(&unravel(flat, shape)))
                    .map(|flat| x[0].data[flat])
                    .collect();
                let mean = group.iter().sum::<f64>() / group.len() as f64;
                let variance = group.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / group.len() as f64;
                (x[0].at(i) - mean) / (variance.sqrt() + 1e-9)
            })
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

fn reduce(op: &str, group: &[f64]) -> f64 {
    match op {
        "ReduceSum" => group.iter().sum(),
        "ReduceMean" => group.iter().sum::<f64>() / group.len() as f64,
        "ReduceMax" => group.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        "ReduceMin" => group.iter().copied().fold(f64::INFINITY, f64::min),
        "ReduceProd" => group.iter().product(),
        "ReduceL1" => group.iter().map(|v| v.abs()).sum(),
        "ReduceL2" => group.iter().map(|v| v * v).sum::<f64>().sqrt(),
        "ReduceSumSquare" => group.iter().map(|v| v * v).sum(),
        "ReduceLogSum" => group.iter().sum::<f64>().ln(),
        "ReduceLogSumExp" => group.iter().map(|v| v.exp()).sum::<f64>().ln(),
        other => panic!("the reference does not know {other}"),
    }
}

fn normalized(group: &[f64], epsilon: f64) -> Vec<f64> {
    let mean = group.iter().sum::<f64>() / group.len() as f64;
    let variance = group.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / group.len() as f64;
    group.iter().map(|v| (v - mean) / (variance + epsilon).sqrt()).collect()
}

/// Normalises every row separately. Its elements are split evenly among the `affine` entries of scale and bias.
fn normalize(x: &[&Array], groups: usize, affine: usize, epsilon: f64) -> Array {
    let row = x[0].data.len() / x[0].shape[0];
    let size = row / groups;
    let mut data = Vec::new();
    for group in x[0].data.chunks(size) {
        data.extend(normalized(group, epsilon));
    }
    for (i, v) in data.iter_mut().enumerate() {
        let entry = i % row / (row / affine);
        *v = *v * x[1].data[entry] + x[2].data[entry];
    }
    Array::new(&x[0].shape, data)
}
