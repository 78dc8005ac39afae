#![doc = include_str!("../README.md")]

mod device;
mod error;
mod exact_sum;
mod kernels;
mod layout;
mod memory;
mod scratch;
mod tensor;
mod update;

#[cfg(feature = "cuda")]
mod card;
#[cfg(any(test, feature = "cuda"))]
mod emulated;

#[cfg(test)]
mod tests;

#[cfg(feature = "cuda")]
pub use card::Card;
pub use device::{Allocation, Argument, CudaDevice, Launch, Span};
#[cfg(any(test, feature = "cuda"))]
pub use emulated::{EmulatedDevice, ThreadOrder};
pub use error::DeviceError;
pub use exact_sum::{ExactSum, StepNoise};
pub use kernels::{CudaKernel, cuda_source, emulated_source};
pub use layout::SumShape;
pub use memory::DeviceMemory;
pub use tensor::DeviceTensor;
pub use update::{DeviceFilter, DeviceOptimizer, DeviceParams};
