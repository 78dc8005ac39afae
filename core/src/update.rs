//! An update that leaves a device: a released sum of clipped gradients, on the grid, as bytes. Defines the format.
//!
//! Only [`Open::emit`](crate::step::Open::emit) on a device writes an update, so a sum without noise never becomes
//! bytes. A server reads each update with [`Update::parse`], and adds the integers of updates with matching
//! [`Header`]s. The integers are exact. The total is therefore that of one process with every sample, and with the
//! noise of every device.
//!
//! # Format
//!
//! Little-endian, without padding:
//!
//! | at | bytes | content |
//! | ---: | ---: | --- |
//! | 0 | 8 | magic, `DAMPERUP` |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | bytes of an integer of the payload: 4 from a device, 8 in a sum of several |
//! | 16 | 8 | run: a number that all devices of a federation share |
//! | 24 | 8 | device: its unique number, or 0 in a sum |
//! | 32 | 4 | round |
//! | 36 | 4 | number of devices in the update: 1 from a device |
//! | 40 | 4 | `D` |
//! | 44 | 4 | grid bits `b`: a unit of the integers is `clip · 2^-b` |
//! | 48 | 4 | expected batch of each device |
//! | 52 | 4 | σ of each device's noise in grid units, for a multiplier of `σ / 2^b` |
//! | 56 | 4 | clip, the bits of an f32 |
//! | 60 | `4·D` or `8·D` | payload: two's complement |
//! | | 8 | checksum: [`Digest`] of all bytes before |
//!
//! The checksum detects damage, not forgery. The transport authenticates the bytes.
//!
//! # Privacy
//!
//! The integers are a clipped sum with discrete Gaussian noise. Each update is private with respect to the samples of
//! its device, at the multiplier in its header, for any reader. Computations on the server are post-processing. The
//! server adds no noise. `docs/federated.md` describes the guarantee.

use crate::numerics::digest::Digest;
use core::fmt;

const MAGIC: [u8; 8] = *b"DAMPERUP";
const VERSION: u32 = 1;
/// Number of bytes before the payload.
pub const HEADER: usize = 60;
/// Number of bytes after the payload.
pub const CHECKSUM: usize = 8;

/// Header of an update. Two updates may be added if their headers differ only in `device`.
///
/// ```
/// use damper_core::update::Header;
///
/// let header = Header {
///     run: 1, device: 7, round: 0, devices: 1, dim: 3, grid_bits: 16, expected_batch: 60, sigma: 1 << 16, clip: 1.0,
/// };
/// assert_eq!(header.multiplier(), 1.0);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Header {
    /// Number of the federation's run.
    pub run: u64,
    /// Number of the device. 0 in a sum.
    pub device: u64,
    /// Round of the federation.
    pub round: u32,
    /// Number of devices in the update.
    pub devices: u32,
    /// Number of parameters, `D`.
    pub dim: u32,
    /// Grid bits: the clip is `2^grid_bits` units.
    pub grid_bits: u32,
    /// Expected number of samples of each device.
    pub expected_batch: u32,
    /// Standard deviation of each device's noise, in grid units.
    pub sigma: u32,
    /// Clip: the largest norm of a sample.
    pub clip: f32,
}

/// Integer type of a payload.
///
/// ```
/// use damper_core::update::PayloadWord;
///
/// assert_eq!((PayloadWord::Device.bytes(), PayloadWord::Sum.bytes()), (4, 8));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PayloadWord {
    /// Update of a device: four bytes for each integer.
    Device,
    /// Sum of several devices: eight bytes for each integer.
    Sum,
}

impl PayloadWord {
    /// Returns the number of bytes of an integer.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Device => 4,
            Self::Sum => 8,
        }
    }
}

impl Header {
    /// Returns the noise multiplier of each device, exactly.
    #[must_use]
    pub fn multiplier(&self) -> f64 {
        f64::from(self.sigma) / f64::from(1u32.checked_shl(self.grid_bits).unwrap_or(u32::MAX))
    }

    /// Returns the first bytes of an update.
    #[must_use]
    pub fn bytes(&self, word: PayloadWord) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let mut rest = &mut bytes[..];
        let mut put = |field: &[u8]| {
            if let Some((here, after)) = core::mem::take(&mut rest).split_at_mut_checked(field.len()) {
                here.copy_from_slice(field);
                rest = after;
            }
        };
        put(&MAGIC);
        put(&VERSION.to_le_bytes());
        put(&(word.bytes() as u32).to_le_bytes());
        put(&self.run.to_le_bytes());
        put(&self.device.to_le_bytes());
        for field in [self.round, self.devices, self.dim, self.grid_bits, self.expected_batch, self.sigma] {
            put(&field.to_le_bytes());
        }
        put(&self.clip.to_bits().to_le_bytes());
        bytes
    }
}

