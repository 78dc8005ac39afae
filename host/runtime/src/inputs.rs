//! The inputs of a run, and those of them that stay from run to run.

use damper_onnx::TensorRef;
use std::sync::atomic::{AtomicU64, Ordering};

/// The inputs of a run, in `plan.inputs` order: `before`, the kept ones, `after`.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// The inputs in front.
    pub before: &'a [TensorRef<'a>],
    /// The inputs whose values stay from run to run.
    pub kept: &'a KeptInputs<'a>,
    /// The others.
    pub after: &'a [TensorRef<'a>],
}

impl<'a> Inputs<'a> {
    /// All of them.
    pub(crate) fn all(&self) -> Vec<TensorRef<'a>> {
        [self.before, &self.kept.values, self.after].concat()
    }
}

/// Inputs whose values stay as long as this lives: it borrows them, and its number is its own in this process.
pub struct KeptInputs<'a> {
    values: Vec<TensorRef<'a>>,
    // Read by the bindings of onnxruntime alone.
    #[cfg_attr(not(feature = "ort"), allow(dead_code))]
    number: u64,
}

impl<'a> KeptInputs<'a> {
    /// These values.
    pub fn new(values: Vec<TensorRef<'a>>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { values, number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    /// Number of inputs.
    #[cfg(feature = "ort")]
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Above 0.
    #[cfg(feature = "ort")]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}
