//! Decision on one float initializer.

use super::super::QuantizedTensor;
use crate::Tensor;

/// Float initializer, alias or split, trained `Constant`, or output of a `DequantizeLinear` of constants.
pub struct Float {
    pub name: String,
    pub tensor: Tensor,
    /// The stored form, if that is integers.
    pub quantized: Option<QuantizedTensor>,
    pub trained: bool,
    pub reason: String,
    pub note: Option<Note>,
}

/// Reason why a warning names an initializer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// It only shifts or scales an input, and is not trained.
    OfInput,
    /// It weights the loss, and is not trained.
    OfLoss,
    /// It is added to scores or outputs, is not a layer's bias, and is not trained.
    Unexplained,
    /// It may be a mask, and is not trained.
    Mask,
    /// It is trained, and may be a constant of the source.
    Doubtful,
    /// It is trained separately from an initializer of equal value, with which the exporter merged it.
    Merged,
    /// It is trained as one parameter, and several nodes with the same operator read it.
    Shared,
    /// It is trained in the form that the exporter computed from parameters of the source.
    Computed,
    /// It is trained separately from a weight of equal values. Both may be a single weight.
    Equal,
}
