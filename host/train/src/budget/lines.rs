//! The lines of a budget file. Each is a JSON object, `{"line": …, "sha256": …}`: the digest covers the line and the digest before
//! it, so a line that was changed or left out is found.

use super::{Charge, Record};
use crate::RunPlan;
use crate::files::sha256;
use damper_accounting::Recorded;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The first line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version of the file's form.
    pub version: u32,
    /// The name that the user gave the data set.
    pub dataset: String,
    /// The limit of ε, if there is one.
    pub epsilon: Option<f64>,
    /// The δ of the total.
    pub delta: f64,
}

/// The version of the file's form.
pub(super) const VERSION: u32 = 1;

impl Header {
    /// The header of a budget for `dataset`.
    #[must_use]
    pub fn new(dataset: String, epsilon: Option<f64>, delta: f64) -> Self {
        Self { version: VERSION, dataset, epsilon, delta }
    }
}

/// A line of the file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Line {
    /// Name, limit and δ.
    Header(Header),
    /// A run, by its whole plan.
    Charge {
        /// Its number, from 1.
        number: u64,
        /// Seconds since 1970.
        unix_seconds: u64,
        /// The subcommand.
        command: String,
        /// Its output folder.
        out: String,
        /// Its plan.
        plan: RunPlan,
    },
    /// The paid steps of a run that ended before it paid for its whole plan.
    Paid {
        /// The number of its charge.
        number: u64,
        /// Paid steps, an upper bound on those that released something.
        steps: u32,
        /// Their events.
        events: Recorded,
    },
    /// The line before this one was torn by a crash.
    Torn {
        /// The torn line, from 1.
        line: usize,
        /// The digest of its bytes.
        sha256: String,
    },
}

/// The line's text with its digest, after a line with the digest `last`; and the digest.
pub(super) fn chained(last: &str, line: &Line) -> (String, String) {
    let text = serde_json::to_string(line).expect("a line has string keys and finite numbers");
    let digest = sha256(format!("{last}\n{text}").as_bytes());
    (format!("{{\"line\":{text},\"sha256\":\"{digest}\"}}\n"), digest)
}

/// A file that was read whole.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) record: Record,
    /// The digest of the last line.
    pub(super) last: String,
}

/// Why a file cannot be used.
#[derive(PartialEq, Debug)]
pub(super) enum Damage {
    /// The last line is incomplete. `last` is the digest of the line before it.
    Torn { line: usize, last: String, bytes: Vec<u8> },
    /// A whole line is wrong.
    Line { line: usize, problem: String },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torn { line: 1, .. } => {
                f.write_str("its first line is torn, so it has charged nothing; remove it and create it again")
            }
            Self::Torn { line, .. } => write!(
                f,
                "line {line} is torn, as by a crash while it was written, so no total is known; its run did not begin; record \
                 that: damper budget FILE --repair"
            ),
            Self::Line { line, problem } => write!(
                f,
                "line {line} is damaged ({problem}), so the total is unknown; take the file from a backup that has all runs, or \
                 treat the data's budget as spent"
            ),
        }
    }
}

/// Reads a whole file.
pub(super) fn parse(bytes: &[u8]) -> Result<Parsed, Damage> {
    let mut last = String::new();
    let mut record: Option<Record> = None;
    let mut whole: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    // Whole lines end with a newline: what follows the last one is empty.
    let tail = whole.pop().unwrap_or_default();
    let mut skip = false;
    for (at, text) in whole.iter().enumerate() {
        if std::mem::take(&mut skip) {
            continue;
        }
        let damaged = |problem: String| Damage::Line { line: at + 1, problem };
        let (line, digest) = match verified(&last, text) {
            Ok(found) => found,
            // A torn line is known by the one after it.
            Err(problem) => match whole.get(at + 1).map(|next| verified(&last, next)) {
                Some(Ok((Line::Torn { line, sha256: of }, digest))) if line == at + 1 && of == sha256(text) => {
                    skip = true;
                    (Line::Torn { line, sha256: of }, digest)
                }
                _ => return Err(damaged(problem)),
            },
        };
        last = digest;
        add(&mut record, line).map_err(damaged)?;
    }
    if !tail.is_empty() || record.is_none() {
        return Err(Damage::Torn { line: whole.len() + 1, last, bytes: tail.to_vec() });
    }
    let record = record.ok_or_else(|| Damage::Line { line: 1, problem: "it is empty".into() })?;
    Ok(Parsed { record, last })
}

/// A line without its newline, if its digest is right; and the digest.
pub(super) fn verified(last: &str, text: &[u8]) -> Result<(Line, String), String> {
    #[derive(Deserialize)]
    struct Chained {
        line: Line,
    }
    let Chained { line } = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let (whole, digest) = chained(last, &line);
    if whole.strip_suffix('\n').is_some_and(|whole| whole.as_bytes() == text) {
        Ok((line, digest))
    } else {
        Err("its digest does not match".into())
    }
}

fn add(record: &mut Option<Record>, line: Line) -> Result<(), String> {
    match (record, line) {
        (record @ None, Line::Header(header)) => {
            if header.version != VERSION {
                return Err(format!("version {}, and this damper reads version {VERSION}", header.version));
            }
            *record = Some(Record { header, charges: Vec::new(), torn: Vec::new() });
        }
        (None, _) => return Err("no budget begins so".into()),
        (Some(_), Line::Header(_)) => return Err("a second header".into()),
        (Some(record), Line::Charge { number, unix_seconds, command, out, plan }) => {
            let next = record.charges.last().map_or(1, |last| last.number + 1);
            if number != next {
                return Err(format!("charge {number} after {}", next - 1));
            }
            let (steps, events) = (plan.steps, plan.events.clone());
            record.charges.push(Charge { number, unix_seconds, command, out, plan, steps, events });
        }
        (Some(record), Line::Paid { number, steps, events }) => {
            let charge = record.charges.iter_mut().find(|charge| charge.number == number);
            match charge {
                // Only down from the whole plan, and once.
                Some(charge) if charge.steps == charge.plan.steps && events == charge.plan.paid(steps) => {
                    (charge.steps, charge.events) = (steps, events);
                }
                _ => return Err(format!("its paid steps do not follow from charge {number}")),
            }
        }
        (Some(record), Line::Torn { line, .. }) => record.torn.push(line),
    }
    Ok(())
}
