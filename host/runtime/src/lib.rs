//! Backends for ONNX graphs. A backend loads a graph for one fixed batch size and returns a session that runs it.
//!
//! [`open`] selects one of three runtimes:
//!
//! - [`portable`]: damper's own kernels. It is always available and has the same bits on every target.
//! - `tract`: pure Rust, compiled in by the feature `tract`.
//! - `ort`: onnxruntime, found and loaded at run time by the feature `ort`. It runs on the processor or on CUDA.
//!
//! Both features are on by default. If a requested runtime is unavailable, [`open`] fails instead of falling back.
//! [`Backend::name`], [`Backend::version`] and [`Backend::note`] describe the runtime that is in use.

mod backend;
mod bind;
mod inputs;
#[cfg(feature = "ort")]
mod library;
pub mod loaded;
mod operators;
#[cfg(feature = "ort")]
pub mod ort;
pub mod portable;
#[cfg(all(test, feature = "ort", feature = "tract"))]
mod tests;
#[cfg(feature = "tract")]
pub mod tract;

pub use backend::{
    Backend, BackendError, ChunkPlace, DeviceFloats, HostNode, ResidentSession, Session, SessionSpec, SummingSession,
    TF32_OVERRIDE, WrittenOutput, WrittenSession,
};
pub use inputs::{Inputs, KeptInputs};
#[cfg(feature = "ort")]
pub use library::suggest;
pub use operators::Operators;

/// Runtime to open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Choice {
    /// Fastest available: onnxruntime if it is found, else tract, else the portable backend.
    Auto,
    /// tract.
    Tract,
    /// The portable backend.
    Portable,
    /// onnxruntime on the processor.
    Ort,
    /// onnxruntime on the processor, run as on a device: only standard operators, bound inputs and outputs, sums kept
    /// in memory.
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
/// Fails if this build excludes the runtime. [`Choice::Ort`], [`Choice::OrtStandard`] and [`Choice::Cuda`] fail if
/// onnxruntime is absent, too old, or has no working CUDA provider. They and [`Choice::Auto`] fail if `ORT_DYLIB_PATH`
/// is set to a library that cannot be used.
pub fn open(choice: Choice) -> Result<Box<dyn Backend>, BackendError> {
    match choice {
        Choice::Auto => open_fastest(),
        Choice::Portable => Ok(Box::new(portable::Portable)),
        #[cfg(feature = "tract")]
        Choice::Tract => Ok(Box::new(tract::Tract::new())),
        #[cfg(feature = "ort")]
        Choice::Ort => Ok(Box::new(ort::Ort::open()?)),
        #[cfg(feature = "ort")]
        Choice::OrtStandard => Ok(Box::new(ort::Ort::open_standard()?)),
        #[cfg(feature = "ort")]
        Choice::Cuda => Ok(Box::new(ort::Ort::open_cuda()?)),
        #[cfg(not(feature = "tract"))]
        Choice::Tract => Err(left_out("tract")),
        #[cfg(not(feature = "ort"))]
        Choice::Ort | Choice::OrtStandard | Choice::Cuda => Err(left_out("ort")),
    }
}

#[cfg(not(all(feature = "ort", feature = "tract")))]
fn left_out(feature: &str) -> BackendError {
    BackendError(format!(
        "this build leaves this backend out: build damper with its feature {feature}, or use backend portable"
    ))
}

/// Opens the fastest runtime available in this build and on this machine.
fn open_fastest() -> Result<Box<dyn Backend>, BackendError> {
    #[cfg(feature = "ort")]
    match ort::Ort::open() {
        Ok(backend) => return Ok(Box::new(backend)),
        Err(error) if library::is_explicit() => return Err(error),
        Err(_) => {}
    }
    #[cfg(feature = "tract")]
    return Ok(Box::new(tract::Tract::fallback()));
    #[cfg(not(feature = "tract"))]
    Ok(Box::new(portable::Portable))
}

#[cfg(all(test, not(feature = "tract"), not(feature = "ort")))]
mod smallest {
    use super::*;

    #[test]
    fn what_is_left_out_says_so() {
        for (choice, feature) in [(Choice::Tract, "tract"), (Choice::Ort, "ort"), (Choice::Cuda, "ort")] {
            let error = open(choice).err().unwrap().to_string();
            assert!(error.contains(&format!("its feature {feature}")), "{error}");
        }
        assert_eq!(open(Choice::Auto).unwrap().name(), "portable");
    }
}
