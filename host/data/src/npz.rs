//! `npz:PATH`: arrays as `numpy.savez` and `numpy.savez_compressed` write them.
//!
//! Features are the array `x_train`, or `x` (or `X`) where there is no such array; labels `y_train` or `y`; the test
//! split, if there is one, `x_test` and `y_test`. Other names by [`DataOptions::arrays`]. A model with several inputs
//! takes its features from arrays of the inputs' names. Element types: f4, f8, u1, bool, and the integers up to i8; C
//! order.

use super::array::{Array, DEFLATE_RATIO, FETCH_AGAIN, Values, elements, open_plain, read_failed};
use super::assemble::{Raw, assemble};
use super::{DataError, DataOptions, LabelKind, Split};
use npyz::{DType, Endianness, NpyFile, NpyHeader, Order, TypeChar};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use zip::ZipArchive;

/// Longer `.npy` headers are refused before they are read; NumPy's own are about a hundred bytes.
const MAX_HEADER: u64 = 1 << 16;

/// So are headers of more brackets within brackets, which would be parsed in time exponential in their number; NumPy's own have 2, and
/// 4 where elements are records.
const DEEPEST: usize = 6;

pub(super) fn load(path: &Path, options: &DataOptions) -> Result<(Split, Option<Split>), DataError> {
    let (file, len) = open_plain(path)?;
    let mut archive = Archive {
        path: path.to_path_buf(),
        len,
        zip: ZipArchive::new(BufReader::new(file)).map_err(|error| {
            DataError::File(format!("{}: is not a readable .npz archive ({error}): {FETCH_AGAIN}", path.display()))
        })?,
    };
    let features = archive.feature_names(options);
    let labels = match (&options.labels, &options.arrays) {
        (LabelKind::None, _) => None,
        (_, Some((_, labels))) => Some(labels.clone()),
        (_, None) => Some("y".to_string()),
    };
    let suffix = if archive.has(&format!("{}_train", features[0])) { "_train" } else { "" };
    let train = archive.split(&features, labels.as_deref(), suffix, options)?;
    let test = if archive.has(&format!("{}_test", features[0])) {
        Some(archive.split(&features, labels.as_deref(), "_test", options)?)
    } else {
        None
    };
    Ok((train, test))
}

