//! `damper train --not-private`: a baseline that no command accepts as a private run.

use super::markup::assert_balanced;
use super::{DIGITS, MLP, assert_refused, damper, folder, json, run, stderr};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Returns a quiet run on tract, with `extra` flags.
fn baseline(out: &Path, extra: &[&str]) -> Command {
    let mut command = damper();
    command.args(["train", MLP, "--data", DIGITS, "--not-private", "--backend", "tract", "--quiet", "--out"]).arg(out);
    command.args(["--batch-size", "64", "--lr", "0.1"]).args(extra);
    if !extra.contains(&"--epochs") {
        command.args(["--epochs", "1"]);
    }
    command
}

fn read(out: &Path, name: &str) -> String {
    fs::read_to_string(out.join(name)).unwrap()
}

fn read_json(out: &Path, name: &str) -> Value {
    serde_json::from_str(&read(out, name)).unwrap()
}

/// Returns the trained parameters in `model.onnx`.
fn params(out: &Path) -> Vec<f32> {
    let model = damper::onnx::load(&out.join("model.onnx")).unwrap();
    let tensors = model.graph.unwrap().initializer;
    tensors
        .iter()
        .filter_map(|tensor| Some(damper::onnx::decode_tensor(tensor).ok()?.as_f32()?.to_vec()))
        .flatten()
        .collect()
}

