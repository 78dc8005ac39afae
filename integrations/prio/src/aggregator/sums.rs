//! Cohorts of an aggregator, and its shares of sums.

use crate::aggregator::{Aggregator, Entry, Stage};
use crate::folder::read_sealed;
use crate::report_set::{CohortFile, ReportSet};
use crate::{FolderError, Refusal};
use damper_files::{Access, sealed, write};

impl Aggregator {
    /// Returns the verified reports of `round` on `request`.
    #[must_use]
    pub fn verified(&self, round: u32, request: [u8; 32]) -> ReportSet {
        let state = self.lock();
        let fits = |entry: &Entry| entry.round == round && entry.request == request && entry.stage == Stage::Verified;
        let reports = state.entries.iter().filter(|(_, entry)| fits(entry));
        ReportSet { round, request, reports: reports.map(|(device, entry)| (*device, entry.digest)).collect() }
    }

    /// Returns the reports of `offered` that are verified.
    #[must_use]
    pub fn have(&self, offered: &ReportSet) -> ReportSet {
        let mut have = self.verified(offered.round, offered.request);
        have.reports.retain(|device, digest| offered.reports.get(device) == Some(digest));
        have
    }

    /// Returns the cohort of `round`, if it is the last fixed cohort.
    #[must_use]
    pub fn fixed(&self, round: u32) -> Option<ReportSet> {
        self.lock().fixed.clone().filter(|fixed| fixed.round == round)
    }

    /// Fixes the cohort of a round, and computes the share of its sum. When it returns, both survive a power cut.
    /// Nothing is released yet.
    ///
    /// # Errors
    ///
    /// Another cohort is fixed, the round is closed, a report of the cohort is not verified, or the cohort is too
    /// small.
    pub fn fix(&self, cohort: &ReportSet) -> Result<(), Refusal> {
        let mut state = self.lock();
        if cohort.round >= self.plan().rounds {
            return Err(Refusal::Round);
        }
        if let Some(fixed) = state.fixed.as_ref().filter(|fixed| fixed.round == cohort.round) {
            if fixed != cohort {
                return Err(Refusal::Cohort);
            }
            return self.ensure_share(&mut state).map_err(|error| self.failed(error));
        }
        if cohort.round < state.next_round {
            return Err(Refusal::Passed);
        }
        if (cohort.reports.len() as u64) < u64::from(self.plan().smallest_cohort) {
            return Err(Refusal::Small);
        }
        for (device, digest) in &cohort.reports {
            let wanted =
                Entry { round: cohort.round, digest: *digest, request: cohort.request, stage: Stage::Verified };
            if state.entries.get(device) != Some(&wanted) {
                return Err(Refusal::Unverified);
            }
        }
        let text = sealed::line("cohort", "", &CohortFile::from(cohort)).0;
        let written = write(&self.of_round(cohort.round, "cohort"), text.as_bytes(), Access::Private);
        written.map_err(|error| self.failed(error))?;
        let before = state.fixed.replace(cohort.clone());
        state.next_round = cohort.round + 1;
        if let Some(before) = before {
            // Its share may be uncharged, and is never released.
            self.remove_sum(before.round);
        }
        let devices = cohort.reports.len();
        self.say(&format!("round {}: the sum is of {devices} devices, and of no others", cohort.round));
        self.ensure_share(&mut state).map_err(|error| self.failed(error))
    }

    /// Returns the cohort of `round` and the share of its sum. The round is charged before. A repeated call returns the
    /// same bytes.
    ///
    /// # Errors
    ///
    /// No cohort is fixed, its request is another, or the charge cannot be written.
    pub fn release(&self, round: u32, request: [u8; 32]) -> Result<(ReportSet, Vec<u8>), Refusal> {
        let mut state = self.lock();
        let fixed = state.fixed.clone().filter(|fixed| fixed.round == round);
        let passed = if round < state.next_round { Refusal::Passed } else { Refusal::Open };
        let fixed = fixed.ok_or(passed)?;
        if fixed.request != request {
            return Err(Refusal::Request);
        }
        if state.is_given_up {
            return Err(Refusal::Disk);
        }
        let file = self.of_round(round, "share");
        self.ensure_share(&mut state).map_err(|error| self.failed(error))?;
        let share = read_sealed(&file).map_err(|error| self.failed(error))?;
        let share = share.ok_or_else(|| self.failed(FolderError::Damaged(file)))?;
        // Later rounds are charged after their cohort is fixed, and this is the last fixed cohort.
        if state.ledger.next_round() <= round
            && let Err(error) = state.ledger.charge(round)
        {
            state.is_given_up = true;
            return Err(self.failed(error));
        }
        self.say(&format!("round {round}: gave out the share of its sum"));
        Ok((fixed, share))
    }
}
