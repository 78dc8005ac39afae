//! One of the two aggregators: verifies reports with the other, and adds its shares of those that hold.
//!
//! For each report both call [`begin`](Aggregator::begin), exchange their messages, and call [`finish`](Aggregator::finish) with both, the leader's
//! first. A device counts once. A share of the sum is given out once, when enough devices are in it.

use crate::report::{InputShare, Report};
use crate::{PrioError, Scheme};
use damper_core::update::Header;
use prio::codec::{Encode, ParameterizedDecode};
use prio::vdaf::prio3::Prio3SumVec;
use prio::vdaf::{Aggregatable, Aggregator as _, Vdaf, VerifyTransition};
use std::collections::{BTreeSet, HashSet};

type State = <Prio3SumVec as prio::vdaf::Aggregator<32, 16>>::VerifyState;
type VerifierShare = <Prio3SumVec as prio::vdaf::Aggregator<32, 16>>::VerifierShare;
type AggregateShare = <Prio3SumVec as Vdaf>::AggregateShare;

/// Which of the two an aggregator is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Its shares are whole vectors.
    Leader,
    /// Its shares are seeds, from which it makes its vectors.
    Helper,
}

impl Role {
    fn index(self) -> usize {
        match self {
            Self::Leader => 0,
            Self::Helper => 1,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Helper => "helper",
        }
    }

    /// The aggregator's part of a report.
    #[must_use]
    pub fn share_of(self, report: &Report) -> &InputShare {
        match self {
            Self::Leader => &report.leader,
            Self::Helper => &report.helper,
        }
    }
}

/// A report that is being verified. Dropped, the report is not counted.
pub struct Verifying {
    header: Header,
    state: State,
    message: Vec<u8>,
}

impl Verifying {
    /// The message for the other aggregator.
    #[must_use]
    pub fn message(&self) -> &[u8] {
        &self.message
    }
}

/// An aggregator's share of the sum, and the devices in it.
#[derive(Clone, PartialEq, Eq)]
pub struct Share {
    pub(crate) role: Role,
    pub(crate) devices: BTreeSet<u64>,
    pub(crate) bytes: Vec<u8>,
}

impl Share {
    /// The devices whose updates are in it.
    #[must_use]
    pub fn devices(&self) -> &BTreeSet<u64> {
        &self.devices
    }
}

/// An aggregator of one round.
pub struct Aggregator {
    scheme: Scheme,
    role: Role,
    /// A secret that both aggregators have and no gateway.
    verify_key: [u8; 32],
    seen: HashSet<[u8; 16]>,
    devices: BTreeSet<u64>,
    sum: AggregateShare,
}

impl Aggregator {
    /// An aggregator of the round of `scheme`. Both have the same `verify_key`, 32 random bytes that no gateway knows and no other round has.
    #[must_use]
    pub fn new(scheme: Scheme, role: Role, verify_key: [u8; 32]) -> Self {
        let sum = scheme.vdaf.aggregate_init(&());
        Self { scheme, role, verify_key, seen: HashSet::new(), devices: BTreeSet::new(), sum }
    }

    /// Begins to verify a report, of which the aggregator has `share`.
    ///
    /// # Errors
    ///
    /// It is of another round, of a device that counts already, was seen before, or is damaged.
    pub fn begin(
        &mut self,
        header: &Header,
        nonce: &[u8; 16],
        public_share: &[u8],
        share: &InputShare,
    ) -> Result<Verifying, PrioError> {
        let (scheme, index, device) = (&self.scheme, self.role.index(), header.device);
        scheme.check(header)?;
        if self.devices.contains(&device) {
            return Err(PrioError::Duplicate(device));
        }
        if !self.seen.insert(*nonce) {
            return Err(PrioError::Replayed(device));
        }
        let public = <Prio3SumVec as Vdaf>::PublicShare::get_decoded_with_param(&scheme.vdaf, public_share)?;
        let input = <Prio3SumVec as Vdaf>::InputShare::get_decoded_with_param(&(&scheme.vdaf, index), &share.0)?;
        let context = scheme.context(header);
        let (state, message) = scheme
            .vdaf
            .verify_init(&self.verify_key, &context, index, &(), nonce, &public, &input)
            .map_err(|error| PrioError::Refused { device, error })?;
        Ok(Verifying { header: *header, state, message: message.get_encoded()? })
    }

    /// Adds the aggregator's share of a report whose proof holds. `messages` are the leader's and the helper's.
    ///
    /// # Errors
    ///
    /// The proof does not hold, the messages are damaged, or the device counts already.
    pub fn finish(&mut self, verifying: Verifying, messages: [&[u8]; 2]) -> Result<(), PrioError> {
        let Verifying { header, state, .. } = verifying;
        let device = header.device;
        let refused = |error| PrioError::Refused { device, error };
        if self.devices.contains(&device) {
            return Err(PrioError::Duplicate(device));
        }
        let context = self.scheme.context(&header);
        let shares = messages.map(|message| VerifierShare::get_decoded_with_param(&state, message));
        let [leader, helper] = shares;
        let message =
            self.scheme.vdaf.verifier_shares_to_message(&context, &(), [leader?, helper?]).map_err(refused)?;
        match self.scheme.vdaf.verify_next(&context, state, message).map_err(refused)? {
            VerifyTransition::Finish(output) => {
                self.sum.accumulate(&output).map_err(refused)?;
                self.devices.insert(device);
                Ok(())
            }
            VerifyTransition::Continue(..) => {
                Err(refused(prio::vdaf::VdafError::Uncategorized("the proof has one round".into())))
            }
        }
    }

    /// The devices that are counted.
    #[must_use]
    pub fn devices(&self) -> &BTreeSet<u64> {
        &self.devices
    }

    /// The aggregator's share of the sum, once: of two cohorts, the difference would be the sum of few.
    ///
    /// # Errors
    ///
    /// Fewer than `smallest` devices are in it: their noise would be less than was priced.
    pub fn into_share(self, smallest: usize) -> Result<Share, PrioError> {
        let accepted = self.devices.len();
        if accepted < smallest.max(1) {
            return Err(PrioError::SmallCohort { accepted, smallest });
        }
        Ok(Share { role: self.role, devices: self.devices, bytes: self.sum.get_encoded()? })
    }
}