/// A parsed update.
///
/// ```
/// use damper_core::prelude::*;
/// use damper_core::{step::Sender, update::{HEADER, PayloadWord, Update, UpdateError}};
///
/// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(60).build()?;
/// let (mut state, mut ledger) = (config.state::<3>(), Ledger::volatile(1));
/// let mut step = config.open(&mut state, &mut ledger)?;
/// step.add(&[0.5, -0.2, 0.1])?;
/// let mut bytes = vec![];
/// step.emit(Sender { run: 1, device: 7, round: 0 }, &NoiseRng::simulation(1), |part| bytes.extend(part))?;
///
/// let update = Update::parse(&bytes)?;
/// assert_eq!((update.header().device, update.header().dim), (7, 3));
/// assert!(update.header().multiplier() >= 1.1);
/// assert_eq!((update.word(), update.units().count()), (PayloadWord::Device, 3));
/// assert_eq!(update.header().bytes(PayloadWord::Device), bytes[..HEADER]);
/// bytes[HEADER] ^= 1;
/// assert_eq!(Update::parse(&bytes), Err(UpdateError::Checksum));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Update<'a> {
    header: Header,
    word: PayloadWord,
    payload: &'a [u8],
}

/// Cause that makes bytes an invalid update.
///
/// ```
/// use damper_core::update::{Update, UpdateError};
///
/// assert_eq!(Update::parse(b"PNG"), Err(UpdateError::Magic));
/// assert!(matches!(Update::parse(b"DAMPERUP"), Err(UpdateError::Length { got: 8, .. })));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum UpdateError {
    /// The bytes do not begin with the magic.
    Magic,
    /// The version is not supported.
    Version(u32),
    /// The number of bytes is wrong.
    Length {
        /// Number of bytes of an update with this header, at least.
        expected: u64,
        /// Actual number of bytes.
        got: u64,
    },
    /// The checksum differs, so bytes were changed.
    Checksum,
    /// A field of the header is out of its range.
    Field(&'static str),
}

impl fmt::Display for UpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => f.write_str("not an update: it does not begin with DAMPERUP"),
            Self::Version(version) => write!(f, "an update of version {version}, where {VERSION} can be read"),
            Self::Length { expected, got } if got < expected => {
                write!(f, "truncated: {got} bytes of {expected}")
            }
            Self::Length { expected, got } => write!(f, "{got} bytes, where the update ends after {expected}"),
            Self::Checksum => f.write_str("damaged: its checksum does not fit its bytes"),
            Self::Field(what) => write!(f, "damaged or forged: {what} is out of its range"),
        }
    }
}

impl core::error::Error for UpdateError {}

/// Takes the first bytes. Returns zeros past the end, which cannot happen because the length was checked.
fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    match bytes.split_first_chunk::<N>() {
        Some((first, rest)) => {
            *bytes = rest;
            *first
        }
        None => [0; N],
    }
}

