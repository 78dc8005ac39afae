//! Device: memory and kernels. Arguments are checked before a device gets them. Only this crate can create their types,
//! from memory that it owns.

use crate::error::DeviceError;
use crate::kernels::CudaKernel;
use std::sync::Arc;

/// Block of a device's memory. The value owns the block, so it has no `Clone`.
#[derive(Debug)]
pub struct Allocation {
    address: u64,
    bytes: u64,
}

impl Allocation {
    // Only devices use it, and a build may have none.
    #[cfg_attr(not(any(test, feature = "cuda")), expect(dead_code))]
    pub(crate) fn new(address: u64, bytes: u64) -> Self {
        Self { address, bytes }
    }

    /// Address of its first byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Length in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Bytes within an [`Allocation`].
#[derive(Debug)]
pub struct Span<'a> {
    pub(crate) allocation: &'a Allocation,
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

impl Span<'_> {
    /// Address of its first byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.allocation.address + self.at
    }

    /// Length in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Argument of a kernel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Argument {
    /// Address in the device's memory, or 64-bit integer.
    Wide(u64),
    /// 32-bit integer.
    Narrow(u32),
    /// Float.
    Float(f32),
}

impl Argument {
    /// Its bytes, least significant first, and their number.
    #[must_use]
    pub fn word(self) -> (u64, u32) {
        match self {
            Self::Wide(word) => (word, 8),
            Self::Narrow(word) => (word.into(), 4),
            Self::Float(float) => (float.to_bits().into(), 4),
        }
    }
}

/// Kernel call whose reads and writes stay in live memory. Only this crate creates it.
#[derive(Debug)]
pub struct Launch<'a> {
    pub(crate) kernel: CudaKernel,
    /// Number of blocks along both axes.
    pub(crate) grid: [u32; 2],
    /// Threads per block.
    pub(crate) block: u32,
    pub(crate) arguments: &'a [Argument],
}

impl Launch<'_> {
    /// Kernel to call.
    #[must_use]
    pub fn kernel(&self) -> CudaKernel {
        self.kernel
    }

    /// Number of blocks along both axes.
    #[must_use]
    pub fn grid(&self) -> [u32; 2] {
        self.grid
    }

    /// Threads per block.
    #[must_use]
    pub fn block(&self) -> u32 {
        self.block
    }

    /// Arguments in order.
    #[must_use]
    pub fn arguments(&self) -> &[Argument] {
        self.arguments
    }
}

/// Device that runs kernels in the order of the calls.
pub trait CudaDevice: Send + Sync {
    /// Allocates memory with undefined contents.
    ///
    /// # Errors
    ///
    /// Fails if the device has no room.
    fn allocate(&self, bytes: u64) -> Result<Allocation, DeviceError>;

    /// Frees memory after all earlier calls.
    fn free(&self, allocation: Allocation);

    /// Copies `bytes` to the device. The span has the same length. The source may change after the call returns.
    ///
    /// # Errors
    ///
    /// Fails if the device fails.
    fn upload(&self, to: Span<'_>, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Copies from the device after all earlier calls.
    ///
    /// # Errors
    ///
    /// Fails if the device fails, now or in an earlier call.
    fn download(&self, from: Span<'_>, bytes: &mut [u8]) -> Result<(), DeviceError>;

    /// Writes zeros to `span`.
    ///
    /// # Errors
    ///
    /// Fails if the device fails.
    fn clear(&self, span: Span<'_>) -> Result<(), DeviceError>;

    /// Calls a kernel.
    ///
    /// # Errors
    ///
    /// Fails if the device fails. A later call may return this error.
    fn launch(&self, launch: &Launch<'_>) -> Result<(), DeviceError>;

    /// Waits until the device has finished calls from others, such as onnxruntime on its own stream.
    ///
    /// # Errors
    ///
    /// Fails if the device fails.
    fn wait_for_others(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Waits until all calls are finished.
    ///
    /// # Errors
    ///
    /// Fails if the device fails, now or in an earlier call.
    fn synchronize(&self) -> Result<(), DeviceError>;
}

/// Threads per block for kernels that do not need a specific number.
pub(crate) const THREADS: u32 = 256;

/// Calls a kernel with one thread per coordinate.
pub(crate) fn by_coordinate(
    device: &Arc<dyn CudaDevice>,
    kernel: CudaKernel,
    dim: usize,
    arguments: &[Argument],
) -> Result<(), DeviceError> {
    let blocks = dim.div_ceil(THREADS as usize);
    let blocks =
        i32::try_from(blocks).map_err(|_| DeviceError::Shape("more coordinates than a card has threads"))? as u32;
    if blocks == 0 {
        return Ok(());
    }
    device.launch(&Launch { kernel, grid: [blocks, 1], block: THREADS, arguments })
}
