//! `damper audit`: its records, the folders that may hold them, and the errors for invalid flags.

use super::{DIGITS, MLP, assert_refused, damper, folder, json, run, stderr, train};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Returns `damper audit KIND` for the run of `train`.
fn audit(kind: &str, out: &Path, extra: &[&str]) -> Command {
    let run = train(MLP, DIGITS, out, extra);
    let mut command = damper();
    command.args(["audit", kind]).args(run.get_args().skip(1));
    command
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn record(out: &Path, name: &str) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(out.join(name)).unwrap()).unwrap()
}

// Audits write their records to the folder of their run.
#[test]
fn audits_write_to_their_run_folder() {
    let (folder, out) = folder();
    assert!(train(MLP, DIGITS, &out, &[]).output().unwrap().status.success());
    let report = record(&out, "report.json");

    let output = audit("neighbours", &out, &["--steps", "2"]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().filter(|line| line.starts_with("holds ")).count(), 12);
    let found = record(&out, "audit-neighbours.json");
    assert_eq!((&found["version"], &found["audit"], &found["holds"]), (&1.into(), &"neighbours".into(), &true.into()));
    assert_eq!((&found["steps"], found["cases"].as_array().unwrap().len()), (&2.into(), 12));
    assert!(found["cases"].as_array().unwrap().iter().all(|case| case["violation"].is_null()));

    let output = audit("mechanism", &out, &["--precision", "0.1"]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    assert!(stdout(&output).lines().filter(|line| line.starts_with("holds ")).count() > 30);
    let found = record(&out, "audit-mechanism.json");
    assert_eq!((&found["version"], &found["audit"], &found["holds"]), (&1.into(), &"mechanism".into(), &true.into()));
    assert_eq!((&found["seed"], &found["error_rate"]), (&serde_json::Value::Null, &1e-6.into()));

    let output = audit("canary", &out, &["--seed", "4"]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    assert!(stdout(&output).contains(": not refuted") && !stdout(&output).contains("NOT a result"));
    let found = record(&out, "audit-canary.json");
    assert_eq!((&found["version"], &found["audit"], &found["refuted"]), (&1.into(), &"canary".into(), &false.into()));
    assert_eq!((&found["count"], &found["guesses"], &found["seed"]), (&1000.into(), &400.into(), &4.into()));
    assert!(found["epsilon_lower"].as_f64().unwrap() <= found["claim"]["epsilon"].as_f64().unwrap());
    assert_eq!((&found["model"], &found["confidence"]), (&serde_json::Value::Null, &0.999.into()));
    for key in ["epsilon", "delta", "noise_multiplier", "sampling_rate", "steps", "accountant"] {
        assert_eq!(found["claim"][key], report[key], "{key}");
    }
    // The run's own outputs are unchanged.
    assert_eq!(record(&out, "report.json"), report);
    assert!(
        fs::read_dir(&out).unwrap().all(|entry| !entry.unwrap().file_name().to_str().unwrap().contains("model.not"))
    );

    let flags = ["--noise-multiplier", "1.5"];
    assert_refused(&audit("canary", &out, &flags).output().unwrap(), &["report.json", "epsilon", "another --out"]);
    let flags = ["--method", "doppler"];
    assert_refused(&audit("neighbours", &out, &flags).output().unwrap(), &["report.json", "method \"dp-sgd\""]);
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert_refused(&audit("neighbours", &file, &[]).output().unwrap(), &["file: is a file", "--out"]);
    let below = file.join("below");
    assert_refused(
        &audit("canary", &below, &["--epochs", "50"]).output().unwrap(),
        &["below: cannot be made", "--out"],
    );
    fs::write(out.join("report.json"), "{").unwrap();
    assert_refused(&audit("neighbours", &out, &[]).output().unwrap(), &["report.json: is no report"]);
}

// The audit of the mechanism accepts every kind of run that trains with a claim, and prints what each check detects.
// The errors of other audits name the setting.
#[test]
fn mechanism_takes_every_kind_of_run() {
    let kinds: [&[&str]; 7] = [
        &["--noise-correlation", "lambda:3/4", "--sampler", "min-separation"],
        &["--noise-correlation", "banded:4", "--sampler", "cyclic-poisson"],
        &["--sampler", "cyclic-poisson", "--groups", "3"],
        &["--sampler", "min-separation"],
        &["--sampler", "shuffled"],
        &["--truncate", "200"],
        &["--normalize-private", "0,1", "--test-metrics", "private", "--release-non-finite"],
    ];
    for kind in kinds {
        let (_guard, out) = folder();
        let flags = [kind, &["--precision", "0.3", "--epochs", "2"]].concat();
        let output = audit("mechanism", &out, &flags).output().unwrap();
        assert!(output.status.success(), "{kind:?}: {}", stderr(&output));
        let found = record(&out, "audit-mechanism.json");
        let findings = found["findings"].as_array().unwrap();
        assert!(findings.iter().all(|finding| !finding["finds"].as_str().unwrap().is_empty()), "{kind:?}");
        assert!(findings.iter().any(|finding| finding["finds"].as_str().unwrap().starts_with("tails cut")), "{kind:?}");
        assert!(stdout(&output).contains("; finds "));
        let private = kind[0] == "--normalize-private";
        let courses = found["courses"].as_array().unwrap();
        assert_eq!(courses.len(), if private { 10 } else { 7 }, "{kind:?}");
        let of_samples = courses.iter().find(|course| course["name"] == "samples").unwrap();
        assert_eq!(of_samples["samples"], 1437);
        if private {
            continue;
        }
        for other in ["neighbours", "canary"] {
            let refused = audit(other, &out, kind).output().unwrap();
            assert_refused(&refused, &["use damper audit mechanism, or leave it out"]);
        }
    }
}

// On request, a canary model is kept. Its name marks it, and it is never used as a model.
#[test]
fn canary_model_is_kept_and_marked() {
    let (folder, out) = folder();
    let found = json(&audit("canary", &out, &["--keep-model", "--json"]).output().unwrap());
    let name = found["model"].as_str().unwrap();
    assert!(name.contains("canary") && name.contains("not-a-result"));
    assert_eq!(found["seed"], serde_json::Value::Null);
    let model = out.join(name);
    #[cfg(unix)]
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&model).unwrap().permissions()) & 0o777, 0o600);
    let read = damper::onnx::load(&model).unwrap();
    assert!(damper::onnx::is_marked(&read) && read.doc_string.contains("NOT a result"));
    assert!(!damper::onnx::is_marked(&damper::onnx::load(&Path::new("..").join(MLP)).unwrap()));
    let model = model.to_str().unwrap();
    let trained = train(model, DIGITS, &folder.path().join("again"), &[]).output().unwrap();
    assert_refused(&trained, &[name, "canary audit", "use the model that was audited"]);
    for command in [&["inspect", model][..], &["derive", model, "--out", "grad.onnx"]] {
        assert_refused(&run(command), &[name, "canary audit"]);
    }
}

