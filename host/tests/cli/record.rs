//! `damper train --record` and `damper replay`: exactness and secrecy of a recording, and errors for broken recordings.

use super::{DIGITS, assert_refused, damper, folder, json, refused, run, stderr, train};
use damper_core::numerics::digest::Digest;
use damper_replay::{BASE, BASE_SAID, FURTHER_SAID, WIDE_SAID};
use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

const LINEAR: &str = "onnx-models/digits-linear.onnx";

fn replay(files: &[&Path], flags: &[&str]) -> Output {
    damper().arg("replay").args(files).args(flags).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns the base set with a changed byte in its last run's last checkpoint, and a matching digest.
fn changed() -> Vec<u8> {
    let mut pack = BASE.to_vec();
    let end = pack.len() - 8;
    pack[end - 1 - 4] ^= 1;
    let mut digest = Digest::default();
    digest.add_bytes(&pack[..end]);
    pack[end..].copy_from_slice(&digest.value().to_le_bytes());
    pack
}

// A recorded run replays to the digest of its report.
#[test]
fn replay_matches_reported_digest() {
    let (folder, out) = folder();
    let file = folder.path().join("run.pack");
    let record = ["--record", file.to_str().unwrap()];
    let output =
        train(LINEAR, DIGITS, &out, &[&record[..], &["--method", "disk", "--json"]].concat()).output().unwrap();
    let report = json(&output);
    let params = report["recording"]["params"].as_str().unwrap();

    let output = replay(&[&file], &[]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    let lines = format!("set recorded run, contract 3\ndisk: 5 steps, params {params}\n1 group, all the same\n");
    assert_eq!(stdout(&output), lines);
    let twice = json(&replay(&[&file, &file], &["--json"]));
    assert_eq!((&twice["groups"], &twice["differ"]), (&2.into(), &0.into()));
    for set in twice["sets"].as_array().unwrap() {
        let group = &set["groups"][0];
        assert_eq!((&set["set"], &set["file"]), (&"recorded run".into(), &file.to_str().unwrap().into()));
        assert_eq!((&group["kind"], &group["name"], &group["steps"]), (&"run".into(), &"disk".into(), &5.into()));
        assert_eq!((group["params"].as_str().unwrap(), group["difference"].is_null()), (params, true));
    }
}

// Only the owner can read a recording, and every output states that it is secret.
#[test]
fn recording_is_private_and_labelled() {
    let (folder, out) = folder();
    let file = folder.path().join("run.pack");
    let mut command = damper();
    command.args([
        "train",
        LINEAR,
        "--data",
        DIGITS,
        "--noise-multiplier",
        "1",
        "--batch-size",
        "64",
        "--epochs",
        "0.2",
    ]);
    command.args(["--lr", "0.5", "--backend", "tract", "--out"]).arg(&out).arg("--record").arg(&file);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    #[cfg(unix)]
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions()) & 0o777, 0o600);

    let note = format!("recording in {}, about ", file.display());
    let line = stderr(&output).lines().find_map(|line| line.strip_prefix(&note).map(str::to_owned)).unwrap();
    assert!(line.ends_with("KiB, as secret as the data"), "{line}");
    assert!(stdout(&output).contains(&format!("secret    {} (the recording", file.display())), "{}", stdout(&output));
    let report = fs::read_to_string(out.join("report.json")).unwrap();
    let found: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert!(found["recording"]["secrecy"].as_str().unwrap().contains("as secret as the data"));
    assert!(found["privacy"]["not_covered"].as_str().unwrap().contains("the recording"));
    assert!(!report.contains("run.pack"), "{report}");
    let help = stdout(&run(&["train", "--help-all"]));
    assert!(help.split("--record <FILE>").nth(1).unwrap().split("--record-limit").next().unwrap().contains("secret"));
    // The report of a run without a recording does not mention recordings.
    let plain = json(&train(LINEAR, DIGITS, &folder.path().join("plain"), &["--json"]).output().unwrap());
    assert!(plain["recording"].is_null() && !plain["privacy"]["not_covered"].as_str().unwrap().contains("recording"));
}

