//! Gradients that lie on the device already.

use crate::memory::DeviceMemory;
use std::marker::PhantomData;

/// Floats in a device's memory that somebody else may own: the gradients of a chunk with respect to one parameter, a row for each sample.
#[derive(Clone, Copy, Debug)]
pub struct DeviceTensor<'a> {
    pub(crate) address: u64,
    pub(crate) floats: u64,
    owner: PhantomData<&'a DeviceMemory>,
}

impl<'a> DeviceTensor<'a> {
    /// The floats of `memory`.
    #[must_use]
    pub fn of(memory: &'a DeviceMemory) -> Self {
        Self { address: memory.address(), floats: memory.bytes() / 4, owner: PhantomData }
    }

    /// `floats` floats at `address`, such as an output that onnxruntime has bound to the device.
    ///
    /// # Safety
    ///
    /// While this value or a copy of it is used, the device that it is given to may read that many floats there, and nothing writes to
    /// them. The address is a multiple of 4. The stream that wrote the floats has finished.
    #[must_use]
    pub unsafe fn from_raw(address: u64, floats: u64) -> Self {
        Self { address, floats, owner: PhantomData }
    }
}
