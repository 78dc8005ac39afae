//! The crates with access to unreleased values.

use std::path::{Path, PathBuf};

/// The crates of damper that name `damper-access`, except for their tests. No program for a device, an enclave or
/// another language does.
#[test]
fn only_named_crates_claim_access() {
    fn manifests(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name == "Cargo.toml" {
                found.push(path);
            } else if path.is_dir() && !path.is_symlink() && name != "target" && !name.starts_with('.') {
                manifests(&path, found);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    manifests(root, &mut found);
    assert!(found.len() > 40, "{found:?}");
    found.retain(|path| {
        let text = std::fs::read_to_string(path).unwrap();
        // Dev-dependencies do not reach the dependents of a package.
        let mut sections = text.split("\n[").filter(|section| !section.starts_with("dev-dependencies"));
        sections.any(|section| section.contains("damper-access") || section.contains("core/access"))
    });
    let mut found: Vec<_> = found.iter().map(|path| path.strip_prefix(root).unwrap().to_str().unwrap()).collect();
    found.sort_unstable();
    let expected = [
        "Cargo.toml",
        "core/Cargo.toml",
        "core/access/Cargo.toml",
        "host/audit/Cargo.toml",
        "host/cuda/Cargo.toml",
        "host/train/Cargo.toml",
    ];
    assert_eq!(found, expected);
}
