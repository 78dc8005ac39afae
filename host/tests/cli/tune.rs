//! The measured ways of computing layers.

use super::{DIGITS, MLP, damper, folder, json, refused};
use std::fs;
use std::path::Path;
use std::process::Command;

fn train(out: &Path, backend: &str) -> Command {
    let mut command = damper();
    command.args(["train", MLP, "--data", DIGITS, "--batch-size", "64", "--epochs", "0.2", "--lr", "0.5"]);
    command.args(["--workers", "1", "--noise-multiplier", "1"]);
    command.args(["--seed", "1", "--quiet", "--json", "--backend", backend, "--out"]).arg(out);
    command
}

#[test]
fn only_onnxruntime_is_tuned() {
    let (_folder, out) = folder();
    for backend in ["auto", "tract", "portable", "cuda"] {
        let mut command = train(&out, backend);
        command.arg("--tune");
        refused(command, &out, &["--tune", "--backend ort"]);
    }
}

#[test]
fn measured_ways_are_kept_and_reported() {
    let Some(library) = std::env::var_os("ORT_DYLIB_PATH") else {
        return damper_testing::skip("ort", "ORT_DYLIB_PATH names no onnxruntime");
    };
    let (folder, out) = folder();
    let cache = folder.path().join("cache");
    let tuned = |name: &str| {
        let out = out.with_file_name(name);
        let mut command = train(&out, "ort");
        command.env("ORT_DYLIB_PATH", &library);
        let plain = json(&command.output().unwrap());
        fs::remove_dir_all(&out).unwrap();
        let mut option = std::ffi::OsString::from("--tune=");
        option.push(&cache);
        (plain, json(&command.arg(option).output().unwrap()))
    };
    tuned("first");
    let files: Vec<_> = fs::read_dir(&cache).unwrap().map(|file| file.unwrap().path()).collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    // As if it had been measured so.
    fs::write(file, r#"{"MatMul 64 to 32, turned": "runtime"}"#).unwrap();
    let (plain, report) = tuned("second");
    assert_eq!(report["versions"]["ways"], serde_json::json!(["MatMul 64 to 32, turned: runtime"]));
    assert!(plain["versions"].get("ways").is_none());
    assert_eq!(report["epsilon"], plain["epsilon"]);
    // Damaged, it is measured again.
    fs::write(file, "{").unwrap();
    tuned("third");
    assert!(serde_json::from_slice::<serde_json::Value>(&fs::read(file).unwrap()).unwrap().is_object());
}
