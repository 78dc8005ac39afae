//! Lists the sources of the crates that a compiled network uses, to embed them in the command.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let mut list = String::from("&[\n");
    for name in ["core", "core/access", "nn"] {
        let folder = root.join(name).join("src");
        println!("cargo:rerun-if-changed={}", folder.display());
        let mut files = vec![];
        sources(&folder, &mut files);
        files.sort();
        for file in files {
            let inside = file.strip_prefix(&root).expect("it is below the root").to_str().expect("its name is text");
            let path = file.canonicalize().expect("it is there");
            list += &format!("    ({:?}, include_str!({path:?})),\n", inside.replace('\\', "/"));
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
            sources(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
            files.push(path);
        }
    }
}
