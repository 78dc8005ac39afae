//! The envelope of a member's update, with the request that it answers and the member's signature.
//!
//! # Format
//!
//! Little-endian, without padding:
//!
//! | at | bytes | what |
//! | ---: | ---: | --- |
//! | 0 | 8 | magic, `DAMPERSG` |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | round |
//! | 16 | 8 | device: the member's number, from 1 |
//! | 24 | 32 | SHA-256 of the plan |
//! | 56 | 32 | digest of the request ([`request_digest`](crate::request_digest)) |
//! | 88 | 8 | bytes of the update, `n` |
//! | 96 | n | the update, in the format of [`damper_core::update`] |
//! | 96 + n | 64 | Ed25519 signature of all bytes before, after the words `damper update 1` and a line feed |
//!
//! # Claim
//!
//! An accepted envelope proves that the holder of the member's key made it for this plan, this round and this request.
//! The proof is for the server and for any reader of the files. It does not prove that the update is honest.

use crate::member::SIGNATURE;
use crate::{FederationPlan, MemberKey};
use std::fmt;

const MAGIC: [u8; 8] = *b"DAMPERSG";
const VERSION: u32 = 1;
const HEAD: usize = 96;
const CONTEXT: &[u8] = b"damper update 1\n";

/// An open envelope with a valid signature of the plan's member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope<'a> {
    /// The member's number, from 1.
    pub device: u64,
    /// The bytes of the update.
    pub update: &'a [u8],
}

/// The reason why bytes are not an envelope of the round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// The bytes do not have the form of an envelope.
    #[error("not a signed update: the plan has members, and each signs what it sends")]
    Form,
    /// Another plan, round or request.
    #[error("an answer to another {0}; each round is asked for and added by itself")]
    Other(&'static str),
    /// The plan has no member with this number.
    #[error("signed for device {0}, which the plan does not have")]
    Unknown(u64),
    /// The signature is not that of the member.
    #[error("not signed by device {0}, for which it speaks")]
    Signature(u64),
}

/// The request that updates of a round answer. It caches the plan's digest, which takes time proportional to the number
/// of members.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The plan.
    pub plan: &'a FederationPlan,
    /// The round, counted from 0.
    pub round: u32,
    /// The digest of the request ([`request_digest`](crate::request_digest)).
    pub request: [u8; 32],
    digest: [u8; 32],
}

impl<'a> Asked<'a> {
    /// Creates the request with this digest in `round` of `plan`.
    #[must_use]
    pub fn new(plan: &'a FederationPlan, round: u32, request: [u8; 32]) -> Self {
        Self { plan, round, request, digest: plan.digest_bytes() }
    }

    /// Returns the bytes before an update of this size.
    fn head(&self, device: u64, update: usize) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        let mut rest = &mut bytes[..];
        let mut put = |field: &[u8]| {
            let (here, after) = std::mem::take(&mut rest).split_at_mut(field.len());
            here.copy_from_slice(field);
            rest = after;
        };
        put(&MAGIC);
        put(&VERSION.to_le_bytes());
        put(&self.round.to_le_bytes());
        put(&device.to_le_bytes());
        put(&self.digest);
        put(&self.request);
        put(&(update as u64).to_le_bytes());
        bytes
    }
}

impl<'a> Envelope<'a> {
    /// Returns the bytes of an envelope in which `device` answers with `update`.
    #[must_use]
    pub fn seal(asked: &Asked<'_>, device: u64, update: &[u8], key: &MemberKey) -> Vec<u8> {
        let mut bytes = asked.head(device, update.len()).to_vec();
        bytes.extend_from_slice(update);
        let signature = key.sign(CONTEXT, &bytes);
        bytes.extend_from_slice(&signature);
        bytes
    }

