//! The kind of a path without one, from the names of its files. No file is read.

use super::{FORMATS, Format, cifar, find, likely};
use crate::{DataError, DataOptions};
use std::fs;
use std::path::Path;

/// Returns `KIND:PATH` for a data set that users may write without its kind.
///
/// A known kind before a colon stays. Otherwise `given` is a path, and its extension or the names of a folder's files
/// suggest the kind. With a tokenizer, tables are texts.
///
/// # Errors
///
/// No kind, or no single kind, is suggested.
pub fn with_kind(given: &str, options: &DataOptions) -> Result<String, DataError> {
    if given.split_once(':').is_some_and(|(kind, _)| is_kind(kind)) {
        return Ok(given.into());
    }
    let path = Path::new(given);
    // A wrong kind, rather than a path with a colon.
    if given.contains(':') && !path.exists() {
        return find(given, options).map(|_| given.into());
    }
    let kind = if path.is_dir() { of_folder(path, options) } else { of_file(given, options) };
    match kind {
        Some(kind) => Ok(format!("{kind}:{given}")),
        None if !path.exists() && given.contains(['/', '\\']) => {
            Err(DataError::File(format!("{given}: there is no such file or folder: correct the path")))
        }
        // It has the error for a path without a kind.
        None => find(given, options).map(|_| given.into()),
    }
}

/// Returns true if `kind` is a kind of data.
#[must_use]
pub fn is_kind(kind: &str) -> bool {
    FORMATS.iter().any(|format| format.names.contains(&kind))
}

/// Returns the kind of a file with this name.
fn of_file(name: &str, options: &DataOptions) -> Option<&'static str> {
    let name = name.to_lowercase();
    let bare = name.strip_suffix(".gz").unwrap_or(&name);
    match (options.text.tokenizer.is_some(), likely(&name)) {
        (true, Some("csv")) => Some("text"),
        // Without a tokenizer no text can be read.
        (false, Some("text")) if bare.ends_with(".tsv") => Some("csv"),
        (_, kind) => kind,
    }
}

/// Returns the kind of the files in a folder, if they suggest one.
fn of_folder(folder: &Path, options: &DataOptions) -> Option<&'static str> {
    let mut kinds: Vec<&'static str> = Vec::new();
    let mut has_folders = false;
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
        if cifar::is_published(&path) {
            kinds.push("cifar");
        } else if path.is_dir() {
            has_folders |= !name.starts_with('.');
        } else {
            // A folder of images may have a note.
            let is_note = |kind: &str| kind == "text" && options.text.tokenizer.is_none();
            kinds.extend(of_file(&name, options).filter(|kind| reads_folders(kind) && !is_note(kind)));
        }
    }
    kinds.sort_unstable();
    kinds.dedup();
    match (&kinds[..], has_folders) {
        ([kind], _) => Some(*kind),
        ([], true) => Some("images"),
        _ => None,
    }
}

/// Returns true if the format's path may be a folder.
fn reads_folders(kind: &str) -> bool {
    let is_folder = |format: &Format| format.path.is_some_and(|path| path.contains("FOLDER"));
    FORMATS.iter().any(|format| format.names.contains(&kind) && is_folder(format))
}
