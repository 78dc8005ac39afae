//! Verification of one report by the two aggregators together. It has no memory: [`Aggregator`](crate::Aggregator) has one, and only it is safe for
//! rounds of a federation.
//!
//! Both call [`Verifying::begin`], exchange their messages, and call [`finish`](Verifying::finish) with both, the leader's first. The same report, key
//! and messages give the same bytes again.

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

/// Which of the two an aggregator is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Its shares are whole vectors. It asks the helper.
    Leader,
    /// Its shares are seeds, from which it makes its vectors.
    Helper,
}

impl Role {
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Leader => 0,
            Self::Helper => 1,
        }
    }

    /// Its name, which is that in its certificate.
    #[must_use]
    pub fn name(self) -> &'static str {
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

/// A report that is being verified.
pub struct Verifying {
    scheme: Scheme,
    header: Header,
    state: State,
    message: Vec<u8>,
}

impl Verifying {
    /// Begins to verify a report, of which the aggregator has `share`. Both aggregators have the same `verify_key`, 32 random bytes that no gateway
    /// knows and no other round has.
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

    /// The message for the other aggregator.
    #[must_use]
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// The aggregator's share of the update, if the proof holds. `messages` are the leader's and the helper's.
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
    /// The sum of no update.
    #[must_use]
    pub fn new(scheme: &Scheme) -> Self {
        Self { scheme: scheme.clone(), sum: scheme.vdaf.aggregate_init(&()) }
    }

    /// Adds the share of an update, as [`Verifying::finish`] gave it.
    ///
    /// # Errors
    ///
    /// The bytes are damaged.
    pub fn add(&mut self, output: &[u8]) -> Result<(), PrioError> {
        let output = OutputShare::get_decoded_with_param(&(&self.scheme.vdaf, &()), output)?;
        self.sum.accumulate(&output).map_err(PrioError::Shares)
    }

    /// Its bytes.
    ///
    /// # Errors
    ///
    /// It cannot be encoded.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PrioError> {
        Ok(self.sum.get_encoded()?)
    }
}
