//! Gradients that lie on the device already.

use crate::device::CudaDevice;
use crate::memory::DeviceMemory;
use std::fmt;
use std::sync::Arc;

/// Floats in a device's memory that somebody else may own: the gradients of a chunk with respect to one parameter, a row for each sample.
#[derive(Clone, Copy)]
pub struct DeviceTensor<'a> {
    pub(crate) address: u64,
    pub(crate) floats: u64,
    /// The device of its owner, if the owner is of this crate.
    device: Option<&'a Arc<dyn CudaDevice>>,
}

impl<'a> DeviceTensor<'a> {
    /// The floats of `memory`.
    #[must_use]
    pub fn of(memory: &'a DeviceMemory) -> Self {
        Self { address: memory.address(), floats: memory.bytes() / 4, device: Some(memory.device()) }
    }

    /// Its first byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// `floats` floats at `address`, such as an output that onnxruntime has bound to the device.
    ///
    /// # Safety
    ///
    /// While this value or a copy of it is used, the device that it is given to may read that many floats there, and nothing writes to
    /// them. The address is a multiple of 4. The stream that wrote the floats has finished.
    #[must_use]
    pub unsafe fn from_raw(address: u64, floats: u64) -> Self {
        Self { address, floats, device: None }
    }
    /// False if its memory is another device's.
    pub(crate) fn may_be_on(&self, device: &Arc<dyn CudaDevice>) -> bool {
        self.device.is_none_or(|own| Arc::ptr_eq(own, device))
    }
}

impl fmt::Debug for DeviceTensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceTensor").field("floats", &self.floats).finish_non_exhaustive()
    }
}
