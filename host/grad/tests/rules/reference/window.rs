//! Pools, and the windows of convolutions.

use damper_onnx::graph::Node;
use damper_onnx::{attr_int, attr_ints, attr_string};

use super::{Array, unravel};

/// Output of `node`. `None` for an operator of another family.
pub fn apply(node: &Node, x: &[&Array], shape: &[usize]) -> Option<Array> {
    Some(match node.op.as_str() {
        "MaxPool" | "AveragePool" => pool(node, x[0], shape),
        "GlobalAveragePool" => {
            let plane: usize = x[0].shape[2..].iter().product();
            Array::new(shape, x[0].data.chunks(plane).map(|c| c.iter().sum::<f64>() / plane as f64).collect())
        }
        "GlobalMaxPool" => {
            let plane: usize = x[0].shape[2..].iter().product();
            let largest = |c: &[f64]| c.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            Array::new(shape, x[0].data.chunks(plane).map(largest).collect())
        }
        "Pad" => pad(node, x, shape),
        "Resize" => resize(node, x, shape),
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

/// All taps of window `position`: (tap index, input index, true if in the input, true if in the declared padding).
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

fn pad(node: &Node, x: &[&Array], shape: &[usize]) -> Array {
    let mode = attr_string(&node.attributes, "mode", "constant");
    let value = x.get(2).map_or(0.0, |value| value.data[0]);
    Array::from_fn(shape, |i| {
        let mut from = Vec::new();
        for (axis, &extent) in x[0].shape.iter().enumerate() {
            let mut at = i[axis] as i64 - x[1].data[axis] as i64;
            let last = extent as i64 - 1;
            while !(0..=last).contains(&at) {
                at = match mode {
                    "constant" => return value,
                    "edge" => at.clamp(0, last),
                    "wrap" if at < 0 => at + last + 1,
                    "wrap" => at - last - 1,
                    _ if at < 0 => -at,
                    _ => 2 * last - at,
                };
            }
            from.push(at as usize);
        }
        x[0].at(&from)
    })
}

/// By definition: the sum over all input elements, weighted by the mode's kernel along every axis.
fn resize(node: &Node, x: &[&Array], shape: &[usize]) -> Array {
    let text = |name: &str, default| attr_string(&node.attributes, name, default);
    let inputs = &x[0].shape;
    // In f32, like the scales, since this determines the nearest element.
    let coordinate = |axis: usize, at: f32| {
        let (scale, from, to) = (x[1].data[axis] as f32, inputs[axis] as f32, shape[axis] as f32);
        f64::from(match text("coordinate_transformation_mode", "half_pixel") {
            "asymmetric" => at / scale,
            "align_corners" if to == 1.0 => 0.0,
            "align_corners" => at * (from - 1.0) / (to - 1.0),
            "pytorch_half_pixel" if to == 1.0 => 0.0,
            "half_pixel_symmetric" => from / 2.0 * (1.0 - to / (scale * from)) + (at + 0.5) / scale - 0.5,
            _ => (at + 0.5) / scale - 0.5,
        })
    };
    let weights = |axis: usize, at: usize| -> Vec<f64> {
        let (place, extent) = (coordinate(axis, at as f32), inputs[axis]);
        let last = extent as f64 - 1.0;
        let mut weights = vec![0.0; extent];
        match text("mode", "nearest") {
            "nearest" => {
                let place = if text("nearest_mode", "") == "floor" { place.floor() } else { (place - 0.5).ceil() };
                weights[place.clamp(0.0, last) as usize] = 1.0;
            }
            "linear" => {
                let place = place.clamp(0.0, last);
                for (i, weight) in weights.iter_mut().enumerate() {
                    *weight = (1.0 - (place - i as f64).abs()).max(0.0);
                }
            }
            _ => {
                let a = -0.75;
                let excludes = attr_int(&node.attributes, "exclude_outside", 0) != 0;
                for tap in -1..3 {
                    let i = place.floor() + f64::from(tap);
                    let d = (place - i).abs();
                    let weight = if d <= 1.0 {
                        (a + 2.0) * d.powi(3) - (a + 3.0) * d.powi(2) + 1.0
                    } else {
                        a * d.powi(3) - 5.0 * a * d.powi(2) + 8.0 * a * d - 4.0 * a
                    };
                    if !excludes || (0.0..=last).contains(&i) {
                        weights[i.clamp(0.0, last) as usize] += weight;
                    }
                }
                let total: f64 = weights.iter().sum();
                weights.iter_mut().for_each(|weight| *weight /= total);
            }
        }
        weights
    };
    let by_axis: Vec<Vec<Vec<f64>>> =
        shape.iter().enumerate().map(|(axis, &d)| (0..d).map(|at| weights(axis, at)).collect()).collect();
    Array::from_fn(shape, |i| {
        let term = |(flat, value): (usize, &f64)| {
            let from = unravel(flat, inputs);
            value * from.iter().enumerate().map(|(axis, &at)| by_axis[axis][i[axis]][at]).product::<f64>()
        };
        x[0].data.iter().enumerate().map(term).sum()
    })
}
