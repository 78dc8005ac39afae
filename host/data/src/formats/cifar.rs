//! `cifar:PATH`: CIFAR-10 and CIFAR-100 as published (<https://www.cs.toronto.edu/~kriz/cifar.html>). PATH is a folder
//! of the binary or the Python batches, or the archive of either, `.tar` or `.tar.gz`.
//!
//! Images are `[3, 32, 32]`, red, green and blue, in row order. Training rows are in the order of the batches. For
//! CIFAR-100, labels are the 100 fine classes, or the 20 coarse classes with [`DataOptions::label_column`] `coarse`.

mod pickle;

use crate::dataset::Splits;
use crate::files::{FETCH_AGAIN, open, read_failed};
use crate::numbers::{Held, Room, Sink, Values};
use crate::rows::{Array, RawSplit, assemble};
use crate::{DataError, DataOptions, LabelKind, Split};
use damper_onnx::SettingError;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use tar::Archive;

const PIXELS: usize = 3072;
/// Larger batches are errors. The published batches have 10,000 to 50,000 images, at most 154 MB.
const LARGEST: u64 = 1 << 28;

/// The files of a split, in order.
const TRAIN: [&str; 5] = ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"];

/// Folders of the published archives.
const FOLDERS: [&str; 4] = ["cifar-10-batches-bin", "cifar-10-batches-py", "cifar-100-binary", "cifar-100-python"];

/// Returns true if `path` is a batch or the folder of one, by its name.
pub(super) fn is_published(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_own = name.contains("_batch") || name.ends_with(".bin");
    if path.is_dir() { FOLDERS.contains(&&*name) } else { is_batch(&name) && is_own }
}

/// Returns true if a file with this name is a batch.
fn is_batch(name: &str) -> bool {
    let name = name.strip_suffix(".bin").unwrap_or(name);
    TRAIN.contains(&name) || matches!(name, "test_batch" | "train" | "test")
}

/// Returns the extents of a sample, and the number of classes if the names of the files show it.
pub(super) fn sizes(path: &Path, options: &DataOptions) -> (Vec<usize>, Option<usize>) {
    let is_of_hundred = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("cifar-100") || path.is_file() && matches!(&*name, "train.bin" | "test.bin" | "train" | "test")
    };
    let inside = || std::fs::read_dir(path).into_iter().flatten().flatten().any(|entry| is_of_hundred(&entry.path()));
    let classes = match options.label_column.as_deref() {
        Some("coarse") => 20,
        _ if is_of_hundred(path) || inside() => 100,
        _ => 10,
    };
    (vec![3, 32, 32], Some(classes))
}

/// An unparsed file, and its name in messages.
type File = (String, Held<u8>);

/// Batches by file name.
type Batches = BTreeMap<String, File>;

pub(super) fn load(path: &Path, options: &DataOptions) -> Result<Splits, DataError> {
    let coarse = match options.label_column.as_deref() {
        None | Some("fine") => false,
        Some("coarse") => true,
        Some(other) => {
            let problem = "CIFAR-100 has the labels fine and coarse; name one of them";
            return Err(SettingError::new("label_column", other, problem).into());
        }
    };
    let room = &options.room();
    let mut batches = if path.is_dir() { of_folder(path, room)? } else { of_archive(path, room)? };
    check_names(path, &batches)?;
    let mut take = |names: &[&str]| -> Vec<File> {
        let both = names.iter().flat_map(|name| [format!("{name}.bin"), (*name).to_string()]);
        both.filter_map(|name| batches.remove(&name)).collect()
    };
    let (train, test) = (take(&[&TRAIN[..], &["train"]].concat()), take(&["test_batch", "test"]));
    if train.is_empty() {
        return Err(DataError::File(format!(
            "{}: holds no batch of CIFAR (data_batch_1 or train, with .bin or without): name the folder or the archive as published",
            path.display()
        )));
    }
    let train = split(path, train, coarse, options)?;
    let test = if test.is_empty() { None } else { Some(split(path, test, coarse, options)?) };
    Ok((train, test))
}

fn of_folder(path: &Path, room: &Room) -> Result<Batches, DataError> {
    let mut batches = Batches::new();
    // The archives have one folder.
    let path = FOLDERS.iter().map(|inner| path.join(inner)).find(|path| path.is_dir()).unwrap_or(path.to_path_buf());
    let entries = std::fs::read_dir(&path).map_err(|error| read_failed(&path, &error))?;
    for entry in entries {
        let file = entry.map_err(|error| read_failed(&path, &error))?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if file.is_file() && is_batch(&name) {
            let mut reader = open(&file)?.reader;
            let bytes = read_batch(&mut reader, &file.display().to_string(), room)?;
            batches.insert(name, (file.display().to_string(), bytes));
        }
    }
    Ok(batches)
}

fn of_archive(path: &Path, room: &Room) -> Result<Batches, DataError> {
    let mut batches = Batches::new();
    let mut archive = Archive::new(open(path)?.reader);
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => read_failed(path, &error),
        _ => DataError::File(format!("{}: is not a readable .tar or .tar.gz archive: {FETCH_AGAIN}", path.display())),
    };
    for entry in archive.entries().map_err(failed)? {
        let mut entry = entry.map_err(failed)?;
        let name = entry.path().ok().and_then(|name| Some(name.file_name()?.to_string_lossy().into_owned()));
        let Some(name) = name.filter(|name| is_batch(name)) else { continue };
        if entry.header().entry_type().is_file() {
            let origin = format!("{}, {name}", path.display());
            let bytes = read_batch(&mut entry, &origin, room)?;
            if batches.insert(name, (origin.clone(), bytes)).is_some() {
                return Err(DataError::File(format!("{origin}: is there twice: take one of them out")));
            }
        }
    }
    Ok(batches)
}

