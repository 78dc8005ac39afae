//! Synthetic data, and a synthetic network with known gradients.
//!
//! The network is `logits = x·W + x·V` with a softmax cross-entropy. Its two tensors have equal gradients
//! `x ⊗ (p − y)`. So each layer has its own share if layers are clipped separately.

use damper_data::{Features, Labels, Numbers, Split};
use damper_onnx::pb::{GraphProto, ModelProto, OperatorSetIdProto};
use damper_onnx::{DType, Extent, make_node, make_tensor_f32, make_value_info};
use damper_train::inside::worker::Point;

/// Public pseudo-random numbers. Synthetic data has no secrets.
pub(super) struct Numbered(u64);

impl Numbered {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number, from −1 to 1.
    pub(super) fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

/// Shape of the synthetic network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Linear {
    pub(super) features: usize,
    pub(super) classes: usize,
}

/// Index of the null sample, and of the row that has a NaN. Both add nothing.
pub(super) const NULL: usize = 5;
pub(super) const NAN: usize = 7;
/// Index of the row whose squares overflow. It adds nothing either.
pub(super) const HUGE: usize = 9;

impl Linear {
    /// Returns the number of parameters of both tensors.
    pub(super) fn dim(self) -> usize {
        2 * self.features * self.classes
    }

    pub(super) fn model(self) -> ModelProto {
        let mut numbers = Numbered::new(1);
        let mut weight = |name| {
            let data: Vec<f32> = (0..self.features * self.classes).map(|_| 0.01 * numbers.next()).collect();
            make_tensor_f32(name, &[self.features, self.classes], &data)
        };
        let row = |extent| [Extent::Batch, Extent::Fixed(extent)];
        let graph = GraphProto {
            name: "made".into(),
            initializer: vec![weight("w"), weight("v")],
            node: vec![
                make_node("MatMul", "xw", &["x", "w"], &["xw"], vec![]),
                make_node("MatMul", "xv", &["x", "v"], &["xv"], vec![]),
                make_node("Add", "sum", &["xw", "xv"], &["logits"], vec![]),
            ],
            input: vec![make_value_info("x", DType::F32, &row(self.features))],
            output: vec![make_value_info("logits", DType::F32, &row(self.classes))],
            ..GraphProto::default()
        };
        ModelProto {
            ir_version: 8,
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 18 }],
            graph: Some(graph),
            ..ModelProto::default()
        }
    }

    /// Returns samples with gradients shorter and longer than `clip`: their features are scaled by up to 30.
    pub(super) fn data(self, samples: usize, clip: f32, spoilt: bool) -> Split {
        let mut numbers = Numbered::new(2);
        let mut values = Vec::with_capacity(samples * self.features);
        for sample in 0..samples {
            let long = clip * 30f32.powf(numbers.next()) / (self.features as f32).sqrt();
            values.extend((0..self.features).map(|_| long * numbers.next()));
            if spoilt && sample == HUGE {
                let own = values.len() - self.features;
                values[own..].fill(1e25);
            }
            if spoilt && sample == NAN {
                *values.last_mut().expect("a sample has a feature") = f32::NAN;
            }
        }
        self.split(values, (0..samples).map(|sample| spoilt && sample == NULL))
    }

    /// Returns samples with these features, in order, and the classes in turn. `null` marks null samples.
    pub(super) fn split(self, values: Vec<f32>, null: impl ExactSizeIterator<Item = bool>) -> Split {
        let samples = null.len();
        let labels = (0..samples).map(|i| (i % self.classes) as i64).collect();
        let features = vec![Features { shape: vec![self.features], values: Numbers::F32(values) }];
        let mut split = Split::made(samples, features, Labels::Classes { shape: vec![], values: labels });
        null.enumerate().filter(|(_, is_null)| *is_null).for_each(|(at, _)| split.set_null(at, true));
        split
    }

    /// Returns the combined gradient of sample `sample` at `points`, with the largest error of the trainer's floats in
    /// a coordinate.
    ///
    /// Returns `None` for a sample that adds nothing.
    pub(super) fn gradient(self, split: &Split, sample: usize, points: &[Point]) -> Option<Gradient> {
        let x = &split.features()[0].floats()[sample * self.features..][..self.features];
        if split.is_null(sample) || x.iter().any(|x| !x.is_finite()) {
            return None;
        }
        let Self { features, classes } = self;
        let mut half = vec![0.0f64; features * classes];
        let mut off = 0.0f64;
        for point in points {
            let (w, v) = point.params.split_at(features * classes);
            let mut logits = vec![0.0f64; classes];
            let mut size = 0.0f64;
            for (row, x) in x.iter().enumerate() {
                for (class, logit) in logits.iter_mut().enumerate() {
                    let at = row * classes + class;
                    let terms = [f64::from(*x) * f64::from(w[at]), f64::from(*x) * f64::from(v[at])];
                    *logit += terms[0] + terms[1];
                    size += terms[0].abs() + terms[1].abs();
                }
            }
            let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let powers: Vec<f64> = logits.iter().map(|logit| (logit - most).exp()).collect();
            let total: f64 = powers.iter().sum();
            for (class, power) in powers.iter().enumerate() {
                let slope = power / total - f64::from(class == sample % classes);
                for (row, x) in x.iter().enumerate() {
                    half[row * classes + class] += f64::from(point.weight) * slope * f64::from(*x);
                }
            }
            // Rounding of some operations on 24-bit floats. The error of a probability is at most the error of a logit.
            let largest = x.iter().fold(0.0f64, |most, x| most.max(f64::from(x.abs())));
            off += f64::from(point.weight.abs()) * largest * 1e-6 * (1.0 + size);
        }
        let norm = (2.0 * half.iter().map(|g| g * g).sum::<f64>()).sqrt();
        if norm == 0.0 {
            off = 0.0;
        }
        // The square of the norm has to be a finite float.
        (norm < f64::from(f32::MAX).sqrt()).then_some(Gradient { half, norm, off })
    }
}

