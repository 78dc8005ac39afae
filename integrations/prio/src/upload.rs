//! An upload: one aggregator's part of a report, signed by the member of the update.
//!
//! # Format
//!
//! Little-endian. Fields of variable length `n` start with `n` as four bytes:
//!
//! | bytes | what |
//! | ---: | --- |
//! | 4 | round |
//! | 8 | device: the member's number, from 1 |
//! | 32 | digest of the request (`damper_federation::request_digest`) |
//! | 16 | nonce of the report |
//! | 32 | SHA-256 of the leader's input share |
//! | 32 | SHA-256 of the helper's input share |
//! | 4 + n | public share |
//! | 64 | the member's Ed25519 signature |
//! | 4 + n | the input share of the receiving aggregator |
//!
//! The signature covers the text `damper prio report 1` and a line feed, the 64 hexadecimal digits of the plan's
//! digest, and all fields before it.
//!
//! # Claim
//!
//! The claim to an aggregator: the holder of the member's key made this report for this plan, round and request. The
//! other aggregator has the other share of the same report. The update may still be dishonest.

use crate::bytes::{Reader, put};
use crate::report::{InputShare, Report};
use crate::{Refusal, Role};
use damper_federation::{FederationPlan, MemberKey};
use sha2::{Digest, Sha256};

const CONTEXT: &[u8] = b"damper prio report 1\n";

/// One aggregator's part of a member's report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Upload {
    /// Round of the report.
    pub round: u32,
    /// Number of the member.
    pub device: u64,
    /// Digest of the request.
    pub request: [u8; 32],
    /// Nonce of the report.
    pub nonce: [u8; 16],
    /// SHA-256 of the leader's and of the helper's share.
    pub shares: [[u8; 32]; 2],
    /// Public share, for both aggregators.
    pub public_share: Vec<u8>,
    /// Signature of the member.
    pub signature: [u8; 64],
    /// Input share of the receiving aggregator.
    pub share: InputShare,
}

impl Upload {
    /// Returns the leader's and the helper's part of `report`, on `request`, signed by the member.
    #[must_use]
    pub fn sign(plan: &FederationPlan, request: [u8; 32], report: &Report, key: &MemberKey) -> [Self; 2] {
        let mut leader = Self {
            round: report.header.round,
            device: report.header.device,
            request,
            nonce: report.nonce,
            shares: [&report.leader, &report.helper].map(|share| Sha256::digest(&share.0).into()),
            public_share: report.public_share.clone(),
            signature: [0; 64],
            share: report.leader.clone(),
        };
        leader.signature = key.sign(CONTEXT, &leader.message(plan));
        let helper = Self { share: report.helper.clone(), ..leader.clone() };
        [leader, helper]
    }

    fn fields(&self) -> Vec<u8> {
        let mut out = self.round.to_le_bytes().to_vec();
        out.extend(self.device.to_le_bytes());
        out.extend(self.request);
        out.extend(self.nonce);
        self.shares.iter().for_each(|share| out.extend(share));
        put(&mut out, &self.public_share);
        out
    }

    fn message(&self, plan: &FederationPlan) -> Vec<u8> {
        [plan.digest().as_bytes(), &self.fields()].concat()
    }

    /// Returns the SHA-256 of all signed fields except the plan. It is equal at both aggregators, and identifies this
    /// report.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.fields()).into()
    }

    /// Encodes the upload.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.fields();
        out.extend(self.signature);
        put(&mut out, &self.share.0);
        out
    }

    /// Decodes an upload from all of `bytes`.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let upload = Self {
            round: reader.u32()?,
            device: reader.u64()?,
            request: reader.array()?,
            nonce: reader.array()?,
            shares: [reader.array()?, reader.array()?],
            public_share: reader.bytes()?.to_vec(),
            signature: reader.array()?,
            share: InputShare(reader.bytes()?.to_vec()),
        };
        reader.end(upload)
    }

    /// Checks that a member of `plan` signed the upload for a round of it. Its share must be that of `role` in the
    /// signed report.
    ///
    /// # Errors
    ///
    /// The reason.
    pub fn check(&self, plan: &FederationPlan, role: Role) -> Result<(), Refusal> {
        if self.round >= plan.rounds {
            return Err(Refusal::Round);
        }
        let member = plan.member(self.device);
        let member = member.ok_or(Refusal::Member)?;
        if !member.signed(CONTEXT, &self.message(plan), &self.signature) {
            return Err(Refusal::Signature);
        }
        let own: [u8; 32] = Sha256::digest(&self.share.0).into();
        if own == self.shares[role.index()] { Ok(()) } else { Err(Refusal::Share) }
    }
}
