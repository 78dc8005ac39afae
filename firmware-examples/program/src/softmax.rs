//! Softmax regression on one digit at a time: one layer.

use crate::digits::{CLASSES, Digit, PIXELS};
use crate::layer;
use crate::model::DeviceModel;
#[cfg(any(test, feature = "model-streamed"))]
use crate::model::StreamedModel;
#[cfg(any(test, feature = "model-streamed"))]
use damper_core::clip::Segments;

/// Parameters: a row of `PIXELS` weights for each class, then the biases.
pub const DIM: usize = CLASSES * PIXELS + CLASSES;

/// The model.
pub const MODEL: DeviceModel<DIM> = DeviceModel {
    name: "softmax",
    tensors: &[CLASSES * PIXELS, CLASSES],
    start: |params| params.fill(0.0),
    gradient,
    #[cfg(any(test, feature = "model-streamed"))]
    stream: Some(StreamedModel { errors, rows }),
    is_right,
};

/// Writes the gradient (`[DIM]`) of the cross-entropy of one digit to `grad`.
#[inline(never)] // So that an image shows what of it is the model.
pub fn gradient(params: &[f32; DIM], digit: Digit, grad: &mut [f32; DIM]) {
    layer::gradient(&errors(params, digit), digit.inputs(), grad);
}

/// Computes the gradient of the scores.
#[inline(always)] // As a part of each of its callers.
fn errors(params: &[f32; DIM], digit: Digit) -> [f32; CLASSES] {
    let mut errors = [0.0; CLASSES];
    layer::outputs(params, digit.inputs(), &mut errors);
    layer::cross_entropy(&mut errors, digit.label);
    errors
}

/// Yields the gradient of the parameters: a row of the outer product for each class, then the biases.
#[cfg(any(test, feature = "model-streamed"))]
fn rows(errors: &[f32; CLASSES], digit: Digit, segments: &mut Segments<'_>) {
    layer::stream(errors, digit.inputs(), &mut [0.0; PIXELS], segments);
}

/// Returns true if the model classifies the digit correctly.
#[must_use]
pub fn is_right(params: &[f32; DIM], digit: Digit) -> bool {
    let mut scores = [0.0; CLASSES];
    layer::outputs(params, digit.inputs(), &mut scores);
    layer::best(&scores) == usize::from(digit.label)
}
