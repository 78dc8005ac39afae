//! Normalises rows to mean 0 and variance 1 in one pass over memory: `x̂ = (x − mean) · scale` with
//! `scale = 1 / √(variance + ε)`, then `x̂ · γ + β`. Standard nodes need ten passes. The order of sums in onnxruntime's
//! operator depends on the address of a row. The order of [`rows`](super::rows) does not.

use super::operator::{Kernel, Operator};
use super::row_sums::{self, ABREAST};
use pulp::{Arch, Simd, WithSimd};

/// `(x [.., n], γ [n]?, β [n]?) → (x̂ [.., n]?, scale [.., 1]?, y [.., n]?)`, with the attribute `epsilon`.
pub(super) const NORMALIZE: Operator<Normalizing> = Operator {
    name: "Normalize",
    inputs: [1, 2],
    outputs: [0, 3],
    kernel: |attributes| Normalizing { epsilon: attributes.float("epsilon"), row: vec![], vectors: Arch::new() },
};

/// Kernel of a node.
pub(super) struct Normalizing {
    epsilon: f32,
    /// Buffer for x̂ of some rows, if x̂ is not an output.
    row: Vec<f32>,
    vectors: Arch,
}

impl Kernel for Normalizing {
    fn fit(&mut self, inputs: &[Option<&[i64]>]) -> Option<Vec<Vec<i64>>> {
        let [Some(x), ref vectors @ ..] = *inputs else { return None };
        let (width, rows) = x.split_last().filter(|(width, _)| **width > 0)?;
        if vectors.iter().flatten().any(|vector| *vector != [*width]) {
            return None;
        }
        self.row.resize(ABREAST * *width as usize, 0.0);
        let shapes = [x.to_vec(), [rows, &[1]].concat(), x.to_vec()];
        Some(shapes.into_iter().take(if vectors.is_empty() { 2 } else { 3 }).collect())
    }

    fn run(&mut self, inputs: &[Option<&[f32]>], outputs: &mut [Option<&mut [f32]>]) -> Option<()> {
        let ([Some(x), vectors @ ..], [value, scale, y @ ..]) = (inputs, outputs) else { return None };
        let vector = |index: usize| vectors.get(index).copied().flatten();
        self.vectors.dispatch(Run {
            x,
            n: self.row.len() / ABREAST,
            epsilon: self.epsilon,
            gamma: vector(0),
            beta: vector(1),
            value: value.as_deref_mut(),
            scale: scale.as_deref_mut(),
            y: y.first_mut().and_then(Option::as_deref_mut),
            row: &mut self.row,
        });
        Some(())
    }
}

struct Run<'a> {
    x: &'a [f32],
    n: usize,
    epsilon: f32,
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
            for (mean, x) in means.iter_mut().zip(x.chunks_exact(n)) {
                *mean = row_sums::sum(x) * factor;
            }
            for ((x, value), mean) in x.chunks_exact(n).zip(values.chunks_exact_mut(n)).zip(means) {
                for (value, x) in value.iter_mut().zip(x) {
                    *value = x - mean;
                }
            }
            let mut scales = [0.0; ABREAST];
            for (scale, value) in scales.iter_mut().zip(values.chunks_exact(n)) {
                *scale = 1.0 / (row_sums::dot(value, value) * factor + self.epsilon).sqrt();
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
    use super::super::operator::node;
    use super::super::testing::{BATCH, apart, assert_samples_stay_alone, batched, model, numbers, parameter, run};
    use super::*;
    use crate::SessionSpec;
    use damper_onnx::{make_attr_float, pb};
    use pulp::Scalar;

    const LINES: usize = 3;

    /// Model and plan of the operator on rows of `n` entries, with `affine` inputs of γ and β, and only the outputs in
    /// `read`.
    fn normalize(n: usize, affine: usize, read: &[&str]) -> (pb::ModelProto, SessionSpec) {
        let outputs = &["value", "scale", "y"][..if affine == 0 { 2 } else { 3 }];
        let attributes = vec![make_attr_float("epsilon", 1e-5)];
        let node = node("Normalize", &["x", "gamma", "beta"][..=affine], outputs, attributes);
        let vectors = ["gamma", "beta"][..affine].iter().map(|name| parameter(name, &[n]));
        let inputs = [batched("x", &[LINES, n])].into_iter().chain(vectors).collect();
        let width = |name: &str| if name == "scale" { 1 } else { n };
        model(vec![node], &[], inputs, read.iter().map(|name| batched(name, &[LINES, width(name)])).collect())
    }

    #[test]
    fn it_is_the_normalisation_in_what_is_read() {
        let reads: [(usize, &[&str]); 6] = [
            (2, &["value", "scale", "y"]),
            (2, &["y"]),
            (2, &["scale", "y"]),
            (1, &["value", "y"]),
            (0, &["value", "scale"]),
            (0, &["value"]),
        ];
        for (n, (affine, read)) in [2, 3, 16, 37, 192, 259].into_iter().zip(reads) {
            let model = normalize(n, affine, read);
            let inputs = numbers(&model.1);
            let Some(made) = run(&model, &inputs) else { return };
            let mut exact: [Vec<f64>; 3] = [vec![], vec![], vec![]];
            for row in inputs[0].chunks(n) {
                let row: Vec<f64> = row.iter().copied().map(f64::from).collect();
                let mean = row.iter().sum::<f64>() / n as f64;
                let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n as f64;
                let scale = 1.0 / (variance + 1e-5).sqrt();
                exact[1].push(scale);
                for (i, x) in row.iter().enumerate() {
                    let vector = |at: usize, none| inputs.get(at).map_or(none, |vector| f64::from(vector[i]));
                    exact[0].push((x - mean) * scale);
                    exact[2].push((x - mean) * scale * vector(1, 1.0) + vector(2, 0.0));
                }
            }
            assert_eq!(made.len(), read.len());
            for (made, name) in made.iter().zip(read) {
                let exact = &exact[["value", "scale", "y"].iter().position(|other| other == name).unwrap()];
                assert!(apart(made, exact) < 1e-5, "{name} of {n}: {}", apart(made, exact));
                assert_eq!(made.len(), BATCH * LINES * if *name == "scale" { 1 } else { n });
            }
        }
    }

    #[test]
    fn a_sample_is_normalised_alone() {
        const BAD: [f32; 3] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        assert_samples_stay_alone(&normalize(65, 2, &["y", "value"]), 1, &BAD);
        assert_samples_stay_alone(&normalize(64, 0, &["value"]), 1, &BAD);
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
