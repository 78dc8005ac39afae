//! Adapter from an asynchronous flash to a blocking flash.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use embedded_storage::nor_flash::{ErrorType, NorFlash, ReadNorFlash};
use embedded_storage_async::nor_flash::{NorFlash as AsyncNorFlash, ReadNorFlash as AsyncReadNorFlash};

/// A flash of `embedded-storage-async` as a flash of `embedded-storage`. Each call polls until it is done.
///
/// A charge must be in flash before its step is opened, and takes little time: three writes of 32 bytes, and sometimes
/// an erase. Other tasks of the same executor wait. The driver's futures must make progress by interrupts, DMA or
/// polling alone. A future that waits for another task of this executor, such as for a mutex that the task holds, never
/// completes.
///
/// ```
/// use damper_journal::BlockOn;
/// use embedded_storage::nor_flash::ReadNorFlash as _;
/// use embedded_storage_async::nor_flash::{ErrorType, NorFlashErrorKind, ReadNorFlash};
///
/// struct Async([u8; 16]);
/// impl ErrorType for Async {
///     type Error = NorFlashErrorKind;
/// }
/// impl ReadNorFlash for Async {
///     const READ_SIZE: usize = 1;
///     async fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Self::Error> {
///         bytes.copy_from_slice(&self.0[offset as usize..][..bytes.len()]);
///         Ok(())
///     }
///     fn capacity(&self) -> usize {
///         16
///     }
/// }
///
/// let (mut flash, mut bytes) = (BlockOn::new(Async([7; 16])), [0; 4]);
/// flash.read(4, &mut bytes)?;
/// assert_eq!((bytes, flash.release().0.len()), ([7; 4], 16));
/// # Ok::<(), embedded_storage::nor_flash::NorFlashErrorKind>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BlockOn<F>(F);

impl<F> BlockOn<F> {
    /// Wraps a flash.
    pub fn new(flash: F) -> Self {
        Self(flash)
    }

    /// Returns the flash.
    pub fn release(self) -> F {
        self.0
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result;
        }
        core::hint::spin_loop();
    }
}

impl<F: ErrorType> ErrorType for BlockOn<F> {
    type Error = F::Error;
}

impl<F: AsyncReadNorFlash> ReadNorFlash for BlockOn<F> {
    const READ_SIZE: usize = F::READ_SIZE;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Self::Error> {
        wait(self.0.read(offset, bytes))
    }

    fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

impl<F: AsyncNorFlash> NorFlash for BlockOn<F> {
    const WRITE_SIZE: usize = F::WRITE_SIZE;
    const ERASE_SIZE: usize = F::ERASE_SIZE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        wait(self.0.erase(from, to))
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        wait(self.0.write(offset, bytes))
    }
}
