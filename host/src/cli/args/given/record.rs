//! Record of a run's settings in its output folder.

use super::file::rebase;
use super::state::NOT_KEPT;
use super::table::table_of;
use crate::cli::Failure;
use crate::cli::args::train::TrainArgs;
use std::env;
use std::path::{Component, Path, PathBuf, absolute};

/// File with a run's settings in its output folder.
pub(in crate::cli) const RECORD: &str = "config.toml";

/// Settings that the record omits.
const LEFT_OUT: [&str; 5] = ["record", "record-limit", "copy-model", "events", "tensorboard"];

/// Returns the settings of a run as a run file, which is public.
///
/// The path of a recording is secret and is omitted. If the number of samples is declared, the counted number is
/// omitted. Paths are relative to the output folder, unless they were given as absolute.
pub(in crate::cli) fn record(args: &TrainArgs) -> Result<String, Failure> {
    let mut settings = table_of(args);
    let is_declared = settings.contains_key("dataset-size");
    settings.retain(|key, _| {
        let is_of_run = !NOT_KEPT.contains(&key) && !LEFT_OUT.contains(&key);
        is_of_run && (key != "samples" || !is_declared)
    });
    let (here, out) = (env::current_dir()?, absolute(args.out())?);
    // Resolve links before `..`.
    let real = out.canonicalize().unwrap_or_else(|_| out.clone());
    let settings = rebase(settings, |path| match path.strip_prefix(&out) {
        Ok(inside) => inside.to_path_buf(),
        Err(_) if path.is_absolute() => path.to_path_buf(),
        Err(_) => from(&real, &here.join(path)),
    });
    Ok(format!("# The settings of this run. damper train {RECORD} --out DIR takes them again.\n{settings}"))
}

/// Returns `path` relative to the folder `out`. Both are absolute.
fn from(out: &Path, path: &Path) -> PathBuf {
    let shared = out.components().zip(path.components()).take_while(|(of_out, of_path)| of_out == of_path).count();
    let up = out.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(path.components().skip(shared)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_seen_from_the_outputs() {
        let here = Path::new("/here");
        for (out, path, expected) in [
            ("run", "model.onnx", "../model.onnx"),
            ("a/b", "d/m.onnx", "../../d/m.onnx"),
            ("run", "run/m.onnx", "m.onnx"),
            ("run", "../m.onnx", "../../m.onnx"),
            ("/elsewhere/run", "m.onnx", "../../here/m.onnx"),
        ] {
            assert_eq!(from(&here.join(out), &here.join(path)), Path::new(expected));
        }
    }
}
