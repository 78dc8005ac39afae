//! Flash with error correction as `damper_journal::Journal` needs it: a word that cannot be corrected is an error of
//! the driver.
//!
//! When the chip reads a word that a power cut tore, it raises a non-maskable interrupt (RM0351, 3.3.7). Unhandled it
//! halts the chip at every start, because the journal reads its whole region when it opens.

use core::sync::atomic::{AtomicBool, Ordering};
use cortex_m::asm::{dsb, isb};
use embassy_stm32::flash::{Blocking, Error, Flash};
use embassy_stm32::pac::FLASH;
use embedded_storage::nor_flash::{ErrorType, NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash};

/// True if a word that was read since could not be corrected.
static TORN: AtomicBool = AtomicBool::new(false);

#[cortex_m_rt::exception]
unsafe fn NonMaskableInt() {
    if !FLASH.eccr().read().eccd() {
        // Another cause, such as a failure of the clock. The chip must not continue.
        cortex_m::peripheral::SCB::sys_reset();
    }
    // Writing 1 clears it.
    FLASH.eccr().modify(|eccr| eccr.set_eccd(true));
    TORN.store(true, Ordering::SeqCst);
}

/// Errors of the flash.
#[derive(Clone, Copy, PartialEq, Debug, defmt::Format)]
pub enum Failed {
    /// The driver's error.
    Flash(Error),
    /// Error correction could not correct a word.
    Torn,
}

impl NorFlashError for Failed {
    fn kind(&self) -> NorFlashErrorKind {
        match self {
            Self::Flash(error) => error.kind(),
            Self::Torn => NorFlashErrorKind::Other,
        }
    }
}

/// The chip's flash.
pub struct Corrected(pub Flash<'static, Blocking>);

impl ErrorType for Corrected {
    type Error = Failed;
}

impl ReadNorFlash for Corrected {
    const READ_SIZE: usize = <Flash<'static, Blocking> as ReadNorFlash>::READ_SIZE;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Failed> {
        // The data cache still has the content before a write or an erase.
        FLASH.acr().modify(|acr| acr.set_dcen(false));
        FLASH.acr().modify(|acr| acr.set_dcrst(true));
        FLASH.acr().modify(|acr| acr.set_dcrst(false));
        TORN.store(false, Ordering::SeqCst);
        let read = self.0.read(offset, bytes);
        // The interrupt comes before the next instruction.
        dsb();
        isb();
        FLASH.acr().modify(|acr| acr.set_dcen(true));
        if TORN.load(Ordering::SeqCst) { Err(Failed::Torn) } else { read.map_err(Failed::Flash) }
    }

    fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

impl NorFlash for Corrected {
    const WRITE_SIZE: usize = <Flash<'static, Blocking> as NorFlash>::WRITE_SIZE;
    const ERASE_SIZE: usize = <Flash<'static, Blocking> as NorFlash>::ERASE_SIZE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Failed> {
        self.0.erase(from, to).map_err(Failed::Flash)
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Failed> {
        self.0.write(offset, bytes).map_err(Failed::Flash)
    }
}
