//! Lists the sources of the crates that a compiled network uses, to embed them in the command.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Folders of sources, and their places in the compiled network. They are symbolic links, which `cargo package`
/// replaces by the files.
const FOLDERS: [(&str, &str); 3] =
    [("damper/core", "core/src"), ("damper/access", "core/access/src"), ("damper/nn", "nn/src")];

fn main() {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let mut list = String::from("&[\n");
    for (name, place) in FOLDERS {
        let folder = package.join(name);
        assert!(folder.is_dir(), "{} must be a link to a folder: check out the symbolic links", folder.display());
        println!("cargo:rerun-if-changed={}", folder.display());
        let mut files = vec![];
        sources(&folder, &mut files);
        files.sort();
        for file in files {
            let inside =
                file.strip_prefix(&folder).expect("it is below the folder").to_str().expect("its name is text");
            let path = file.canonicalize().expect("it is there");
            list += &format!("    ({:?}, include_str!({path:?})),\n", format!("{place}/{}", inside.replace('\\', "/")));
        }
    }
    list += "]\n";
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("sources.rs"), list).expect("the build folder can be written");
}

/// Collects the Rust files below `folder`, except files of tests.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the sources are there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            if !path.ends_with("tests") {
                sources(&path, files);
            }
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
            files.push(path);
        }
    }
}
