//! Gradients that are already on the device.

use crate::device::CudaDevice;
use crate::memory::DeviceMemory;
use std::fmt;
use std::sync::Arc;

/// Floats in device memory, possibly with another owner: the gradients of a chunk for one parameter, one row per
/// sample.
#[derive(Clone, Copy)]
pub struct DeviceTensor<'a> {
    pub(crate) address: u64,
    pub(crate) floats: u64,
    /// Device of the owner, if the owner is in this crate.
    device: Option<&'a Arc<dyn CudaDevice>>,
}

impl<'a> DeviceTensor<'a> {
    /// Floats of `memory`.
    #[must_use]
    pub fn of(memory: &'a DeviceMemory) -> Self {
        Self { address: memory.address(), floats: memory.bytes() / 4, device: Some(memory.device()) }
    }

    /// Address of its first byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// `floats` floats at `address`, such as an output that onnxruntime has bound to the device.
    ///
    /// # Safety
    ///
    /// While this value or a copy of it is in use, its device must be able to read that many floats there. Nothing may
    /// write to them. The address must be a multiple of 4. The stream that wrote the floats must be finished.
    #[must_use]
    pub unsafe fn from_raw(address: u64, floats: u64) -> Self {
        Self { address, floats, device: None }
    }
    /// Returns false if its memory belongs to another device.
    pub(crate) fn may_be_on(&self, device: &Arc<dyn CudaDevice>) -> bool {
        self.device.is_none_or(|own| Arc::ptr_eq(own, device))
    }
}

impl fmt::Debug for DeviceTensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceTensor").field("floats", &self.floats).finish_non_exhaustive()
    }
}
