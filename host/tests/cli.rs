//! The command as a user runs it: the real program on good input and on every kind of bad input.

#[path = "cli/aggregate.rs"]
mod aggregate;
#[path = "cli/audit.rs"]
mod audit;
#[path = "cli/bad_input.rs"]
mod bad_input;
#[path = "cli/before_charge.rs"]
mod before_charge;
#[cfg(unix)]
#[path = "cli/browser.rs"]
mod browser;
#[path = "cli/budget.rs"]
mod budget;
#[path = "cli/by_class.rs"]
mod by_class;
#[path = "cli/claims.rs"]
mod claims;
#[path = "cli/compile.rs"]
mod compile;
#[path = "cli/data_files.rs"]
mod data_files;
#[path = "cli/earlier.rs"]
mod earlier;
#[path = "cli/evaluate.rs"]
mod evaluate;
#[path = "cli/events.rs"]
mod events;
#[path = "cli/fix.rs"]
mod fix;
#[path = "cli/four_words.rs"]
mod four_words;
#[path = "cli/good_data.rs"]
mod good_data;
#[path = "cli/good_runs.rs"]
mod good_runs;
#[path = "cli/gradients.rs"]
mod gradients;
#[path = "cli/held_out.rs"]
mod held_out;
#[cfg(target_os = "linux")]
#[path = "cli/identity.rs"]
mod identity;
#[path = "cli/init.rs"]
mod init;
#[path = "cli/launchers.rs"]
mod launchers;
#[path = "cli/lora.rs"]
mod lora;
#[path = "support/markup.rs"]
mod markup;
#[path = "cli/methods.rs"]
mod methods;
#[path = "cli/names.rs"]
mod names;
#[path = "cli/noise.rs"]
mod noise;
#[path = "cli/normalize.rs"]
mod normalize;
#[path = "cli/not_private.rs"]
mod not_private;
#[path = "support/npz.rs"]
mod npz;
#[path = "cli/progress.rs"]
mod progress;
#[path = "cli/record.rs"]
mod record;
#[path = "cli/report.rs"]
mod report;
#[path = "cli/resume.rs"]
mod resume;
#[path = "cli/rows.rs"]
mod rows;
#[path = "cli/run_files.rs"]
mod run_files;
#[path = "cli/shell.rs"]
mod shell;
#[path = "cli/silent.rs"]
mod silent;
#[path = "cli/text.rs"]
mod text;
#[path = "cli/unfinished.rs"]
mod unfinished;
#[path = "cli/wrong_data.rs"]
mod wrong_data;
#[path = "cli/wrong_uses.rs"]
mod wrong_uses;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const MLP: &str = "onnx-models/digits-mlp.onnx";
const DIGITS: &str = "idx:onnx-models/digits";

/// Returns the program, run from the workspace's root without an onnxruntime of the user's.
fn damper() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_damper"));
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).env_remove("ORT_DYLIB_PATH");
    command
}

fn run(args: &[&str]) -> Output {
    damper().args(args).output().unwrap()
}

/// Returns `damper train` with five quiet steps on tract, with `extra` flags.
fn train(model: &str, data: &str, out: &Path, extra: &[&str]) -> Command {
    let mut command = damper();
    command
        .args(["train", model, "--data", data, "--out"])
        .arg(out)
        .args(["--batch-size", "64", "--lr", "0.5", "--backend", "tract", "--quiet"])
        .args(extra);
    for (flag, value) in [("--epochs", "0.2"), ("--workers", "1")] {
        if !extra.contains(&flag) {
            command.args([flag, value]);
        }
    }
    if !extra.contains(&"--epsilon") && !extra.contains(&"--noise-multiplier") {
        command.args(["--noise-multiplier", "1"]);
    }
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Checks for an error of one line on standard error that has all of `words`, and for no files at `out`.
#[track_caller]
fn refused(mut command: Command, out: &Path, words: &[&str]) {
    let output = command.output().unwrap();
    assert_refused(&output, words);
    assert!(fs::symlink_metadata(out).is_err(), "{} was left behind", out.display());
}

#[track_caller]
fn assert_refused(output: &Output, words: &[&str]) {
    let message = stderr(output);
    let code = output.status.code();
    assert!(code.is_some_and(|code| code > 0 && code < 100), "{code:?} {message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.starts_with("error: ") && message.ends_with('\n'), "{message}");
    for word in words {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
    let answer = serde_json::from_slice::<serde_json::Value>(&output.stdout);
    let is_same = |answer: serde_json::Value| answer["error"].as_str().is_some_and(|said| message.contains(said));
    assert!(output.stdout.is_empty() || answer.is_ok_and(is_same));
}

/// Returns the warnings, without that of a network that learns nothing from random rows.
fn warnings(output: &Output) -> Vec<String> {
    stderr(output).lines().filter(|line| !line.contains("that of a guess")).map(String::from).collect()
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the names of the trained parameters in the answer of `inspect --json`.
fn trained_names(inspected: &serde_json::Value) -> Vec<&str> {
    let all = inspected["parameters"].as_array().unwrap().iter();
    all.filter(|one| one["trained"] == true).map(|one| one["name"].as_str().unwrap()).collect()
}

/// Returns a temporary folder, and a path in it for a run's outputs.
fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    (folder, out)
}
