//! Prio3SumVec for a round: the length, the range, and the public header that all its updates share.

use crate::{PrioError, Range};
use damper_core::update::{Header, Word};
use prio::vdaf::prio3::{Prio3SumVec, optimal_chunk_length};

/// The name of the protocol in every transcript.
const CONTEXT: &[u8] = b"damper-prio 1";

/// A round of secure aggregation.
#[derive(Clone, Debug)]
pub struct Scheme {
    pub(crate) vdaf: Prio3SumVec,
    pub(crate) range: Range,
    /// The header that all updates have, but for their device.
    header: Header,
}

impl Scheme {
    /// The round whose updates have the fields of `header`, each integer in `range`. Its device does not count.
    ///
    /// # Errors
    ///
    /// The vector has no length, or is longer than the proof can be.
    pub fn new(header: Header, range: Range) -> Result<Self, PrioError> {
        let len = header.dim as usize;
        let chunk = optimal_chunk_length(len.saturating_mul(range.bits() as usize).max(1));
        let vdaf = Prio3SumVec::new_sum_vec(2, range.largest(), len, chunk).map_err(|error| PrioError::Scheme {
            len,
            bits: range.bits(),
            error,
        })?;
        Ok(Self { vdaf, range, header: Header { device: 0, devices: 1, ..header } })
    }

    /// The header of a sum of `devices` updates.
    pub(crate) fn sum_header(&self, devices: u32) -> Header {
        Header { devices, ..self.header }
    }

    /// What the shares and the proof of an update are bound to: the whole header, the device in it. A report under another header, of another
    /// round or of another device does not verify.
    pub(crate) fn context(&self, header: &Header) -> Vec<u8> {
        let mut context = CONTEXT.to_vec();
        context.push(u8::try_from(self.range.bits()).unwrap_or(u8::MAX));
        context.extend(header.bytes(Word::Device));
        context
    }

    /// Fails if `header` differs from the round's in more than its device.
    pub(crate) fn check(&self, header: &Header) -> Result<(), PrioError> {
        let wanted = &self.header;
        let fields = [
            (header.run == wanted.run, "run"),
            (header.round == wanted.round, "round"),
            (header.dim == wanted.dim, "number of parameters"),
            (header.grid_bits == wanted.grid_bits, "number of grid bits"),
            (header.expected_batch == wanted.expected_batch, "expected batch"),
            (header.sigma == wanted.sigma, "noise"),
            (header.clip.to_bits() == wanted.clip.to_bits(), "clip"),
            (header.devices == 1, "number of devices"),
        ];
        match fields.iter().find(|(is_equal, _)| !is_equal) {
            Some((_, field)) => Err(PrioError::Mixed { device: header.device, field }),
            None => Ok(()),
        }
    }
}
