//! Cargo manifests of the generated crate, and copies of the damper crates that it uses.

use crate::CompiledFile;
use crate::names::literal;
use std::path::Path;

/// Sources of `core`, `core/access` and `nn`, without files of tests.
const SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));
/// Their manifests, which inherit from the workspace.
const MANIFESTS: [(&str, &str); 3] = [
    ("core", include_str!("../damper/core.toml")),
    ("core/access", include_str!("../damper/access.toml")),
    ("nn", include_str!("../damper/nn.toml")),
];
const LICENSES: [(&str, &str); 2] =
    [("LICENSE-APACHE", include_str!("../LICENSE-APACHE")), ("LICENSE-MIT", include_str!("../LICENSE-MIT"))];

/// Formats the manifest of the crate `name`. It uses the damper crates in the repository `damper`, or their copies.
pub(crate) fn of_crate(name: &str, damper: Option<&Path>) -> String {
    let path = |folder: &str| match damper {
        None => literal(&format!("damper-{folder}")),
        Some(damper) => literal(&damper.join(folder).display().to_string()),
    };
    format!(
        r#"# Written by `damper compile`.
[package]
name = "{name}"
version = "0.1.0"
edition = "2024"
rust-version = "1.87"
publish = false

[dependencies]
damper-core = {{ path = {} }}
damper-nn = {{ path = {} }}

# Of no workspace around it.
[workspace]

# On a device for its flash, and tests at the same level.
[profile.release]
opt-level = "s"
lto = true
codegen-units = 1
"#,
        path("core"),
        path("nn"),
    )
}

/// Returns the files of the copied damper crates.
pub(crate) fn copied() -> impl Iterator<Item = CompiledFile> {
    let file = |path: String, text: &str| CompiledFile { path, bytes: text.into() };
    let sources = SOURCES.iter().map(move |(path, text)| file(format!("damper-{path}"), text));
    let manifests =
        MANIFESTS.iter().map(move |(folder, text)| file(format!("damper-{folder}/Cargo.toml"), &apart(text)));
    let licenses = MANIFESTS.iter().flat_map(move |(folder, _)| {
        LICENSES.iter().map(move |(name, text)| file(format!("damper-{folder}/{name}"), text))
    });
    sources.chain(manifests).chain(licenses)
}

/// Removes inheritance from the workspace, development dependencies and settings of docs.rs, because none is copied.
fn apart(manifest: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = String::new();
    let mut is_kept = true;
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_kept = !matches!(line, "[dev-dependencies]" | "[lints]" | "[package.metadata.docs.rs]");
        }
        let line = match line {
            "version.workspace = true" => &format!("version = \"{version}\""),
            "edition.workspace = true" => "edition = \"2024\"",
            "license.workspace = true" => "license = \"MIT OR Apache-2.0\"",
            // Only for packages.
            "exclude.workspace = true" => continue,
            line => line,
        };
        if is_kept {
            text += line;
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_stand_alone() {
        for (name, manifest) in MANIFESTS {
            let text = apart(manifest);
            assert!(!text.contains("workspace"), "{name}: {text}");
            // Each dependency is copied too.
            for path in text.split("path = \"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
                assert!(MANIFESTS.iter().any(|(copied, _)| *copied == format!("{name}/{path}")), "{name}: {path}");
            }
        }
        let copied: Vec<CompiledFile> = copied().collect();
        for path in
            ["damper-core/src/lib.rs", "damper-core/access/src/lib.rs", "damper-nn/src/sum.rs", "damper-nn/LICENSE-MIT"]
        {
            assert!(copied.iter().any(|file| file.path == path), "{path}");
        }
    }
}
