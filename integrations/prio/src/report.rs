//! Report of a device: the data from a gateway to the two aggregators.

use damper_core::update::Header;

/// A report, with its parts as encoded bytes. The header and the public share go to both aggregators, each input share
/// to one. Both input shares together reveal the update.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Header of the update, in clear.
    pub header: Header,
    /// Random nonce of this report.
    pub nonce: [u8; 16],
    /// Public share, for both aggregators.
    pub public_share: Vec<u8>,
    /// Input share for the leader only.
    pub leader: InputShare,
    /// Input share for the helper only.
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
    /// Returns the number of bytes for the leader: header, nonce, public share and input share.
    #[must_use]
    pub fn leader_bytes(&self) -> usize {
        self.common_bytes() + self.leader.0.len()
    }

    /// Returns the number of bytes for the helper.
    #[must_use]
    pub fn helper_bytes(&self) -> usize {
        self.common_bytes() + self.helper.0.len()
    }

    fn common_bytes(&self) -> usize {
        damper_core::update::HEADER + self.nonce.len() + self.public_share.len()
    }
}
