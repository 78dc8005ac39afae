//! Evidence of a run: reads its folder as an auditor gets it, and checks the form without trusting the content.

mod audit;
mod difference;
mod evaluations;

pub use audit::{Audit, Figure};
pub use difference::Difference;
pub(crate) use difference::near;
pub use evaluations::AtEvaluation;
pub(crate) use evaluations::last_difference;

use crate::digest::{digest as digest_of, hex};
use crate::record::{BEST_MODEL, TrainReport};
use audit::{Canary, Mechanism, Neighbours};
use damper_accounting::Recorded;
use damper_audit::{CANARY, MECHANISM, NEIGHBOURS};
use damper_onnx as onnx;
use damper_onnx::pb::{ModelProto, TensorProto};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Maximum size of a record, in bytes.
pub(crate) const RECORD: u64 = 1 << 22;
/// Maximum size of the events, in bytes: about a hundred for each step.
pub(crate) const EVENTS: u64 = 1 << 26;

/// A file of the folder is missing, damaged or of another kind: one line that names it and the fix.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EvidenceError(String);

/// Content of a run's folder.
#[derive(Clone, PartialEq, Debug)]
pub struct Evidence {
    /// `report.json`.
    pub record: TrainReport,
    /// `events.json`.
    pub recorded: Recorded,
    /// `audit-canary.json`, if that audit ran.
    pub(crate) canary: Option<Canary>,
    /// `audit-mechanism.json`, if that audit ran.
    pub(crate) mechanism: Option<Mechanism>,
    /// `audit-neighbours.json`, if that audit ran.
    pub(crate) neighbours: Option<Neighbours>,
    /// True if `model.onnx` is marked as a model that is not a result.
    pub marked: bool,
    /// Digest of the parameters in `model.onnx`, as in the record. `None` without a model, or if the record names no
    /// tensors.
    pub params_digest: Option<String>,
    /// Digest of the parameters in [`BEST_MODEL`].
    pub best_params_digest: Option<String>,
    /// Held-out figures over the run.
    pub evaluations: Vec<AtEvaluation>,
    /// Released files in their present state.
    pub files: Vec<ReleasedFile>,
}

/// A released file, identified by its digest.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ReleasedFile {
    /// Name in the folder.
    pub name: &'static str,
    /// SHA-256 of its bytes, in hexadecimal. `None` if the file is missing.
    pub sha256: Option<String>,
}

/// Released files. A folder may lack some of them. A run that ended early also has the model of the best evaluation.
const RELEASED: [&str; 4] = ["model.onnx", "report.json", "events.json", "metrics.csv"];

impl Evidence {
    /// Reads the folder of a run.
    ///
    /// # Errors
    ///
    /// It is not a run's folder, or a file in it is missing, damaged or far too large.
    pub fn read(folder: &Path) -> Result<Self, EvidenceError> {
        match fs::metadata(folder) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(fault(folder, "is a file; give the folder that damper train `out` made")),
            Err(error) => {
                return Err(fault(folder, &format!("{error}; give the folder that damper train `out` made")));
            }
        }
        let record: TrainReport = parsed(&folder.join("report.json"), RECORD)?;
        let model = model_at(&folder.join("model.onnx"))?;
        let best = model_at(&folder.join(BEST_MODEL))?.filter(|_| record.early_stop.is_some());
        Ok(Self {
            recorded: recorded(folder)?,
            canary: audit_in(folder, CANARY)?,
            mechanism: audit_in(folder, MECHANISM)?,
            neighbours: audit_in(folder, NEIGHBOURS)?,
            marked: model.as_ref().is_some_and(onnx::is_marked),
            params_digest: model.filter(|_| !record.training.tensors.is_empty()).map(|model| params(&model, &record)),
            best_params_digest: best.map(|model| params(&model, &record)),
            evaluations: evaluations(folder)?,
            files: released(folder)?,
            record,
        })
    }
}

/// Reads only the recorded events of a run's folder.
///
/// # Errors
///
/// `events.json` is missing, damaged or far too large.
pub fn recorded(folder: &Path) -> Result<Recorded, EvidenceError> {
    parsed(&folder.join("events.json"), EVENTS)
}

pub(crate) fn fault(path: &Path, what: &str) -> EvidenceError {
    EvidenceError(format!("{}: {what}", path.display()))
}

