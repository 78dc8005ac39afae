//! The state files of a run.
//!
//! # Format
//!
//! A line of JSON, `{"state":HEADER,"sha256":"…"}`, followed by the body: the key, 32 bytes, and the state as
//! [`damper_core::state`] writes it (empty before the first step). The header has the SHA-256 of the body, and the line
//! that of the header. Version 1.

use super::environment::Environment;
use super::error::CheckpointError;
use crate::state::data_digest::data_digest;
use crate::state::files::{Access, FileError, hex, sha256, write_pieces};
use crate::state::model_file::model_digest;
use crate::state::replay::PART;
use crate::{Evaluation, Run, TrainError};
use damper_core::state::{self, SaveState};
use damper_data::DataNames;
use damper_files::sealed;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::Path;
use toml::Table;
use zeroize::Zeroizing;

/// The file names, which are written alternately.
pub(crate) const FILES: [&str; 2] = ["state-a", "state-b"];

const VERSION: u32 = 1;

/// The invocation of a run, from which the same run can be prepared.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invocation {
    /// The working folder, which relative paths refer to.
    pub folder: String,
    /// The flags of a run. States of earlier versions have these instead of settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The settings.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub settings: Table,
    /// The index of the run's charge in the budget of its data set, if it has a charge.
    pub charge: Option<u64>,
}

/// The progress of a run up to a step.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Moment {
    /// Training time in seconds.
    pub(crate) seconds: f64,
    #[serde(with = "evaluations")]
    pub(crate) evaluations: Vec<Evaluation>,
}

/// Encoding for the other ranks of a run.
impl Moment {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and lists are JSON")
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// Encodes one evaluation.
    pub(crate) fn one_to_bytes(evaluation: &Evaluation) -> Vec<u8> {
        Self { seconds: 0.0, evaluations: vec![*evaluation] }.to_bytes()
    }

    pub(crate) fn one_of_bytes(bytes: &[u8]) -> Option<Evaluation> {
        Self::of_bytes(bytes)?.evaluations.first().copied()
    }
}

/// Bit-exact serialisation of evaluations. JSON has no infinity, and a loss may be infinite.
mod evaluations {
    use crate::Evaluation;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Step, epoch, ε, loss, accuracy.
    type Bits = (u32, u64, u64, u64, Option<u64>);

    pub(super) fn serialize<S: Serializer>(evaluations: &[Evaluation], to: S) -> Result<S::Ok, S::Error> {
        let bits = |at: &Evaluation| -> Bits {
            (at.step, at.epoch.to_bits(), at.epsilon.to_bits(), at.loss.to_bits(), at.accuracy.map(f64::to_bits))
        };
        evaluations.iter().map(bits).collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<Evaluation>, D::Error> {
        let of = |(step, epoch, epsilon, loss, accuracy): Bits| Evaluation {
            step,
            epoch: f64::from_bits(epoch),
            epsilon: f64::from_bits(epsilon),
            loss: f64::from_bits(loss),
            accuracy: accuracy.map(f64::from_bits),
        };
        Ok(Vec::<Bits>::deserialize(from)?.into_iter().map(of).collect())
    }
}

/// The contents of a file except the key and the state's values.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    version: u32,
    pub(super) invocation: Invocation,
    /// SHA-256 of the model, the data and the plan.
    pub(super) model: String,
    pub(super) data: String,
    pub(super) plan: String,
    /// The environment. `None` before the backend is open.
    pub(super) environment: Option<Environment>,
    /// Number of steps taken.
    pub(super) step: u32,
    /// Number of steps that stops have lost, all before `step`.
    pub(super) lost: u32,
    pub(super) moment: Moment,
    /// Size of the recording after `step` steps in bytes, if the run is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) recorded: Option<u64>,
    /// The constants that normalise the features, after their release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) normalize: Option<String>,
    /// The noisy number of rows without a finite gradient, after its release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) non_finite: Option<f32>,
    /// The names of the data's columns and classes.
    #[serde(default, skip_serializing_if = "DataNames::is_empty")]
    pub(super) names: DataNames,
    /// SHA-256 of the body.
    body: String,
    /// Number of writes so far. Of two files for one step, the newer has more.
    written: u64,
}

