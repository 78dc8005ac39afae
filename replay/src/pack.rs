//! Reading a pack: bytes in order, little-endian, hashed as they are read.

use super::error::PackError;
use super::grammar::LONGEST_NAME;
use damper_core::numerics::digest::Digest;

/// The source of a pack's bytes, which are read once, in order, such as from flash or from a file over semihosting.
pub trait Source {
    /// The error of a read.
    type Error;

    /// Fills `out` with the next bytes.
    ///
    /// # Errors
    ///
    /// There are fewer bytes, or they cannot be read.
    fn read(&mut self, out: &mut [u8]) -> Result<(), Self::Error>;
}

/// The bytes ended before the pack did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TruncatedPack;

impl core::fmt::Display for TruncatedPack {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the bytes ended before the pack did")
    }
}

impl Source for &[u8] {
    type Error = TruncatedPack;

    fn read(&mut self, out: &mut [u8]) -> Result<(), TruncatedPack> {
        let (bytes, rest) = self.split_at_checked(out.len()).ok_or(TruncatedPack)?;
        for (out, byte) in out.iter_mut().zip(bytes) {
            *out = *byte;
        }
        *self = rest;
        Ok(())
    }
}

/// The name of a set or a group: printable ASCII.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Name {
    bytes: [u8; LONGEST_NAME],
    len: u8,
}

impl Name {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        core::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl core::fmt::Display for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Values from a source. After a failure of the source they are zeros. So a loop over them checks [`Reader::failed`],
/// and the failure takes precedence over any other error. This keeps the code for reading small.
pub(super) struct Reader<'a> {
    read: &'a mut dyn FnMut(&mut [u8]) -> bool,
    failed: bool,
    digest: Digest,
}

impl<'a> Reader<'a> {
    /// `read` fills its argument. It returns false if it fails.
    pub(super) fn new(read: &'a mut dyn FnMut(&mut [u8]) -> bool) -> Self {
        Self { read, failed: false, digest: Digest::default() }
    }

    /// Returns true if the source failed.
    pub(super) fn failed(&self) -> bool {
        self.failed
    }

    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        if self.failed || !(self.read)(bytes) {
            self.failed = true;
            bytes.fill(0);
        }
        self.digest.add_bytes(bytes);
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    #[inline(never)]
    pub(super) fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.bytes())
    }

    #[inline(never)]
    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes())
    }

    #[inline(never)]
    pub(super) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    #[inline(never)]
    pub(super) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }

    pub(super) fn f32(&mut self) -> f32 {
        f32::from_bits(self.u32())
    }

    #[inline(never)]
    pub(super) fn f64(&mut self) -> f64 {
        f64::from_bits(self.u64())
    }

    #[inline(never)]
    pub(super) fn f32s(&mut self, out: &mut [f32]) {
        for out in out {
            *out = self.f32();
        }
    }

    pub(super) fn name(&mut self) -> Result<Name, PackError> {
        let mut name = Name { bytes: [0; LONGEST_NAME], len: self.u8() };
        let bytes = name.bytes.get_mut(..usize::from(name.len)).ok_or(PackError::Field("length of a name"))?;
        self.fill(bytes);
        if bytes.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') {
            Ok(name)
        } else {
            Err(PackError::Field("a name"))
        }
    }

    /// The end of the pack: the digest of all bytes before it.
    pub(super) fn end(&mut self) -> Result<(), PackError> {
        let found = self.digest.value();
        if self.u64() == found { Ok(()) } else { Err(PackError::Damaged) }
    }
}
