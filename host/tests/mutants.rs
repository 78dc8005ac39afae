//! Mechanisms that are broken on purpose, each run against the three audits: `docs/audit.md` has the table that this writes.
//!
//! The command is built with `--features mutants`, and an environment variable chooses the mutant.
//!
//! - As it is, a fast part runs: some mutants against the audits that are to see them.
//! - `DAMPER_MUTANTS=all` runs every mutant against every audit, and compares the table.
//! - `DAMPER_MUTANTS=record` writes the table.
#![cfg(feature = "mutants")]

use damper_core::mutant::Mutant;
use std::path::{Path, PathBuf};
use std::process::Command;

const AUDITS: [&str; 3] = ["mechanism", "neighbours", "canary"];

/// A run that every audit takes, with the flags that some mutants need to matter.
fn flags(mutant: Option<Mutant>) -> &'static [&'static str] {
    match mutant {
        Some(
            Mutant::CountsNoNoise
            | Mutant::CountsHalfNoise
            | Mutant::CountsShareStream
            | Mutant::CountsTwice
            | Mutant::CountsDoubledInMerge
            | Mutant::ThresholdExact,
        ) => &["--method", "dc-sgd-p"],
        Some(Mutant::LayersUnbounded) => &["--clipping", "per-layer"],
        Some(Mutant::MixAfterClip) => &["--method", "dp-pmlf"],
        Some(Mutant::ScheduleIgnored) => &["--noise-schedule", "polynomial:0.05,1"],
        _ => &[],
    }
}

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../onnx-models")
}

/// Returns true if the audit finds that something is wrong; its record says so.
fn caught(audit: &str, mutant: Option<(Mutant, &str)>, precision: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let mut command = Command::new(env!("CARGO_BIN_EXE_damper"));
    command.args(["audit", audit]).arg(models().join("digits-mlp.onnx"));
    command.arg("--data").arg(format!("idx:{}", models().join("digits").display()));
    // At a claim of 1 the canaries find the most that they can.
    command.args(["--epsilon", "1", "--delta", "1e-5", "--batch-size", "128", "--epochs", "4", "--lr", "0.3"]);
    command
        .args(["--clip", "1", "--backend", "tract", "--workers", "2", "--physical-batch", "16", "--quiet", "--out"])
        .arg(&out);
    command.args(flags(mutant.map(|(mutant, _)| mutant)));
    match audit {
        "mechanism" => command.args(["--precision", precision]),
        // A key that is a constant shows without a seed alone.
        _ => command.args(["--seed", "1"]),
    };
    match mutant {
        Some((_, name)) => command.env("DAMPER_MUTANT", name),
        None => command.env_remove("DAMPER_MUTANT"),
    };
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let record = std::fs::read_to_string(out.join(format!("audit-{audit}.json")))
        .unwrap_or_else(|error| panic!("{audit} of {mutant:?} left no record ({error}): {said}"));
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let wrong = match audit {
        "canary" => record["refuted"].as_bool().unwrap(),
        _ => !record["holds"].as_bool().unwrap(),
    };
    assert_eq!(output.status.code(), Some(i32::from(wrong)), "{audit} of {mutant:?}: {said}");
    if wrong {
        println!("{audit} of {mutant:?}: {}", said.lines().last().unwrap_or_default());
    }
    wrong
}

/// Deviations of the noise that this mutant needs to be found.
fn precision(mutant: Mutant) -> &'static str {
    if mutant == Mutant::NoiseTwoPercentMore { "0.02" } else { "0.05" }
}

fn table() -> String {
    let mut rows = String::from("| broken | `mechanism` | `neighbours` | `canary` |\n| --- | --- | --- | --- |\n");
    let row = |what: &str, caught: [bool; 3]| {
        let word = |caught: bool| if caught { "caught" } else { "not caught" };
        format!("| {what} | {} | {} | {} |\n", word(caught[0]), word(caught[1]), word(caught[2]))
    };
    let honest = AUDITS.map(|audit| caught(audit, None, "0.05"));
    assert_eq!(honest, [false; 3], "a right mechanism is refuted");
    rows += &row("nothing", honest);
    for (mutant, name, what) in Mutant::ALL {
        let seen = AUDITS.map(|audit| caught(audit, Some((*mutant, name)), precision(*mutant)));
        println!("{name}: {seen:?}");
        rows += &row(what, seen);
    }
    rows
}

const FROM: &str = "<!-- mutants: written by host/tests/mutants.rs -->\n";
const TO: &str = "<!-- mutants: end -->\n";

#[test]
fn every_mutant_is_caught_by_an_audit() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/audit.md");
    let text = std::fs::read_to_string(&docs).unwrap();
    let (before, rest) = text.split_once(FROM).expect("docs/audit.md has a place for the table");
    let (old, after) = rest.split_once(TO).expect("docs/audit.md has an end of the table");
    let uncaught = |table: &str| -> Vec<String> {
        let rows = table.lines().skip(3);
        rows.filter(|row| !row.contains("| caught")).map(str::to_owned).collect()
    };
    match std::env::var("DAMPER_MUTANTS").as_deref() {
        Ok(which @ ("all" | "record")) => {
            let new = table();
            if which == "record" {
                std::fs::write(&docs, format!("{before}{FROM}{new}{TO}{after}")).unwrap();
            } else {
                assert_eq!(old, new, "docs/audit.md is not what the audits say: DAMPER_MUTANTS=record writes it");
            }
            assert_eq!(uncaught(&new), Vec::<String>::new());
        }
        _ => {
            assert!(Mutant::ALL.len() >= 30);
            for (_, _, what) in Mutant::ALL {
                assert!(old.contains(&format!("| {what} |")), "docs/audit.md has no row of: {what}");
            }
            assert_eq!(uncaught(old), Vec::<String>::new());
            assert!(!caught("mechanism", None, "0.1"));
            for (name, audit) in [
                ("HalfNoise", "mechanism"),
                ("SameNoiseEveryStep", "mechanism"),
                ("RateFourfold", "mechanism"),
                ("LedgerPaysAfter", "mechanism"),
                ("CountsShareStream", "mechanism"),
                ("CountsDoubledInMerge", "neighbours"),
                ("ClipOfSum", "neighbours"),
            ] {
                let (mutant, name, _) = Mutant::ALL.iter().find(|(_, known, _)| *known == name).unwrap();
                assert!(caught(audit, Some((*mutant, name)), "0.1"), "{name} was not seen by {audit}");
            }
        }
    }
}
