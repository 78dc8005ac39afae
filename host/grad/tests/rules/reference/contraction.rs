//! Matrix products and convolutions.

use damper_onnx::graph::Node;
use damper_onnx::{attr_float, attr_int, attr_ints};

use super::window::{taps, windows};
use super::{Array, unravel};

/// Output of `node`. `None` for an operator of another family.
pub fn apply(node: &Node, x: &[&Array], shape: &[usize]) -> Option<Array> {
    let float = |name: &str, default: f32| f64::from(attr_float(&node.attributes, name, default));
    let int = |name: &str, default: i64| attr_int(&node.attributes, name, default);
    Some(match node.op.as_str() {
        "Gemm" => gemm(x, int("transA", 0) != 0, int("transB", 0) != 0, float("alpha", 1.0), float("beta", 1.0), shape),
        "MatMul" => mat_mul(x[0], x[1], shape),
        "Conv" => conv(node, x, shape),
        "ConvTranspose" => conv_transpose(node, x, shape),
        _ => return None,
    })
}

fn gemm(x: &[&Array], ta: bool, tb: bool, alpha: f64, beta: f64, shape: &[usize]) -> Array {
    let at = |m: &Array, t: bool, i: usize, j: usize| if t { m.at(&[j, i]) } else { m.at(&[i, j]) };
    let inner = x[0].shape[if ta { 0 } else { 1 }];
    Array::from_fn(shape, |i| {
        let product: f64 = (0..inner).map(|k| at(x[0], ta, i[0], k) * at(x[1], tb, k, i[1])).sum();
        alpha * product + x.get(2).map_or(0.0, |c| beta * c.spread(i))
    })
}

fn mat_mul(a: &Array, b: &Array, shape: &[usize]) -> Array {
    let (row, column) = (a.shape.len() > 1, b.shape.len() > 1);
    let inner = *a.shape.last().unwrap();
    Array::from_fn(shape, |i| {
        let lead = i.len() - row as usize - column as usize;
        (0..inner)
            .map(|k| {
                let left = [&i[..lead], if row { &i[lead..lead + 1] } else { &[] }, &[k]].concat();
                let right = [&i[..lead], &[k], if column { &i[i.len() - 1..] } else { &[] }].concat();
                a.spread(&left) * b.spread(&right)
            })
            .sum()
    })
}

fn conv(node: &Node, x: &[&Array], shape: &[usize]) -> Array {
    let groups = attr_int(&node.attributes, "group", 1) as usize;
    let (input, w) = (&x[0].shape[2..], x[1]);
    let windows = windows(node, &w.shape[2..], input, &shape[2..]);
    let (own, outputs) = (w.shape[1], w.shape[0]);
    Array::from_fn(shape, |i| {
        let first = i[1] / (outputs / groups) * own;
        let mut sum = x.get(2).map_or(0.0, |b| b.data[i[1]]);
        for (tap, at, inside, _) in taps(&windows, input, &i[2..]) {
            for c in (0..own).filter(|_| inside) {
                let weight = w.at(&[&[i[1], c], &tap[..]].concat());
                sum += weight * x[0].at(&[&[i[0], first + c], &at[..]].concat());
            }
        }
        sum
    })
}

/// Every element of the input, times the kernel, is added to the output at the kernel's position.
fn conv_transpose(node: &Node, x: &[&Array], shape: &[usize]) -> Array {
    let groups = attr_int(&node.attributes, "group", 1) as usize;
    let list = |name: &str, i: usize, default: i64| attr_ints(&node.attributes, name).map_or(default, |l| l[i]);
    let (w, own) = (x[1], x[1].shape[1]);
    let mut y = Array::from_fn(shape, |i| x.get(2).map_or(0.0, |b| b.data[i[1]]));
    for (flat, value) in x[0].data.iter().enumerate() {
        let from = unravel(flat, &x[0].shape);
        for (place, weight) in w.data.iter().enumerate() {
            let tap = unravel(place, &w.shape);
            if tap[0] != from[1] {
                continue;
            }
            let channel = from[1] / (w.shape[0] / groups) * own + tap[1];
            let at = |i: usize| {
                from[i + 2] as i64 * list("strides", i, 1) + tap[i + 2] as i64 * list("dilations", i, 1)
                    - list("pads", i, 0)
            };
            let at: Vec<i64> = (0..shape.len() - 2).map(at).collect();
            if at.iter().zip(&shape[2..]).all(|(&at, &d)| (0..d as i64).contains(&at)) {
                let at: Vec<usize> = at.iter().map(|&at| at as usize).collect();
                let to = [&[from[0], channel], &at[..]].concat();
                let to = to.iter().zip(shape).fold(0, |flat, (i, d)| flat * d + i);
                y.data[to] += value * weight;
            }
        }
    }
    y
}
