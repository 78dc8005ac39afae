//! Verification of one report by both aggregators. It is stateless: only [`Aggregator`](crate::Aggregator) has state,
//! and only it is safe for rounds of a federation.
//!
//! Both call [`Verifying::begin`], exchange their messages, and call [`finish`](Verifying::finish) with both, the
//! leader's first. The same report, key and messages give the same bytes again.

use crate::report::{InputShare, Report};
use crate::{PrioError, Scheme};
use damper_core::update::Header;
use prio::codec::{Encode, ParameterizedDecode};
use prio::vdaf::prio3::Prio3SumVec;
use prio::vdaf::{Aggregatable, Aggregator as _, Vdaf, VdafError, VerifyTransition};

type State = <Prio3SumVec as prio::vdaf::Aggregator<32, 16>>::VerifyState;
type VerifierShare = <Prio3SumVec as prio::vdaf::Aggregator<32, 16>>::VerifierShare;
type AggregateShare = <Prio3SumVec as Vdaf>::AggregateShare;
type OutputShare = <Prio3SumVec as Vdaf>::OutputShare;

/// Role of an aggregator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Its shares are whole vectors. It sends requests to the helper.
    Leader,
    /// Its shares are seeds, which expand to its vectors.
    Helper,
}

impl Role {
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Leader => 0,
            Self::Helper => 1,
        }
    }

    /// Returns its name, as in its certificate.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Helper => "helper",
        }
    }

    /// Returns the aggregator's part of a report.
    #[must_use]
    pub fn share_of(self, report: &Report) -> &InputShare {
        match self {
            Self::Leader => &report.leader,
            Self::Helper => &report.helper,
        }
    }
}

/// State of a report's verification.
pub struct Verifying {
    scheme: Scheme,
    header: Header,
    state: State,
    message: Vec<u8>,
}

impl Verifying {
    /// Starts the verification of a report. The aggregator has the input share `share`. Both aggregators have the same
    /// `verify_key`: 32 random bytes, hidden from gateways and used in no other round.
    ///
    /// # Errors
    ///
    /// It is of another round, or damaged.
    pub fn begin(
        scheme: &Scheme,
        role: Role,
        verify_key: &[u8; 32],
        header: &Header,
        nonce: &[u8; 16],
        public_share: &[u8],
        share: &InputShare,
    ) -> Result<Self, PrioError> {
        let (index, device) = (role.index(), header.device);
        scheme.check(header)?;
        let public = <Prio3SumVec as Vdaf>::PublicShare::get_decoded_with_param(&scheme.vdaf, public_share)?;
        let input = <Prio3SumVec as Vdaf>::InputShare::get_decoded_with_param(&(&scheme.vdaf, index), &share.0)?;
        let (state, message) = scheme
            .vdaf
            .verify_init(verify_key, &scheme.context(header), index, &(), nonce, &public, &input)
            .map_err(|error| PrioError::Refused { device, error })?;
        Ok(Self { scheme: scheme.clone(), header: *header, state, message: message.get_encoded()? })
    }

    /// Returns the message for the other aggregator.
    #[must_use]
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// Returns the aggregator's share of the update, if the proof holds. `messages` are the leader's and the helper's.
    ///
    /// # Errors
    ///
    /// The proof does not hold, or the messages are damaged.
    pub fn finish(self, messages: [&[u8]; 2]) -> Result<Vec<u8>, PrioError> {
        let Self { scheme, header, state, .. } = self;
        let refused = |error| PrioError::Refused { device: header.device, error };
        let context = scheme.context(&header);
        let [leader, helper] = messages.map(|message| VerifierShare::get_decoded_with_param(&state, message));
        let message = scheme.vdaf.verifier_shares_to_message(&context, &(), [leader?, helper?]).map_err(refused)?;
        match scheme.vdaf.verify_next(&context, state, message).map_err(refused)? {
            VerifyTransition::Finish(output) => Ok(output.get_encoded()?),
            VerifyTransition::Continue(..) => Err(refused(VdafError::Uncategorized("the proof has one round".into()))),
        }
    }
}

/// An aggregator's share of a sum.
pub struct SumShare {
    scheme: Scheme,
    sum: AggregateShare,
}

impl SumShare {
    /// Creates the sum of no updates.
    #[must_use]
    pub fn new(scheme: &Scheme) -> Self {
        Self { scheme: scheme.clone(), sum: scheme.vdaf.aggregate_init(&()) }
    }

    /// Adds the share of an update, as [`Verifying::finish`] returned it.
    ///
    /// # Errors
    ///
    /// The bytes are damaged.
    pub fn add(&mut self, output: &[u8]) -> Result<(), PrioError> {
        let output = OutputShare::get_decoded_with_param(&(&self.scheme.vdaf, &()), output)?;
        self.sum.accumulate(&output).map_err(PrioError::Shares)
    }

    /// Encodes the share.
    ///
    /// # Errors
    ///
    /// It cannot be encoded.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PrioError> {
        Ok(self.sum.get_encoded()?)
    }
}
