//! Run files, the record of a run as a run file, and their schema.

use super::{DIGITS, MLP, assert_refused, damper, folder, json, stderr, train};
use std::fs;
use std::path::Path;

// The record of a run is a run file: it trains the same parameters again, alone, with an overriding flag, and from
// another record.
#[test]
fn record_of_a_run_is_its_run_file() {
    let (guard, out) = folder();
    let flags = ["--seed", "3", "--optimizer", "adam", "--betas", "0.8,0.99"];
    let first = json(&train(MLP, DIGITS, &out, &flags).arg("--json").output().unwrap());
    let record = out.join("config.toml");
    let text = fs::read_to_string(&record).unwrap();
    for line in ["seed = 3", "optimizer = \"adam\"", "betas = [0.8, 0.99]", "lr = 0.5"] {
        assert!(text.lines().any(|own| own == line), "{line}: {text}");
    }
    assert!(!text.contains("json") && !text.contains("out ="), "{text}");
    let again = |file: &Path, name: &str, flags: &[&str]| {
        let mut command = damper();
        command
            .arg("train")
            .arg(file)
            .args(["--json", "--quiet"])
            .args(flags)
            .arg("--out")
            .arg(guard.path().join(name));
        json(&command.output().unwrap())
    };
    let second = again(&record, "second", &[]);
    assert_eq!(second["params_digest"], first["params_digest"]);
    let third = again(&guard.path().join("second/config.toml"), "third", &["--betas", "0.9,0.999"]);
    assert_ne!(third["params_digest"], first["params_digest"]);
    assert!(fs::read_to_string(guard.path().join("third/config.toml")).unwrap().contains("betas = [0.9, 0.999]"));
}

#[test]
fn record_hides_recording_and_counts() {
    let (guard, out) = folder();
    let pack = guard.path().join("secret.pack");
    let mut command = train(MLP, DIGITS, &out, &["--noise-multiplier", "1", "--record", pack.to_str().unwrap()]);
    assert!(command.args(["--dataset-size", "2000"]).output().unwrap().status.success());
    let text = fs::read_to_string(out.join("config.toml")).unwrap();
    assert!(!text.contains("secret.pack") && !text.contains("record"), "{text}");
}

#[test]
fn schema_has_every_key_of_a_run_file() {
    let schema = json(&damper().args(["config", "--schema"]).output().unwrap());
    assert_eq!(schema["additionalProperties"], false);
    for (key, of) in [("clip", "number"), ("batch-size", "integer"), ("raw-bytes", "boolean"), ("kappa", "number")] {
        let found = &schema["properties"][key];
        let types = [&found["type"], &found["type"][0]];
        assert!(types.contains(&&serde_json::Value::from(of)), "{key}: {found}");
        assert!(found["description"].as_str().is_some_and(|help| !help.is_empty()), "{key}");
    }
    let help = String::from_utf8(damper().args(["train", "--help-all"]).output().unwrap().stdout).unwrap();
    let of_call = ["help", "version", "resume"];
    for flag in help.lines().filter_map(|line| line.trim_start().strip_prefix("--")) {
        let flag: String =
            flag.chars().take_while(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-').collect();
        assert!(schema["properties"].get(&flag).is_some() || of_call.contains(&&*flag), "--{flag}");
    }
}

// A record refers to the model and the data of its run, even if the outputs contain a model of the same name.
#[test]
fn record_names_the_first_model() {
    let (guard, _) = folder();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::copy(root.join(MLP), guard.path().join("model.onnx")).unwrap();
    let data = format!("idx:{}", root.join("onnx-models/digits").canonicalize().unwrap().display());
    let trained = |args: &[&str]| {
        let mut command = damper();
        command.current_dir(guard.path()).arg("train").args(args).args(["--json", "--quiet"]);
        json(&command.output().unwrap())
    };
    let first = ["model.onnx", "--data", &data, "--noise-multiplier", "1", "--seed", "1", "--batch-size", "64"];
    let first = trained(&[&first[..], &["--epochs", "1", "--lr", "0.5", "--out", "run"]].concat());
    let again = trained(&["run/config.toml", "--out", "again"]);
    assert_eq!(again["params_digest"], first["params_digest"]);
    let record = fs::read_to_string(guard.path().join("run/config.toml")).unwrap();
    assert!(record.contains("model = \"../model.onnx\"") && record.contains(&format!("data = \"{data}\"")), "{record}");
}

// `..` is applied after a link.
#[cfg(unix)]
#[test]
fn record_behind_a_link_names_its_model() {
    let (guard, _) = folder();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::copy(root.join(MLP), guard.path().join("model.onnx")).unwrap();
    fs::create_dir_all(guard.path().join("disk/deep/outputs")).unwrap();
    std::os::unix::fs::symlink(guard.path().join("disk/deep/outputs"), guard.path().join("link")).unwrap();
    let data = format!("idx:{}", root.join("onnx-models/digits").canonicalize().unwrap().display());
    let mut first = train("model.onnx", &data, &guard.path().join("link/run"), &["--seed", "1", "--json"]);
    let first = json(&first.current_dir(guard.path()).output().unwrap());
    let mut again = damper();
    // From another folder, so that no path is valid in the working folder.
    again.current_dir(guard.path().join("disk")).arg("train").arg(guard.path().join("link/run/config.toml"));
    let again = json(&again.args(["--json", "--quiet", "--out", "again"]).output().unwrap());
    assert_eq!(again["params_digest"], first["params_digest"]);
}

#[test]
fn keys_of_one_setting_are_refused() {
    let (guard, out) = folder();
    let file = guard.path().join("run.toml");
    for (text, words) in [
        ("clip-rule = \"quantile\"\nthreshold = \"percentile\"", ["`threshold`", "leave one"]),
        ("momentum = false", ["`momentum = false`", "give a number"]),
        ("iterates = -1", ["`iterates = -1`", "give a whole number"]),
        ("solver = \"x\"", ["`solver = \"x\"`", "use paper-grid or exact"]),
        ("out = \"\"", ["`out = \"\"`", "give a path"]),
        ("workers = 0", ["`workers = 0`", "above 0"]),
        ("noise = 1.1", ["`noise = 1.1`", "give a text"]),
    ] {
        fs::write(&file, text).unwrap();
        let mut command = damper();
        command.arg("train").arg(&file);
        if !text.starts_with("out") {
            command.arg("--out").arg(&out);
        }
        assert_refused(&command.output().unwrap(), &["run.toml", words[0], words[1]]);
    }
}

#[cfg(unix)]
#[test]
fn paths_need_not_be_texts() {
    use std::os::unix::ffi::OsStrExt;
    let (guard, _) = folder();
    let odd = guard.path().join(std::ffi::OsStr::from_bytes(b"q\xff"));
    fs::create_dir(&odd).unwrap();
    let trained =
        train(MLP, DIGITS, &odd.join("run"), &["--noise-multiplier", "1", "--train-size", "128"]).output().unwrap();
    assert!(trained.status.success(), "{}", stderr(&trained));
    let large = train(
        MLP,
        DIGITS,
        &guard.path().join("r"),
        &["--noise-multiplier", "1", "--train-size", "18446744073709551615"],
    );
    let mut large = large;
    assert_refused(&large.output().unwrap(), &["--train-size 18446744073709551615", "give 1 to"]);
}