#[test]
fn every_output_says_not_private() {
    let (guard, out) = folder();
    let (events, board) = (guard.path().join("events.jsonl"), guard.path().join("board"));
    let told = [events.to_str().unwrap(), board.to_str().unwrap()];
    let output =
        baseline(&out, &["--events", told[0], "--tensorboard", told[1], "--eval-every", "0.5"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let terminal = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(
        terminal.starts_with("NOT PRIVATE: no gradient was clipped") && !terminal.contains("epsilon  "),
        "{terminal}"
    );
    assert!(stderr(&output).contains("warning: --not-private: no gradient is clipped"), "{}", stderr(&output));
    for name in ["report.json", "statement.json"] {
        let found = read_json(&out, name);
        assert_eq!((&found["run"], &found["guaranteed"]), (&"not private".into(), &false.into()), "{name}");
        assert!(found["epsilon"].is_null() && found["delta"].is_null(), "{name}");
    }
    assert!(read_json(&out, "statement.json")["guarantee"].as_str().unwrap().starts_with("There is no guarantee"));
    let recorded = read_json(&out, "events.json");
    assert_eq!((&recorded["run"], recorded["events"].as_array().unwrap().len()), (&"not private".into(), 0));
    let metrics = read(&out, "metrics.csv");
    assert!(metrics.lines().count() > 2 && metrics.lines().skip(1).all(|line| line.ends_with(",not private,exact")));
    assert!(metrics.lines().skip(1).all(|line| line.split(',').nth(2) == Some("")), "{metrics}");
    let page = read(&out, "report.html");
    assert!(page.contains("<title>Not private: no guarantee</title>") && page.contains("class=\"verdict bad\""));
    assert!(!page.contains("ε"), "{page}");
    assert_balanced(&page);
    let model = damper::onnx::load(&out.join("model.onnx")).unwrap();
    assert!(model.metadata_props.iter().any(|entry| (&*entry.key, &*entry.value) == ("damper.run", "not private")));
    let lines: Vec<Value> =
        fs::read_to_string(&events).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["run"], "not private");
    assert!(lines.iter().all(|line| line["epsilon"].is_null() && line["delta"].is_null()));
    assert_eq!(lines.last().unwrap()["event"], "end");
    // Output of other commands for the folder.
    let path = out.to_str().unwrap();
    for extra in [&[][..], &["--json"], &["--planned"], &["--epsilon", "2"]] {
        assert_refused(&run(&[&["epsilon", path], extra].concat()), &["not private", "no epsilon holds"]);
    }
    let said = json(&run(&["report", path, "--json"]));
    assert!(said["epsilon"].is_null() && said["finished"] == true && said["record"]["steps"] == said["steps"]);
    let said = String::from_utf8(run(&["report", path]).stdout).unwrap();
    assert!(said.starts_with("epsilon   none: NOT PRIVATE"), "{said}");
    // A record that was changed to look private does not hide the others.
    fs::write(out.join("report.json"), read(&out, "report.json").replace("not private", "private")).unwrap();
    assert_refused(&run(&["epsilon", path]), &["not private"]);
    assert!(json(&run(&["report", path, "--json"]))["guaranteed"] == false);
}

/// Compares with a run with noise of a millionth of a clip that nothing reaches: the same draws and the same optimizer.
#[test]
fn parameters_are_those_of_almost_no_noise() {
    let with = |flags: &[&str]| {
        let (_guard, out) = folder();
        let mut command = damper();
        command
            .args(["train", MLP, "--data", DIGITS, "--backend", "tract", "--quiet", "--seed", "4", "--out"])
            .arg(&out);
        command
            .args(["--batch-size", "64", "--epochs", "1", "--average", "0.5", "--optimizer", "adam", "--lr", "0.01"])
            .args(flags);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        params(&out)
    };
    let plain = with(&["--not-private"]);
    let almost =
        with(&["--clip", "100", "--noise", "continuous", "--noise-multiplier", "1e-7", "--adam-epsilon", "1e-3"]);
    let plain_slow = with(&["--not-private", "--adam-epsilon", "1e-3"]);
    let far = |a: &[f32], b: &[f32]| a.iter().zip(b).fold(0.0f32, |most, (a, b)| most.max((a - b).abs()));
    assert!(far(&plain_slow, &almost) < 1e-4, "{}", far(&plain_slow, &almost));
    assert!(far(&plain, &almost) > 1e-3, "another setting of the optimizer is another model");
}

#[test]
fn result_is_one_for_all_numbers_of_workers() {
    let with = |flags: &[&str]| {
        let (_guard, out) = folder();
        json(&baseline(&out, &[&["--seed", "3", "--epochs", "5", "--json"], flags].concat()).output().unwrap())
    };
    let one = with(&["--workers", "1"]);
    assert_eq!(one["params_digest"], with(&["--workers", "3"])["params_digest"]);
    assert!(one["params_digest"] != with(&["--workers", "1", "--sampler", "shuffled"])["params_digest"]);
    assert!(one["test_accuracy"].as_f64().unwrap() > 0.5 && one["seed"] == 3);
    assert!(one["command"].to_string().contains("--not-private"));
    // Without a seed the draws differ.
    let (guard, out) = folder();
    let other = guard.path().join("other");
    let digest = |out: &Path| json(&baseline(out, &["--json"]).output().unwrap())["params_digest"].clone();
    assert!(digest(&out) != digest(&other));
}

#[test]
fn resumed_baseline_has_same_bits() {
    let flags = ["--epochs", "40", "--seed", "1", "--optimizer", "momentum", "--eval-every", "5"];
    let (guard, out) = folder();
    let whole = guard.path().join("whole");
    assert!(baseline(&whole, &flags).stdout(Stdio::null()).status().unwrap().success());
    for (name, signal) in [("killed", "KILL"), ("stopped", "INT")] {
        let out = guard.path().join(name);
        let mut command = baseline(&out, &[&flags[..], &["--checkpoint-every", "0"]].concat());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let started = Instant::now();
        while !out.join("checkpoint/plan.json").exists() {
            assert!(started.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none());
            sleep(Duration::from_millis(5));
        }
        sleep(Duration::from_millis(60));
        assert!(Command::new("sh").args(["-c", &format!("kill -{signal} {}", child.id())]).status().unwrap().success());
        assert!(!child.wait().unwrap().success());
        assert!(out.join("checkpoint/state-b").exists() && !out.join("report.json").exists());
        assert!(!out.join("checkpoint/ledger.json").exists());
        // The unfinished folder is also marked.
        let path = out.to_str().unwrap();
        assert_refused(&run(&["epsilon", path]), &["not private"]);
        let said = json(&run(&["report", path, "--json"]));
        assert!(
            said["finished"] == false && said["guaranteed"] == false && said["steps"].as_u64().unwrap() < 900,
            "{said}"
        );
        assert!(read(&out, "report.html").contains("Not private"));
        if signal == "INT" {
            let model = damper::onnx::load(&out.join("model.onnx")).unwrap();
            let has = |key: &str| model.metadata_props.iter().any(|entry| entry.key == key);
            assert!(has("damper.run") && has("damper.unfinished"));
        }
        let mut again = damper();
        let output = again.args(["train", "--resume", path, "--quiet", "--json"]).output().unwrap();
        assert_eq!(json(&output)["params_digest"], read_json(&whole, "report.json")["params_digest"]);
        assert_eq!(read(&out, "metrics.csv"), read(&whole, "metrics.csv"));
        assert!(!out.join("checkpoint/state-b").exists());
    }
    assert!(!out.exists());
}

#[test]
fn run_files_serve_as_baselines() {
    let (guard, out) = folder();
    let file = guard.path().join("run.toml");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let text = format!(
        "model = \"{0}/{MLP}\"\ndata = \"idx:{0}/onnx-models/digits\"\nepsilon = 3.0\ndelta = 1e-5\nclip = 0.1\nbatch-size = 64\n\
         epochs = 0.2\nlr = 1.0\n",
        root.display()
    );
    fs::write(&file, text).unwrap();
    let with = |extra: &[&str]| {
        let mut command = damper();
        command
            .arg("train")
            .arg(&file)
            .args(["--quiet", "--json", "--backend", "tract", "--out"])
            .arg(&out)
            .args(extra);
        command.output().unwrap()
    };
    let found = json(&with(&["--not-private", "--lr", "0.1"]));
    assert_eq!((&found["run"], &found["training"]["lr"]), (&"not private".into(), &0.1.into()));
}

/// An error before the first step leaves no files.
#[test]
fn failed_baselines_leave_nothing() {
    let (_guard, out) = folder();
    let mut command = damper();
    command.args(["train", MLP, "--data", DIGITS, "--not-private", "--backend", "ort", "--out"]).arg(&out);
    command
        .args(["--batch-size", "64", "--lr", "0.1", "--epochs", "1", "--quiet"])
        .env("ORT_DYLIB_PATH", "/no/such/library.so");
    let output = command.output().unwrap();
    assert!(!output.status.success() && !out.exists(), "{}", stderr(&output));
}

#[test]
fn budgets_and_audits_refuse_baselines() {
    let (guard, out) = folder();
    let budget = guard.path().join("budget");
    let made = run(&["budget", budget.to_str().unwrap(), "--create", "digits", "--epsilon", "8", "--delta", "1e-5"]);
    assert!(made.status.success(), "{}", stderr(&made));
    let output = baseline(&out, &["--budget", budget.to_str().unwrap(), "--samples", "1437"]).output().unwrap();
    assert_refused(&output, &["--budget", "a run that is not private cannot be charged", "leave out --not-private"]);
    assert!(!out.exists());
    for kind in ["mechanism", "neighbours", "canary"] {
        let mut command = damper();
        command.args(["audit", kind, MLP, "--data", DIGITS, "--not-private", "--batch-size", "64", "--epochs", "1"]);
        let output = command.args(["--lr", "0.1", "--quiet", "--out"]).arg(&out).output().unwrap();
        assert_refused(&output, &["--not-private: the run claims no privacy, so there is nothing to audit"]);
    }
}
