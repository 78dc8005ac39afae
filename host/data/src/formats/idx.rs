//! `idx:PATH`: the format of MNIST, Fashion-MNIST and EMNIST (<http://yann.lecun.com/exdb/mnist/>).
//!
//! A file begins with a magic number: two zero bytes, an element type and the number of extents. The extents follow as
//! big-endian u32, then the elements in row-major order, big-endian. PATH is a folder with `train-images-idx3-ubyte`,
//! `train-labels-idx1-ubyte` and, for the test split, the two `t10k-` files. PATH may also be a prefix of these names
//! (`emnist/emnist-letters-`). Each file may end in `.gz`, and may have `.idx3-ubyte` instead of `-idx3-ubyte`.

use crate::dataset::Splits;
use crate::files::{ArrayBytes, FETCH_AGAIN, Source, each, elements, open, read_failed};
use crate::numbers::Room;
use crate::rows::{Array, RawSplit, assemble};
use crate::{DataError, DataOptions, LabelKind, Split};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Files with more extents are errors before their extents are read.
const MAX_EXTENTS: usize = 8;

pub(super) fn load(path: &Path, options: &DataOptions) -> Result<Splits, DataError> {
    let train = load_split(path, "train", options)?.ok_or_else(|| {
        DataError::File(format!(
            "{}: no train-images-idx3-ubyte or train-images-idx3-ubyte.gz is there: name the folder that holds it, or \
             what the file's name begins with",
            path.display()
        ))
    })?;
    Ok((train, load_split(path, "t10k", options)?))
}

fn load_split(path: &Path, split: &str, options: &DataOptions) -> Result<Option<Split>, DataError> {
    let Some(images) = find(path, split, "images", 3) else {
        return Ok(None);
    };
    let labels = if options.labels == LabelKind::None {
        None
    } else {
        let file = find(path, split, "labels", 1).ok_or_else(|| {
            DataError::File(format!(
                "{}: its labels, {split}-labels-idx1-ubyte, are not beside it: put them there",
                images.display()
            ))
        })?;
        Some(read(&file, &options.room())?)
    };
    assemble(RawSplit::new(vec![read(&images, &options.room())?], labels), options).map(Some)
}

fn find(path: &Path, split: &str, what: &str, extents: u8) -> Option<PathBuf> {
    let bases = if path.is_dir() {
        vec![path.join("").into_os_string()]
    } else {
        let mut dashed = path.as_os_str().to_owned();
        dashed.push("-");
        vec![path.as_os_str().to_owned(), dashed]
    };
    bases.into_iter().find_map(|base| {
        ["-", "."].iter().flat_map(|dash| ["", ".gz"].map(|end| (dash, end))).find_map(|(dash, end)| {
            let mut name = base.clone();
            name.push(format!("{split}-{what}{dash}idx{extents}-ubyte{end}"));
            Some(PathBuf::from(name)).filter(|file| file.is_file())
        })
    })
}

/// Returns the extents of a sample of the training images.
pub(super) fn extents(path: &Path) -> Result<Vec<usize>, DataError> {
    let found = (1..=MAX_EXTENTS as u8).rev().find_map(|extents| find(path, "train", "images", extents));
    let file = found.unwrap_or_else(|| path.to_path_buf());
    let (_, shape) = header(&file, &mut open(&file)?.reader)?;
    let mut sample = shape[1..].to_vec();
    // Grey pictures have one channel.
    if sample.len() == 2 {
        sample.insert(0, 1);
    }
    Ok(sample)
}

/// Reads the type and the extents of a file.
fn header(path: &Path, reader: &mut impl Read) -> Result<([u8; 4], Vec<usize>), DataError> {
    let refuse = |fault: String| DataError::File(format!("{}: {fault}", path.display()));
    let mut magic = [0; 4];
    reader.read_exact(&mut magic).map_err(|error| read_failed(path, &error))?;
    if !matches!(magic, [0, 0, 0x08 | 0x09 | 0x0b..=0x0e, _]) {
        return Err(refuse(format!("is not an IDX file (it begins with {magic:02x?}): {FETCH_AGAIN}")));
    }
    let extents = usize::from(magic[3]);
    if extents == 0 || extents > MAX_EXTENTS {
        return Err(refuse(format!("has {extents} extents where 1 to {MAX_EXTENTS} can be read: {FETCH_AGAIN}")));
    }
    let mut shape = Vec::with_capacity(extents);
    for _ in 0..extents {
        let mut extent = [0; 4];
        reader.read_exact(&mut extent).map_err(|error| read_failed(path, &error))?;
        shape.push(u32::from_be_bytes(extent) as usize);
    }
    Ok((magic, shape))
}

/// Reads one file. Memory is bounded by the size of the file, regardless of its header.
pub(super) fn read(path: &Path, room: &Room) -> Result<Array, DataError> {
    let refuse = |fault: String| DataError::File(format!("{}: {fault}", path.display()));
    let Source { mut reader, limit } = open(path)?;
    let (magic, shape) = header(path, &mut reader)?;
    let extents = shape.len();
    let width = match magic {
        [0, 0, 0x08 | 0x09, _] => 1,
        [0, 0, 0x0b, _] => 2,
        [0, 0, 0x0c | 0x0d, _] => 4,
        _ => 8,
    };
    let header = 4 + 4 * extents as u64;
    elements(&shape, width)
        .filter(|count| header.checked_add((count * width) as u64).is_some_and(|total| total <= limit))
        .ok_or_else(|| {
            refuse(format!("declares the shape {shape:?}, more than a file of its length can hold: {FETCH_AGAIN}"))
        })?;
    let origin = path.display().to_string();
    let bytes = ArrayBytes { reader: &mut reader, origin: &origin, shape: &shape, width, room };
    let values = match magic[2] {
        0x08 => bytes.values(<[u8]>::to_vec),
        0x09 => bytes.values(|bytes| each(bytes, |[byte]| i64::from(byte.cast_signed()))),
        0x0b => bytes.values(|bytes| each(bytes, |bytes| i64::from(i16::from_be_bytes(bytes)))),
        0x0c => bytes.values(|bytes| each(bytes, |bytes| i64::from(i32::from_be_bytes(bytes)))),
        0x0d => bytes.values(|bytes| each(bytes, f32::from_be_bytes)),
        _ => bytes.values(|bytes| each(bytes, f64::from_be_bytes)),
    }?;
    Ok(Array { origin, shape, values })
}
