//! `damper train --resume`: settings from the run, additional settings, and errors.

use super::{DIGITS, MLP, assert_refused, damper, folder, json, stderr, train};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn resume(out: &Path, extra: &[&str]) -> Command {
    let mut command = damper();
    command.args(["train", "--resume"]).arg(out).args(extra);
    command
}

/// Starts a run that writes its state after each step, and stops it after some of its steps.
fn stopped(mut command: Command, out: &Path, signal: &str) {
    let mut child =
        command.args(["--checkpoint-every", "0"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (started, ledger) = (Instant::now(), out.join("checkpoint/ledger.json"));
    while !ledger.exists() {
        assert!(started.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none());
        sleep(Duration::from_millis(5));
    }
    let kill = format!("kill -{signal} {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    assert!(!child.wait().unwrap().success());
    assert!(out.join("checkpoint/state-b").exists() && !out.join("report.json").exists());
}

/// 450 steps.
const LONG: [&str; 4] = ["--epochs", "20", "--seed", "1"];

// If a report cannot be written, as on a full disk, no key remains of a run with a released model.
#[test]
fn failed_report_leaves_no_key() {
    let (_guard, out) = folder();
    stopped(train(MLP, DIGITS, &out, &LONG[..2]), &out, "INT");
    // No file can have this name.
    fs::create_dir(out.join("report.html")).unwrap();
    let output = resume(&out, &["--quiet"]).output().unwrap();
    assert_refused(&output, &["report.html", "its key is removed", "damper report"]);
    assert!(out.join("model.onnx").exists() && out.join("events.json").exists());
    let kept = |name: &str| out.join("checkpoint").join(name).exists();
    assert!(!kept("state-a") && !kept("state-b") && kept("ledger.json") && kept("plan.json"));
    assert_refused(&resume(&out, &[]).output().unwrap(), &["the run is finished", "damper report"]);
    fs::remove_dir(out.join("report.html")).unwrap();
    let report = damper().arg("report").arg(&out).output().unwrap();
    assert!(report.status.success() && out.join("report.html").exists(), "{}", stderr(&report));
}

// A killed run with correlated noise resumes with the bits of an uninterrupted run. No file has its buffers.
#[test]
fn killed_run_with_correlated_noise_ends_with_same_bits() {
    let noise = ["--noise-correlation", "blt:2", "--sampler", "min-separation"];
    let flags = [&LONG[..], &noise].concat();
    let (guard, out) = folder();
    let command = || {
        let mut command = damper();
        command.args([
            "train",
            MLP,
            "--data",
            DIGITS,
            "--epsilon",
            "8",
            "--delta",
            "1e-5",
            "--batch-size",
            "64",
            "--lr",
            "0.1",
        ]);
        command.args(&flags);
        command
    };
    let mut killed = command();
    killed.arg("--out").arg(&out);
    stopped(killed, &out, "KILL");
    // All steps are charged from the first step on.
    let paid = json(&damper().arg("epsilon").arg(&out).arg("--json").output().unwrap());
    let whole = guard.path().join("whole");
    let expected = json(&command().args(["--json", "--out"]).arg(&whole).output().unwrap());
    assert_eq!(paid["epsilon"], expected["epsilon"]);
    let report = json(&resume(&out, &["--quiet", "--json"]).output().unwrap());
    assert_eq!(report["params_digest"], expected["params_digest"]);
    for name in ["model.onnx", "events.json", "metrics.csv"] {
        assert!(fs::read(out.join(name)).unwrap() == fs::read(whole.join(name)).unwrap(), "{name}");
    }
}

#[test]
fn only_what_changes_no_bit_may_be_given() {
    let (guard, out) = folder();
    stopped(train(MLP, DIGITS, &out, &LONG), &out, "KILL");
    for (extra, named) in [
        (&["--lr", "0.1"][..], "leave out --lr"),
        (&["--seed", "2"], "leave out --seed"),
        (&["onnx-models/digits-cnn.onnx"], "leave out the model"),
        (&["--data", "idx:other"], "leave out --data"),
        (&["--out", "elsewhere"], "leave out --out"),
    ] {
        assert_refused(&resume(&out, extra).output().unwrap(), &["--resume", named]);
    }
    let (whole, other) = (guard.path().join("whole"), guard.path().join("other"));
    assert!(train(MLP, DIGITS, &whole, &LONG).stdout(Stdio::null()).status().unwrap().success());
    // From another folder, by a relative name, after a move.
    fs::rename(&out, &other).unwrap();
    let mut command = resume(Path::new("other"), &["--quiet", "--json", "--workers", "2", "--checkpoint-every", "9"]);
    let report = json(&command.current_dir(guard.path()).output().unwrap());
    let expected: Value = serde_json::from_slice(&fs::read(whole.join("report.json")).unwrap()).unwrap();
    assert_eq!(report["params_digest"], expected["params_digest"]);
    for name in ["model.onnx", "events.json", "metrics.csv"] {
        assert!(fs::read(other.join(name)).unwrap() == fs::read(whole.join(name)).unwrap(), "{name}");
    }
    assert_refused(&resume(&other, &[]).output().unwrap(), &["other", "is finished"]);
}

// The flags of a run file are the run's own, including the flag of its model.
#[test]
fn run_of_a_file_goes_on() {
    let (guard, out) = folder();
    let run_file = |name: &str, out: &Path| {
        let file = guard.path().join(name);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().display();
        let lines = [
            format!("model = \"{root}/{MLP}\"\ndata = \"idx:{root}/{}\"", DIGITS.trim_start_matches("idx:")),
            format!(
                "noise-multiplier = 1.0\nbatch-size = 64\nepochs = 20\nlr = 0.1\nseed = 1\nout = \"{}\"",
                out.display()
            ),
        ];
        fs::write(&file, lines.join("\n")).unwrap();
        let mut command = damper();
        command.arg("train").arg(file);
        command
    };
    stopped(run_file("run.toml", &out), &out, "KILL");
    fs::remove_file(guard.path().join("run.toml")).unwrap();
    let report = json(&resume(&out, &["--quiet", "--json"]).output().unwrap());
    let whole = guard.path().join("whole");
    let expected = json(&run_file("whole.toml", &whole).args(["--quiet", "--json"]).output().unwrap());
    assert_eq!(report["params_digest"], expected["params_digest"]);
}

#[test]
fn folder_without_state_is_refused() {
    let (guard, out) = folder();
    assert_refused(&resume(&out, &[]).output().unwrap(), &["run", "nothing to resume"]);
    assert_refused(&resume(guard.path(), &[]).output().unwrap(), &["nothing to resume"]);
    assert!(!out.exists());
}

#[test]
fn changed_rows_are_refused() {
    let (guard, out) = folder();
    let file = guard.path().join("rows.csv");
    let row =
        |row: usize| (0..64).map(|at| format!("{},", (row * at) % 17)).collect::<String>() + &format!("{}\n", row % 10);
    let rows: String = (0..200).map(row).collect();
    fs::write(&file, &rows).unwrap();
    let spec = format!("csv:{}", file.display());
    stopped(train(MLP, &spec, &out, &["--epochs", "150", "--seed", "1"]), &out, "KILL");
    fs::write(&file, rows.replacen("3,", "4,", 1)).unwrap();
    let ledger = fs::read(out.join("checkpoint/ledger.json")).unwrap();
    assert_refused(
        &resume(&out, &["--quiet"]).output().unwrap(),
        &["the data is not the one", "go on with damper train --resume"],
    );
    assert_eq!(fs::read(out.join("checkpoint/ledger.json")).unwrap(), ledger);
    fs::write(&file, rows).unwrap();
    let resumed = resume(&out, &["--quiet"]).output().unwrap();
    assert!(resumed.status.success(), "{}", stderr(&resumed));
}

fn create_budget(file: &Path) {
    let mut command = damper();
    command.arg("budget").arg(file).args(["--create", "digits", "--delta", "1e-5", "--epsilon", "1.7"]);
    assert!(command.status().unwrap().success());
}

#[test]
fn budget_counts_a_resumed_run_once() {
    let (guard, out) = folder();
    let file = guard.path().join("digits.budget");
    let budget = |args: &[&str]| json(&damper().arg("budget").arg(&file).args(args).arg("--json").output().unwrap());
    create_budget(&file);
    let flags = ["--budget", file.to_str().unwrap(), "--samples", "1437", "--epsilon", "1.5", "--delta", "1e-5"];
    let long = ["--epochs", "20"];
    stopped(train(MLP, DIGITS, &out, &[&flags[..], &long].concat()), &out, "INT");
    let one = budget(&[]);
    let (paid, planned) = (&one["runs"][0]["steps"], &one["runs"][0]["planned_steps"]);
    assert!(paid.as_u64() < planned.as_u64() && one["epsilon"].as_f64().unwrap() < 1.5, "{one}");
    // Another run has taken the budget that the rest needs.
    let other = guard.path().join("other");
    let flags = ["--budget", file.to_str().unwrap(), "--samples", "1437", "--epsilon", "1.2", "--delta", "1e-5"];
    assert!(train(MLP, DIGITS, &other, &flags).stdout(Stdio::null()).status().unwrap().success());
    assert_refused(&resume(&out, &["--quiet"]).output().unwrap(), &["digits.budget", "above the limit of 1.7"]);

    // With enough budget, the whole plan counts once.
    let (guard, out) = folder();
    let file = guard.path().join("digits.budget");
    create_budget(&file);
    let flags = ["--budget", file.to_str().unwrap(), "--samples", "1437", "--epsilon", "1.5", "--delta", "1e-5"];
    stopped(train(MLP, DIGITS, &out, &[&flags[..], &long].concat()), &out, "TERM");
    let resumed = resume(&out, &["--quiet"]).output().unwrap();
    assert!(resumed.status.success(), "{}", stderr(&resumed));
    let total = json(&damper().arg("budget").arg(&file).arg("--json").output().unwrap());
    let report: Value = serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
    assert_eq!((&total["runs"][0]["steps"], total["runs"].as_array().unwrap().len()), (&report["steps"], 1));
    assert!((total["epsilon"].as_f64().unwrap() - report["epsilon"].as_f64().unwrap()).abs() < 1e-9, "{total}");
}

/// Returns a recorded run of 1,800 steps with this noise. It is longer than all stops of a test take.
fn recorded(out: &Path, file: &Path, noise: &[&str]) -> Command {
    let flags = ["--epochs", "10", "--batch-size", "8", "--seed", "1", "--record", file.to_str().unwrap()];
    let mut command = damper();
    command.args(["train", "onnx-models/digits-linear.onnx", "--data", DIGITS, "--out"]).arg(out).args(flags);
    command.args(["--noise-multiplier", "1", "--lr", "0.5", "--backend", "tract", "--workers", "1"]).args(noise);
    command
}

#[test]
fn recording_of_a_resumed_run_is_whole() {
    resumed_recording_is_whole(&[]);
}

#[test]
fn resumed_recording_has_correlated_noise() {
    resumed_recording_is_whole(&["--noise-correlation", "blt:2", "--sampler", "min-separation"]);
}

/// Alternates kills and Ctrl-C. Then the recording is that of an uninterrupted run, byte for byte.
fn resumed_recording_is_whole(noise: &[&str]) {
    let (guard, out) = folder();
    let (whole, file, other) = (guard.path().join("whole"), guard.path().join("run.pack"), guard.path().join("w.pack"));
    assert!(recorded(&whole, &other, noise).arg("--quiet").stdout(Stdio::null()).status().unwrap().success());
    let part = guard.path().join(".damper-run.pack.part");
    stopped(recorded(&out, &file, noise), &out, "KILL");
    for (number, signal) in ["KILL", "INT", "KILL", "TERM", "KILL"].iter().enumerate() {
        // On a slow machine the run may have ended before its signal.
        if file.exists() {
            break;
        }
        assert!(part.exists());
        let mut child = resume(&out, &["--checkpoint-every", if number % 2 == 0 { "0" } else { "60" }]);
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(40 * number as u64));
        let kill = format!("kill -{signal} {}", child.id());
        let _ = Command::new("sh").args(["-c", &kill]).status().unwrap();
        child.wait().unwrap();
    }
    // Another run rejects it.
    let message = [".damper-run.pack.part", "resume that run", "name another"];
    if part.exists() {
        assert_refused(&recorded(&guard.path().join("new"), &file, noise).arg("--quiet").output().unwrap(), &message);
    }
    let ended = resume(&out, &["--quiet"]).output().unwrap();
    assert!(ended.status.success() || stderr(&ended).contains("is finished"), "{}", stderr(&ended));
    assert!(fs::read(&file).unwrap() == fs::read(&other).unwrap(), "the recordings differ");
    assert!(!part.exists());
    let report: Value = serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
    assert!(report["recording"]["params"].is_string());
    assert!(damper().arg("replay").arg(&file).stdout(Stdio::null()).status().unwrap().success());
}

/// The error asks for the removal of the part if it exists and belongs to this run.
#[test]
fn lost_recording_is_warned_of() {
    type Change = fn(&Path);
    let cases: [(Change, &str, bool); 3] = [
        (|part| fs::remove_file(part).unwrap(), "it is no longer there", false),
        (|part| fs::write(part, "another run's").unwrap(), "it is of another run, or was cut", false),
        (
            |part| {
                let part = fs::File::options().write(true).open(part).unwrap();
                part.set_len(part.metadata().unwrap().len() / 2).unwrap();
            },
            "it is of another run, or was cut",
            true,
        ),
    ];
    for (change, why, is_named) in cases {
        let (guard, out) = folder();
        let file = guard.path().join("run.pack");
        stopped(recorded(&out, &file, &[]), &out, "INT");
        change(&guard.path().join(".damper-run.pack.part"));
        let resumed = resume(&out, &["--quiet"]).output().unwrap();
        let said = stderr(&resumed);
        assert!(resumed.status.success() && !file.exists(), "{said}");
        assert!(said.contains(&format!("\nwarning: --record: the recording cannot go on ({why})")), "{said}");
        assert_eq!(said.contains(".damper-run.pack.part is as secret as the data: remove it"), is_named, "{said}");
        let report: Value = serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
        assert!(report["recording"].is_null());
    }
}
