//! A slow, obvious interpreter of canonical graphs in f64, for one sample: a batch of one has the shapes the graph
//! states. It knows nothing of the code under test but the graph's types.

use damper::autodiff::{DeriveOptions, Loss};
use damper::graph::{Graph, Node, Origin, TensorData, ValueId};
use damper::onnx::{attr_float, attr_int, attr_ints, attr_string};

/// A dense array.
#[derive(Clone, Debug)]
pub struct Array {
    pub shape: Vec<usize>,
    pub data: Vec<f64>,
}

impl Array {
    pub fn new(shape: &[usize], data: Vec<f64>) -> Self {
        assert_eq!(shape.iter().product::<usize>(), data.len());
        Self { shape: shape.to_vec(), data }
    }

    fn from_fn(shape: &[usize], f: impl Fn(&[usize]) -> f64) -> Self {
        let len = shape.iter().product();
        Self::new(shape, (0..len).map(|i| f(&unravel(i, shape))).collect())
    }

    fn at(&self, index: &[usize]) -> f64 {
        self.data[index.iter().zip(&self.shape).fold(0, |acc, (i, d)| acc * d + i)]
    }

    /// The element that broadcasts to `index`.
    fn spread(&self, index: &[usize]) -> f64 {
        let own = &index[index.len() - self.shape.len()..];
        let own: Vec<usize> = own.iter().zip(&self.shape).map(|(&i, &d)| if d == 1 { 0 } else { i }).collect();
        self.at(&own)
    }
}

fn unravel(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for i in (0..shape.len()).rev() {
        index[i] = flat % shape[i];
        flat /= shape[i];
    }
    index
}

/// The loss of one sample: its inputs and labels in the graph's order, and the parameters' values.
pub fn loss(graph: &Graph, options: &DeriveOptions, inputs: &[Vec<f64>], label: &[f64], params: &[Vec<f64>]) -> f64 {
    let mut values: Vec<Option<Array>> = vec![None; graph.values.len()];
    for (id, data) in graph.inputs.iter().zip(inputs) {
        values[id.0] = Some(Array::new(&graph.values[id.0].shape, data.clone()));
    }
    for (i, value) in graph.values.iter().enumerate() {
        match &value.origin {
            Origin::Parameter(p) => values[i] = Some(Array::new(&value.shape, params[*p].clone())),
            Origin::Constant(tensor) => values[i] = Some(Array::new(&tensor.shape, to_f64(&tensor.data))),
            _ => {}
        }
    }
    for node in &graph.nodes {
        let output = node.outputs[0];
        let shape = &graph.values[output.0].shape;
        let x: Vec<&Array> = node.inputs.iter().flatten().map(|id| values[id.0].as_ref().unwrap()).collect();
        let y = apply(graph, node, &x, shape);
        assert_eq!(&y.shape, shape, "{}", node.name);
        values[output.0] = Some(y);
    }
    let output: ValueId = match (&options.loss, &options.output) {
        (Loss::Output(name), _) | (_, Some(name)) => {
            *graph.outputs.iter().find(|o| graph.values[o.0].name == *name).unwrap()
        }
        _ => graph.outputs[0],
    };
    let z = values[output.0].as_ref().unwrap();
    let n = z.data.len() as f64;
    match options.loss {
        Loss::Mse => z.data.iter().zip(label).map(|(z, t)| (z - t).powi(2)).sum::<f64>() / n,
        Loss::BceWithLogits => z.data.iter().zip(label).map(|(z, t)| (1.0 + z.exp()).ln() - z * t).sum::<f64>() / n,
        Loss::Output(_) => z.data[0],
        Loss::SoftmaxCrossEntropy => cross_entropy(z, label, options.class_axis),
    }
}

fn cross_entropy(z: &Array, label: &[f64], class_axis: Option<i64>) -> f64 {
    let axis = class_axis.unwrap_or(-1).rem_euclid(z.shape.len() as i64) as usize;
    let (before, classes) = (z.shape[..axis].iter().product::<usize>(), z.shape[axis]);
    let after: usize = z.shape[axis + 1..].iter().product();
    let (mut sum, mut counted) = (0.0, 0.0);
    for (token, &label) in label.iter().enumerate().filter(|&(_, &l)| l != -100.0) {
        let (b, a) = (token / after, token % after);
        assert!(b < before);
        let row: Vec<f64> = (0..classes).map(|c| z.data[(b * classes + c) * after + a]).collect();
        sum += row.iter().map(|v| v.exp()).sum::<f64>().ln() - row[label as usize];
        counted += 1.0;
    }
    if counted == 0.0 { 0.0 } else { sum / counted }
}

