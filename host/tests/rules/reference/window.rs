//! Pools, and the windows of convolutions.

use damper::graph::Node;
use damper::onnx::{attr_int, attr_ints, attr_string};

use super::{Array, unravel};

/// The output of `node`; `None` for an operator that is not of this family.
pub fn apply(node: &Node, x: &[&Array], shape: &[usize]) -> Option<Array> {
    Some(match node.op.as_str() {
        "MaxPool" | "AveragePool" => pool(node, x[0], shape),
        "GlobalAveragePool" => {
            let plane: usize = x[0].shape[2..].iter().product();
            Array::new(shape, x[0].data.chunks(plane).map(|c| c.iter().sum::<f64>() / plane as f64).collect())
        }
        _ => return None,
    })
}

/// Windows of a node: for each spatial axis (kernel, stride, dilation, padding before, padding after).
pub fn windows(node: &Node, kernel: &[usize], input: &[usize], output: &[usize]) -> Vec<[i64; 5]> {
    let list = |name: &str, i: usize, default: i64| attr_ints(&node.attributes, name).map_or(default, |l| l[i]);
    let axes = input.len();
    (0..axes)
        .map(|i| {
            let (k, s, d) = (kernel[i] as i64, list("strides", i, 1), list("dilations", i, 1));
            let same = ((output[i] as i64 - 1) * s + (k - 1) * d + 1 - input[i] as i64).max(0);
            let (before, after) = match attr_string(&node.attributes, "auto_pad", "") {
                "SAME_UPPER" => (same / 2, same - same / 2),
                "SAME_LOWER" => (same - same / 2, same / 2),
                _ => (list("pads", i, 0), list("pads", i + axes, 0)),
            };
            [k, s, d, before, after]
        })
        .collect()
}

/// For window `position` every tap: (tap index, input index, whether it lies in the input, in the declared padding).
pub fn taps(windows: &[[i64; 5]], input: &[usize], position: &[usize]) -> Vec<(Vec<usize>, Vec<usize>, bool, bool)> {
    let kernel: Vec<usize> = windows.iter().map(|w| w[0] as usize).collect();
    (0..kernel.iter().product())
        .map(|flat| {
            let tap = unravel(flat, &kernel);
            let mut at = Vec::new();
            let (mut inside, mut padded) = (true, true);
            for (i, &[_, s, d, before, after]) in windows.iter().enumerate() {
                let place = position[i] as i64 * s + tap[i] as i64 * d - before;
                inside &= (0..input[i] as i64).contains(&place);
                padded &= place < input[i] as i64 + after;
                at.push(place.max(0) as usize);
            }
            (tap, at, inside, padded)
        })
        .collect()
}

fn pool(node: &Node, x: &Array, shape: &[usize]) -> Array {
    let kernel: Vec<usize> = attr_ints(&node.attributes, "kernel_shape").unwrap().iter().map(|&k| k as usize).collect();
    let windows = windows(node, &kernel, &x.shape[2..], &shape[2..]);
    let count_padding = attr_int(&node.attributes, "count_include_pad", 0) != 0;
    Array::from_fn(shape, |i| {
        let (mut sum, mut count, mut max) = (0.0, 0.0, f64::NEG_INFINITY);
        for (_, at, inside, padded) in taps(&windows, &x.shape[2..], &i[2..]) {
            if inside {
                let v = x.at(&[&i[..2], &at[..]].concat());
                sum += v;
                max = max.max(v);
            }
            count += f64::from(u8::from(inside || (count_padding && padded)));
        }
        if node.op == "MaxPool" { max } else { sum / count }
    })
}