impl<'a> Update<'a> {
    /// Parses one update from all of `bytes`.
    ///
    /// # Errors
    ///
    /// Fails unless `bytes` is exactly one undamaged update.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, UpdateError> {
        let got = bytes.len() as u64;
        let magic = bytes.get(..MAGIC.len().min(bytes.len())).unwrap_or_default();
        if magic.is_empty() || !MAGIC.starts_with(magic) {
            return Err(UpdateError::Magic);
        }
        let Some((mut fields, rest)) = bytes.split_at_checked(HEADER) else {
            return Err(UpdateError::Length { expected: (HEADER + CHECKSUM) as u64, got });
        };
        take::<8>(&mut fields);
        let mut next = || u32::from_le_bytes(take(&mut fields));
        let version = next();
        if version != VERSION {
            return Err(UpdateError::Version(version));
        }
        let word = match next() {
            4 => PayloadWord::Device,
            8 => PayloadWord::Sum,
            _ => return Err(UpdateError::Field("the size of its integers")),
        };
        let run = u64::from_le_bytes(take(&mut fields));
        let device = u64::from_le_bytes(take(&mut fields));
        let mut next = || u32::from_le_bytes(take(&mut fields));
        let (round, devices, dim, grid_bits, expected_batch, sigma) = (next(), next(), next(), next(), next(), next());
        let clip = f32::from_bits(next());
        let length = u64::from(dim) * word.bytes() as u64;
        let expected = length + (HEADER + CHECKSUM) as u64;
        if got != expected {
            return Err(UpdateError::Length { expected, got });
        }
        let (payload, mut checksum) = rest.split_at_checked(rest.len().saturating_sub(CHECKSUM)).unwrap_or_default();
        let mut digest = Digest::default();
        digest.add_bytes(bytes.get(..bytes.len().saturating_sub(CHECKSUM)).unwrap_or_default());
        if digest.value() != u64::from_le_bytes(take(&mut checksum)) {
            return Err(UpdateError::Checksum);
        }
        let fields = [
            (dim > 0, "the number of parameters"),
            ((8..=22).contains(&grid_bits), "the grid"),
            ((1..=1 << 24).contains(&expected_batch), "the expected batch"),
            ((1..1 << 31).contains(&sigma), "the noise"),
            (clip.is_normal() && clip > 0.0, "the clip"),
            (devices > 0 && (word == PayloadWord::Sum || devices == 1), "the number of devices"),
        ];
        match fields.iter().find(|(holds, _)| !holds) {
            Some((_, what)) => Err(UpdateError::Field(what)),
            None => {
                let header = Header { run, device, round, devices, dim, grid_bits, expected_batch, sigma, clip };
                Ok(Self { header, word, payload })
            }
        }
    }

    /// Returns the header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the integer type of the payload.
    #[must_use]
    pub fn word(&self) -> PayloadWord {
        self.word
    }

    /// Returns the `D` integers.
    pub fn units(&self) -> impl Iterator<Item = i64> + 'a {
        let word = self.word;
        self.payload.chunks_exact(word.bytes()).map(move |mut bytes| match word {
            PayloadWord::Device => i64::from(i32::from_le_bytes(take(&mut bytes))),
            PayloadWord::Sum => i64::from_le_bytes(take(&mut bytes)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    extern crate std;
    use std::vec::Vec;

    const PLAIN: Header = Header {
        run: 7,
        device: 3,
        round: 2,
        devices: 1,
        dim: 3,
        grid_bits: 16,
        expected_batch: 60,
        sigma: 1 << 17,
        clip: 0.5,
    };

    fn with_payload(header: &Header, units: &[i32]) -> Vec<u8> {
        let mut bytes = header.bytes(PayloadWord::Device).to_vec();
        units.iter().for_each(|unit| bytes.extend(unit.to_le_bytes()));
        let mut digest = Digest::default();
        digest.add_bytes(&bytes);
        bytes.extend(digest.value().to_le_bytes());
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = with_payload(&PLAIN, &[1, -2, i32::MIN]);
        let update = Update::parse(&bytes).unwrap();
        assert_eq!((*update.header(), update.word(), update.header().multiplier()), (PLAIN, PayloadWord::Device, 2.0));
        assert!(update.units().eq([1, -2, i64::from(i32::MIN)]));
    }

    /// Bytes written by hand from the table above.
    #[test]
    fn the_format_is_the_documented_one() {
        let bytes = with_payload(&PLAIN, &[1, -2, 3]);
        let hex = "44414d5045525550 01000000 04000000 0700000000000000 0300000000000000 02000000 01000000 03000000 10000000 \
                   3c000000 00000200 0000003f 01000000 feffffff 03000000";
        let written: Vec<u8> = hex
            .split_whitespace()
            .flat_map(|word| (0..word.len()).step_by(2).map(|at| u8::from_str_radix(&word[at..at + 2], 16).unwrap()))
            .collect();
        assert_eq!(bytes[..bytes.len() - CHECKSUM], written);
    }

    // Every truncation and every changed byte is an error.
    #[test]
    fn detects_truncation_and_byte_changes() {
        let bytes = with_payload(&PLAIN, &[1, -2, 3]);
        for at in 0..bytes.len() {
            assert!(Update::parse(&bytes[..at]).is_err(), "cut at {at}");
            for change in 1..=255 {
                let mut damaged = bytes.clone();
                damaged[at] ^= change;
                assert!(Update::parse(&damaged).is_err(), "byte {at} ^ {change}");
            }
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(matches!(Update::parse(&longer), Err(UpdateError::Length { .. })));
    }

    // A header with invalid values is an error.
    #[test]
    fn invalid_header_is_error() {
        for (header, what) in [
            (Header { grid_bits: 23, ..PLAIN }, "the grid"),
            (Header { grid_bits: 7, ..PLAIN }, "the grid"),
            (Header { expected_batch: 0, ..PLAIN }, "the expected batch"),
            (Header { sigma: 0, ..PLAIN }, "the noise"),
            (Header { clip: f32::NAN, ..PLAIN }, "the clip"),
            (Header { clip: -1.0, ..PLAIN }, "the clip"),
            (Header { devices: 2, ..PLAIN }, "the number of devices"),
        ] {
            assert_eq!(Update::parse(&with_payload(&header, &[0; 3])), Err(UpdateError::Field(what)));
        }
        assert_eq!(
            Update::parse(&with_payload(&Header { dim: 0, ..PLAIN }, &[])),
            Err(UpdateError::Field("the number of parameters"))
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), keep in 0usize..60) {
            let _ = Update::parse(&bytes);
            let mut known = PLAIN.bytes(PayloadWord::Sum)[..keep].to_vec();
            known.extend(bytes);
            let _ = Update::parse(&known);
        }
    }
}
