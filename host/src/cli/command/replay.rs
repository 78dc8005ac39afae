//! `damper replay`: replays packs and reports for each group if the bits are the same here.

use crate::cli::args::model::memory;
use crate::cli::{Failure, answer, answer_json};
use clap::Args;
use damper_replay::{BASE, FURTHER, KernelValue, Line, Mismatch, Part, WIDE};
use damper_train::replay::{PlayError, Played, play, play_file};
use serde::Serialize;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
A pack holds what must come out: values of kernels, whole steps, and runs with
a digest of the parameters and of every memory each few steps, so that a
difference is found within those. damper train --record writes one of a run.
The digests printed are of released values; a recorded run itself holds the
gradients of its samples and is as secret as the data.

Examples:
  damper replay                           the sets that damper comes with
  damper replay replay/src/vectors/base.pack
  damper train ... --record run.pack && damper replay run.pack

Exit codes: 0 all the same; 1 something differs, or a file is no whole pack.";

/// Replays recorded vectors or a recorded run, and reports bits that differ.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(in crate::cli) struct ReplayArgs {
    /// Packs. Without one, the sets that damper comes with
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Memory limit for replaying a pack, such as 512MiB
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = memory)]
    memory: u64,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct AccountingResult {
    groups: u32,
    differ: u32,
    sets: Vec<Set>,
}

#[derive(Serialize)]
struct Set {
    file: Option<String>,
    set: String,
    bits_contract: u32,
    groups: Vec<Group>,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Group {
    Kernel {
        name: String,
        values: u32,
        difference: Option<ValueDifference>,
    },
    Run {
        name: String,
        steps: u32,
        /// In the format of the lines.
        params: String,
        difference: Option<RunDifference>,
    },
    Updates {
        name: String,
        rounds: u32,
        /// In the format of the lines.
        bytes: String,
        difference: Option<RunDifference>,
    },
}

#[derive(Serialize)]
struct ValueDifference {
    value: u32,
    found: String,
    recorded: String,
}

#[derive(Serialize)]
struct RunDifference {
    last_equal_step: u32,
    first_different_step: u32,
    parts: Vec<&'static str>,
}

impl From<Mismatch> for RunDifference {
    fn from(Mismatch { after, by, parts }: Mismatch) -> Self {
        let differ = Part::ALL.into_iter().filter(|part| parts.contains(*part));
        Self { last_equal_step: after, first_different_step: by, parts: differ.map(Part::name).collect() }
    }
}

pub(in crate::cli) fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let say = |line: &Line| if args.json { Ok(()) } else { answer(&line.to_string()) };
    let mut sets = Vec::new();
    let mut first_fault = None;
    let (mut groups, mut differ) = (0, 0);
    let mut count = |name: Option<String>, played: Played| {
        groups += played.summary.groups;
        differ += played.summary.differ;
        if played.summary.differ > 0 && first_fault.is_none() {
            first_fault = Some(format!(
                "{}: {} of {} groups differ from what was recorded: the lines say where",
                name.as_deref().unwrap_or("damper's own sets"),
                played.summary.differ,
                played.summary.groups
            ));
        }
        sets.push(set(name, &played.lines));
    };
    if args.files.is_empty() {
        for pack in [BASE, FURTHER, WIDE] {
            count(None, played(|said| play(pack, args.memory, said), say, Failure::from)?);
        }
    }
    for file in &args.files {
        let fault = |error| Failure::of_file(file, error);
        count(Some(file.display().to_string()), played(|said| play_file(file, args.memory, said), say, fault)?);
    }
    if args.json {
        answer_json(&AccountingResult { groups, differ, sets })?;
    }
    first_fault.map_or(Ok(()), |fault| Err(Failure::new(fault)))
}

/// Returns the replayed groups. Prints each line as it comes.
fn played(
    play: impl FnOnce(&mut dyn FnMut(&Line)) -> Result<Played, PlayError>,
    say: impl Fn(&Line) -> Result<(), Failure>,
    fault: impl FnOnce(PlayError) -> Failure,
) -> Result<Played, Failure> {
    let mut said = Ok(());
    let played = play(&mut |line| {
        if said.is_ok() {
            said = say(line);
        }
    });
    said?;
    played.map_err(fault)
}

fn set(file: Option<String>, lines: &[Line]) -> Set {
    let mut found = Set { file, set: String::new(), bits_contract: 0, groups: Vec::new() };
    for line in lines {
        match *line {
            Line::Set { name, contract } => (found.set, found.bits_contract) = (name.to_string(), contract),
            Line::Kernel { name, values, first } => {
                let difference = first.map(|KernelValue { index, found, recorded }| ValueDifference {
                    value: index,
                    found: format!("{found:x}"),
                    recorded: format!("{recorded:x}"),
                });
                found.groups.push(Group::Kernel { name: name.to_string(), values, difference });
            }
            Line::Run { name, steps, params, mismatch } => {
                let (params, difference) = (format!("{params:016x}"), mismatch.map(RunDifference::from));
                found.groups.push(Group::Run { name: name.to_string(), steps, params, difference });
            }
            Line::Updates { name, rounds, bytes, mismatch } => {
                let (bytes, difference) = (format!("{bytes:016x}"), mismatch.map(RunDifference::from));
                found.groups.push(Group::Updates { name: name.to_string(), rounds, bytes, difference });
            }
            Line::End(_) => {}
        }
    }
    found
}
