//! Input of the labels.

use crate::emit::{BATCH_FIRST, Var};
use damper_onnx::graph::DType;

/// Name of the labels' input.
const LABELS: &str = "dp.labels";

/// Label of a token or element that is not counted.
pub const IGNORED: i64 = -100;

/// Input of the labels, with shape `rest` per sample.
pub fn labels(dtype: DType, rest: &[usize]) -> Var {
    Var { name: LABELS.into(), dtype, shape: [&[1], rest].concat(), batch: Some(BATCH_FIRST) }
}
