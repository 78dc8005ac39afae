//! Inputs of a run. Some of them stay the same from run to run.

use damper_onnx::TensorRef;
use std::sync::atomic::{AtomicU64, Ordering};

/// Inputs of a run, in `plan.inputs` order: `before`, `kept`, `after`.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// Inputs before the kept inputs.
    pub before: &'a [TensorRef<'a>],
    /// Inputs whose values stay the same from run to run.
    pub kept: &'a KeptInputs<'a>,
    /// Inputs after the kept inputs.
    pub after: &'a [TensorRef<'a>],
}

impl<'a> Inputs<'a> {
    /// All inputs in order.
    pub(crate) fn all(&self) -> Vec<TensorRef<'a>> {
        [self.before, &self.kept.values, self.after].concat()
    }
}

/// Borrowed input values that do not change during its lifetime. The number is unique in the process.
pub struct KeptInputs<'a> {
    values: Vec<TensorRef<'a>>,
    // Only onnxruntime's bindings read it.
    #[cfg_attr(not(feature = "ort"), allow(dead_code))]
    number: u64,
}

impl<'a> KeptInputs<'a> {
    /// Borrows `values` under a new number.
    pub fn new(values: Vec<TensorRef<'a>>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { values, number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    /// Number of inputs.
    #[cfg(feature = "ort")]
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Unique number, above 0.
    #[cfg(feature = "ort")]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}
