//! The record of a budget file, parsed from its lines.

use crate::cost;
use crate::lines::{BudgetHeader, BudgetLine, VERSION, verified};
use crate::plan::RunPlan;
use damper_accounting::pld::Neighbours;
use damper_accounting::{AccountingError, Recorded};
use damper_files::sha256;
use std::fmt;

/// A run in the record.
#[derive(Clone, PartialEq, Debug)]
pub struct Charge {
    /// The number of the charge, from 1.
    pub number: u64,
    /// Time of the charge, in seconds since 1970.
    pub unix_seconds: u64,
    /// The subcommand of the run.
    pub command: String,
    /// The output folder of the run.
    pub out: String,
    /// The plan of the run.
    pub plan: RunPlan,
    /// Number of steps that count: all, or the charged steps of its ledger.
    pub steps: u32,
    /// The events of these steps.
    pub events: Recorded,
}

/// The lines of a budget file.
#[derive(Clone, PartialEq, Debug)]
pub struct BudgetRecord {
    /// Name, limit and δ.
    pub header: BudgetHeader,
    /// All runs, in order.
    pub charges: Vec<Charge>,
    /// Lines that a crash tore and that were repaired. They charge nothing, because a run begins after its line is
    /// complete.
    pub torn: Vec<usize>,
}

impl BudgetRecord {
    /// Returns ε of all charges and `more` at the budget's δ, by the tight accountant.
    ///
    /// # Errors
    ///
    /// No finite ε holds, or the number of distinct events is too large.
    pub fn epsilon(&self, more: Option<&Recorded>) -> Result<f64, AccountingError> {
        self.epsilon_for(Neighbours::AddOrRemove, more)
    }

    /// Returns the same for another neighbouring relation.
    ///
    /// # Errors
    ///
    /// As for [`BudgetRecord::epsilon`].
    pub fn epsilon_for(&self, neighbours: Neighbours, more: Option<&Recorded>) -> Result<f64, AccountingError> {
        let events: Vec<&Recorded> = self.charges.iter().map(|charge| &charge.events).chain(more).collect();
        cost(&events, self.header.delta, neighbours)
    }
}

/// A file that was read completely.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) record: BudgetRecord,
    /// The digest of the last line.
    pub(super) last: String,
}

/// The reason why a file cannot be used.
#[derive(PartialEq, Debug)]
pub(super) enum Damage {
    /// The last line is incomplete. `last` is the digest of the line before it.
    Torn { line: usize, last: String, bytes: Vec<u8> },
    /// A complete line is wrong.
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
                 that: damper budget FILE `repair`"
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
    let mut record: Option<BudgetRecord> = None;
    let mut whole: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    // Complete lines end with a newline, so the rest after the last newline is empty.
    let tail = whole.pop().unwrap_or_default();
    let mut skip = false;
    for (at, text) in whole.iter().enumerate() {
        if std::mem::take(&mut skip) {
            continue;
        }
        let damaged = |problem: String| Damage::Line { line: at + 1, problem };
        let (line, digest) = match verified(&last, text) {
            Ok(found) => found,
            // The next line identifies a torn line.
            Err(problem) => match whole.get(at + 1).map(|next| verified(&last, next)) {
                Some(Ok((BudgetLine::Torn { line, sha256: of }, digest))) if line == at + 1 && of == sha256(text) => {
                    skip = true;
                    (BudgetLine::Torn { line, sha256: of }, digest)
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

fn add(record: &mut Option<BudgetRecord>, line: BudgetLine) -> Result<(), String> {
    match (record, line) {
        (record @ None, BudgetLine::Header(header)) => {
            if header.version != VERSION {
                return Err(format!("version {}, and this damper reads version {VERSION}", header.version));
            }
            *record = Some(BudgetRecord { header, charges: Vec::new(), torn: Vec::new() });
        }
        (None, _) => return Err("no budget begins so".into()),
        (Some(_), BudgetLine::Header(_)) => return Err("a second header".into()),
        (Some(record), BudgetLine::Charge { number, unix_seconds, command, out, plan }) => {
            let next = record.charges.last().map_or(1, |last| last.number + 1);
            if number != next {
                return Err(format!("charge {number} after {}", next - 1));
            }
            let (steps, events) = (plan.steps, plan.events.clone());
            record.charges.push(Charge { number, unix_seconds, command, out, plan, steps, events });
        }
        (Some(record), BudgetLine::Paid { number, steps, events }) => {
            let charge = record.charges.iter_mut().find(|charge| charge.number == number);
            match charge {
                // A charge can only fall from the whole plan.
                Some(charge) if charge.steps == charge.plan.steps && events == charge.plan.paid(steps) => {
                    (charge.steps, charge.events) = (steps, events);
                }
                _ => return Err(format!("its paid steps do not follow from charge {number}")),
            }
        }
        (Some(record), BudgetLine::Resumed { number }) => {
            let charge = record.charges.iter_mut().find(|charge| charge.number == number);
            let charge = charge.ok_or_else(|| format!("charge {number}, which goes on, is missing"))?;
            (charge.steps, charge.events) = (charge.plan.steps, charge.plan.events.clone());
        }
        (Some(record), BudgetLine::Torn { line, .. }) => record.torn.push(line),
    }
    Ok(())
}
