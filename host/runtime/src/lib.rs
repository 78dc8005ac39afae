//! Who runs a graph. A backend loads a model for one fixed batch; a session runs it.
//!
//! [`open`] is the way in. Three runtimes stand behind it: [`tract`] (pure Rust, always there), [`portable`] (damper's own kernels, with the
//! same bits on every target) and [`ort`] (onnxruntime, found and loaded when the program runs, on the processor or on CUDA). Nothing falls back in silence: a runtime that
//! was asked for and cannot be had is an error, and [`Backend::name`], [`Backend::version`] and [`Backend::note`] say
//! what really runs.

mod backend;
mod bind;
mod inputs;
mod library;
mod operators;
pub mod ort;
pub mod portable;
#[cfg(test)]
mod tests;
pub mod tract;

pub use backend::{Backend, BackendError, ChunkPlace, Plan, Session, SummingSession};
pub use inputs::{Inputs, Kept};
pub use operators::Operators;

/// Which runtime to use.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Choice {
    /// onnxruntime when it is found, else tract.
    Auto,
    /// tract.
    Tract,
    /// The portable backend.
    Portable,
    /// onnxruntime on the processor.
    Ort,
    /// onnxruntime on the processor as on a device: standard operators alone, bound inputs and outputs, sums that stay.
    OrtStandard,
    /// onnxruntime with its CUDA provider.
    Cuda,
}

impl std::str::FromStr for Choice {
    type Err = BackendError;

    fn from_str(name: &str) -> Result<Self, BackendError> {
        match name {
            "auto" => Ok(Choice::Auto),
            "tract" => Ok(Choice::Tract),
            "portable" => Ok(Choice::Portable),
            "ort" => Ok(Choice::Ort),
            "cuda" => Ok(Choice::Cuda),
            _ => Err(BackendError(format!("unknown backend '{name}': use auto, tract, portable, ort or cuda"))),
        }
    }
}

/// Opens a runtime.
///
/// # Errors
///
/// [`Choice::Ort`], [`Choice::OrtStandard`] and [`Choice::Cuda`]: onnxruntime is absent, too old, or has no working CUDA provider. Every choice
/// but tract: the variable `ORT_DYLIB_PATH` is set, and what it names cannot be used.
pub fn open(choice: Choice) -> Result<Box<dyn Backend>, BackendError> {
    match choice {
        Choice::Tract => Ok(Box::new(tract::Tract::new())),
        Choice::Portable => Ok(Box::new(portable::Portable)),
        Choice::Ort => Ok(Box::new(ort::Ort::open()?)),
        Choice::OrtStandard => Ok(Box::new(ort::Ort::open_standard()?)),
        Choice::Cuda => Ok(Box::new(ort::Ort::open_cuda()?)),
        Choice::Auto => match ort::Ort::open() {
            Ok(backend) => Ok(Box::new(backend)),
            Err(error) if library::is_explicit() => Err(error),
            Err(_) => Ok(Box::new(tract::Tract::fallback())),
        },
    }
}
