//! `damper aggregate`: adds the update of a board. An update that does not fit is an error with the name of its file.

use super::{assert_refused, damper};
use damper_core::update::Update;
use std::fs;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

/// Returns the update that the firmware example emits on every board.
fn emitted() -> Vec<u8> {
    let said = Path::new(env!("CARGO_MANIFEST_DIR")).join("../firmware-examples/expected/federated.txt");
    let hex: String =
        fs::read_to_string(said).unwrap().lines().filter_map(|line| line.strip_prefix("update ")).collect();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn aggregate(folder: &TempDir, files: &[&str]) -> Output {
    let paths = files.iter().map(|file| folder.path().join(file));
    damper().arg("aggregate").args(paths).arg("--out").arg(folder.path().join("sum")).arg("--json").output().unwrap()
}

#[test]
fn what_a_board_emits_is_added_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = emitted();
    fs::write(folder.path().join("board.upd"), &bytes).unwrap();
    let output = aggregate(&folder, &["board.upd"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((said["devices"].as_u64(), said["parameters"].as_u64()), (Some(1), Some(650)));
    let sum = fs::read(folder.path().join("sum")).unwrap();
    assert!(Update::parse(&sum).unwrap().units().eq(Update::parse(&bytes).unwrap().units()));
}

// The error for files that do not belong together names the file.
#[test]
fn mismatched_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = emitted();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    write("board.upd", &bytes);
    write("again.upd", &bytes);
    write("cut.upd", &bytes[..bytes.len() / 2]);
    write("changed.upd", &[&bytes[..99], &[!bytes[99]], &bytes[100..]].concat());
    write("other.upd", b"a text");
    for (file, word) in [
        ("again.upd", "a device is added once"),
        ("cut.upd", "truncated"),
        ("changed.upd", "checksum"),
        ("other.upd", "not an update"),
        ("absent.upd", "No such file"),
    ] {
        assert_refused(&aggregate(&folder, &["board.upd", file]), &[file, word]);
        assert!(!folder.path().join("sum").exists());
    }
}
