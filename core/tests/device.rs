//! The firmware example on a board that QEMU plays, where a toolchain for it and QEMU are there.

use std::path::Path;
use std::process::{Command, Stdio};

const TARGET: &str = "thumbv7em-none-eabihf";

/// The standard output of a command, if it can be started and succeeds.
fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A cargo that builds for the board: a cross toolchain's `xcargo`, or rustup's with the target installed.
fn cargo() -> Option<&'static str> {
    if output("xcargo", &["--version"]).is_some() {
        return Some("xcargo");
    }
    output("rustup", &["target", "list", "--installed"])?.lines().any(|line| line == TARGET).then_some("cargo")
}

#[test]
fn the_board_says_what_the_host_says() {
    let Some(cargo) = cargo() else {
        println!("skipped: no toolchain for {TARGET}: rustup target add {TARGET}");
        return;
    };
    if output("qemu-system-arm", &["--version"]).is_none() {
        println!("skipped: there is no qemu-system-arm");
        return;
    }
    let firmware = Path::new(env!("CARGO_MANIFEST_DIR")).join("../firmware-examples");
    let manifest = firmware.join("Cargo.toml");
    let built = Command::new(cargo)
        .args(["build", "--locked", "--release", "-p", "damper-firmware-cortex-m", "--no-default-features"])
        .args(["--target", TARGET, "--manifest-path"])
        .arg(&manifest)
        .status();
    assert!(built.is_ok_and(|status| status.success()), "the firmware does not build");
    let image = firmware.join("target").join(TARGET).join("release").join("train");
    let said = output(&firmware.join("cortex-m/qemu").to_string_lossy(), &[&image.to_string_lossy()]);
    let expected = std::fs::read_to_string(firmware.join("expected/train.txt")).unwrap();
    assert_eq!(said.as_deref(), Some(expected.as_str()));
}
