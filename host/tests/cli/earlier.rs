//! Files of an earlier version, in `host/tests/earlier/`: a run file, folders of runs, a recording, a budget, a
//! federation's plan. They are read as that version read them.

use super::{damper, folder, json, stderr};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Copies the files to `to`.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copy_of = to.join(path.file_name().unwrap());
        if path.is_dir() { copy(&path, &copy_of) } else { fs::copy(&path, &copy_of).map(drop).unwrap() }
    }
}

/// Returns a copy of the files.
fn earlier() -> (tempfile::TempDir, std::path::PathBuf) {
    let (guard, out) = folder();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/earlier"), &out);
    (guard, out)
}

fn report(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("report.json")).unwrap()).unwrap()
}

#[test]
fn run_file_trains_the_same_params() {
    let (guard, of) = earlier();
    let out = guard.path().join("again");
    let mut command = damper();
    // Its model and its data are in the working folder.
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../onnx-models"));
    let found = json(
        &command.arg("train").arg(of.join("run.toml")).args(["--json", "--quiet", "--out"]).arg(&out).output().unwrap(),
    );
    let expected = report(&of.join("run"));
    for key in ["params_digest", "epsilon", "method", "optimizer", "clip"] {
        assert_eq!(found[key], expected[key], "{key}");
    }
}

#[test]
fn folders_have_their_epsilon() {
    let (_guard, of) = earlier();
    for (name, epsilon, steps) in
        [("run", 2.887_757_930_976_716, 4), ("private", 2.887_757_930_976_716, 4), ("stopped", STOPPED, 157)]
    {
        let found = json(&damper().arg("epsilon").arg(of.join(name)).arg("--json").output().unwrap());
        assert_eq!((found["epsilon"].as_f64(), found["steps"].as_u64()), (Some(epsilon), Some(steps)), "{name}");
    }
}

const STOPPED: f64 = 16.602_222_784_229_422;

#[test]
fn report_is_made_again() {
    let (_guard, of) = earlier();
    for name in ["run", "private"] {
        let before = fs::read(of.join(name).join("report.json")).unwrap();
        let made = damper().arg("report").arg(of.join(name)).output().unwrap();
        assert!(made.status.success(), "{}", stderr(&made));
        assert!(fs::read(of.join(name).join("report.json")).unwrap() == before, "{name}");
        let page = fs::read_to_string(of.join(name).join("report.html")).unwrap();
        assert!(page.contains("2.88") && page.contains("dp-pmlf"));
    }
}

// Its bits are of contract 2. It is not replayed as contract 3.
#[test]
fn recording_of_contract_2_is_refused() {
    let (_guard, of) = earlier();
    let played = damper().arg("replay").arg(of.join("run.pack")).output().unwrap();
    assert!(!played.status.success());
    let said = stderr(&played);
    assert!(said.contains("of contract 2, those here of 3: play it with the damper of that contract"), "{said}");
}

#[test]
fn budget_counts_its_run() {
    let (_guard, of) = earlier();
    let found = json(&damper().arg("budget").arg(of.join("digits.budget")).arg("--json").output().unwrap());
    assert_eq!(found["epsilon"].as_f64(), Some(2.309_915_780_082_421_5));
    assert_eq!((&found["runs"][0]["out"], found["runs"][0]["steps"].as_u64()), (&Value::from("private"), Some(4)));
}

#[test]
fn plan_keeps_its_digest_and_epsilon() {
    let (guard, of) = earlier();
    let mut command = damper();
    command
        .args(["federation", "approve"])
        .arg(of.join("federation.json"))
        .arg("--ledger")
        .arg(guard.path().join("device"));
    let found = json(&command.arg("--json").output().unwrap());
    assert_eq!(found["sha256"], "ff5feeee14ec62a17978ada03a3a5db0016a17171da0d9cbaab7b40b1ffe3ca1");
    let epsilon = ["outsider", "participant", "server"].map(|party| found["epsilon"][party].as_f64().unwrap());
    assert_eq!(epsilon, [2.401_374_027_561_071, 3.658_706_924_711_638, 4.985_146_931_185_903]);
    assert_eq!(found["members"][1]["name"], "clinic 2");
}

// The state has the names of the run file and its model, as an earlier version wrote them.
#[test]
fn stopped_run_ends_with_the_same_params() {
    let (_guard, of) = earlier();
    let mut command = damper();
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../onnx-models"));
    command.args(["train", "--quiet", "--json", "--resume"]).arg(of.join("stopped"));
    let found = json(&command.output().unwrap());
    // The digest of the uninterrupted run with the earlier version.
    assert_eq!(found["params_digest"], "c469a3c0c4a6c53c4d9d9831993ba3be3431c87d955b1f8699a2be6e7b0dd32c");
    assert_eq!(found["steps"], 800);
}