/// Checks that the batches are from one data set, without duplicates or gaps. Otherwise rows would be read twice or be
/// lost.
fn check_names(path: &Path, batches: &Batches) -> Result<(), DataError> {
    let refuse = |fault: String| Err(DataError::File(format!("{}: {fault}", path.display())));
    let has = |name: &str| batches.contains_key(name) || batches.contains_key(&format!("{name}.bin"));
    if let Some(name) = batches.keys().find(|name| batches.contains_key(&format!("{name}.bin"))) {
        return refuse(format!("holds {name} and {name}.bin, the same images twice: take one of the versions out"));
    }
    let of_ten = |name: &&String| name.starts_with("data_batch") || name.starts_with("test_batch");
    if let (Some(ten), Some(hundred)) = (batches.keys().find(of_ten), batches.keys().find(|name| !of_ten(name))) {
        return refuse(format!("holds {ten} of CIFAR-10 and {hundred} of CIFAR-100: take one of the data sets out"));
    }
    let last = TRAIN.iter().rposition(|name| has(name)).unwrap_or(0);
    match TRAIN[..last].iter().find(|name| !has(name)) {
        Some(missing) => refuse(format!("holds {} and no {missing}: {FETCH_AGAIN}", TRAIN[last])),
        None => Ok(()),
    }
}

fn read_batch(reader: &mut dyn Read, origin: &str, room: &Room) -> Result<Held<u8>, DataError> {
    let (mut sink, mut bytes, mut len) = (Sink::new(room), Vec::new(), 0);
    loop {
        bytes.clear();
        let block = reader.take(1 << 16).read_to_end(&mut bytes);
        len += block.map_err(|error| read_failed(Path::new(origin), &error))? as u64;
        if len > LARGEST {
            return Err(DataError::File(format!("{origin}: is no batch of CIFAR, but far larger: {FETCH_AGAIN}")));
        }
        if bytes.is_empty() {
            return sink.finish();
        }
        sink.push(&bytes)?;
    }
}

fn split(path: &Path, batches: Vec<File>, coarse: bool, options: &DataOptions) -> Result<Split, DataError> {
    let (mut pixels, mut labels) = (Sink::new(&options.room()), Vec::new());
    let mut has_one_label = false;
    for (origin, bytes) in batches {
        let refuse = |fault: &str| DataError::File(format!("{origin}: {fault}: {FETCH_AGAIN}"));
        if origin.ends_with(".bin") {
            // Each image follows one label. In CIFAR-100 it follows two, the coarse and the fine label.
            let before = if bytes.len() % (PIXELS + 1) == 0 { 1 } else { 2 };
            if bytes.len() == 0 || bytes.len() % (PIXELS + before) != 0 {
                return Err(refuse(&format!("has {} bytes, not a number of images of 3073 or 3074", bytes.len())));
            }
            has_one_label |= before == 1;
            bytes.blocks(PIXELS + before, |_, block| {
                for image in block.chunks_exact(PIXELS + before) {
                    labels.push(f64::from(image[if coarse { 0 } else { before - 1 }]));
                    pixels.push(&image[before..])?;
                }
                Ok(())
            })?;
        } else {
            // A pickle is read as a whole.
            let bytes = bytes.into_memory()?;
            let batch = pickle::read(&bytes)
                .map_err(|fault| refuse(&format!("is not a Python batch of CIFAR that can be read ({fault})")))?;
            let array = batch.get("data").and_then(|data| data.byte_array());
            let fine = batch.get("labels").or_else(|| batch.get("fine_labels")).and_then(|labels| labels.integers());
            has_one_label |= batch.get("coarse_labels").is_none();
            let chosen =
                if coarse { batch.get("coarse_labels").and_then(|labels| labels.integers()).or(fine) } else { fine };
            let (Some((shape, data)), Some(own)) = (array, chosen) else {
                return Err(refuse("holds no array of bytes 'data' with its labels"));
            };
            if shape != [own.len() as i64, PIXELS as i64] || data.len() != own.len() * PIXELS || own.is_empty() {
                return Err(refuse(&format!("has data of shape {shape:?} for {} labels", own.len())));
            }
            labels.extend(own.iter().map(|label| *label as f64));
            pixels.push(data)?;
        }
    }
    if coarse && has_one_label {
        let problem = "CIFAR-10 has one kind of labels; leave it out";
        return Err(SettingError::new("label_column", "coarse", problem).into());
    }
    let (origin, rows) = (path.display().to_string(), labels.len());
    let features = vec![Array { origin: origin.clone(), shape: vec![rows, 3, 32, 32], values: pixels.values()? }];
    let labels =
        (options.labels != LabelKind::None).then(|| Array { origin, shape: vec![rows], values: Values::f64s(labels) });
    assemble(RawSplit::new(features, labels), options)
}