fn to_f64(data: &TensorData) -> Vec<f64> {
    match data {
        TensorData::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
        TensorData::F64(v) => v.clone(),
        TensorData::I32(v) => v.iter().map(|&x| f64::from(x)).collect(),
        TensorData::I64(v) => v.iter().map(|&x| x as f64).collect(),
        TensorData::Bool(v) => v.iter().map(|&x| f64::from(u8::from(x))).collect(),
    }
}

fn apply(graph: &Graph, node: &Node, x: &[&Array], shape: &[usize]) -> Array {
    let float = |name: &str, default: f32| f64::from(attr_float(&node.attributes, name, default));
    let int = |name: &str, default: i64| attr_int(&node.attributes, name, default);
    let map = |f: &dyn Fn(f64) -> f64| Array::new(&x[0].shape, x[0].data.iter().map(|&v| f(v)).collect());
    let pairs = |f: &dyn Fn(f64, f64) -> f64| Array::from_fn(shape, |i| f(x[0].spread(i), x[1].spread(i)));
    match node.op.as_str() {
        "Exp" => map(&f64::exp),
        "Log" => map(&f64::ln),
        "Sqrt" => map(&f64::sqrt),
        "Reciprocal" => map(&f64::recip),
        "Tanh" => map(&f64::tanh),
        "Sigmoid" => map(&|v| 1.0 / (1.0 + (-v).exp())),
        "Relu" => map(&|v| v.max(0.0)),
        "LeakyRelu" => map(&|v| {
            if v >= 0.0 { v } else { float("alpha", 0.01) * v }
        }),
        "Neg" => map(&|v| -v),
        "Identity" => map(&|v| v),
        "Add" => pairs(&|a, b| a + b),
        "Sub" => pairs(&|a, b| a - b),
        "Mul" => pairs(&|a, b| a * b),
        "Div" => pairs(&|a, b| a / b),
        "Pow" => pairs(&f64::powf),
        "Expand" => Array::from_fn(shape, |i| x[0].spread(i)),
        "Reshape" => Array::new(shape, x[0].data.clone()),
        "Transpose" => {
            let perm: Vec<usize> = match attr_ints(&node.attributes, "perm") {
                Some(perm) => perm.iter().map(|&p| p as usize).collect(),
                None => (0..shape.len()).rev().collect(),
            };
            Array::from_fn(shape, |i| {
                let mut from = vec![0; i.len()];
                for (axis, &p) in perm.iter().enumerate() {
                    from[p] = i[axis];
                }
                x[0].at(&from)
            })
        }
        "Gemm" => gemm(x, int("transA", 0) != 0, int("transB", 0) != 0, float("alpha", 1.0), float("beta", 1.0), shape),
        "MatMul" => mat_mul(x[0], x[1], shape),
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
        "Conv" => conv(node, x, shape),
        "MaxPool" | "AveragePool" => pool(node, x[0], shape),
        "GlobalAveragePool" => {
            let plane: usize = x[0].shape[2..].iter().product();
            Array::new(shape, x[0].data.chunks(plane).map(|c| c.iter().sum::<f64>() / plane as f64).collect())
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
        op => panic!("the reference does not know {op}"),
    }
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

fn normalize(x: &[&Array], groups: usize, affine: usize, epsilon: f64) -> Array {
    let size = x[0].data.len() / groups;
    let entry = x[0].data.len() / affine;
    let mut data = Vec::new();
    for group in x[0].data.chunks(size) {
        let mean = group.iter().sum::<f64>() / size as f64;
        let variance = group.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / size as f64;
        data.extend(group.iter().map(|v| (v - mean) / (variance + epsilon).sqrt()));
    }
    for (i, v) in data.iter_mut().enumerate() {
        *v = *v * x[1].data[i / entry] + x[2].data[i / entry];
    }
    Array::new(&x[0].shape, data)
}

/// Windows of a node: for each spatial axis (kernel, stride, dilation, padding before, padding after).
fn windows(node: &Node, kernel: &[usize], input: &[usize], output: &[usize]) -> Vec<[i64; 5]> {
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
fn taps(windows: &[[i64; 5]], input: &[usize], position: &[usize]) -> Vec<(Vec<usize>, Vec<usize>, bool, bool)> {
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
