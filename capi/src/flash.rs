//! The caller's flash as a driver for the journal.

use core::ffi::{c_int, c_void};
use core::mem::size_of;
use embedded_storage::nor_flash::{ErrorType, NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash};

/// Size of an erase, in bytes. The sectors of most chips divide 4096. If the chip's sectors do not, build the library
/// with their size in the environment variable `DAMPER_ERASE_SIZE`.
pub(crate) const ERASE: usize = match option_env!("DAMPER_ERASE_SIZE") {
    Some(digits) => decimal(digits.as_bytes()),
    None => 4096,
};
const _: () = assert!(ERASE >= 512 && ERASE.is_power_of_two(), "DAMPER_ERASE_SIZE: a power of two of at least 512");
/// Size of a read or write, in bytes, and alignment of its address. The write size of the flash must divide it.
const BLOCK: usize = 32;

const fn decimal(mut digits: &[u8]) -> usize {
    let mut value = 0;
    while let [digit, rest @ ..] = digits {
        assert!(digit.is_ascii_digit(), "DAMPER_ERASE_SIZE: digits alone");
        (value, digits) = (value * 10 + (*digit - b'0') as usize, rest);
    }
    value
}

/// Reads `len` bytes at `offset` of the region into `bytes`. Returns 0, or another number if the flash cannot read
/// them.
pub type FlashRead = Option<unsafe extern "C" fn(context: *mut c_void, offset: u32, bytes: *mut u8, len: u32) -> c_int>;
/// Writes `len` bytes at `offset` of the region, which are erased. Returns 0 only when they are in the cells.
pub type FlashWrite =
    Option<unsafe extern "C" fn(context: *mut c_void, offset: u32, bytes: *const u8, len: u32) -> c_int>;
/// Erases `len` bytes at `offset` of the region, in whole sectors. Returns 0 only when all bits of them are 1.
pub type FlashErase = Option<unsafe extern "C" fn(context: *mut c_void, offset: u32, len: u32) -> c_int>;

/// A region of flash, and its driver. The functions get `context`, return 0 on success, and must not jump or throw out
/// of the call. Writes and reads are of 32 bytes, at offsets that 32 divides. The documentation of the journal
/// (`journal/src/journal.rs`) has the requirements for caches, and for chips on which an interrupted write makes a read
/// fault.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Flash {
    /// Bytes of this struct: `DAMPER_FLASH_INIT` sets it.
    pub size: usize,
    /// Argument of the functions.
    pub context: *mut c_void,
    /// Bytes of the region: at least twice the larger of a sector and `damper_journal_erase_size`.
    pub bytes: u32,
    /// Bytes of a sector of the chip. They divide `damper_journal_erase_size`.
    pub erase_bytes: u32,
    /// Bytes of the smallest write. They divide 32.
    pub write_bytes: u32,
    /// Read function.
    pub read: FlashRead,
    /// Write function.
    pub write: FlashWrite,
    /// Erase function.
    pub erase: FlashErase,
}

/// Flash with all functions present and with valid sizes.
pub(crate) struct Driver {
    context: *mut c_void,
    bytes: usize,
    sector: u32,
    read: unsafe extern "C" fn(*mut c_void, u32, *mut u8, u32) -> c_int,
    write: unsafe extern "C" fn(*mut c_void, u32, *const u8, u32) -> c_int,
    erase: unsafe extern "C" fn(*mut c_void, u32, u32) -> c_int,
}

/// Reason why a flash cannot be used.
pub(crate) enum Unfit {
    Absent,
    Sizes,
}

impl Driver {
    pub(crate) fn new(flash: Flash) -> Result<Self, Unfit> {
        let Flash { context, bytes, erase_bytes, write_bytes, read, write, erase, .. } = flash;
        let (Some(read), Some(write), Some(erase)) = (read, write, erase) else { return Err(Unfit::Absent) };
        let divides = |part: u32, whole: usize| part != 0 && whole.is_multiple_of(part as usize);
        if !divides(erase_bytes, ERASE) || !divides(write_bytes, BLOCK) {
            return Err(Unfit::Sizes);
        }
        Ok(Self { context, bytes: bytes as usize, sector: erase_bytes, read, write, erase })
    }
}

/// The driver failed.
#[derive(Debug)]
pub(crate) struct Failed;

impl NorFlashError for Failed {
    fn kind(&self) -> NorFlashErrorKind {
        NorFlashErrorKind::Other
    }
}

fn answer(code: c_int) -> Result<(), Failed> {
    if code == 0 { Ok(()) } else { Err(Failed) }
}

fn length(bytes: usize) -> Result<u32, Failed> {
    u32::try_from(bytes).map_err(|_| Failed)
}

impl ErrorType for Driver {
    type Error = Failed;
}

impl ReadNorFlash for Driver {
    const READ_SIZE: usize = BLOCK;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Failed> {
        let len = length(bytes.len())?;
        // SAFETY: by the contract of the header a function of this type, and bytes that live during the call.
        answer(unsafe { (self.read)(self.context, offset, bytes.as_mut_ptr(), len) })
    }

    fn capacity(&self) -> usize {
        self.bytes
    }
}

impl NorFlash for Driver {
    const WRITE_SIZE: usize = BLOCK;
    const ERASE_SIZE: usize = ERASE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Failed> {
        let mut at = from;
        while at < to {
            // SAFETY: by the contract of the header a function of this type.
            answer(unsafe { (self.erase)(self.context, at, self.sector) })?;
            at = at.checked_add(self.sector).ok_or(Failed)?;
        }
        Ok(())
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Failed> {
        let len = length(bytes.len())?;
        // SAFETY: by the contract of the header a function of this type, and bytes that live during the call.
        answer(unsafe { (self.write)(self.context, offset, bytes.as_ptr(), len) })
    }
}

const _: () = assert!(size_of::<Driver>() <= 7 * size_of::<usize>());
