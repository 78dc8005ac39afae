//! The verdict on one initializer of floats.

use super::super::QuantizedTensor;
use crate::Tensor;

/// A float initializer, alias or split, a trained `Constant`, or the output of a `DequantizeLinear` of constants.
pub struct Float {
    pub name: String,
    pub tensor: Tensor,
    /// As it is stored, if as integers.
    pub quantized: Option<QuantizedTensor>,
    pub trained: bool,
    pub reason: String,
    pub note: Option<Note>,
}

/// Why an initializer is named in a warning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// It only shifts or scales an input, and is not trained.
    OfInput,
    /// It weights the loss, and is not trained.
    OfLoss,
    /// It is added to scores or outputs, is not a layer's bias, and is not trained.
    Unexplained,
    /// It is not trained, for it may be a mask.
    Mask,
    /// It is trained, and may be a constant of the source.
    Doubtful,
    /// It is trained apart from one of equal value, with which the exporter merged it.
    Merged,
    /// It is trained as one, and several nodes of one kind read it.
    Shared,
    /// It is trained as the exporter computed it from parameters of the source.
    Computed,
    /// It is trained apart from a weight of equal values. Both may be a single weight.
    Equal,
}