fn no_file(path: &Path) -> EvidenceError {
    fault(path, "is not a file; give a folder as damper train made it")
}

fn unreadable(path: &Path, error: &io::Error) -> EvidenceError {
    fault(path, &format!("{error}; make it readable"))
}

/// Reads a file, if it is a regular file and not larger than `limit` bytes.
pub(crate) fn bytes(path: &Path, limit: u64) -> Result<Vec<u8>, EvidenceError> {
    let metadata = fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            fault(path, "is missing, and so is checkpoint/plan.json of a run that has not finished: without them nothing can be said; copy the folder from where the run was made")
        }
        _ => unreadable(path, &error),
    })?;
    if !metadata.is_file() {
        return Err(no_file(path));
    }
    let too_large =
        || fault(path, &format!("is larger than {} MiB, as no run's is; take the one that damper wrote", limit >> 20));
    if metadata.len() > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes));
    read.map_err(|error| unreadable(path, &error))?;
    if bytes.len() as u64 > limit { Err(too_large()) } else { Ok(bytes) }
}

/// Returns the released files in `folder`, with their digests.
pub(crate) fn released(folder: &Path) -> Result<Vec<ReleasedFile>, EvidenceError> {
    let best = is_there(&folder.join(BEST_MODEL))?.then_some(BEST_MODEL);
    let names = RELEASED.into_iter().chain(best);
    names.map(|name| Ok(ReleasedFile { name, sha256: digest(&folder.join(name))? })).collect()
}

pub(crate) fn parsed<T: DeserializeOwned>(path: &Path, limit: u64) -> Result<T, EvidenceError> {
    serde_json::from_slice(&bytes(path, limit)?)
        .map_err(|error| fault(path, &format!("{error}: it is damaged or was changed; take the one that damper wrote")))
}

/// Returns the evaluations in `metrics.csv`. There are none without the file.
fn evaluations(folder: &Path) -> Result<Vec<AtEvaluation>, EvidenceError> {
    let path = folder.join("metrics.csv");
    if !is_there(&path)? {
        return Ok(vec![]);
    }
    let text = String::from_utf8(bytes(&path, EVENTS)?).ok();
    text.as_deref().and_then(evaluations::parse).ok_or_else(|| {
        fault(&path, "is no table of evaluations: it is damaged or was changed; take the one that damper wrote")
    })
}

fn audit_in<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<T>, EvidenceError> {
    let path = folder.join(name);
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        _ => Ok(Some(parsed(&path, RECORD)?)),
    }
}

/// Returns true if the file exists. If its metadata cannot be read, a later read gives the reason.
pub(crate) fn is_there(path: &Path) -> Result<bool, EvidenceError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Ok(found) if !found.is_file() => Err(no_file(path)),
        _ => Ok(true),
    }
}

/// Reads the model, if it is in the folder.
fn model_at(path: &Path) -> Result<Option<ModelProto>, EvidenceError> {
    if !is_there(path)? {
        return Ok(None);
    }
    onnx::load(path).map(Some).map_err(|error| EvidenceError(error.to_string()))
}

/// Returns the digest of a model's parameters in the order of the record, or what is missing.
fn params(model: &ModelProto, record: &TrainReport) -> String {
    let by_name: HashMap<String, &TensorProto> = onnx::stored_tensors(model).into_iter().collect();
    let mut all = Vec::new();
    for name in &record.training.tensors {
        let tensor = by_name.get(name.as_str()).and_then(|tensor| onnx::decode_tensor(tensor).ok());
        match tensor.as_ref().and_then(onnx::Tensor::as_f32) {
            Some(values) => all.extend_from_slice(values),
            None => return format!("none, for it has no tensor {name}"),
        }
    }
    digest_of(&all)
}

/// Returns the SHA-256 of a file, in hexadecimal. `None` if the file does not exist.
fn digest(path: &Path) -> Result<Option<String>, EvidenceError> {
    if !is_there(path)? {
        return Ok(None);
    }
    let mut hash = Sha256::new();
    let mut read = || -> io::Result<()> {
        let mut file = File::open(path)?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(()),
                count => hash.update(&buffer[..count]),
            }
        }
    };
    read().map_err(|error| unreadable(path, &error))?;
    Ok(Some(hex(&hash.finalize())))
}
