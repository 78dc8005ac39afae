//! Simple, slow interpreter of canonical graphs in f64, for one sample: a batch of one has the shapes in the graph. It
//! shares only the graph's types with the code under test.

#[path = "reference/contraction.rs"]
mod contraction;
#[path = "reference/elementwise.rs"]
mod elementwise;
#[path = "reference/layout.rs"]
mod layout;
#[path = "reference/reduction.rs"]
mod reduction;
#[path = "reference/window.rs"]
mod window;

use damper_grad::{DeriveOptions, LabelWeights, Loss, LossReduction};
use damper_onnx::graph::{Graph, Node, Origin, TensorData, ValueId};

/// Dense array.
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

    /// Element that broadcasts to `index`.
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

/// Loss of one sample, from its inputs and labels in the graph's order, and the parameters' values.
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
    let pairs = || z.data.iter().zip(label);
    let each: Vec<f64> = match options.loss {
        Loss::Mse => pairs().map(|(z, t)| (z - t).powi(2)).collect(),
        Loss::L1 => pairs().map(|(z, t)| (z - t).abs()).collect(),
        Loss::Huber => pairs()
            .map(|(z, t)| match (z - t).abs() {
                small if small <= 1.0 => small * small / 2.0,
                large => large - 0.5,
            })
            .collect(),
        Loss::BceWithLogits => pairs()
            .filter(|(_, t)| **t != -100.0)
            .map(|(z, t)| {
                let p = 1.0 / (1.0 + (-z).exp());
                let right = t * p + (1.0 - t) * (1.0 - p);
                let focus = focus(right, &options.label_weights);
                let (of_one, of_zero) = (log_sum_exp(&[0.0, -*z]), log_sum_exp(&[0.0, *z]));
                match options.label_weights.class_weights[..] {
                    [zero, one] if options.label_weights.focal_gamma != 0.0 => {
                        let alpha = f64::from(zero) * (1.0 - t) + f64::from(one) * t;
                        alpha * focus * (t * of_one + (1.0 - t) * of_zero)
                    }
                    [zero, one] => f64::from(one) * t * of_one + f64::from(zero) * (1.0 - t) * of_zero,
                    _ => focus * (t * of_one + (1.0 - t) * of_zero),
                }
            })
            .collect(),
        Loss::Output(_) => return z.data[0],
        Loss::SoftmaxCrossEntropy => cross_entropies(z, label, options),
        Loss::Ctc => {
            let text: Vec<usize> = label.iter().filter(|label| **label > 0.0).map(|label| *label as usize).collect();
            let sum = -ctc_probability(z, &text).ln();
            let count = match options.reduction {
                LossReduction::Sum => 1.0,
                LossReduction::Mean => text.len().max(1) as f64,
            };
            return if sum.is_finite() { sum / count } else { 0.0 };
        }
        // Logits of all positions but the last, and labels of all but the first.
        Loss::CausalLm => {
            let (places, classes) = (z.shape[1], z.shape[2]);
            let cut = Array::new(&[1, places - 1, classes], z.data[..(places - 1) * classes].to_vec());
            cross_entropies(&cut, &label[1..], options)
        }
    };
    let sum: f64 = each.iter().sum();
    match options.reduction {
        LossReduction::Sum => sum,
        LossReduction::Mean if each.is_empty() => 0.0,
        LossReduction::Mean => sum / each.len() as f64,
    }
}

/// Loss of each counted token.
fn cross_entropies(z: &Array, label: &[f64], options: &DeriveOptions) -> Vec<f64> {
    let axis = options.class_axis.unwrap_or(-1).rem_euclid(z.shape.len() as i64) as usize;
    let (before, classes) = (z.shape[..axis].iter().product::<usize>(), z.shape[axis]);
    let after: usize = z.shape[axis + 1..].iter().product();
    let mut each = vec![];
    for (token, &label) in label.iter().enumerate().filter(|&(_, &l)| l != -100.0) {
        let (b, a) = (token / after, token % after);
        assert!(b < before);
        let row: Vec<f64> = (0..classes).map(|c| z.data[(b * classes + c) * after + a]).collect();
        let weights = &options.label_weights;
        let loss = |class: usize| {
            let weight = weights.class_weights.get(class).map_or(1.0, |weight| f64::from(*weight));
            weight * (log_sum_exp(&row) - row[class])
        };
        let share = f64::from(weights.label_smoothing);
        let of_all = (0..classes).map(loss).sum::<f64>() / classes as f64;
        let right = (row[label as usize] - log_sum_exp(&row)).exp();
        each.push(focus(right, weights) * ((1.0 - share) * loss(label as usize) + share * of_all));
    }
    each
}

/// Focal factor for the loss of a label with the probability `p`.
fn focus(p: f64, weights: &LabelWeights) -> f64 {
    (1.0 - p).powf(f64::from(weights.focal_gamma))
}

/// `ln Σ exp x`, without overflow.
fn log_sum_exp(x: &[f64]) -> f64 {
    let top = x.iter().fold(f64::NEG_INFINITY, |top, x| top.max(*x));
    top + x.iter().map(|x| (x - top).exp()).sum::<f64>().ln()
}

pub fn to_f64(data: &TensorData) -> Vec<f64> {
    match data {
        TensorData::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
        TensorData::F64(v) => v.clone(),
        TensorData::I32(v) => v.iter().map(|&x| f64::from(x)).collect(),
        TensorData::I64(v) => v.iter().map(|&x| x as f64).collect(),
        TensorData::Bool(v) => v.iter().map(|&x| f64::from(u8::from(x))).collect(),
    }
}

#[allow(unused_imports, reason = "the tests of the rules do not run emitted nodes")]
pub use layout::places;

/// Output of one node.
pub fn apply(graph: &Graph, node: &Node, x: &[&Array], shape: &[usize]) -> Array {
    elementwise::apply(node, x, shape)
        .or_else(|| layout::apply(node, x, shape))
        .or_else(|| contraction::apply(node, x, shape))
        .or_else(|| window::apply(node, x, shape))
        .or_else(|| reduction::apply(graph, node, x, shape))
        .unwrap_or_else(|| panic!("the reference does not know {}", node.op))
}

/// Probability of `text`: the sum over all outputs that equal it after repeats are merged and blanks removed.
fn ctc_probability(z: &Array, text: &[usize]) -> f64 {
    let (places, classes) = (z.shape[1], z.shape[2]);
    let log_probability = |place: usize, class: usize| {
        let row = &z.data[place * classes..][..classes];
        row[class] - log_sum_exp(row)
    };
    let mut total = 0.0;
    for number in 0..classes.pow(places as u32) {
        let answer: Vec<usize> = (0..places).map(|place| number / classes.pow(place as u32) % classes).collect();
        let mut joined = answer.clone();
        joined.dedup();
        joined.retain(|class| *class != 0);
        if joined == text {
            total += answer.iter().enumerate().map(|(place, class)| log_probability(place, *class)).sum::<f64>().exp();
        }
    }
    total
}