/// Brackets that are open at once, at most.
fn depth(header: &[u8]) -> usize {
    let (mut open, mut deepest) = (0usize, 0);
    for byte in header {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest
}

struct Archive {
    path: PathBuf,
    len: u64,
    zip: ZipArchive<BufReader<File>>,
}

impl Archive {
    fn has(&self, name: &str) -> bool {
        self.names().any(|other| other == name)
    }

    /// The names of the arrays.
    fn names(&self) -> impl Iterator<Item = String> {
        self.zip.file_names().flatten().filter_map(|name| name.strip_suffix(".npy").map(str::to_owned))
    }

    fn feature_names(&self, options: &DataOptions) -> Vec<String> {
        if options.inputs.len() > 1 {
            return options.inputs.iter().map(|input| input.name.clone()).collect();
        }
        let name = match &options.arrays {
            Some((features, _)) => features,
            None if ["x", "x_train"].iter().any(|name| self.has(name)) => "x",
            None if ["X", "X_train"].iter().any(|name| self.has(name)) => "X",
            None => "x",
        };
        vec![name.to_string()]
    }

    fn split(
        &mut self,
        features: &[String],
        labels: Option<&str>,
        suffix: &str,
        options: &DataOptions,
    ) -> Result<Split, DataError> {
        let features =
            features.iter().map(|name| self.array(&format!("{name}{suffix}"))).collect::<Result<Vec<_>, _>>()?;
        let labels = labels.map(|name| self.array(&format!("{name}{suffix}"))).transpose()?;
        assemble(Raw::new(features, labels), options)
    }

    /// Reads one array. Memory is bounded by what the archive's entry can hold, whatever its headers say.
    fn array(&mut self, name: &str) -> Result<Array, DataError> {
        if !self.has(name) {
            let mut names: Vec<String> = self.names().take(20).map(|name| format!("'{name}'")).collect();
            names.sort();
            return Err(DataError::File(format!(
                "{}: has no array '{name}'; it has {}: rename the array, or name the arrays to use",
                self.path.display(),
                if names.is_empty() { "none".into() } else { names.join(", ") }
            )));
        }
        let origin = format!("{}, array '{name}'", self.path.display());
        let refuse = |fault: String| DataError::File(format!("{origin}: {fault}"));
        let broken = |error: std::io::Error| read_failed(Path::new(&origin), &error);
        let mut entry = self
            .zip
            .by_name(&format!("{name}.npy"))
            .map_err(|error| refuse(format!("cannot be read ({error}): {FETCH_AGAIN}")))?;
        let limit = entry.size().min(self.len.saturating_mul(DEFLATE_RATIO));

        let mut start = [0; 12];
        entry.read_exact(&mut start[..10]).map_err(broken)?;
        let long = start[6] > 1;
        if long {
            entry.read_exact(&mut start[10..]).map_err(broken)?;
        }
        let header_len = if long {
            u64::from(u32::from_le_bytes([start[8], start[9], start[10], start[11]]))
        } else {
            u64::from(u16::from_le_bytes([start[8], start[9]]))
        };
        if header_len > MAX_HEADER {
            return Err(refuse(format!("has a header of {header_len} bytes: {FETCH_AGAIN}")));
        }
        let start = if long { &start[..] } else { &start[..10] };
        let mut text = vec![0; header_len as usize];
        entry.read_exact(&mut text).map_err(broken)?;
        if depth(&text) > DEEPEST {
            return Err(refuse(format!(
                "has a header of tuples within tuples, which NumPy does not write: {FETCH_AGAIN}"
            )));
        }
        let header = NpyHeader::from_reader(start.chain(&text[..])).map_err(broken)?;
        let shape: Vec<usize> = header
            .shape()
            .iter()
            .map(|extent| usize::try_from(*extent))
            .collect::<Result<_, _>>()
            .map_err(|_| refuse(format!("declares the shape {:?}: {FETCH_AGAIN}", header.shape())))?;
        let (kind, width) = element(&header).ok_or_else(|| {
            refuse(format!(
                "has elements of type {}: save it as float32, float64, uint8 or int64",
                header.dtype().descr()
            ))
        })?;
        if header.order() == Order::Fortran && shape.len() > 1 {
            return Err(refuse("is in Fortran order: save numpy.ascontiguousarray of it".into()));
        }
        if elements(&shape, width).is_none_or(|count| (count * width) as u64 > limit) {
            return Err(refuse(format!("declares the shape {shape:?}, more than the archive can hold: {FETCH_AGAIN}")));
        }

        let data = NpyFile::with_header(header, &mut entry);
        let wide = |values: std::io::Result<Vec<i64>>| values.map(Values::I64);
        let values = match (kind, width) {
            (TypeChar::Float, 4) => data.into_vec().map(Values::F32),
            (TypeChar::Float, _) => data.into_vec().map(Values::F64),
            (TypeChar::Uint, 1) => data.into_vec().map(Values::U8),
            (TypeChar::Bool, _) => wide(data.into_vec::<bool>().map(widen)),
            (TypeChar::Int, 1) => wide(data.into_vec::<i8>().map(widen)),
            (TypeChar::Int, 2) => wide(data.into_vec::<i16>().map(widen)),
            (TypeChar::Int, 4) => wide(data.into_vec::<i32>().map(widen)),
            (TypeChar::Uint, 2) => wide(data.into_vec::<u16>().map(widen)),
            (TypeChar::Uint, 4) => wide(data.into_vec::<u32>().map(widen)),
            _ => wide(data.into_vec::<i64>()),
        }
        .map_err(broken)?;
        // Reading on to the end also has the archive's checksum compared.
        match entry.read(&mut [0]).map_err(broken)? {
            0 => Ok(Array { origin, shape, values }),
            _ => Err(refuse(format!("goes on after the shape {shape:?} that it declares: {FETCH_AGAIN}"))),
        }
    }
}

fn widen<T: Into<i64>>(values: Vec<T>) -> Vec<i64> {
    values.into_iter().map(Into::into).collect()
}

/// Kind and width of the elements, where they are of a type that can be read.
fn element(header: &NpyHeader) -> Option<(TypeChar, usize)> {
    let DType::Plain(plain) = header.dtype() else {
        return None;
    };
    let (kind, width) = (plain.type_char(), plain.num_bytes()?);
    let readable = matches!(
        (kind, width),
        (TypeChar::Float, 4 | 8) | (TypeChar::Int, 1 | 2 | 4 | 8) | (TypeChar::Uint, 1 | 2 | 4) | (TypeChar::Bool, 1)
    );
    (readable && matches!(plain.endianness(), Endianness::Little | Endianness::Irrelevant)).then_some((kind, width))
}
