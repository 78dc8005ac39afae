//! The leader's part in a round: it verifies reports with the helper, agrees with it on the cohort, and then releases
//! its own share.

use crate::message::{AggregatorRequest, Answer};
use crate::report_set::ReportSet;
use crate::{Aggregator, Refusal};
use std::sync::{Mutex, PoisonError};

/// The helper's connection to the leader.
pub trait Helper: Send + Sync {
    /// Sends a request to the helper. An [`Answer::Refused`] becomes an error.
    ///
    /// # Errors
    ///
    /// The helper rejects the request or does not answer.
    fn ask(&self, request: &AggregatorRequest) -> Result<Answer, Refusal>;
}

/// A leader with its helper.
pub struct Leader {
    aggregator: Aggregator,
    helper: Box<dyn Helper>,
    /// Locked during a round, so that rounds are sequential.
    working: Mutex<()>,
}

impl Leader {
    /// Creates the leader of `aggregator`, with `helper`.
    #[must_use]
    pub fn new(aggregator: Aggregator, helper: Box<dyn Helper>) -> Self {
        Self { aggregator, helper, working: Mutex::new(()) }
    }

    /// Returns the aggregator.
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

    /// Gets the charged rounds from the helper, and verifies the reports of all rounds that are ready.
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

    /// Verifies one report. A report that does not hold, or that the helper does not have, stays out.
    fn verify_device(&self, device: u64) -> Result<(), Refusal> {
        let verified = self.aggregator.begin(device).and_then(|begun| {
            match self.helper.ask(&AggregatorRequest::Verify(device, begun.digest, begun.message.clone())) {
                // The helper found the invalid proof first. If the helper is honest, the leader finds it too.
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

    /// Returns the cohort of `round` and the leader's share of its sum. The cohort is fixed first, on both aggregators'
    /// disks: all devices with reports on `request` that both have verified.
    ///
    /// # Errors
    ///
    /// There are too few devices, the helper does not agree, or the round was summed with another cohort.
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

    /// Returns the reports that the helper has verified too.
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
