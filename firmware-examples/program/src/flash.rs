//! A flash that is simulated in RAM. A product uses its chip's driver instead.

use core::convert::Infallible;
use embedded_storage::nor_flash::{ErrorType, NorFlash, ReadNorFlash};

/// Bytes of an erase sector.
pub const SECTOR: usize = 512;

/// NOR flash in RAM: writing clears bits, erasing sets them.
pub struct Ram<'a>(pub &'a mut [u8]);

impl Ram<'_> {
    fn at(&mut self, offset: u32) -> &mut [u8] {
        self.0.get_mut(offset as usize..).unwrap_or_default()
    }
}

impl ErrorType for Ram<'_> {
    type Error = Infallible;
}

impl ReadNorFlash for Ram<'_> {
    const READ_SIZE: usize = 4;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.iter_mut().zip(self.at(offset)).for_each(|(byte, cell)| *byte = *cell);
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.0.len()
    }
}

impl NorFlash for Ram<'_> {
    const WRITE_SIZE: usize = 4;
    const ERASE_SIZE: usize = SECTOR;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Infallible> {
        self.at(from).iter_mut().take(to.saturating_sub(from) as usize).for_each(|cell| *cell = 0xff);
        Ok(())
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Infallible> {
        self.at(offset).iter_mut().zip(bytes).for_each(|(cell, byte)| *cell &= byte);
        Ok(())
    }
}
