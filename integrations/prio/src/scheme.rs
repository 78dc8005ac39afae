//! Prio3SumVec for a round: length, range, and the public header that all its updates share.

use crate::{PrioError, Range};
use damper_core::update::{Header, PayloadWord};
use damper_federation::FederationPlan;
use prio::vdaf::prio3::{Prio3SumVec, optimal_chunk_length};

/// Name of the protocol in every transcript.
const CONTEXT: &[u8] = b"damper-prio 2";

/// A round of secure aggregation.
#[derive(Clone, Debug)]
pub struct Scheme {
    pub(crate) vdaf: Prio3SumVec,
    pub(crate) range: Range,
    /// Common header of all updates, without their device.
    header: Header,
    /// Digest of the plan. Empty without a plan.
    plan: String,
}

impl Scheme {
    /// Returns `round` of `plan`: the header of its updates, and the range of honest updates.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new).
    pub fn of_plan(plan: &FederationPlan, round: u32) -> Result<Self, PrioError> {
        let scheme = Self::new(plan.header(0, round), Range::symmetric(plan.largest_integer())?)?;
        Ok(Self { plan: plan.digest(), ..scheme })
    }

    /// Returns the round of the updates with the fields of `header` and with each integer in `range`. The device in
    /// `header` is ignored.
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
        Ok(Self { vdaf, range, header: Header { device: 0, devices: 1, ..header }, plan: String::new() })
    }

    /// Returns the header of a sum of `devices` updates.
    pub(crate) fn sum_header(&self, devices: u32) -> Header {
        Header { devices, ..self.header }
    }

    /// Returns the maximum length of an input share, in bytes: an element of 16 bytes for each bit, and a proof. The
    /// proof has about six times the square root of the number of elements.
    pub(crate) fn most_bytes(&self) -> usize {
        let elements = (self.header.dim as usize).saturating_mul(self.range.bits() as usize);
        elements.saturating_add(16 * elements.isqrt()).saturating_add(4096).saturating_mul(16)
    }

    /// Returns the length of an aggregator's share of a sum, in bytes.
    pub(crate) fn sum_bytes(&self) -> usize {
        (self.header.dim as usize).saturating_mul(16)
    }

    /// Returns the context that binds the shares and the proof of an update: the plan, the range, and the whole header
    /// with the device. A report with another header, of another round or of another device does not verify.
    pub(crate) fn context(&self, header: &Header) -> Vec<u8> {
        let mut context = CONTEXT.to_vec();
        context.extend(self.plan.as_bytes());
        context.extend(self.range.bytes());
        context.extend(header.bytes(PayloadWord::Device));
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
