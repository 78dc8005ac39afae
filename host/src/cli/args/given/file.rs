//! Run files: the settings of `damper train` in TOML. Paths are relative to the file. A file to read may also be in the
//! working directory.

use super::words::{argument, unknown};
use crate::cli::Failure;
use crate::cli::args::flags::number::path;
use clap::Command;
use damper_data::{ENGLISH, is_kind};
use damper_edit::network::Network;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Settings with the path of an input file, and of an output file.
const READ: [&str; 5] = ["model", "budget", "tokenizer", "labels", "test-labels"];
const WRITTEN: [&str; 6] = ["out", "record", "cache", "image-cache", "events", "tensorboard"];
/// Output settings that are relative to the run file.
const BESIDE: [&str; 2] = ["out", "record"];
/// Settings with a value that may be KIND:PATH.
const DATA: [&str; 2] = ["data", "test"];

/// Extensions of settings files in other languages.
const OTHERS: [&str; 6] = ["yaml", "yml", "json", "ini", "cfg", "conf"];

fn extension(file: &Path) -> &str {
    file.extension().and_then(OsStr::to_str).unwrap_or_default()
}

/// Returns true if `file` holds settings, not a model.
pub(super) fn is_run_file(file: &Path) -> bool {
    extension(file) == "toml" || OTHERS.contains(&extension(file))
}

/// Reads the entries of a run file.
pub(super) fn checked(file: &Path) -> Result<Table, Failure> {
    if extension(file) != "toml" {
        let found = if file.exists() { "not a run file" } else { "there is no such file" };
        let problem = format!("{found}; write a run file in TOML, as run.toml (damper train --help-all shows one)");
        return Err(Failure::in_file(file, problem));
    }
    read(file)
}

/// Reads the entries of a TOML file, in its order.
pub(in crate::cli) fn read(file: &Path) -> Result<Table, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::in_file(file, "there is no such file; check the path"),
        _ => Failure::in_file(file, format!("cannot be read ({error}); check its permissions")),
    })?;
    let text = text.trim_start_matches('\u{feff}');
    text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        Failure::in_file(file, format!("line {line}: not TOML ({}): correct it", error.message()))
    })
}

/// Returns the entries by setting name, with paths relative to the working directory.
pub(super) fn settings(entries: &Table, file: &Path, train: &Command) -> Result<Table, Failure> {
    let mut settings = Table::new();
    for (key, value) in entries {
        let name = argument(train, key).ok_or_else(|| Failure::in_run_file(file, unknown(train, key)))?;
        if settings.insert(name.clone(), value.clone()).is_some() {
            let problem = format!("`{key}`: the same setting as another key (`{name}`); leave one of them out");
            return Err(Failure::in_run_file(file, problem));
        }
    }
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut written = Table::new();
    for key in WRITTEN {
        let value = settings.remove(key);
        written.extend(value.map(|value| (key.to_owned(), value)));
    }
    let mut all = rebase(settings, |path| {
        let moved = folder.join(path);
        if !moved.exists() && path.exists() { path.to_path_buf() } else { moved }
    });
    for (key, value) in written {
        let one = Table::from_iter([(key.clone(), value)]);
        all.extend(if BESIDE.contains(&key.as_str()) { rebase(one, |path| folder.join(path)) } else { one });
    }
    Ok(all)
}

/// Applies `moved` to the paths in the settings.
pub(in crate::cli) fn rebase(mut settings: Table, moved: impl Fn(&Path) -> PathBuf) -> Table {
    for (key, value) in &mut settings {
        let key = key.as_str();
        let Value::String(text) = value else { continue };
        let of = |place: &str| moved(Path::new(place));
        *value = match text.split_once(':') {
            Some((kind, place)) if DATA.contains(&key) && is_kind(kind) && kind != "memory" => {
                format!("{kind}:{}", of(place).display()).into()
            }
            // A path whose kind is found later.
            split if key == "data" || key == "test" && text.parse::<f64>().is_err() => match split {
                Some((kind, _)) if is_kind(kind) => continue,
                _ => path::value(&of(text)),
            },
            // Names, or a file with names. A comma in its path would turn it into names.
            _ if key == "classes" && !text.contains(',') && text.parse::<usize>().is_err() => match of(text).to_str() {
                Some(moved) if !moved.contains(',') => moved.into(),
                _ => continue,
            },
            // Names that stand for no file.
            _ if key == "tokenizer" && text == ENGLISH || key == "model" && Network::is_named(text) => continue,
            // An empty path has its own error.
            _ if !text.is_empty() && (READ.contains(&key) || WRITTEN.contains(&key)) => path::value(&of(text)),
            _ => continue,
        };
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_begin_in_the_runs_folder() {
        for (key, given, expected) in [
            ("model", "m.onnx", "/the/run/m.onnx"),
            ("data", "csv:d/x.csv", "csv:/the/run/d/x.csv"),
            ("data", "csv:/d/x.csv", "csv:/d/x.csv"),
            ("test", "npy:t.npy", "npy:/the/run/t.npy"),
            ("test", "0.25", "0.25"),
            ("data", "memory:train", "memory:train"),
            ("budget", "b.json", "/the/run/b.json"),
            ("tokenizer", "t.json", "/the/run/t.json"),
            ("labels", "l.npy", "/the/run/l.npy"),
            ("test-labels", "l.npy", "/the/run/l.npy"),
            ("cache", "c", "/the/run/c"),
            ("image-cache", "c", "/the/run/c"),
            ("record", "r.pack", "/the/run/r.pack"),
            ("events", "e.jsonl", "/the/run/e.jsonl"),
            ("tensorboard", "t", "/the/run/t"),
            ("classes", "a,b", "a,b"),
            ("classes", "names.txt", "/the/run/names.txt"),
            ("optimizer", "adam", "adam"),
        ] {
            let table = Table::from_iter([(key.to_owned(), Value::from(given))]);
            assert_eq!(rebase(table, |path| Path::new("/the/run").join(path))[key].as_str(), Some(expected));
        }
    }
}
