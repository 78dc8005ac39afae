//! A device: memory and kernels. What a device is asked for is checked before it is asked: the types of the arguments can be made in
//! this crate alone, from memory that it owns.

use crate::error::DeviceError;
use crate::kernels::CudaKernel;
use std::sync::Arc;

/// A block of a device's memory. Whoever has it owns the block: it has no `Clone`.
#[derive(Debug)]
pub struct Allocation {
    address: u64,
    bytes: u64,
}

impl Allocation {
    // Used by devices alone, and a build may have none.
    #[cfg_attr(not(any(test, feature = "cuda", feature = "emulated")), expect(dead_code))]
    pub(crate) fn new(address: u64, bytes: u64) -> Self {
        Self { address, bytes }
    }

    /// Its first byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its length.
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
    /// Its first byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.allocation.address + self.at
    }

    /// Its length.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// An argument of a kernel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Argument {
    /// An address in the device's memory, or an integer of 64 bits.
    Wide(u64),
    /// An integer of 32 bits.
    Narrow(u32),
    /// A float.
    Float(f32),
}

impl Argument {
    /// Its bytes, the least significant first, and how many there are.
    #[must_use]
    pub fn word(self) -> (u64, u32) {
        match self {
            Self::Wide(word) => (word, 8),
            Self::Narrow(word) => (word.into(), 4),
            Self::Float(float) => (float.to_bits().into(), 4),
        }
    }
}

/// A call of a kernel, whose reads and writes stay in memory that is alive. Made in this crate alone.
#[derive(Debug)]
pub struct Launch<'a> {
    pub(crate) kernel: CudaKernel,
    /// Blocks of threads along both axes.
    pub(crate) grid: [u32; 2],
    /// Threads of a block.
    pub(crate) block: u32,
    pub(crate) arguments: &'a [Argument],
}

impl Launch<'_> {
    /// The kernel.
    #[must_use]
    pub fn kernel(&self) -> CudaKernel {
        self.kernel
    }

    /// Blocks of threads along both axes.
    #[must_use]
    pub fn grid(&self) -> [u32; 2] {
        self.grid
    }

    /// Threads of a block.
    #[must_use]
    pub fn block(&self) -> u32 {
        self.block
    }

    /// The arguments, in order.
    #[must_use]
    pub fn arguments(&self) -> &[Argument] {
        self.arguments
    }
}

/// A device that runs the kernels, in the order of its calls.
pub trait CudaDevice: Send + Sync {
    /// New memory. What is in it is not known.
    ///
    /// # Errors
    ///
    /// The device has no room.
    fn allocate(&self, bytes: u64) -> Result<Allocation, DeviceError>;

    /// Gives memory back, after all that was asked for before.
    fn free(&self, allocation: Allocation);

    /// Copies `bytes` to the device. The span is as long. The source may be changed after it.
    ///
    /// # Errors
    ///
    /// The device failed.
    fn upload(&self, to: Span<'_>, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Copies from the device, after all that was asked for before.
    ///
    /// # Errors
    ///
    /// The device failed, now or in an earlier call.
    fn download(&self, from: Span<'_>, bytes: &mut [u8]) -> Result<(), DeviceError>;

    /// Writes zeros.
    ///
    /// # Errors
    ///
    /// The device failed.
    fn clear(&self, span: Span<'_>) -> Result<(), DeviceError>;

    /// Calls a kernel.
    ///
    /// # Errors
    ///
    /// The device failed. A later call may return this error.
    fn launch(&self, launch: &Launch<'_>) -> Result<(), DeviceError>;

    /// Waits until what others have asked of the device is done, such as onnxruntime on a stream of its own.
    ///
    /// # Errors
    ///
    /// The device failed.
    fn wait_for_others(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Waits until all that was asked for is done.
    ///
    /// # Errors
    ///
    /// The device failed, now or in an earlier call.
    fn synchronize(&self) -> Result<(), DeviceError>;
}

/// Threads of a block of kernels that need no certain number.
pub(crate) const THREADS: u32 = 256;

/// Calls a kernel with a thread for each coordinate.
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