/// A known gradient, equal in both tensors.
pub(super) struct Gradient {
    /// Gradient of one tensor.
    pub(super) half: Vec<f64>,
    /// Norm over both tensors.
    pub(super) norm: f64,
    /// Largest error of a float of it.
    pub(super) off: f64,
}

/// Returns synthetic samples of the shape of `like`, which does not disclose its values.
///
/// Floats are from −1 to 1. Integers are 0 and 1, which are valid indices of every embedding matrix and valid classes.
pub(super) fn like(like: &Split, samples: usize) -> Split {
    let mut numbers = Numbered::new(3);
    let count = |shape: &[usize]| samples * shape.iter().product::<usize>();
    let integers = |shape: &[usize]| (0..count(shape)).map(|i| i64::from(i % 3 == 0)).collect();
    let mut floats = |shape: &[usize]| (0..count(shape)).map(|_| numbers.next()).collect();
    let features = like
        .features()
        .iter()
        .map(|features| Features {
            shape: features.shape.clone(),
            values: if features.values.are_integers() {
                Numbers::I64(integers(&features.shape))
            } else {
                Numbers::F32(floats(&features.shape))
            },
        })
        .collect();
    let labels = match like.labels() {
        Labels::Classes { shape, .. } => Labels::Classes { shape: shape.clone(), values: integers(shape) },
        Labels::Values { shape, .. } => Labels::Values { shape: shape.clone(), values: floats(shape) },
        Labels::Stored { shape, .. } if like.labels().are_several_classes() => {
            Labels::Classes { shape: shape.clone(), values: integers(shape) }
        }
        Labels::Stored { shape, .. } => Labels::Values { shape: shape.clone(), values: floats(shape) },
        Labels::None => Labels::None,
    };
    Split::made(samples, features, labels)
}
