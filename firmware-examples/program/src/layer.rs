//! A dense layer and its cross-entropy, in f32 with the core's rules: sums in index order, nothing fused, the
//! exponential from [`damper_core::numerics::function`]. Models are made of them.
//!
//! Parameters of a layer from `I` inputs to `O` outputs, `[O·I + O]`: a row of `I` weights for each output, then the
//! biases.

#[cfg(any(test, feature = "model-streamed"))]
use damper_core::clip::Segments;
use damper_core::numerics::function::exp_f32;

/// Computes `out_j = b_j + Σ_i w_ji·x_i`, `[O]`.
pub fn outputs(params: &[f32], inputs: impl Iterator<Item = f32> + Clone, out: &mut [f32]) {
    let (weights, biases) = params.split_at(params.len().saturating_sub(out.len()));
    let rows = weights.chunks_exact((weights.len() / out.len().max(1)).max(1));
    for ((out, row), bias) in out.iter_mut().zip(rows).zip(biases) {
        *out = *bias;
        for (weight, input) in row.iter().zip(inputs.clone()) {
            *out += weight * input;
        }
    }
}

/// Computes the gradient of the parameters, `[O·I + O]`, from the gradient `errors` of the outputs, `[O]`:
/// `∂w_ji = e_j·x_i`, `∂b_j = e_j`.
pub fn gradient(errors: &[f32], inputs: impl Iterator<Item = f32> + Clone, grad: &mut [f32]) {
    let (weights, biases) = grad.split_at_mut(grad.len().saturating_sub(errors.len()));
    let rows = weights.chunks_exact_mut((weights.len() / errors.len().max(1)).max(1));
    for ((row, bias), error) in rows.zip(biases).zip(errors) {
        for (weight, input) in row.iter_mut().zip(inputs.clone()) {
            *weight = error * input;
        }
        *bias = *error;
    }
}

/// Yields the same gradient. Its only memory is `row`, `[I]`.
#[cfg(any(test, feature = "model-streamed"))]
pub fn stream(errors: &[f32], inputs: impl Iterator<Item = f32> + Clone, row: &mut [f32], segments: &mut Segments<'_>) {
    for error in errors {
        if segments.skip(row.len()) {
            continue;
        }
        for (weight, input) in row.iter_mut().zip(inputs.clone()) {
            *weight = error * input;
        }
        segments.push(row);
    }
    segments.push(errors);
}

/// Computes the gradient of the inputs, `[I]`: `∂x_i = Σ_j w_ji·e_j`.
pub fn back(params: &[f32], errors: &[f32], inputs: &mut [f32]) {
    inputs.fill(0.0);
    for (row, error) in params.chunks_exact(inputs.len().max(1)).zip(errors) {
        for (input, weight) in inputs.iter_mut().zip(row) {
            *input += weight * error;
        }
    }
}

/// Replaces scores by the gradient of their cross-entropy: the softmax, less 1 at the label.
pub fn cross_entropy(scores: &mut [f32], label: u8) {
    let largest = scores.iter().fold(f32::NEG_INFINITY, |a, b| if *b > a { *b } else { a });
    let mut total = 0.0;
    for score in &mut *scores {
        *score = exp_f32(*score - largest);
        total += *score;
    }
    for (class, score) in scores.iter_mut().enumerate() {
        *score /= total;
        if class == usize::from(label) {
            *score -= 1.0;
        }
    }
}

/// Returns the first class with the highest score.
#[must_use]
pub fn best(scores: &[f32]) -> usize {
    let mut best = (0, f32::NEG_INFINITY);
    for (class, score) in scores.iter().enumerate() {
        if *score > best.1 {
            best = (class, *score);
        }
    }
    best.0
}