// A killed run leaves no recording under its final name.
#[test]
fn killed_run_leaves_no_recording() {
    let (folder, out) = folder();
    let file = folder.path().join("run.pack");
    let flags = ["--epochs", "500", "--record-limit", "1000GiB", "--record", file.to_str().unwrap()];
    let mut child = train(LINEAR, DIGITS, &out, &flags).spawn().unwrap();
    let hidden = || {
        let entries = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
        entries.filter(|entry| entry.file_name().to_str().unwrap().starts_with(".damper-")).collect::<Vec<_>>()
    };
    let started = Instant::now();
    while hidden().iter().all(|entry| entry.metadata().map_or(0, |found| found.len()) < 100_000) {
        assert!(started.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(fs::symlink_metadata(&file).is_err());
    #[cfg(unix)]
    for entry in hidden() {
        let mode = std::os::unix::fs::PermissionsExt::mode(&entry.metadata().unwrap().permissions()) & 0o777;
        assert_eq!(mode, 0o600);
    }
}

/// A limit on the size of files simulates a full disk.
#[cfg(unix)]
#[test]
fn full_disk_leaves_only_the_ledger() {
    let (folder, out) = folder();
    let file = folder.path().join("run.pack");
    let mut command = std::process::Command::new("sh");
    let run = train(LINEAR, DIGITS, &out, &["--record", file.to_str().unwrap(), "--no-checkpoint"]);
    command.current_dir(run.get_current_dir().unwrap()).env_remove("ORT_DYLIB_PATH");
    command.args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$0\" \"$@\""]).arg(run.get_program()).args(run.get_args());
    assert_refused(&command.output().unwrap(), &["run.pack: cannot be written", "another --record", "unfinished"]);
    let names = |folder: &Path| -> Vec<_> {
        let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(
        (names(folder.path()), names(&out)),
        (vec!["run".into()], vec!["checkpoint".into(), "config.toml".into()])
    );
    assert_eq!(names(&out.join("checkpoint")), ["ledger.json", "plan.json"]);
}

// A recording at a wrong path, or above its size limit, is an error.
#[test]
fn wrong_record_path_or_limit_is_error() {
    let (folder, out) = folder();
    let elsewhere = folder.path().join("run.pack");
    let file = |path: &Path| path.to_str().unwrap().to_owned();
    let covered = file(&out.join("run.pack"));
    let taken = file(folder.path());
    let absent = file(&folder.path().join("none/run.pack"));
    for (flags, words) in [
        (vec!["--record", &covered], vec!["--record", "epsilon covers", "checkpoint/run.pack"]),
        (vec!["--record", &taken], vec!["--record", "is there already"]),
        (vec!["--record", &absent], vec!["none/run.pack", "make its folder first"]),
        (vec!["--record", &file(&elsewhere), "--record-limit", "10KiB"], vec!["--record-limit 10240", "5 steps"]),
        (vec!["--record", &file(&elsewhere), "--galore", "2"], vec!["--record", "--galore"]),
    ] {
        refused(train(LINEAR, DIGITS, &out, &flags), &out, &words);
        assert!(!elsewhere.exists());
    }
    let output = train(LINEAR, DIGITS, &out, &["--record-limit", "1GiB"]).output().unwrap();
    assert!(output.status.code() == Some(2) && stderr(&output).contains("--record <FILE>"), "{}", stderr(&output));
    // The same folder by another name. No files are created, because the data does not exist.
    let here = train(LINEAR, "idx:none", Path::new("run-of-a-test"), &["--record", "./run-of-a-test/run.pack"]);
    refused(here, Path::new("../run-of-a-test"), &["--record", "epsilon covers"]);
    // Next to the ledger it is as secret as the ledger.
    let output = train(LINEAR, DIGITS, &out, &["--record", &file(&out.join("checkpoint/run.pack"))]).output().unwrap();
    assert!(output.status.success() && out.join("checkpoint/run.pack").exists(), "{}", stderr(&output));
}

#[test]
fn a_comparison_records_nothing() {
    let (folder, out) = folder();
    let file = folder.path().join("compare.toml");
    let text = format!(
        "model = \"{LINEAR}\"\ndata = \"{DIGITS}\"\nepsilon = [3]\ndelta = 1e-5\nbatch-size = 64\nepochs = 0.2\nlr = 0.5\n\
         record = \"run.pack\"\n[method.dp-sgd]\n"
    );
    fs::write(&file, text).unwrap();
    let output = damper().arg("compare").arg(&file).arg("--out").arg(&out).output().unwrap();
    assert_refused(&output, &["compare.toml", "`record`", "damper train"]);
}

// Without a file, `replay` plays the sets that damper ships.
#[test]
fn default_replay_plays_shipped_sets() {
    let output = run(&["replay"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), format!("{BASE_SAID}{FURTHER_SAID}{WIDE_SAID}"));
    let found = json(&run(&["replay", "--json"]));
    assert_eq!((found["differ"].as_u64(), found["sets"].as_array().unwrap().len()), (Some(0), 3));
    assert!(found["sets"][1].to_string().contains("\"kind\":\"updates\""));
    assert_eq!(found["sets"][0]["groups"][0]["kind"], "kernel");
    let same = run(&["replay", "replay/src/vectors/base.pack"]);
    assert_eq!(stdout(&same), BASE_SAID);
}

// A mismatch is printed and has its own exit status.
#[test]
fn mismatch_has_its_own_exit_status() {
    let (folder, _) = folder();
    let file = folder.path().join("changed.pack");
    fs::write(&file, changed()).unwrap();
    let output = replay(&[&file], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output).contains(", DIFFERS: the same after step 190, not after step 200: "),
        "{}",
        stdout(&output)
    );
    assert!(stdout(&output).ends_with(" groups, 1 DIFFER\n"));
    let message = stderr(&output);
    assert!(message.starts_with("error: ") && message.contains("changed.pack: 1 of "), "{message}");

    let output = replay(&[&file], &["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let differences: Vec<_> = found["sets"][0]["groups"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|group| !group["difference"].is_null())
        .map(|group| group["difference"].clone())
        .collect();
    assert_eq!(differences.len(), 1);
    assert_eq!(
        (&differences[0]["last_equal_step"], &differences[0]["first_different_step"]),
        (&190.into(), &200.into())
    );
    assert_eq!(differences[0]["parts"].as_array().unwrap().len(), 1);
    // A later file is still replayed.
    let good = folder.path().join("good.pack");
    fs::write(&good, BASE).unwrap();
    let output = replay(&[&file, &good], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).ends_with(BASE_SAID));
}

// The error for an incomplete or invalid pack names its file.
#[test]
fn invalid_pack_error_names_file() {
    let (folder, _) = folder();
    let file = folder.path().join("a.pack");
    let with = |at: usize, byte: u8| {
        let mut pack = BASE.to_vec();
        pack[at] = byte;
        pack
    };
    for (bytes, words) in [
        (vec![], ["a.pack", "ends before the pack does"]),
        (b"this is a text and no pack".to_vec(), ["a.pack", "this is no pack"]),
        (BASE[..5].to_vec(), ["a.pack", "ends before the pack does"]),
        (BASE[..BASE.len() / 2].to_vec(), ["a.pack", "ends before the pack does"]),
        (with(0, b'X'), ["a.pack", "this is no pack"]),
        (with(6, 9), ["a.pack", "this is no pack, or one of another version"]),
        (with(8, 1), ["a.pack", "the pack's bits are of contract 1, those here of 3"]),
        (with(BASE.len() - 1, !BASE[BASE.len() - 1]), ["a.pack", "it was damaged"]),
        ([BASE, &[0; 3]].concat(), ["a.pack", "3 bytes follow the end"]),
    ] {
        fs::write(&file, &bytes).unwrap();
        let output = replay(&[&file], &[]);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.starts_with("error: ") && message.lines().count() == 1, "{message}");
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
        assert!(BASE_SAID.starts_with(&stdout(&output)));
        let answer: serde_json::Value = serde_json::from_slice(&replay(&[&file], &["--json"]).stdout).unwrap();
        assert!(message.contains(answer["error"].as_str().unwrap()), "{message}");
    }
    assert_refused(&replay(&[folder.path()], &[]), &["is no file"]);
    assert_refused(&replay(&[&folder.path().join("none")], &[]), &["none", "check the path"]);
}
