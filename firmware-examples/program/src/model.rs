//! Models of the digits whose gradients are computed on the device, one sample at a time.

#[cfg(any(test, feature = "model-streamed"))]
use crate::digits::CLASSES;
use crate::digits::Digit;
#[cfg(any(test, feature = "model-streamed"))]
use damper_core::clip::Segments;

#[cfg(feature = "model-mlp")]
pub use crate::mlp::MODEL as CHOSEN;
#[cfg(not(feature = "model-mlp"))]
pub use crate::softmax::MODEL as CHOSEN;

#[cfg(all(feature = "model-streamed", feature = "model-mlp"))]
compile_error!("a build trains one model: `model-mlp` and `model-streamed` are two");

/// A model with `DIM` parameters.
pub struct DeviceModel<const DIM: usize> {
    /// Its name.
    pub name: &'static str,
    /// Parameters of each of its tensors, in order. Their sum is `DIM`.
    pub tensors: &'static [usize],
    /// Writes the initial parameters.
    pub start: fn(&mut [f32; DIM]),
    /// Writes the gradient of the cross-entropy of one digit.
    pub gradient: fn(&[f32; DIM], Digit, &mut [f32; DIM]),
    /// The same gradient a segment at a time, if the model can.
    #[cfg(any(test, feature = "model-streamed"))]
    pub stream: Option<StreamedModel<DIM>>,
    /// Returns true if it classifies the digit correctly.
    pub is_right: fn(&[f32; DIM], Digit) -> bool,
}

/// A gradient of a model with `DIM` parameters that is never in memory.
#[cfg(any(test, feature = "model-streamed"))]
#[derive(Clone, Copy)]
pub struct StreamedModel<const DIM: usize> {
    /// Returns the gradient of the scores of one digit. Called once a sample.
    pub errors: fn(&[f32; DIM], Digit) -> [f32; CLASSES],
    /// Yields the gradient of the parameters. Called as often as the step asks.
    pub rows: fn(&[f32; CLASSES], Digit, &mut Segments<'_>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digits;
    use crate::{mlp, softmax};
    use damper_core::prelude::*;

    extern crate std;
    use std::vec::Vec;

    /// A dense layer in f64, with the layout of [`crate::layer`].
    fn dense(params: &[f64], inputs: &[f64], outputs: usize) -> Vec<f64> {
        let (weights, biases) = params.split_at(outputs * inputs.len());
        let row = |j: usize| &weights[j * inputs.len()..][..inputs.len()];
        (0..outputs).map(|j| biases[j] + row(j).iter().zip(inputs).map(|(w, x)| w * x).sum::<f64>()).collect()
    }

    fn cross_entropy(scores: &[f64], label: u8) -> f64 {
        scores.iter().map(|s| s.exp()).sum::<f64>().ln() - scores[usize::from(label)]
    }

    fn pixels(digit: Digit) -> Vec<f64> {
        digit.pixels.iter().map(|pixel| f64::from(*pixel) / 16.0).collect()
    }

    fn of_softmax(params: &[f64], digit: Digit) -> f64 {
        cross_entropy(&dense(params, &pixels(digit), CLASSES), digit.label)
    }

    fn of_mlp(params: &[f64], digit: Digit) -> f64 {
        let (first, second) = params.split_at(mlp::MODEL.tensors[..2].iter().sum());
        let hidden: Vec<f64> = dense(first, &pixels(digit), mlp::MODEL.tensors[1]).into_iter().map(f64::tanh).collect();
        cross_entropy(&dense(second, &hidden, CLASSES), digit.label)
    }

    fn check<const DIM: usize>(model: &DeviceModel<DIM>, loss: fn(&[f64], Digit) -> f64) {
        assert_eq!(model.tensors.iter().sum::<usize>(), DIM);
        let mut params = [f32::NAN; DIM];
        (model.start)(&mut params);
        for (i, param) in params.iter_mut().enumerate() {
            *param += ((i * 37 % 101) as f32 - 50.0) / 400.0;
        }
        let mut grad = [f32::NAN; DIM];
        for index in [0, 7, 123] {
            let digit = digits::train(index).unwrap();
            (model.gradient)(&params, digit, &mut grad);
            for (i, slope) in grad.iter().enumerate() {
                let mut near = params.map(f64::from);
                near[i] += 1e-5;
                let above = loss(&near, digit);
                near[i] -= 2e-5;
                let difference = (above - loss(&near, digit)) / 2e-5;
                let name = model.name;
                assert!((difference - f64::from(*slope)).abs() < 2e-6, "{name}, parameter {i}: {difference} {slope}");
            }
        }
    }

    #[test]
    fn gradients_match_finite_differences() {
        check(&softmax::MODEL, of_softmax);
        check(&mlp::MODEL, of_mlp);
    }

    // Streamed segments equal the gradient in memory, bit for bit, so a step on them has the same sum.
    #[test]
    fn streamed_step_has_stored_bits() {
        let config = DpSgd::new().clip(0.5).noise_multiplier(1.0).learning_rate(0.1).expected_batch(4).build().unwrap();
        let stream = softmax::MODEL.stream.unwrap();
        let params = core::array::from_fn(|i| ((i * 37 % 101) as f32 - 50.0) / 400.0);
        let released = [true, false].map(|streamed| {
            let (mut state, mut ledger, mut moved) = (config.state::<{ softmax::DIM }>(), Ledger::volatile(1), params);
            let mut open = config.open(&mut state, &mut ledger).unwrap();
            for digit in (0..5).filter_map(digits::train) {
                let mut grad = [0.0; softmax::DIM];
                softmax::gradient(&params, digit, &mut grad);
                if streamed {
                    let errors = (stream.errors)(&params, digit);
                    open.add_streamed(|segments| (stream.rows)(&errors, digit, segments)).unwrap();
                } else {
                    open.add(&grad).unwrap();
                }
            }
            open.finish(&mut moved, &NoiseRng::simulation(5)).unwrap();
            moved.map(f32::to_bits)
        });
        assert!(released[0] == released[1]);
    }

    #[test]
    fn units_of_the_network_start_apart() {
        let mut params = [0.0; mlp::DIM];
        (mlp::MODEL.start)(&mut params);
        for (i, param) in params.iter().enumerate() {
            assert!(param.abs() <= 0.25 && !params[..i].contains(param));
        }
    }
}
