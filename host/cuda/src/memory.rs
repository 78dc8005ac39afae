//! Device memory that is wiped when it is dropped.

use crate::device::{Allocation, Argument, CudaDevice, Span};
use crate::error::DeviceError;
use damper_core::state::StateField;
use std::fmt;
use std::sync::Arc;

/// Device memory. Dropping it wipes it, unless the device fails.
pub struct DeviceMemory {
    device: Arc<dyn CudaDevice>,
    /// Present, except during the drop.
    allocation: Option<Allocation>,
    bytes: u64,
}

impl DeviceMemory {
    /// Allocates memory of zeros.
    ///
    /// # Errors
    ///
    /// Fails if the device has no room, or fails.
    pub fn zeros(device: &Arc<dyn CudaDevice>, bytes: u64) -> Result<Self, DeviceError> {
        // A device may not support empty memory.
        let allocation = device.allocate(bytes.max(1))?;
        let memory = Self { device: Arc::clone(device), allocation: Some(allocation), bytes };
        memory.clear()?;
        Ok(memory)
    }

    /// Allocates memory for `floats` floats, all 0.
    pub(crate) fn floats(device: &Arc<dyn CudaDevice>, floats: usize) -> Result<Self, DeviceError> {
        Self::zeros(device, floats as u64 * 4)
    }

    /// Allocates memory with these bytes.
    ///
    /// # Errors
    ///
    /// Fails if the device has no room, or fails.
    pub fn of(device: &Arc<dyn CudaDevice>, bytes: &[u8]) -> Result<Self, DeviceError> {
        let memory = Self::zeros(device, bytes.len() as u64)?;
        memory.upload(bytes)?;
        Ok(memory)
    }

    /// Length in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Replaces its first bytes.
    ///
    /// # Errors
    ///
    /// Fails if there are more bytes than it has, or the device fails.
    pub fn upload(&self, bytes: &[u8]) -> Result<(), DeviceError> {
        self.device.upload(self.head(bytes.len() as u64)?, bytes)
    }

    /// Reads its first bytes.
    ///
    /// # Errors
    ///
    /// Fails if there are more bytes than it has, or the device fails.
    pub fn download(&self, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.device.download(self.head(bytes.len() as u64)?, bytes)
    }

    /// Replaces its contents by these floats.
    pub(crate) fn upload_floats(&self, floats: &[f32]) -> Result<(), DeviceError> {
        self.upload(&floats.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>())
    }

    /// Reads its contents.
    pub(crate) fn download_floats(&self, floats: &mut [f32]) -> Result<(), DeviceError> {
        if floats.len() as u64 * 4 != self.bytes {
            return Err(DeviceError::Shape("floats of another number"));
        }
        let mut bytes = vec![0; floats.len() * 4];
        self.download(&mut bytes)?;
        for (float, bytes) in floats.iter_mut().zip(bytes.as_chunks().0) {
            *float = f32::from_le_bytes(*bytes);
        }
        Ok(())
    }

    /// Passes its floats to `take`, which may change them.
    pub(crate) fn give(&self, take: &mut dyn FnMut(StateField<'_>)) -> Result<(), DeviceError> {
        let mut floats = vec![0.0; (self.bytes / 4) as usize];
        self.download_floats(&mut floats)?;
        take(StateField::Floats(&mut floats));
        self.upload_floats(&floats)
    }

    /// Returns true if it is memory of this device.
    pub(crate) fn is_on(&self, device: &Arc<dyn CudaDevice>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }

    pub(crate) fn device(&self) -> &Arc<dyn CudaDevice> {
        &self.device
    }

    /// Overwrites all of it with zeros.
    ///
    /// # Errors
    ///
    /// Fails if the device fails.
    pub fn clear(&self) -> Result<(), DeviceError> {
        self.device.clear(self.head(self.bytes)?)
    }

    /// Its address, as a kernel argument.
    pub(crate) fn argument(&self) -> Argument {
        Argument::Wide(self.address())
    }

    pub(crate) fn address(&self) -> u64 {
        self.allocation.as_ref().map_or(0, Allocation::address)
    }

    fn head(&self, bytes: u64) -> Result<Span<'_>, DeviceError> {
        match &self.allocation {
            Some(allocation) if bytes <= self.bytes => Ok(Span { allocation, at: 0, bytes }),
            _ => Err(DeviceError::Shape("more bytes than the memory has")),
        }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // A device that fails here has failed before, and its memory is freed with its context.
        let _ = self.clear();
        if let Some(allocation) = self.allocation.take() {
            self.device.free(allocation);
        }
    }
}

impl fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceMemory").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
