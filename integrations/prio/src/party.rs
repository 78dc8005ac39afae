//! Parties, and the requests of each. A certificate has the name of a party.

use crate::leader::Leader;
use crate::message::{AggregatorRequest, Answer};
use crate::{Aggregator, Refusal, Role};

/// A party of a secure aggregation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Party {
    /// The leader, which sends requests to the helper.
    Leader,
    /// The helper, which sends no requests.
    Helper,
    /// A gateway, which uploads reports.
    Gateway,
    /// The collector, which collects shares of sums.
    Collector,
}

impl Party {
    /// All parties.
    pub const ALL: [Self; 4] = [Self::Leader, Self::Helper, Self::Gateway, Self::Collector];

    /// Returns the name in its certificate (a DNS name of the subject's alternative names).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Helper => "helper",
            Self::Gateway => "gateway",
            Self::Collector => "collector",
        }
    }

    /// Returns the maximum length of a message of this party, in bytes.
    pub(crate) fn most_bytes(self, aggregator: &Aggregator) -> usize {
        let sizes = Sizes::of(aggregator);
        match self {
            Self::Gateway => sizes.upload,
            Self::Leader => sizes.between,
            Self::Collector | Self::Helper => 256,
        }
    }
}

/// Maximum lengths of messages, in bytes.
pub(crate) struct Sizes {
    pub(crate) upload: usize,
    pub(crate) between: usize,
    pub(crate) share: usize,
}

impl Sizes {
    fn of(aggregator: &Aggregator) -> Self {
        Self::of_plan(aggregator.plan())
    }

    pub(crate) fn of_plan(plan: &damper_federation::FederationPlan) -> Self {
        let (share, sum) =
            crate::Scheme::of_plan(plan, 0).map_or((0, 0), |scheme| (scheme.most_bytes(), scheme.sum_bytes()));
        let cohort = crate::ReportSet::bytes_of(plan.devices);
        Self { upload: share + 1024, between: share.max(cohort) + 256, share: sum + cohort + 256 }
    }
}

/// Service of an aggregator.
pub enum Service {
    /// The leader's.
    Leader(Leader),
    /// The helper's.
    Helper(Aggregator),
}

impl Service {
    /// Returns the aggregator.
    #[must_use]
    pub fn aggregator(&self) -> &Aggregator {
        match self {
            Self::Leader(leader) => leader.aggregator(),
            Self::Helper(helper) => helper,
        }
    }

    /// Returns its role.
    #[must_use]
    pub fn role(&self) -> Role {
        self.aggregator().role()
    }

    /// Returns the answer to the message `bytes` of `party`.
    pub fn answer(&self, party: Party, bytes: &[u8]) -> Answer {
        let Some(request) = AggregatorRequest::from_bytes(bytes) else { return Answer::Refused(Refusal::Malformed) };
        self.answer_request(party, request).unwrap_or_else(Answer::Refused)
    }

    fn answer_request(&self, party: Party, request: AggregatorRequest) -> Result<Answer, Refusal> {
        let aggregator = self.aggregator();
        let of_plan = |digest: &str| if digest == aggregator.plan().digest() { Ok(()) } else { Err(Refusal::Plan) };
        match (self, party, request) {
            (_, Party::Gateway, AggregatorRequest::Upload(upload)) => aggregator.store(upload).map(|()| Answer::Done),
            (_, Party::Collector, AggregatorRequest::Collect(plan, round, request)) => {
                of_plan(&plan)?;
                let (cohort, share) = match self {
                    Self::Leader(leader) => leader.collect(round, request)?,
                    Self::Helper(helper) => helper.release(round, request)?,
                };
                Ok(Answer::Share(cohort, share))
            }
            (Self::Helper(helper), Party::Leader, request) => match request {
                AggregatorRequest::Hello(plan, next) => {
                    of_plan(&plan)?;
                    helper.pass(next)?;
                    Ok(Answer::Next(helper.uncharged_round()))
                }
                AggregatorRequest::Key(round, key) => helper.take_key(round, key).map(|()| Answer::Done),
                AggregatorRequest::Verify(device, digest, message) => {
                    helper.answer(device, &digest, &message).map(Answer::Message)
                }
                AggregatorRequest::Offer(cohort) => Ok(Answer::Have(helper.have(&cohort))),
                AggregatorRequest::Fix(cohort) => helper.fix(&cohort).map(|()| Answer::Done),
                AggregatorRequest::Upload(_) | AggregatorRequest::Collect(..) => Err(Refusal::Certificate),
            },
            _ => Err(Refusal::Certificate),
        }
    }
}
