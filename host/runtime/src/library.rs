//! Finds the onnxruntime library.
//!
//! If `ORT_DYLIB_PATH` is set, it alone decides. Otherwise the library that the calling program suggests ([`suggest`])
//! does. Without either, `search` looks in this order:
//!
//! - next to the program or extension module with damper's code,
//! - the loader's search path,
//! - the system's library folders,
//! - the `onnxruntime` package of an installed Python. Python only returns the package's folder and does not import it.

use crate::loaded;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Environment variable with the path of the library.
pub(super) const VARIABLE: &str = "ORT_DYLIB_PATH";

/// Python code that prints the folder of the package `onnxruntime`. It removes the current folder from the path, so a
/// folder of that name there cannot be loaded.
const ASK_PYTHON: &str = "import sys; sys.path = [p for p in sys.path if p]; import importlib.util as u; \
    s = u.find_spec('onnxruntime'); print(s.submodule_search_locations[0] if s else '')";

/// Library suggested by the calling program.
static SUGGESTED: OnceLock<PathBuf> = OnceLock::new();

/// Sets the library to load if `ORT_DYLIB_PATH` is not set. The first call decides for the whole process.
pub fn suggest(library: PathBuf) {
    let _ = SUGGESTED.set(library);
}

/// Returns true if the user or the calling program named the library.
pub(super) fn is_explicit() -> bool {
    explicit().is_some()
}

/// Named library, and the source of the name.
pub(super) fn explicit() -> Option<(PathBuf, &'static str)> {
    let given = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(|path| (path.into(), VARIABLE));
    given.or_else(|| Some((SUGGESTED.get()?.clone(), "the installed package")))
}

/// Libraries found, best first, and the locations searched.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub libraries: Vec<PathBuf>,
    pub looked: Vec<String>,
}

/// Searches the usual locations.
pub(super) fn search() -> Found {
    let mut found = Found::default();
    if let Some(folder) = loaded::file().and_then(|file| file.parent().map(Path::to_path_buf)) {
        found.folder(&folder);
    }
    let loader_path = if cfg!(windows) {
        "PATH"
    } else if cfg!(target_os = "macos") {
        "DYLD_LIBRARY_PATH"
    } else {
        "LD_LIBRARY_PATH"
    };
    for folder in std::env::split_paths(&std::env::var_os(loader_path).unwrap_or_default()) {
        if folder.is_absolute() {
            found.library_in(&folder);
        }
    }
    found.looked.push(loader_path.into());
    for folder in system_folders() {
        found.folder(&folder);
    }
    for python in pythons() {
        found.python(&python);
    }
    found
}

fn system_folders() -> Vec<PathBuf> {
    if cfg!(windows) {
        return Vec::new();
    }
    let multiarch = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    [
        "/usr/local/lib",
        "/usr/local/lib64",
        &multiarch,
        "/usr/lib",
        "/usr/lib64",
        "/opt/onnxruntime/lib",
        "/opt/homebrew/lib",
    ]
    .iter()
    .map(PathBuf::from)
    .filter(|folder| folder.is_dir())
    .collect()
}

fn pythons() -> Vec<OsString> {
    let mut pythons = Vec::new();
    if let Some(env) = std::env::var_os("VIRTUAL_ENV").filter(|env| !env.is_empty()) {
        let folder = if cfg!(windows) { "Scripts" } else { "bin" };
        pythons.push(Path::new(&env).join(folder).join("python").into_os_string());
    }
    pythons.push("python3".into());
    pythons.push("python".into());
    pythons
}

impl Found {
    fn folder(&mut self, folder: &Path) {
        self.looked.push(folder.display().to_string());
        self.library_in(folder);
    }

    fn python(&mut self, python: &OsString) {
        self.looked.push(format!("the packages of {}", Path::new(python).display()));
        let answer = Command::new(python).args(["-c", ASK_PYTHON]).stdin(Stdio::null()).stderr(Stdio::null()).output();
        if let Ok(answer) = answer
            && answer.status.success()
        {
            let text = String::from_utf8_lossy(&answer.stdout);
            let package = text.trim();
            if !package.is_empty() {
                self.library_in(&Path::new(package).join("capi"));
            }
        }
    }

    /// Adds the library of `folder`. Of several versions it takes the highest.
    fn library_in(&mut self, folder: &Path) {
        let Ok(entries) = std::fs::read_dir(folder) else {
            return;
        };
        let best = entries
            .flatten()
            .filter_map(|entry| {
                let version = version_in_name(entry.file_name().to_str()?)?;
                Some((version, entry.path()))
            })
            .max();
        if let Some((_, path)) = best
            && !self.libraries.contains(&path)
        {
            self.libraries.push(path);
        }
    }
}

/// Version in a library's file name, empty if it has no version. `None` if the file is not an onnxruntime library.
fn version_in_name(name: &str) -> Option<Vec<u32>> {
    let rest = if cfg!(windows) {
        return (name == "onnxruntime.dll").then(Vec::new);
    } else if cfg!(target_os = "macos") {
        name.strip_prefix("libonnxruntime")?.strip_suffix(".dylib")?
    } else {
        name.strip_prefix("libonnxruntime.so")?
    };
    if rest.is_empty() {
        return Some(Vec::new());
    }
    rest.strip_prefix('.')?.split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // The highest version in a folder is selected. Provider libraries are skipped.
    #[cfg(target_os = "linux")]
    #[test]
    fn highest_library_version_wins() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "libonnxruntime.so",
            "libonnxruntime.so.1.9.0",
            "libonnxruntime.so.1.31.1",
            "libonnxruntime.so.1.24.0.bak",
            "libonnxruntime_providers_shared.so",
        ] {
            std::fs::write(folder.path().join(name), b"").unwrap();
        }
        let mut found = Found::default();
        found.folder(folder.path());
        assert_eq!(found.libraries, [folder.path().join("libonnxruntime.so.1.31.1")]);
        assert_eq!(found.looked.len(), 1);
    }

    #[test]
    fn a_folder_that_is_not_there_is_no_error() {
        let mut found = Found::default();
        found.folder(Path::new("/nonexistent/folder"));
        assert!(found.libraries.is_empty());
    }

    #[test]
    fn a_python_that_is_not_there_is_no_error() {
        let mut found = Found::default();
        found.python(&"a-python-that-is-not-there".into());
        assert!(found.libraries.is_empty());
    }
}
