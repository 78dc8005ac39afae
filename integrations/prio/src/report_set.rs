//! Cohort of a round: the devices in its sum, each with the digest of its report.

use crate::bytes::Reader;
use damper_files::{hex, unhex};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Reports in a round's sum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReportSet {
    /// The round.
    pub round: u32,
    /// Digest of their common request.
    pub request: [u8; 32],
    /// Devices, each with the digest of its report.
    pub reports: BTreeMap<u64, [u8; 32]>,
}

/// Bytes of an entry.
const ENTRY: usize = 8 + 32;

impl ReportSet {
    /// Encodes the cohort: the round, the request, and 40 bytes for each device, ascending.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.round.to_le_bytes().to_vec();
        out.extend(self.request);
        for (device, digest) in &self.reports {
            out.extend(device.to_le_bytes());
            out.extend(digest);
        }
        out
    }

    /// Decodes a cohort.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let (round, request) = (reader.u32()?, reader.array()?);
        let mut reports = BTreeMap::new();
        while !reader.0.is_empty() {
            let (device, digest) = (reader.u64()?, reader.array()?);
            // Ascending, so that equal cohorts have equal bytes.
            if reports.last_key_value().is_some_and(|(last, _)| *last >= device) {
                return None;
            }
            reports.insert(device, digest);
        }
        Some(Self { round, request, reports })
    }

    /// Returns the encoded length of a cohort of `devices` devices.
    pub(crate) fn bytes_of(devices: u32) -> usize {
        36 + ENTRY * devices as usize
    }
}

/// Cohort in its file format.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CohortFile {
    round: u32,
    request: String,
    reports: BTreeMap<u64, String>,
}

impl From<&ReportSet> for CohortFile {
    fn from(cohort: &ReportSet) -> Self {
        let reports = cohort.reports.iter().map(|(device, digest)| (*device, hex(digest))).collect();
        Self { round: cohort.round, request: hex(cohort.request), reports }
    }
}

impl CohortFile {
    pub(crate) fn cohort(&self) -> Option<ReportSet> {
        let reports = self.reports.iter().map(|(device, digest)| Some((*device, unhex(digest)?)));
        Some(ReportSet { round: self.round, request: unhex(&self.request)?, reports: reports.collect::<Option<_>>()? })
    }
}
