//! The leader's part in a round: it has the helper verify reports with it, agrees with it on the cohort, and gives out its own share after that.

use crate::message::{AggregatorRequest, Answer};
use crate::report_set::ReportSet;
use crate::{Aggregator, Refusal};
use std::sync::{Mutex, PoisonError};

/// The other aggregator, as the leader reaches it.
pub trait Helper: Send + Sync {
    /// Asks the helper. An answer that is [`Answer::Refused`] is given as an error.
    ///
    /// # Errors
    ///
    /// The helper refuses or does not answer.
    fn ask(&self, request: &AggregatorRequest) -> Result<Answer, Refusal>;
}

/// A leader with its helper.
pub struct Leader {
    aggregator: Aggregator,
    helper: Box<dyn Helper>,
    /// One round at a time.
    working: Mutex<()>,
}

impl Leader {
    /// The leader of `aggregator`, with `helper`.
    #[must_use]
    pub fn new(aggregator: Aggregator, helper: Box<dyn Helper>) -> Self {
        Self { aggregator, helper, working: Mutex::new(()) }
    }

    /// The aggregator.
    #[must_use]
    pub fn aggregator(&self) -> &Aggregator {
        &self.aggregator
    }

    fn done(&self, request: &AggregatorRequest) -> Result<(), Refusal> {
        match self.helper.ask(request)? {
            Answer::Done => Ok(()),
            _ => Err(Refusal::Malformed),
        }
    }

    /// Checks that the helper has the same plan, and passes the rounds that it has charged.
    fn greet(&self) -> Result<(), Refusal> {
        let hello = AggregatorRequest::Hello(self.aggregator.plan().digest(), self.aggregator.uncharged_round());
        match self.helper.ask(&hello)? {
            Answer::Next(round) => self.aggregator.pass(round),
            _ => Err(Refusal::Malformed),
        }
    }

    /// Learns from the helper which rounds are charged, and verifies the reports of all rounds that are ready.
    ///
    /// # Errors
    ///
    /// The helper does not answer.
    pub fn verify_ready(&self) -> Result<(), Refusal> {
        let _working = self.working.lock().unwrap_or_else(PoisonError::into_inner);
        self.greet()?;
        self.aggregator.ready_rounds().into_iter().try_for_each(|round| self.verify(round))
    }

    fn verify(&self, round: u32) -> Result<(), Refusal> {
        let devices = self.aggregator.unverified(round);
        if devices.is_empty() {
            return Ok(());
        }
        self.done(&AggregatorRequest::Key(round, self.aggregator.key(round)?))?;
        devices.into_iter().try_for_each(|device| self.verify_device(device))
    }

    /// Verifies one report. One that does not hold, or that the helper does not have, stays out.
    fn verify_device(&self, device: u64) -> Result<(), Refusal> {
        let verified = self.aggregator.begin(device).and_then(|begun| {
            match self.helper.ask(&AggregatorRequest::Verify(device, begun.digest, begun.message.clone())) {
                // The helper found it out first; so does the leader, if the helper is honest.
                Err(Refusal::Proof) => self.aggregator.complete(begun, &[]),
                Ok(Answer::Message(message)) => self.aggregator.complete(begun, &message),
                Ok(_) => Err(Refusal::Malformed),
                Err(refusal) => Err(refusal),
            }
        });
        match verified {
            Ok(()) | Err(Refusal::Proof | Refusal::Unknown) => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }

    /// The cohort of `round` and the leader's share of its sum. The cohort is fixed first, on both aggregators' disks: all devices whose reports both
    /// have verified for `request`.
    ///
    /// # Errors
    ///
    /// There are too few, the helper does not agree, or the round was summed with another cohort.
    pub fn collect(&self, round: u32, request: [u8; 32]) -> Result<(ReportSet, Vec<u8>), Refusal> {
        let _working = self.working.lock().unwrap_or_else(PoisonError::into_inner);
        if round >= self.aggregator.plan().rounds {
            return Err(Refusal::Round);
        }
        self.greet()?;
        let cohort = match self.aggregator.fixed(round) {
            Some(cohort) => cohort,
            None => {
                if self.aggregator.ready_rounds().contains(&round) {
                    self.verify(round)?;
                }
                let cohort = self.agree(self.aggregator.verified(round, request))?;
                self.aggregator.fix(&cohort)?;
                cohort
            }
        };
        if cohort.request != request {
            return Err(Refusal::Request);
        }
        self.done(&AggregatorRequest::Fix(cohort))?;
        self.aggregator.release(round, request)
    }

    /// Those of the reports that the helper has verified too.
    fn agree(&self, offered: ReportSet) -> Result<ReportSet, Refusal> {
        let mut have = self.offer(&offered)?;
        let missing: Vec<u64> =
            offered.reports.keys().copied().filter(|device| !have.reports.contains_key(device)).collect();
        if !missing.is_empty() {
            // A helper that lost its folder may have them again.
            self.done(&AggregatorRequest::Key(offered.round, self.aggregator.key(offered.round)?))?;
            missing.into_iter().try_for_each(|device| self.verify_device(device))?;
            have = self.offer(&offered)?;
        }
        Ok(have)
    }

    fn offer(&self, offered: &ReportSet) -> Result<ReportSet, Refusal> {
        match self.helper.ask(&AggregatorRequest::Offer(offered.clone()))? {
            Answer::Have(mut have) if (have.round, have.request) == (offered.round, offered.request) => {
                have.reports.retain(|device, digest| offered.reports.get(device) == Some(digest));
                Ok(have)
            }
            _ => Err(Refusal::Malformed),
        }
    }
}
