//! A part of a flash with several users.

use core::cell::RefCell;
use core::fmt;
use core::ops::Range;
use embedded_storage::nor_flash::{ErrorType, NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash};

/// The bytes `start..end` of a flash, as a separate flash. A journal and its snapshots take one region each.
///
/// ```
/// use core::cell::RefCell;
/// use damper_journal::{Configuration, Journal, JournalError, Region, RegionError, Snapshots};
/// use embedded_storage::nor_flash::NorFlash;
///
/// fn open<F: NorFlash>(flash: &RefCell<F>, run: Configuration) -> Result<(), JournalError<RegionError<F::Error>>> {
///     let journal = Journal::open(Region::new(flash, 0x0000..0x2000), run)?;
///     let snapshots = Snapshots::open(Region::new(flash, 0x2000..0x4000), run, journal.record().paid);
/// #   let _ = snapshots;
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Region<'a, F> {
    flash: &'a RefCell<F>,
    start: u32,
    end: u32,
}

/// An error of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RegionError<E> {
    /// The flash failed.
    Flash(E),
    /// Beyond the region's end.
    OutOfBounds,
    /// The flash is borrowed elsewhere.
    Busy,
}

impl<E: NorFlashError> NorFlashError for RegionError<E> {
    fn kind(&self) -> NorFlashErrorKind {
        match self {
            Self::Flash(error) => error.kind(),
            Self::OutOfBounds => NorFlashErrorKind::OutOfBounds,
            Self::Busy => NorFlashErrorKind::Other,
        }
    }
}

impl<E: fmt::Display> fmt::Display for RegionError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flash(error) => error.fmt(f),
            Self::OutOfBounds => f.write_str("beyond the end of the region"),
            Self::Busy => f.write_str("the flash is borrowed elsewhere"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for RegionError<E> {}

impl<'a, F: NorFlash> Region<'a, F> {
    /// The region `bytes` of `flash`. If it is not whole sectors within the flash, or if the flash is borrowed now, the
    /// region is empty, so nothing opens in it. Regions must not overlap.
    pub fn new(flash: &'a RefCell<F>, bytes: Range<u32>) -> Self {
        let is_edge = |at: u32| (at as usize).is_multiple_of(F::ERASE_SIZE);
        let fits = flash.try_borrow().is_ok_and(|flash| bytes.end as usize <= flash.capacity());
        let is_whole = bytes.start <= bytes.end && is_edge(bytes.start) && is_edge(bytes.end);
        let (start, end) = if fits && is_whole { (bytes.start, bytes.end) } else { (0, 0) };
        Self { flash, start, end }
    }
}

impl<F> Region<'_, F> {
    /// The address in the flash of `offset`, if the `len` bytes from there are within the region.
    fn place<E>(&self, offset: u32, len: usize) -> Result<u32, RegionError<E>> {
        let at = self.start.checked_add(offset).ok_or(RegionError::OutOfBounds)?;
        let room = self.end.checked_sub(at).ok_or(RegionError::OutOfBounds)?;
        if len <= room as usize { Ok(at) } else { Err(RegionError::OutOfBounds) }
    }
}

impl<F: ErrorType> ErrorType for Region<'_, F> {
    type Error = RegionError<F::Error>;
}

impl<F: ReadNorFlash> ReadNorFlash for Region<'_, F> {
    const READ_SIZE: usize = F::READ_SIZE;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Self::Error> {
        let at = self.place(offset, bytes.len())?;
        let mut flash = self.flash.try_borrow_mut().map_err(|_| RegionError::Busy)?;
        flash.read(at, bytes).map_err(RegionError::Flash)
    }

    fn capacity(&self) -> usize {
        (self.end - self.start) as usize
    }
}

impl<F: NorFlash> NorFlash for Region<'_, F> {
    const WRITE_SIZE: usize = F::WRITE_SIZE;
    const ERASE_SIZE: usize = F::ERASE_SIZE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        let (from, to) = (self.place(from, 0)?, self.place(to, 0)?);
        let mut flash = self.flash.try_borrow_mut().map_err(|_| RegionError::Busy)?;
        flash.erase(from, to).map_err(RegionError::Flash)
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        let at = self.place(offset, bytes.len())?;
        let mut flash = self.flash.try_borrow_mut().map_err(|_| RegionError::Busy)?;
        flash.write(at, bytes).map_err(RegionError::Flash)
    }
}
