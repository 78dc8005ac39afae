//! Reading a pack: bytes in order, little-endian, digested as they come.

use super::ReplayError;
use crate::numerics::digest::Digest;

/// Where a pack's bytes come from, once, in order: flash, a file over semihosting.
pub trait Source {
    /// What can go wrong.
    type Error;

    /// Fills `out` with the next bytes.
    ///
    /// # Errors
    ///
    /// There are not so many, or they cannot be had.
    fn read(&mut self, out: &mut [u8]) -> Result<(), Self::Error>;
}

/// The bytes ended before the pack did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Truncated;

impl core::fmt::Display for Truncated {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the bytes ended before the pack did")
    }
}

impl Source for &[u8] {
    type Error = Truncated;

    fn read(&mut self, out: &mut [u8]) -> Result<(), Truncated> {
        let (bytes, rest) = self.split_at_checked(out.len()).ok_or(Truncated)?;
        for (out, byte) in out.iter_mut().zip(bytes) {
            *out = *byte;
        }
        *self = rest;
        Ok(())
    }
}

/// Longest name of a set or a group.
pub(super) const NAME: usize = 40;

/// The name of a set or a group: printable ASCII.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Name {
    bytes: [u8; NAME],
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

/// Numbers out of a source.
pub(super) struct Reader<'a, S> {
    source: &'a mut S,
    digest: Digest,
}

impl<'a, S: Source> Reader<'a, S> {
    pub(super) fn new(source: &'a mut S) -> Self {
        Self { source, digest: Digest::default() }
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], ReplayError<S::Error>> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), ReplayError<S::Error>> {
        self.source.read(bytes).map_err(ReplayError::Source)?;
        self.digest.add_bytes(bytes);
        Ok(())
    }

    pub(super) fn u8(&mut self) -> Result<u8, ReplayError<S::Error>> {
        self.bytes().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, ReplayError<S::Error>> {
        self.bytes().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, ReplayError<S::Error>> {
        self.bytes().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, ReplayError<S::Error>> {
        self.bytes().map(u64::from_le_bytes)
    }

    pub(super) fn f32(&mut self) -> Result<f32, ReplayError<S::Error>> {
        self.u32().map(f32::from_bits)
    }

    pub(super) fn f64(&mut self) -> Result<f64, ReplayError<S::Error>> {
        self.u64().map(f64::from_bits)
    }

    pub(super) fn f32s(&mut self, out: &mut [f32]) -> Result<(), ReplayError<S::Error>> {
        for out in out {
            *out = self.f32()?;
        }
        Ok(())
    }

    pub(super) fn name(&mut self) -> Result<Name, ReplayError<S::Error>> {
        let mut name = Name { bytes: [0; NAME], len: self.u8()? };
        let bytes = name.bytes.get_mut(..usize::from(name.len)).ok_or(ReplayError::Field("length of a name"))?;
        self.fill(bytes)?;
        if bytes.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') {
            Ok(name)
        } else {
            Err(ReplayError::Field("a name"))
        }
    }

    /// The end of the pack: the digest of all before it.
    pub(super) fn end(mut self) -> Result<(), ReplayError<S::Error>> {
        let found = self.digest.value();
        if self.u64()? == found { Ok(()) } else { Err(ReplayError::Damaged) }
    }
}
