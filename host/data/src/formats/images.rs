//! `images:PATH`: a folder of PNG and JPEG files, with a folder for each class, like torchvision's `ImageFolder`.
//!
//! If PATH has a folder `train`, it contains the classes, and the test split is in `test`, `val`, `valid` or
//! `validation`, if present. Classes are numbered by known names: those of the model or of [`DataOptions::classes`],
//! otherwise the sorted names of the training folders. A folder with another name is an error, but a class may have no
//! folder. Folder names are public. Each file is decoded once. Samples are in the order of class folders and file
//! names.

use crate::dataset::Splits;
use crate::files::read_failed;
use crate::numbers::{Sink, Values};
use crate::pictures::{PixelLayout, pixels};
use crate::rows::{Array, Naming, RawSplit, assemble};
use crate::{DataError, DataOptions, LabelKind, Split};
use damper_onnx::SettingError;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of the test split. The first existing folder is used.
const TEST: [&str; 4] = ["test", "val", "valid", "validation"];
/// Number of files that are read before decoding.
const BLOCK: usize = 256;

pub(super) fn load(path: &Path, options: &DataOptions, naming: &mut Naming) -> Result<Splits, DataError> {
    if matches!(options.labels, LabelKind::Values { .. } | LabelKind::Chances { .. }) {
        let problem = "folders of images are classes; use softmax-cross-entropy, or npz for other labels";
        return Err(SettingError::new("loss", "", problem).into());
    }
    let train = path.join("train");
    let (train, test) = if train.is_dir() {
        (train, TEST.iter().map(|name| path.join(name)).find(|path| path.is_dir()))
    } else {
        (path.to_path_buf(), None)
    };
    // Files are read after all folders are known.
    let all: Vec<&PathBuf> = [&train].into_iter().chain(&test).collect();
    let mut folders = Vec::with_capacity(all.len());
    for path in &all {
        let own = class_folders(path)?;
        let has_labels = options.labels != LabelKind::None;
        if has_labels
            && let LabelKind::Classes { classes: Some(count), .. } = options.labels
            && own.len() > count
        {
            return Err(DataError::File(format!(
                "{}: has {} class folders, and the model has {count} classes: name the folder above the classes, or train a model with \
                 more outputs",
                path.display(),
                own.len()
            )));
        }
        let numbers = if has_labels { naming.numbers(path, &own)? } else { (0..own.len()).collect() };
        folders.push(own.into_iter().zip(numbers).collect::<Vec<_>>());
    }
    let splits = all.iter().zip(folders).map(|(path, folders)| split(path, folders, options));
    let mut splits = splits.collect::<Result<Vec<_>, _>>()?;
    let test = (splits.len() > 1).then(|| splits.remove(1));
    Ok((splits.remove(0), test))
}

/// Returns the extents of all pictures in colour, and the number of class folders.
pub(super) fn sizes(path: &Path, options: &DataOptions) -> Result<(Vec<usize>, usize), DataError> {
    if options.resize.is_some() {
        let problem = "a network by name takes pictures of one size; scale the files, or export a model with the size that they shall have";
        return Err(SettingError::new("resize", "", problem).into());
    }
    let train = path.join("train");
    let path = if train.is_dir() { &train } else { path };
    let folders = class_folders(path)?;
    let mut first = None;
    for folder in &folders {
        first = first.or(entries(&path.join(folder))?.into_iter().next());
    }
    let Some(first) = first else {
        return Err(DataError::File(format!("{}: holds no images: use a folder that does", path.display())));
    };
    let bytes = fs::read(&first).map_err(|error| read_failed(&first, &error))?;
    let layout = PixelLayout::new(&DataOptions { inputs: vec![], ..options.clone() }, &bytes)
        .map_err(|fault| DataError::File(format!("{}: {fault}", first.display())))?;
    let [_, height, width] = layout.shape()[..] else { unreachable!("pictures have three extents") };
    // All have this size, or are refused. Grey and coloured pictures may be mixed, so the channels are fixed.
    Ok((vec![3, height, width], folders.len()))
}

/// Returns the entries of a folder, sorted by name, without hidden entries.
fn entries(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    let failed = |error: &std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            DataError::File(format!("{}: there is no such folder: correct the path", path.display()))
        }
        std::io::ErrorKind::NotADirectory => {
            DataError::File(format!("{}: is a file: name the folder of the class folders", path.display()))
        }
        _ => read_failed(path, error),
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| failed(&error))? {
        let entry = entry.map_err(|error| failed(&error))?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the names of the classes.
fn class_folders(path: &Path) -> Result<Vec<String>, DataError> {
    let (folders, files): (Vec<_>, Vec<_>) = entries(path)?.into_iter().partition(|entry| entry.is_dir());
    match (&folders[..], &files[..]) {
        (_, [file, ..]) => Err(DataError::File(format!(
            "{}: lies beside the class folders: put it into the folder of its class, or name the folder above",
            file.display()
        ))),
        ([], []) => Err(DataError::File(format!(
            "{}: holds no class folders: name a folder that holds one folder a class",
            path.display()
        ))),
        _ => Ok(folders.iter().map(|folder| name(folder)).collect()),
    }
}

fn split(path: &Path, folders: Vec<(String, usize)>, options: &DataOptions) -> Result<Split, DataError> {
    let mut files: Vec<(PathBuf, f64)> = Vec::new();
    for (folder, class) in folders {
        for file in entries(&path.join(folder))? {
            let end = file.extension().unwrap_or_default().to_string_lossy().to_lowercase();
            if file.is_dir() || fs::metadata(&file).is_err() {
                let what = if file.is_dir() { "is a folder" } else { "is a link to no file" };
                return Err(DataError::File(format!(
                    "{}: {what}: put image files themselves into the folder of their class",
                    file.display()
                )));
            }
            if !file.is_file() || !["png", "jpg", "jpeg"].contains(&&*end) {
                return Err(DataError::File(format!(
                    "{}: is no .png, .jpg or .jpeg file: take it out of the class folder",
                    file.display()
                )));
            }
            files.push((file, class as f64));
        }
    }
    let read = |path: &PathBuf| fs::read(path).map_err(|error| read_failed(path, &error));
    let Some((first, _)) = files.first() else {
        return Err(DataError::File(format!("{}: holds no images: use a folder that does", path.display())));
    };
    let layout = PixelLayout::new(options, &read(first)?)
        .map_err(|fault| DataError::File(format!("{}: {fault}", first.display())))?;
    let (mut sink, mut unreadable) = (Sink::new(&options.room()), Vec::new());
    for (block, part) in files.chunks(BLOCK).enumerate() {
        let bytes = part.iter().map(|(path, _)| read(path)).collect::<Result<Vec<_>, _>>()?;
        for (row, image) in pixels(layout, &bytes, options)?.into_iter().enumerate() {
            let row = block * BLOCK + row;
            sink.push(&image.unwrap_or_else(|fault| {
                unreadable.push((row, format!("{}: {fault}", files[row].0.display())));
                vec![0; layout.len()]
            }))?;
        }
    }
    let (origin, rows) = (path.display().to_string(), files.len());
    let shape = [&[rows], &layout.shape()[..]].concat();
    let labels = (options.labels != LabelKind::None).then(|| Array {
        origin: origin.clone(),
        shape: vec![rows],
        values: Values::f64s(files.iter().map(|(_, class)| *class).collect()),
    });
    let features = vec![Array { origin, shape, values: sink.values()? }];
    assemble(RawSplit { unreadable, ..RawSplit::new(features, labels) }, options)
}
