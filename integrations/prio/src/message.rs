//! Messages: a byte for the kind, and the fields. Each request has one answer.

use crate::bytes::{Reader, put};
use crate::report_set::ReportSet;
use crate::{Refusal, Upload};

/// A request to an aggregator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AggregatorRequest {
    /// A gateway's report.
    Upload(Upload),
    /// The leader's greeting: the digest of its plan, and the first round that it has not charged.
    Hello(String, u32),
    /// The verify key of a round.
    Key(u32, [u8; 32]),
    /// The leader's verifier message for the report of a device that has this digest.
    Verify(u64, [u8; 32], Vec<u8>),
    /// Reports that the leader offers to add.
    Offer(ReportSet),
    /// The reports that are added, and no others.
    Fix(ReportSet),
    /// Collector's request: digest of its plan, round, digest of the round's request.
    Collect(String, u32, [u8; 32]),
}

/// An answer of an aggregator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Error.
    Refused(Refusal),
    /// Success, and the state is on its disk.
    Done,
    /// First round that it has not charged.
    Next(u32),
    /// The helper's verifier message.
    Message(Vec<u8>),
    /// The offered reports that it has verified.
    Have(ReportSet),
    /// Cohort, and share of its sum.
    Share(ReportSet, Vec<u8>),
}

fn digits(reader: &mut Reader<'_>) -> Option<String> {
    let digits = reader.array::<64>()?;
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    is_hex.then(|| digits.iter().map(|digit| char::from(*digit)).collect())
}

impl AggregatorRequest {
    /// Encodes the message.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let kind = |number: u8| vec![number];
        match self {
            Self::Upload(upload) => [kind(1), upload.to_bytes()].concat(),
            Self::Hello(plan, next) => [&kind(2)[..], plan.as_bytes(), &next.to_le_bytes()].concat(),
            Self::Key(round, key) => [&kind(3)[..], &round.to_le_bytes(), key].concat(),
            Self::Verify(device, digest, message) => [&kind(4)[..], &device.to_le_bytes(), digest, message].concat(),
            Self::Offer(cohort) => [kind(5), cohort.to_bytes()].concat(),
            Self::Fix(cohort) => [kind(6), cohort.to_bytes()].concat(),
            Self::Collect(plan, round, request) => {
                [&kind(7)[..], plan.as_bytes(), &round.to_le_bytes(), request].concat()
            }
        }
    }

    /// Decodes a message.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let request = match reader.u8()? {
            1 => return Upload::from_bytes(reader.0).map(Self::Upload),
            2 => Self::Hello(digits(&mut reader)?, reader.u32()?),
            3 => Self::Key(reader.u32()?, reader.array()?),
            4 => return Some(Self::Verify(reader.u64()?, reader.array()?, reader.0.to_vec())),
            5 => return ReportSet::from_bytes(reader.0).map(Self::Offer),
            6 => return ReportSet::from_bytes(reader.0).map(Self::Fix),
            7 => Self::Collect(digits(&mut reader)?, reader.u32()?, reader.array()?),
            _ => return None,
        };
        reader.end(request)
    }
}

impl Answer {
    /// Encodes the message.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Refused(refusal) => vec![1, refusal.number()],
            Self::Done => vec![2],
            Self::Next(round) => [&[3][..], &round.to_le_bytes()].concat(),
            Self::Message(message) => [&[4][..], message].concat(),
            Self::Have(cohort) => [vec![5], cohort.to_bytes()].concat(),
            Self::Share(cohort, share) => {
                let mut out = vec![6];
                put(&mut out, &cohort.to_bytes());
                put(&mut out, share);
                out
            }
        }
    }

    /// Decodes a message.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let answer = match reader.u8()? {
            1 => Self::Refused(Refusal::of_number(reader.u8()?)?),
            2 => Self::Done,
            3 => Self::Next(reader.u32()?),
            4 => return Some(Self::Message(reader.0.to_vec())),
            5 => return ReportSet::from_bytes(reader.0).map(Self::Have),
            6 => Self::Share(ReportSet::from_bytes(reader.bytes()?)?, reader.bytes()?.to_vec()),
            _ => return None,
        };
        reader.end(answer)
    }
}
