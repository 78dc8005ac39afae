//! Verify keys of an aggregator, and its part in verifying reports.

use crate::aggregator::{Aggregator, Entry, Stage, State};
use crate::folder::{Content, write_sealed};
use crate::upload::Upload;
use crate::verify::Verifying;
use crate::{PrioError, Refusal, Scheme};
use std::collections::BTreeMap;

/// A report that the leader is verifying.
pub struct PendingReport {
    /// The device.
    pub device: u64,
    /// Digest of the report.
    pub digest: [u8; 32],
    /// Message for the helper.
    pub message: Vec<u8>,
    /// State of the verification. `None` if the report is already verified.
    verifying: Option<Verifying>,
}

impl Aggregator {
    /// Returns the verify key of `round`, which is generated if it does not exist.
    ///
    /// # Errors
    ///
    /// The round is closed, or the disk fails.
    pub fn key(&self, round: u32) -> Result<[u8; 32], Refusal> {
        let mut state = self.lock();
        if let Some(key) = state.keys.get(&round) {
            return Ok(*key);
        }
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| self.failed(PrioError::Randomness(error)))?;
        self.put_key(&mut state, round, key)?;
        Ok(key)
    }

    /// Stores the verify key of `round` from the leader.
    ///
    /// # Errors
    ///
    /// The round has another key, is closed, or the disk fails.
    pub fn take_key(&self, round: u32, key: [u8; 32]) -> Result<(), Refusal> {
        let mut state = self.lock();
        match state.keys.get(&round) {
            Some(own) if *own == key => Ok(()),
            Some(_) => Err(Refusal::Key),
            None => self.put_key(&mut state, round, key),
        }
    }

    fn put_key(&self, state: &mut State, round: u32, key: [u8; 32]) -> Result<(), Refusal> {
        if round >= self.plan().rounds {
            return Err(Refusal::Round);
        }
        if round < state.next_round {
            return Err(Refusal::Passed);
        }
        write_sealed(&self.of_round(round, "key"), &key).map_err(|error| self.failed(error))?;
        state.keys.insert(round, key);
        Ok(())
    }

    /// Returns the open rounds that have at least the reports of the smallest cohort, and an unverified report. Only
    /// such a round gets a key, so a single member cannot cause many keys.
    #[must_use]
    pub fn ready_rounds(&self) -> Vec<u32> {
        let state = self.lock();
        let mut rounds: BTreeMap<u32, (u32, bool)> = BTreeMap::new();
        for entry in state.entries.values() {
            let (count, is_waiting) = rounds.entry(entry.round).or_default();
            *count += 1;
            *is_waiting |= entry.stage == Stage::Stored;
        }
        let is_ready = |count: u32, is_waiting: bool| is_waiting && count >= self.plan().smallest_cohort;
        rounds.iter().filter(|(_, (count, waits))| is_ready(*count, *waits)).map(|(round, _)| *round).collect()
    }

    /// Returns the devices of `round` with unverified reports.
    #[must_use]
    pub fn unverified(&self, round: u32) -> Vec<u64> {
        let state = self.lock();
        let waits = |entry: &Entry| entry.round == round && entry.stage == Stage::Stored;
        state.entries.iter().filter(|(_, entry)| waits(entry)).map(|(device, _)| *device).collect()
    }

    /// Starts the verification of the report of `device`, on the leader.
    ///
    /// # Errors
    ///
    /// The report is missing, its round has no key, or it is damaged. A damaged report is rejected permanently.
    pub fn begin(&self, device: u64) -> Result<PendingReport, Refusal> {
        let state = self.lock();
        let entry = *state.entries.get(&device).ok_or(Refusal::Unknown)?;
        let content = self.get(device)?;
        let key = state.keys.get(&entry.round).copied().ok_or(Refusal::Key)?;
        drop(state);
        match content {
            Content::Stored(upload) => {
                let verifying = self.verify(&upload, &key).map_err(|_| self.refuse(device, entry.digest))?;
                let message = verifying.message().to_vec();
                Ok(PendingReport { device, digest: entry.digest, message, verifying: Some(verifying) })
            }
            Content::Verified { digest, message, .. } => Ok(PendingReport { device, digest, message, verifying: None }),
            Content::Refused { .. } => Err(Refusal::Proof),
        }
    }

    fn verify(&self, upload: &Upload, key: &[u8; 32]) -> Result<Verifying, PrioError> {
        let Upload { round, device, nonce, public_share, share, .. } = upload;
        let scheme = Scheme::of_plan(self.plan(), *round)?;
        Verifying::begin(&scheme, self.role(), key, &self.plan().header(*device, *round), nonce, public_share, share)
    }

    /// Ends the verification of a report with the helper's message.
    ///
    /// # Errors
    ///
    /// Its proof does not hold, or the disk fails.
    pub fn complete(&self, begun: PendingReport, helpers: &[u8]) -> Result<(), Refusal> {
        let PendingReport { device, digest, message, verifying } = begun;
        let Some(verifying) = verifying else { return Ok(()) };
        let output = verifying.finish([&message, helpers]).map_err(|_| self.refuse(device, digest))?;
        self.verified_now(device, digest, message, output)
    }

    /// Records that the proof of a report holds, unless the report was removed.
    fn verified_now(&self, device: u64, digest: [u8; 32], message: Vec<u8>, output: Vec<u8>) -> Result<(), Refusal> {
        let mut state = self.lock();
        match state.entries.get(&device).copied() {
            Some(Entry { round, request, stage: Stage::Stored, .. })
                if state.entries.get(&device).is_some_and(|entry| entry.digest == digest) =>
            {
                self.put(&mut state, device, &Content::Verified { round, digest, request, message, output })
            }
            _ => Ok(()),
        }
    }

    /// Records that the proof of a report does not hold.
    fn refuse(&self, device: u64, digest: [u8; 32]) -> Refusal {
        let mut state = self.lock();
        let found = state.entries.get(&device).copied();
        let Some(Entry { round, request, .. }) =
            found.filter(|entry| entry.digest == digest && entry.stage == Stage::Stored)
        else {
            return Refusal::Unknown;
        };
        self.say(&format!("round {round}: the proof of device {device} does not hold; its report is left out"));
        match self.put(&mut state, device, &Content::Refused { round, digest, request }) {
            Ok(()) => Refusal::Proof,
            Err(refusal) => refusal,
        }
    }

    /// Verifies the report of `device` with the leader's message, on the helper, and returns the helper's message. The
    /// message is on the disk before, and the same in every call.
    ///
    /// # Errors
    ///
    /// The report is missing, its round has no key, or its proof does not hold.
    pub fn answer(&self, device: u64, digest: &[u8; 32], leaders: &[u8]) -> Result<Vec<u8>, Refusal> {
        let state = self.lock();
        let entry = *state.entries.get(&device).filter(|entry| entry.digest == *digest).ok_or(Refusal::Unknown)?;
        if entry.round < state.next_round {
            return Err(Refusal::Passed);
        }
        let key = state.keys.get(&entry.round).copied().ok_or(Refusal::Key)?;
        let content = self.get(device)?;
        drop(state);
        match content {
            Content::Verified { message, .. } => Ok(message),
            Content::Refused { .. } => Err(Refusal::Proof),
            Content::Stored(upload) => {
                let verified = self.verify(&upload, &key).and_then(|verifying| {
                    let message = verifying.message().to_vec();
                    let output = verifying.finish([leaders, &message])?;
                    Ok((message, output))
                });
                let (message, output) = verified.map_err(|_| self.refuse(device, *digest))?;
                self.verified_now(device, *digest, message.clone(), output)?;
                Ok(message)
            }
        }
    }
}