impl Header {
    /// Creates the header before the first step of `run`.
    pub(super) fn new(invocation: Invocation, run: &Run) -> Result<Self, TrainError> {
        Ok(Self {
            version: VERSION,
            invocation,
            // Includes the initial values of adapters, and their scale.
            model: model_digest(run.model.adapted.as_ref().map_or(&run.model.onnx, |adapted| &adapted.model)),
            data: run.data_digest.clone().map_or_else(|| data_digest(&run.data), Ok)?,
            plan: run.run_plan()?.digest(),
            environment: None,
            step: 0,
            lost: 0,
            moment: Moment::default(),
            recorded: None,
            normalize: None,
            non_finite: None,
            names: run.data.names.clone(),
            body: String::new(),
            written: 0,
        })
    }
}

/// A file that was read completely.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) header: Header,
    pub(super) key: Zeroizing<[u8; 32]>,
    /// The saved state. Empty before the first step.
    pub(super) state: Vec<u8>,
}

impl Snapshot {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Line {
            state: Header,
            sha256: String,
        }
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or("it has no whole first line")?;
        let (line, body) = bytes.split_at(end + 1);
        let Line { state: header, sha256: of_header } =
            serde_json::from_slice(line).map_err(|error| error.to_string())?;
        if header.version != VERSION {
            return Err(format!("version {}, and this damper reads version {VERSION}", header.version));
        }
        let (key, state) = body.split_first_chunk().ok_or("it is cut")?;
        if sealed::digest(&header) != of_header || sha256(body) != header.body {
            return Err("its digest does not match".into());
        }
        Ok(Self { header, key: Zeroizing::new(*key), state: state.to_vec() })
    }
}

/// Returns the newest intact file of `folder`, with its index in [`FILES`].
pub(super) fn newest(folder: &Path) -> Result<(usize, Snapshot), CheckpointError> {
    let (mut best, mut problem): (Option<(usize, Snapshot)>, Option<String>) = (None, None);
    for (at, name) in FILES.iter().enumerate() {
        let bytes = match fs::read(folder.join(name)) {
            Ok(bytes) => Zeroizing::new(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                problem = Some(format!("{name}: {error}"));
                continue;
            }
        };
        match Snapshot::parse(&bytes) {
            Ok(found) => {
                if best.as_ref().is_none_or(|(_, best)| best.header.written < found.header.written) {
                    best = Some((at, found));
                }
            }
            Err(found) => problem = Some(format!("{name}: {found}")),
        }
    }
    match (best, problem) {
        (Some(best), _) => Ok(best),
        (None, Some(problem)) => Err(CheckpointError::Damaged { folder: folder.into(), problem }),
        (None, None) => Err(CheckpointError::Nothing(folder.into())),
    }
}

/// Writes the file `path`.
pub(super) fn write(
    path: &Path,
    header: &mut Header,
    key: &[u8; 32],
    memory: &mut dyn SaveState,
) -> Result<(), FileError> {
    // Runs twice, first for its digest. A copy of the state would dominate the memory.
    let step = header.step;
    let mut body = |sink: &mut dyn FnMut(&[u8])| {
        sink(key);
        if step > 0 {
            state::save(memory, step, sink);
        }
    };
    let mut digest = Sha256::new();
    body(&mut |part| digest.update(part));
    header.body = hex(digest.finalize());
    header.written += 1;
    let (line, _) = sealed::line("state", "", header);
    write_pieces(path, Access::Private, |sink| {
        sink(line.as_bytes());
        body(sink);
    })
}

/// Removes unfinished files that a kill left, except those of a recording.
pub(super) fn remove_unfinished(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(".damper-") && !name.ends_with(PART)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
