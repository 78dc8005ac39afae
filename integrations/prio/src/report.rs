//! A device's report: what a gateway sends to the two aggregators.

use damper_core::update::Header;

/// A report, each part as the bytes that travel. The header and the public share go to both aggregators, each input share to one: whoever has
/// both has the update.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The header of the update, in clear.
    pub header: Header,
    /// A random number of this report.
    pub nonce: [u8; 16],
    /// For both aggregators.
    pub public_share: Vec<u8>,
    /// For the leader alone.
    pub leader: InputShare,
    /// For the helper alone.
    pub helper: InputShare,
}

/// An aggregator's share of an update and of the proof.
#[derive(Clone, PartialEq, Eq)]
pub struct InputShare(pub Vec<u8>);

impl std::fmt::Debug for InputShare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "InputShare({} bytes)", self.0.len())
    }
}

impl Report {
    /// Bytes that the leader is sent: header, nonce, public share and input share.
    #[must_use]
    pub fn leader_bytes(&self) -> usize {
        self.common_bytes() + self.leader.0.len()
    }

    /// Bytes that the helper is sent.
    #[must_use]
    pub fn helper_bytes(&self) -> usize {
        self.common_bytes() + self.helper.0.len()
    }

    fn common_bytes(&self) -> usize {
        damper_core::update::HEADER + self.nonce.len() + self.public_share.len()
    }
}
