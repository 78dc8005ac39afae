//! Semihosting: the debugger's host gives the board a file that its command line names, read as a pack.
//!
//! # Memory
//!
//! A block of 256 bytes, because a call of the debugger takes as long as reading that.
#![no_std]
#![forbid(unsafe_code)]

use core::ffi::CStr;
use core::fmt;
use core::mem::MaybeUninit;
use damper_replay::Source;
use semihosting::fs;
use semihosting::io::Read;
use semihosting::sys::arm_compat::sys_get_cmdline_uninit;

/// Longest command line.
const LINE: usize = 256;
/// Bytes read at a time.
const BLOCK: usize = 256;

/// Errors of reading the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The command line names no file, or is too long.
    Unnamed,
    /// The file cannot be opened.
    NotOpened,
    /// It cannot be read.
    NotRead,
    /// It ended before the pack did.
    Ended,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unnamed => "the command line names no file",
            Self::NotOpened => "the file cannot be opened",
            Self::NotRead => "the file cannot be read",
            Self::Ended => "the bytes ended before the pack did",
        })
    }
}

/// A file, read from its start.
pub struct HostedFile {
    file: fs::File,
    block: [u8; BLOCK],
    /// Position of the first byte of the block that was not yet returned.
    at: usize,
    end: usize,
}

impl HostedFile {
    /// Opens the file that the command line names: all text after the program and a space.
    ///
    /// # Errors
    ///
    /// The command line names no file, or it cannot be opened.
    pub fn named() -> Result<Self, Fault> {
        let mut line = [MaybeUninit::uninit(); LINE];
        let line = sys_get_cmdline_uninit(&mut line).map_err(|_| Fault::Unnamed)?;
        let line = line.split(|byte| *byte == 0).next().unwrap_or_default();
        let space = line.iter().position(|byte| *byte == b' ').ok_or(Fault::Unnamed)?;
        let name = line.get(space + 1..).unwrap_or_default();
        // Zeros after the name end it.
        let mut path = [0; LINE];
        let room = path.get_mut(..name.len()).filter(|room| !room.is_empty()).ok_or(Fault::Unnamed)?;
        room.copy_from_slice(name);
        let path = CStr::from_bytes_until_nul(&path).map_err(|_| Fault::Unnamed)?;
        let file = fs::File::open(path).map_err(|_| Fault::NotOpened)?;
        Ok(Self { file, block: [0; BLOCK], at: 0, end: 0 })
    }
}

impl Source for HostedFile {
    type Error = Fault;

    fn read(&mut self, out: &mut [u8]) -> Result<(), Fault> {
        for out in out {
            if self.at == self.end {
                self.at = 0;
                self.end = self.file.read(&mut self.block).map_err(|_| Fault::NotRead)?;
            }
            *out = *self.block.get(self.at).filter(|_| self.at < self.end).ok_or(Fault::Ended)?;
            self.at += 1;
        }
        Ok(())
    }
}
