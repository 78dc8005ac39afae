//! The cohort of a round: the updates in its sum. It is on the server's disk before the round is charged, and never
//! changes.
//!
//! A server that stops between the charge and the sum adds the same updates again and gets the same sum. If two sums of
//! one round had different devices, they would differ by the updates of a few devices.

use crate::FederationError;
use crate::round_ledger::SETTING;
use damper_files::{Access, read_if_there, sealed, sha256, write_for};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

const COHORT: &str = "cohort.json";

/// The devices of a round's sum, each with the SHA-256 of its update.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cohort {
    round: u32,
    updates: BTreeMap<u64, String>,
}

impl Cohort {
    /// Creates an empty cohort for `round`.
    #[must_use]
    pub fn new(round: u32) -> Self {
        Self { round, updates: BTreeMap::new() }
    }

    /// Adds the update of `device`.
    pub fn add(&mut self, device: u64, update: &[u8]) {
        self.updates.insert(device, sha256(update));
    }

    /// Returns the number of devices.
    #[must_use]
    pub fn len(&self) -> usize {
        self.updates.len()
    }

    /// Returns true if the cohort has no devices.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.updates.is_empty()
    }

    /// Returns the devices, ascending.
    pub fn devices(&self) -> impl Iterator<Item = u64> + '_ {
        self.updates.keys().copied()
    }

    /// Reads the cohort that `folder` has fixed for `round`, if there is one.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is damaged.
    pub fn read(folder: &Path, round: u32) -> Result<Option<Self>, FederationError> {
        let file = folder.join(COHORT);
        let found = read_if_there(&file).map_err(|error| FederationError::Io { file, error })?;
        let Some(bytes) = found else { return Ok(None) };
        let damaged = |_| FederationError::Ledger { folder: folder.into(), problem: format!("{COHORT} is damaged") };
        let cohort: Self = sealed::read("cohort", &bytes).map_err(damaged)?;
        Ok(Some(cohort).filter(|cohort| cohort.round == round))
    }

    /// Fixes the cohort in `folder`. It is durable when this returns.
    ///
    /// # Errors
    ///
    /// The disk is full or fails.
    pub fn fix(&self, folder: &Path) -> Result<(), FederationError> {
        let text = sealed::line("cohort", "", self).0;
        Ok(write_for(&folder.join(COHORT), text.as_bytes(), Access::Private, SETTING)?)
    }

    /// Returns true if an update with these bytes is in the cohort.
    #[must_use]
    pub fn has(&self, update: &[u8]) -> bool {
        let digest = sha256(update);
        self.updates.values().any(|known| *known == digest)
    }

    /// Returns an error unless `found` has the same updates.
    ///
    /// # Errors
    ///
    /// A device's update is missing or differs.
    pub fn check(&self, found: &Self) -> Result<(), FederationError> {
        let differs = self.updates.iter().find(|(device, digest)| found.updates.get(device) != Some(digest));
        let more = found.updates.keys().find(|device| !self.updates.contains_key(device));
        match differs.map(|(device, _)| device).or(more) {
            Some(device) => Err(FederationError::Cohort { round: self.round, device: *device }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn fixed_cohort_takes_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let of = |updates: &[(u64, &[u8])]| {
            let mut cohort = Cohort::new(3);
            updates.iter().for_each(|(device, bytes)| cohort.add(*device, bytes));
            cohort
        };
        let first = of(&[(1, b"a"), (2, b"b")]);
        assert_eq!(Cohort::read(folder.path(), 3).unwrap(), None);
        first.fix(folder.path()).unwrap();
        let fixed = Cohort::read(folder.path(), 3).unwrap().unwrap();
        fixed.check(&of(&[(2, b"b"), (1, b"a")])).unwrap();
        for (other, at) in
            [(of(&[(1, b"a")]), 2), (of(&[(1, b"a"), (2, b"c")]), 2), (of(&[(1, b"a"), (2, b"b"), (3, b"")]), 3)]
        {
            assert!(matches!(fixed.check(&other), Err(FederationError::Cohort { round: 3, device }) if device == at));
        }
        assert!(fixed.has(b"a") && fixed.has(b"b") && !fixed.has(b"c"));
        assert_eq!(Cohort::read(folder.path(), 4).unwrap(), None);
        fs::write(folder.path().join(COHORT), "{}").unwrap();
        assert!(Cohort::read(folder.path(), 3).is_err());
    }
}