// A file of flags serves `train` and its audits.
#[test]
fn run_file_serves_train_and_audits() {
    let (folder, out) = folder();
    let file = folder.path().join("run.toml");
    let text = format!(
        "model = \"{MLP}\"\ndata = \"{DIGITS}\"\nnoise-multiplier = 1.0\nbatch-size = 64\nepochs = 0.2\nlr = 0.5\n\
         backend = \"tract\"\nquiet = true\neval-every = 0.1\nout = \"{}\"\nrecord = \"{}\"\n",
        out.display(),
        folder.path().join("run.pack").display()
    );
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    assert!(run(&["train", file]).status.success());
    let output = run(&["audit", "neighbours", file, "--steps", "1"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(record(&out, "audit-neighbours.json")["steps"], 1);
    let output = run(&["audit", "canary", file, "--num-guesses", "200", "--canaries", "random"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(record(&out, "audit-canary.json")["guesses"], 200);
    // The error names a key that is not a flag of the audit.
    let mut text = fs::read_to_string(file).unwrap();
    text.push_str("canary = 3\n");
    fs::write(file, text).unwrap();
    assert_refused(&run(&["audit", "canary", file]), &["run.toml", "unknown key `canary`"]);
}

// The error for invalid audit flags names them, and no files remain.
#[test]
fn invalid_audit_flags_are_named() {
    let (_folder, out) = folder();
    for (kind, [flag, value], words) in [
        ("canary", ["--num-canaries", "10"], ["--num-canaries 10", "use 1000 or more"]),
        ("canary", ["--num-canaries", "4000"], ["--num-canaries 4000", "--canaries random"]),
        ("canary", ["--num-guesses", "7"], ["--num-guesses 7", "even"]),
        ("canary", ["--confidence", "2"], ["--confidence 2", "0.999"]),
        ("canary", ["--sampler", "shuffled"], ["--sampler shuffled", "whole Poisson draws"]),
        ("neighbours", ["--truncate", "400"], ["--truncate", "whole Poisson draws"]),
        ("neighbours", ["--clip", "0"], ["--clip 0", "above 0"]),
        ("neighbours", ["--batch-size", "0"], ["--batch-size 0", "at least 1"]),
    ] {
        // Replace an existing flag, because a flag may be given only once.
        let mut args: Vec<String> =
            audit(kind, &out, &[]).get_args().map(|arg| arg.to_str().unwrap().to_owned()).collect();
        match args.iter().position(|arg| arg == flag) {
            Some(at) => args[at + 1] = value.into(),
            None => args.extend([flag, value].map(str::to_owned)),
        }
        assert_refused(&damper().args(args).output().unwrap(), &words);
        assert!(fs::symlink_metadata(&out).is_err(), "{flag}");
    }
    for (kind, flags) in
        [("canary", ["--steps", "3"]), ("neighbours", ["--num-canaries", "1000"]), ("neighbours", ["--steps", "0"])]
    {
        let output = audit(kind, &out, &flags).output().unwrap();
        assert!(output.status.code() == Some(2) && stderr(&output).contains(flags[0]), "{}", stderr(&output));
    }
    let help = stdout(&run(&["audit", "neighbours", "--help"]));
    assert!(
        help.contains("Replays steps")
            && help.contains("names step,\nsample and coordinate")
            && !help.contains("--record")
    );
    let help = stdout(&run(&["audit", "mechanism", "--help"]));
    assert!(help.contains("Runs the trainer on made data") && help.contains("read for its shapes"));
    let help = stdout(&run(&["audit", "canary", "--help"]));
    assert!(help.contains("Trains once with canaries") && help.contains("not kept unless asked for"));
    assert!(!help.contains("must not be there or be empty"));
}
