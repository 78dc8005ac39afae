//! A network with one hidden layer, on one digit at a time: 64 pixels, 8 hidden units with the hyperbolic tangent, 10
//! classes. It has fewer parameters than the softmax regression, so it fits in the same memory.
//!
//! `tanh x = 1 − 2/(e^2x + 1)`, rounded operation by operation. Its derivative is `1 − tanh² x`.

use crate::digits::{CLASSES, Digit, PIXELS};
use crate::layer;
use crate::model::DeviceModel;
use damper_core::numerics::function::exp_f32;

const HIDDEN: usize = 8;
const FIRST: usize = HIDDEN * PIXELS + HIDDEN;
/// Parameters: the hidden layer's, then the last layer's.
pub const DIM: usize = FIRST + CLASSES * HIDDEN + CLASSES;

/// The model.
pub const MODEL: DeviceModel<DIM> = DeviceModel {
    name: "mlp",
    tensors: &[FIRST - HIDDEN, HIDDEN, CLASSES * HIDDEN, CLASSES],
    start,
    gradient,
    #[cfg(any(test, feature = "model-streamed"))]
    stream: None,
    is_right,
};

/// Fills `params` evenly from −1/4 to 1/4. The values are public, from a linear congruential generator, because equal
/// units would stay equal.
fn start(params: &mut [f32; DIM]) {
    let mut word = 1u32;
    for param in params {
        word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // The 24 highest bits, exactly.
        *param = ((word >> 8) as i32 - (1 << 23)) as f32 / (1 << 25) as f32;
    }
}

/// Returns the hidden units of a digit.
fn hidden(params: &[f32; DIM], digit: Digit) -> [f32; HIDDEN] {
    let (first, _) = params.split_at(FIRST);
    let mut hidden = [0.0; HIDDEN];
    layer::outputs(first, digit.inputs(), &mut hidden);
    for unit in &mut hidden {
        *unit = 1.0 - 2.0 / (exp_f32(2.0 * *unit) + 1.0);
    }
    hidden
}

/// Returns the scores of its classes.
fn scores(params: &[f32; DIM], hidden: &[f32; HIDDEN]) -> [f32; CLASSES] {
    let (_, second) = params.split_at(FIRST);
    let mut scores = [0.0; CLASSES];
    layer::outputs(second, hidden.iter().copied(), &mut scores);
    scores
}

/// Writes the gradient (`[DIM]`) of the cross-entropy of one digit to `grad`.
fn gradient(params: &[f32; DIM], digit: Digit, grad: &mut [f32; DIM]) {
    let hidden = hidden(params, digit);
    let mut errors = scores(params, &hidden);
    layer::cross_entropy(&mut errors, digit.label);
    let (_, second) = params.split_at(FIRST);
    let mut slopes = [0.0; HIDDEN];
    layer::back(second, &errors, &mut slopes);
    for (slope, unit) in slopes.iter_mut().zip(&hidden) {
        *slope *= 1.0 - unit * unit;
    }
    let (first, second) = grad.split_at_mut(FIRST);
    layer::gradient(&slopes, digit.inputs(), first);
    layer::gradient(&errors, hidden.iter().copied(), second);
}

/// Returns true if the model classifies the digit correctly.
fn is_right(params: &[f32; DIM], digit: Digit) -> bool {
    layer::best(&scores(params, &hidden(params, digit))) == usize::from(digit.label)
}
