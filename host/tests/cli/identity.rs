//! Identity of a run's program: the loaded code, not the file that the system started, which may have been replaced.

use super::{DIGITS, MLP, damper, folder, json, train};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
const LONG: [&str; 4] = ["--epochs", "20", "--seed", "1"];

/// Replaces the program of `command` by `program`.
fn by(program: &[&Path], command: &Command) -> Command {
    let mut other = Command::new(program[0]);
    other.args(&program[1..]).args(command.get_args()).env_remove("ORT_DYLIB_PATH");
    other.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    other
}

/// Kills a run after it has charged steps. Calls `meanwhile` before. Returns the environment in its state.
fn killed(mut command: Command, out: &Path, meanwhile: impl FnOnce()) -> Value {
    let mut child =
        command.args(["--checkpoint-every", "0"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    meanwhile();
    let started = Instant::now();
    let states = ["state-a", "state-b"].map(|name| out.join("checkpoint").join(name));
    let environment = loop {
        assert!(started.elapsed() < Duration::from_secs(120) && child.try_wait().unwrap().is_none());
        let found = states.iter().filter_map(|file| {
            let bytes = fs::read(file).ok()?;
            let line: Value = serde_json::from_slice(bytes.split(|byte| *byte == b'\n').next()?).ok()?;
            let header = &line["state"];
            (header["step"].as_u64()? > 0).then(|| header["environment"].clone())
        });
        if let Some(environment) = found.into_iter().find(Value::is_object) {
            break environment;
        }
        sleep(Duration::from_millis(5));
    };
    child.kill().unwrap();
    child.wait().unwrap();
    environment
}

fn resume(out: &Path) -> Command {
    let mut command = damper();
    command.args(["train", "--quiet", "--json", "--resume"]).arg(out);
    command
}

/// Copies the program to `folder` with a changed letter in a text, as another build.
fn another_build(folder: &Path) -> std::path::PathBuf {
    let mut bytes = fs::read(env!("CARGO_BIN_EXE_damper")).unwrap();
    let text = b"Trains ONNX networks with differential privacy";
    let at = bytes.windows(text.len()).position(|part| part == text).unwrap();
    bytes[at] = b't';
    let copy = folder.join("damper");
    fs::write(&copy, bytes).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&copy, mode).unwrap();
    copy
}

#[test]
fn a_loader_is_not_the_program() {
    let (guard, out) = folder();
    let loader = Path::new(LOADER);
    if !loader.exists() {
        return;
    }
    let own = Path::new(env!("CARGO_BIN_EXE_damper"));
    let (plain, whole) = (guard.path().join("plain"), guard.path().join("whole"));
    let environment = killed(train(MLP, DIGITS, &plain, &LONG), &plain, || {});
    let loaded = killed(by(&[loader, own], &train(MLP, DIGITS, &out, &LONG)), &out, || {});
    assert_eq!(environment, loaded);
    assert!(environment["program"].as_str().unwrap().starts_with("code "), "{environment}");
    // Each resumes with the start of the other, and loses no step.
    assert!(train(MLP, DIGITS, &whole, &LONG).stdout(Stdio::null()).status().unwrap().success());
    let expected: Value = serde_json::from_slice(&fs::read(whole.join("report.json")).unwrap()).unwrap();
    for report in [by(&[loader, own], &resume(&plain)).output().unwrap(), resume(&out).output().unwrap()] {
        assert_eq!(json(&report)["params_digest"], expected["params_digest"]);
    }
}

// Also through a loader, which is the same file for both.
#[test]
fn another_build_takes_no_step_again() {
    let (guard, out) = folder();
    let other = another_build(guard.path());
    let (own, loader) = (Path::new(env!("CARGO_BIN_EXE_damper")), Path::new(LOADER));
    let mut programs = vec![(vec![own], vec![&*other])];
    if loader.exists() {
        programs.push((vec![loader, own], vec![loader, &*other]));
    }
    for (at, (own, other)) in programs.iter().enumerate() {
        let out = out.with_extension(at.to_string());
        let environment = killed(by(own, &train(MLP, DIGITS, &out, &LONG)), &out, || {});
        let again = out.with_extension("again");
        let of_other = killed(by(other, &train(MLP, DIGITS, &again, &LONG)), &again, || {});
        assert_ne!(environment["program"], of_other["program"]);
        assert_eq!(environment["processor"], of_other["processor"]);
        let report = json(&by(other, &resume(&out)).output().unwrap());
        assert!(report["warnings"].to_string().contains("have no part in the model"), "{report}");
    }
}

// An upgrade replaces the file of the running program.
#[test]
fn a_replaced_file_is_not_the_program() {
    let (guard, out) = folder();
    let copy = guard.path().join("here");
    fs::copy(env!("CARGO_BIN_EXE_damper"), &copy).unwrap();
    let plain = guard.path().join("plain");
    let environment = killed(train(MLP, DIGITS, &plain, &LONG), &plain, || {});
    let other = another_build(guard.path());
    // Before the run has read its data, and so before its program is recorded.
    let replaced = killed(by(&[&copy], &train(MLP, DIGITS, &out, &LONG)), &out, || fs::rename(&other, &copy).unwrap());
    assert_eq!(environment, replaced);
}
