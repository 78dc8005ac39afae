//! `npy:PATH`: one array, as `numpy.save` writes it. Its labels are another array, [`DataOptions::labels_file`].
//!
//! Element types: f2, f4, f8, bool, and signed and unsigned integers up to i8 and u8. Little-endian, C order.

use crate::dataset::Splits;
use crate::files::{ArrayBytes, FETCH_AGAIN, Source, each, elements, open, open_plain, read_failed};
use crate::numbers::Room;
use crate::rows::{Array, RawSplit, assemble};
use crate::{DataError, DataOptions, LabelKind};
use damper_onnx::SettingError;
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar};
use std::io::Read;
use std::path::Path;

/// Magic bytes of a file.
pub(super) const MAGIC: [u8; 6] = *b"\x93NUMPY";

/// Maximum size of an `.npy` header, checked before it is read. NumPy writes about a hundred bytes.
const MAX_HEADER: u64 = 1 << 16;

/// Maximum depth of brackets in a header. Parsing takes time exponential in the depth. NumPy writes depth 2, or 4 if
/// elements are records.
const DEEPEST: usize = 6;

pub(super) fn load(path: &Path, options: &DataOptions) -> Result<Splits, DataError> {
    let room = &options.room();
    let read = |path: &Path| {
        let mut magic = [0; 6];
        if open_plain(path)?.0.read_exact(&mut magic).is_ok() && magic.starts_with(b"PK") {
            let fault = "is an archive of arrays: use npz";
            return Err(DataError::File(format!("{}: {fault}:{0}", path.display())));
        }
        let Source { mut reader, limit } = open(path)?;
        reader.read_exact(&mut magic).map_err(|error| read_failed(path, &error))?;
        if magic != MAGIC {
            let fault = "is not a .npy file: save the array with numpy.save";
            return Err(DataError::File(format!("{}: {fault}", path.display())));
        }
        read_array(&mut magic.chain(reader), limit, path.display().to_string(), room)
    };
    let labels = match (&options.labels, &options.labels_file) {
        (LabelKind::None, _) => None,
        (_, Some(file)) => Some(read(file)?),
        (_, None) => {
            let problem = "npy holds one array; name the file of the labels, such as y.npy";
            return Err(SettingError::new("labels", "", problem).into());
        }
    };
    Ok((assemble(RawSplit::new(vec![read(path)?], labels), options)?, None))
}

/// Returns the maximum depth of open brackets.
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

/// Reads one array of at most `limit` bytes. Memory is bounded by the existing bytes, regardless of the header.
pub(super) fn read_array(entry: &mut dyn Read, limit: u64, origin: String, room: &Room) -> Result<Array, DataError> {
    let refuse = |fault: String| DataError::File(format!("{origin}: {fault}"));
    let (header, shape) = read_header(entry, &origin)?;
    let (kind, width) = element(&header).ok_or_else(|| {
        refuse(format!(
            "has elements of type {}: save it as float32, float64, uint8 or int64, little-endian (x.astype('<f4'))",
            header.dtype().descr()
        ))
    })?;
    if header.order() == Order::Fortran && shape.len() > 1 {
        return Err(refuse("is in Fortran order: save numpy.ascontiguousarray of it".into()));
    }
    if elements(&shape, width).is_none_or(|count| (count * width) as u64 > limit) {
        return Err(refuse(format!("declares the shape {shape:?}, more than the file can hold: {FETCH_AGAIN}")));
    }

    let bytes = ArrayBytes { reader: entry, origin: &origin, shape: &shape, width, room };
    let values = match (kind, width) {
        (TypeChar::Float, 2) => bytes.values(|bytes| each(bytes, |half| from_half(u16::from_le_bytes(half)))),
        (TypeChar::Float, 4) => bytes.values(|bytes| each(bytes, f32::from_le_bytes)),
        (TypeChar::Float, _) => bytes.values(|bytes| each(bytes, f64::from_le_bytes)),
        (TypeChar::Uint, 1) => bytes.values(<[u8]>::to_vec),
        (TypeChar::Uint, 8) => bytes.values(|bytes| each(bytes, u64::from_le_bytes)),
        (kind, width) => bytes.values(|bytes| integers(kind, width, bytes)),
    }?;
    Ok(Array { origin, shape, values })
}

/// Converts IEEE 754 half precision to f32 exactly.
fn from_half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    match exponent {
        0 => sign * fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1024.0 + fraction) * 2f32.powi(exponent - 25),
    }
}

fn integers(kind: TypeChar, width: usize, bytes: &[u8]) -> Vec<i64> {
    match (kind, width) {
        (TypeChar::Bool, _) => each(bytes, |[byte]: [u8; 1]| i64::from(byte != 0)),
        (TypeChar::Int, 1) => each(bytes, |bytes| i64::from(i8::from_le_bytes(bytes))),
        (TypeChar::Int, 2) => each(bytes, |bytes| i64::from(i16::from_le_bytes(bytes))),
        (TypeChar::Int, 4) => each(bytes, |bytes| i64::from(i32::from_le_bytes(bytes))),
        (TypeChar::Uint, 2) => each(bytes, |bytes| i64::from(u16::from_le_bytes(bytes))),
        (TypeChar::Uint, 4) => each(bytes, |bytes| i64::from(u32::from_le_bytes(bytes))),
        _ => each(bytes, i64::from_le_bytes),
    }
}

/// Reads the header of one array, and returns it with the extents.
pub(super) fn read_header(entry: &mut dyn Read, origin: &str) -> Result<(NpyHeader, Vec<usize>), DataError> {
    let refuse = |fault: String| DataError::File(format!("{origin}: {fault}"));
    let broken = |error: std::io::Error| read_failed(Path::new(origin), &error);
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
        return Err(refuse(format!("has a header of tuples within tuples, which NumPy does not write: {FETCH_AGAIN}")));
    }
    let header = NpyHeader::from_reader(start.chain(&text[..])).map_err(broken)?;
    let shape: Vec<usize> = header
        .shape()
        .iter()
        .map(|extent| usize::try_from(*extent))
        .collect::<Result<_, _>>()
        .map_err(|_| refuse(format!("declares the shape {:?}: {FETCH_AGAIN}", header.shape())))?;
    Ok((header, shape))
}

/// Returns the extents of the array at `path`.
pub(super) fn shape(path: &Path) -> Result<Vec<usize>, DataError> {
    let Source { mut reader, .. } = open(path)?;
    Ok(read_header(&mut reader, &path.display().to_string())?.1)
}

/// Returns kind and width of the elements, if their type is supported.
fn element(header: &NpyHeader) -> Option<(TypeChar, usize)> {
    let DType::Plain(plain) = header.dtype() else {
        return None;
    };
    let (kind, width) = (plain.type_char(), plain.num_bytes()?);
    let readable = matches!(
        (kind, width),
        (TypeChar::Float, 2 | 4 | 8) | (TypeChar::Int | TypeChar::Uint, 1 | 2 | 4 | 8) | (TypeChar::Bool, 1)
    );
    (readable && matches!(plain.endianness(), Endianness::Little | Endianness::Irrelevant)).then_some((kind, width))
}