    /// Opens an envelope that answers this request.
    ///
    /// # Errors
    ///
    /// The bytes are not an envelope, or the member that it names did not sign it.
    pub fn open(asked: &Asked<'_>, bytes: &'a [u8]) -> Result<Self, EnvelopeError> {
        let signed = bytes.split_last_chunk::<SIGNATURE>();
        let (message, signature) = signed.ok_or(EnvelopeError::Form)?;
        let (head, update) = message.split_first_chunk::<HEAD>().ok_or(EnvelopeError::Form)?;
        let device = u64::from_le_bytes(std::array::from_fn(|at| head[16 + at]));
        let wanted = asked.head(device, update.len());
        let differs = |from: usize, to: usize| head[from..to] != wanted[from..to];
        if differs(0, 12) || differs(88, HEAD) {
            return Err(EnvelopeError::Form);
        }
        for (name, from, to) in [("plan", 24, 56), ("round", 12, 16), ("request", 56, 88)] {
            if differs(from, to) {
                return Err(EnvelopeError::Other(name));
            }
        }
        let member = asked.plan.member(device).ok_or(EnvelopeError::Unknown(device))?;
        if !member.signed(CONTEXT, message, signature) {
            return Err(EnvelopeError::Signature(device));
        }
        Ok(Self { device, update })
    }
}

impl fmt::Display for Envelope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, signed by device {}", self.update.len(), self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::settings;
    use crate::{Member, PlanSettings, request_digest};

    fn keys(count: usize) -> (Vec<MemberKey>, Vec<Member>) {
        let folder = tempfile::tempdir().unwrap();
        let keys: Vec<_> =
            (0..count).map(|number| MemberKey::create(&folder.path().join(number.to_string())).unwrap()).collect();
        let members = keys.iter().map(|key| Member { public_key: key.public(), name: String::new() }).collect();
        (keys, members)
    }

    fn plan(members: Vec<Member>, clip: f32) -> FederationPlan {
        FederationPlan::new(&PlanSettings { members, clip, ..settings() }, 650, "m".repeat(64)).unwrap()
    }

    #[test]
    fn only_the_member_itself_answers_the_request() {
        let (keys, members) = keys(4);
        let (ours, other) = (plan(members.clone(), 0.5), plan(members, 0.25));
        let request = request_digest(&ours, 2, Some(&[1.0; 650]));
        let seal = |plan, round, device, request: &[u8; 32], key: usize| {
            Envelope::seal(&Asked::new(plan, round, *request), device, b"update", &keys[key])
        };
        let (good, asked) = (seal(&ours, 2, 3, &request, 2), Asked::new(&ours, 2, request));
        assert_eq!(Envelope::open(&asked, &good), Ok(Envelope { device: 3, update: b"update" }));
        let of_other = request_digest(&ours, 2, Some(&[1.5; 650]));
        for (bytes, error) in [
            // Device 2 signs for device 3.
            (seal(&ours, 2, 3, &request, 1), EnvelopeError::Signature(3)),
            (seal(&other, 2, 3, &request, 2), EnvelopeError::Other("plan")),
            (seal(&ours, 1, 3, &request, 2), EnvelopeError::Other("round")),
            (seal(&ours, 2, 3, &of_other, 2), EnvelopeError::Other("request")),
            (seal(&ours, 2, 5, &request, 2), EnvelopeError::Unknown(5)),
            (seal(&ours, 2, 0, &request, 2), EnvelopeError::Unknown(0)),
            (seal(&ours, 2, u64::MAX, &request, 2), EnvelopeError::Unknown(u64::MAX)),
        ] {
            assert_eq!(Envelope::open(&asked, &bytes), Err(error));
        }
    }

    // A request includes every bit of its parameters. A request without parameters differs from a request with the
    // model's own.
    #[test]
    fn requests_differ_in_every_bit() {
        let (_, members) = keys(4);
        let plan = plan(members, 0.5);
        let of = |round, params: Option<&[f32]>| request_digest(&plan, round, params);
        let all = [of(0, None), of(0, Some(&[])), of(1, None), of(0, Some(&[0.0])), of(0, Some(&[-0.0]))];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
        }
    }

    // Every truncation and every changed bit is an error.
    #[test]
    fn damaged_envelope_is_error() {
        let (keys, members) = keys(4);
        let plan = plan(members, 0.5);
        let asked = Asked::new(&plan, 0, request_digest(&plan, 0, None));
        let good = Envelope::seal(&asked, 1, &[7; 40], &keys[0]);
        for cut in 0..good.len() {
            assert!(Envelope::open(&asked, &good[..cut]).is_err(), "{cut}");
        }
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Envelope::open(&asked, &bad).is_err(), "{bit}");
        }
        assert!(Envelope::open(&asked, &[&good[..], &[0]].concat()).is_err());
    }
}
