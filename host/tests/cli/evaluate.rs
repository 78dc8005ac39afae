//! `damper evaluate`: the figures are those that the run computes for the same samples.

use super::{DIGITS, MLP, assert_refused, damper, folder, json, run, stderr, train};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Writes a table of two features and a target, and returns it as KIND:PATH.
fn table(
    folder: &Path,
    name: &str,
    rows: std::ops::Range<u32>,
    header: &str,
    target: impl Fn(u32) -> String,
) -> String {
    let mut text = header.to_owned();
    for row in rows {
        let at = |k: u32| (row.wrapping_mul(2_654_435_761) >> k & 255) as f32 / 64.0;
        text += &format!("{},{},{}\n", at(3), at(11), target(row));
    }
    let file = folder.join(name);
    fs::write(&file, text).unwrap();
    format!("csv:{}", file.display())
}

/// Returns `damper train` of a linear network.
fn linear(data: &str, out: &Path, flags: &[&str]) -> Command {
    let mut command = damper();
    command.args(["train", "--model", "linear", "--data", data, "--backend", "tract", "--quiet", "--out"]).arg(out);
    command.args(["--noise-multiplier", "1", "--batch-size", "16", "--lr", "0.1", "--epochs", "1"]).args(flags);
    command
}

/// Trains, and returns the report.
fn trained(mut command: Command) -> Value {
    json(&command.arg("--json").output().unwrap())
}

fn evaluated(out: &Path, data: &str, flags: &[&str]) -> Value {
    let args = [&["evaluate", out.to_str().unwrap(), data, "--json"], flags].concat();
    json(&run(&args))
}

/// Checks that the figures are those of the report, up to a share of `tolerance`.
#[track_caller]
fn assert_same(figures: &Value, report: &Value, tolerance: f64) {
    for (name, of_report) in [("accuracy", "test_accuracy"), ("loss", "test_loss"), ("r_squared", "test_r_squared")] {
        let [found, of_run] = [&figures[name], &report[of_report]].map(Value::as_f64);
        assert_eq!(found.is_some(), of_run.is_some(), "{name}: {figures}");
        let [found, of_run] = [found, of_run].map(Option::unwrap_or_default);
        assert!((found - of_run).abs() <= tolerance * of_run.abs(), "{name}: {found} {of_run}");
    }
    assert_eq!(figures["samples"], report["held_out"]["samples"]);
}

#[test]
fn figures_are_those_of_the_run() {
    let (guard, out) = folder();
    let report = trained(train(MLP, DIGITS, &out, &[]));
    let figures = evaluated(&out, DIGITS, &[]);
    assert_same(&figures, &report, 0.0);
    let rows: f64 = figures["by_class"]["confusion"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(class, row)| row[class].as_f64().unwrap())
        .sum();
    assert_eq!(rows / figures["samples"].as_f64().unwrap(), figures["accuracy"].as_f64().unwrap());
    let text = String::from_utf8(run(&["evaluate", out.to_str().unwrap(), "--data", DIGITS]).stdout).unwrap();
    assert!(text.contains("which no epsilon covers"), "{text}");

    for (name, flags) in [
        ("released", &["--normalize-private", "0,1", "--epsilon", "3", "--delta", "1e-5"][..]),
        ("merged", &["--lora", "3", "--lora-target", "*weight"]),
        ("kept", &["--lora", "3", "--lora-target", "*weight", "--lora-keep"]),
        ("part", &["--freeze", "*bias", "--normalize", "0.5,0.25"]),
    ] {
        let out = guard.path().join(name);
        let report = trained(train(MLP, DIGITS, &out, flags));
        // Released constants scale wide floats in training, and merged adapters are rounded.
        assert_same(&evaluated(&out, DIGITS, &[]), &report, 1e-6);
    }
}

#[test]
fn rows_of_tables_are_read_as_in_training() {
    let (guard, out) = folder();
    let header = "age,income,answer\n";
    let class = |row: u32| ["no", "yes"][(row % 2) as usize].to_owned();
    let data = table(guard.path(), "train.csv", 0..200, header, class);
    let test = table(guard.path(), "test.csv", 200..260, header, class);
    let flags = ["--test", &test, "--classes", "no,yes", "--scale", "income=1,2", "--delta", "1e-3"];
    let report = trained(linear(&data, &out, &flags));
    let figures = evaluated(&out, &test, &[]);
    assert_same(&figures, &report, 0.0);
    assert_eq!(figures["by_class"]["classes"][1]["name"], "yes");
    // All rows of a file are evaluated, in any order of its columns, and by the path alone.
    let text = fs::read_to_string(guard.path().join("test.csv")).unwrap();
    let turned: String = text
        .lines()
        .map(|line| {
            let parts: Vec<&str> = line.split(',').collect();
            format!("{},{},{}\n", parts[1], parts[0], parts[2])
        })
        .collect();
    fs::write(guard.path().join("turned.csv"), turned).unwrap();
    assert_eq!(evaluated(&out, guard.path().join("turned.csv").to_str().unwrap(), &[]), figures);
    // A flag overrides the run's.
    fs::write(guard.path().join("semicolons.csv"), text.replace(',', ";")).unwrap();
    let file = format!("csv:{}", guard.path().join("semicolons.csv").display());
    assert_eq!(evaluated(&out, &file, &["--delimiter", ";"]), figures);
}

#[test]
fn scaled_labels_are_in_their_unit() {
    let (guard, out) = folder();
    let target = |row: u32| format!("{}", 100 + row % 50);
    let data = table(guard.path(), "train.csv", 0..200, "", target);
    let test = table(guard.path(), "test.csv", 200..260, "", target);
    let flags = ["--test", &test, "--loss", "mse", "--scale", "2=125,15", "--scale", "0=2,1", "--delta", "1e-3"];
    let report = trained(linear(&data, &out, &flags));
    assert!(report["test_loss"].as_f64().unwrap() > 20.0, "{report}");
    // The model's last operator converts its output to the unit of the labels, in f32.
    assert_same(&evaluated(&out, &test, &[]), &report, 1e-4);
}

#[test]
fn wrong_uses_are_named() {
    let (guard, out) = folder();
    let empty = guard.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let of = |args: &[&str]| run(&[&["evaluate"], args].concat());
    assert_refused(&of(&[empty.to_str().unwrap(), DIGITS]), &["config.toml", "the folder of a run"]);
    trained(train(MLP, DIGITS, &out, &[]));
    let out = out.to_str().unwrap();
    assert_refused(&of(&[out, DIGITS, "--test", "0.5"]), &["--test", "leave it out"]);
    assert_refused(&of(&[out, "idx:nowhere"]), &["nowhere"]);
    let missing = of(&[out]);
    assert_eq!(missing.status.code(), Some(2), "{}", stderr(&missing));
    fs::remove_file(Path::new(out).join("model.onnx")).unwrap();
    assert_refused(&of(&[out, DIGITS]), &["model.onnx"]);
}
