//! Data that a model keeps in other files: `torch.onnx.export` writes `model.onnx.data` beside `model.onnx`.
//!
//! A hostile model names any file. So only files inside the model's folder are read, links followed, and each tensor's bytes must be as
//! many as its shape says and belong to it alone.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use prost::bytes::Bytes;

use super::load::map;
use super::pb::tensor_proto::{DataLocation, DataType};
use super::pb::{ModelProto, TensorProto};

/// What is wrong with a tensor's data in another file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("tensor '{tensor}' keeps its data in '{location}', {problem}")]
pub struct ExternalError {
    /// The tensor.
    pub tensor: String,
    /// The file, as the model names it.
    pub location: String,
    /// What is wrong, and what to do.
    pub problem: String,
}

/// Where the data of a tensor is.
struct Place {
    location: String,
    offset: u64,
    length: u64,
}

/// Reads the data that `model`, read from `path`, keeps in other files. Large files are mapped.
///
/// # Errors
///
/// [`ExternalError`]: the file is outside the model's folder, cannot be read or is too short, or the bytes are not the tensor's own.
pub fn fill(model: &mut ModelProto, path: &Path) -> Result<(), ExternalError> {
    let mut files: HashMap<String, Bytes> = HashMap::new();
    let mut taken: HashMap<String, Vec<(u64, u64, String)>> = HashMap::new();
    let Some(graph) = model.graph.as_mut() else { return Ok(()) };
    let attributes =
        graph.node.iter_mut().flat_map(|node| &mut node.attribute).filter_map(|attribute| attribute.t.as_mut());
    for tensor in graph.initializer.iter_mut().chain(attributes).filter(|tensor| is_elsewhere(tensor)) {
        let name = tensor.name.clone();
        let entry =
            |key: &str| tensor.external_data.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_str());
        let location = entry("location").unwrap_or_default().to_string();
        let fault = |problem: String| ExternalError { tensor: name.clone(), location: location.clone(), problem };
        if !files.contains_key(&location) {
            files.insert(location.clone(), open(path, &location).map_err(fault)?);
        }
        let bytes = &files[&location];
        let place = place(tensor, &location, bytes.len() as u64).map_err(fault)?;
        let (first, end) = (place.offset, place.offset + place.length);
        let others = taken.entry(place.location).or_default();
        // Two tensors may be one and the same.
        let other = others.iter().find(|(a, b, _)| first < *b && *a < end && (first, end) != (*a, *b));
        if let Some((.., other)) = other {
            return Err(fault(format!(
                "bytes {first} to {end}, and some of them are those of '{other}': export the model again"
            )));
        }
        others.push((first, end, name.clone()));
        tensor.raw_data = bytes.slice(first as usize..end as usize);
        tensor.external_data.clear();
        tensor.data_location = None;
    }
    Ok(())
}

fn is_elsewhere(tensor: &TensorProto) -> bool {
    tensor.data_location == Some(DataLocation::External as i32)
}

/// The bytes of the file `location` in the folder of `model`.
fn open(model: &Path, location: &str) -> Result<Bytes, String> {
    let folder = model.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unreadable = |error: std::io::Error| format!("which cannot be read ({error}): keep it beside the model");
    if location.is_empty() {
        return Err("and names no file: export the model again".into());
    }
    let inside: PathBuf = folder.canonicalize().map_err(unreadable)?;
    let path = folder.join(location).canonicalize().map_err(unreadable)?;
    if !path.starts_with(&inside) || Path::new(location).is_absolute() {
        return Err("which is outside the model's folder: put it there, and name it by a relative path".into());
    }
    let file = File::open(&path).map_err(unreadable)?;
    if !file.metadata().is_ok_and(|data| data.is_file()) {
        return Err("which is no file: keep the file beside the model".into());
    }
    if let Some(bytes) = map(&file) {
        return Ok(bytes);
    }
    let mut bytes = Vec::new();
    { file }.read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes.into())
}

/// Where in a file of `size` bytes the tensor's data is.
fn place(tensor: &TensorProto, location: &str, size: u64) -> Result<Place, String> {
    let number = |key: &str| {
        let entry = tensor.external_data.iter().find(|entry| entry.key == key);
        entry.map(|entry| {
            entry
                .value
                .trim()
                .parse::<u64>()
                .map_err(|_| format!("and its {key} '{}' is no number: export the model again", entry.value))
        })
    };
    let offset = number("offset").transpose()?.unwrap_or(0);
    let width = width(tensor.data_type).ok_or("and has a type that is not read: export it as float32")?;
    let count = tensor.dims.iter().try_fold(1u64, |count, &extent| count.checked_mul(u64::try_from(extent).ok()?));
    let expected =
        count.and_then(|count| count.checked_mul(width)).ok_or("and has no valid shape: export the model again")?;
    let length = number("length").transpose()?.unwrap_or(expected);
    if length != expected {
        return Err(format!("{length} bytes, and its shape {:?} has {expected}: export the model again", tensor.dims));
    }
    match offset.checked_add(length) {
        Some(end) if end <= size => Ok(Place { location: location.into(), offset, length }),
        _ => Err(format!(
            "which has {size} bytes, and needs bytes {offset} to {}: copy it again",
            offset.saturating_add(length)
        )),
    }
}

/// The bytes of an element.
fn width(data_type: i32) -> Option<u64> {
    match DataType::try_from(data_type).ok()? {
        DataType::Double | DataType::Int64 | DataType::Uint64 => Some(8),
        DataType::Float | DataType::Int32 | DataType::Uint32 => Some(4),
        DataType::Float16 | DataType::Bfloat16 | DataType::Int16 | DataType::Uint16 => Some(2),
        DataType::Bool | DataType::Int8 | DataType::Uint8 => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pb::{GraphProto, OperatorSetIdProto, StringStringEntryProto, ValueInfoProto};
    use crate::{decode_tensor, encode, load};

    fn tensor(name: &str, entries: &[(&str, &str)]) -> TensorProto {
        let entry = |(key, value): &(&str, &str)| StringStringEntryProto { key: (*key).into(), value: (*value).into() };
        TensorProto {
            name: name.into(),
            dims: vec![2],
            data_type: DataType::Float as i32,
            data_location: Some(DataLocation::External as i32),
            external_data: entries.iter().map(entry).collect(),
            ..TensorProto::default()
        }
    }

    /// The values of the first tensor, or the message.
    fn read(folder: &Path, tensors: Vec<TensorProto>) -> Result<Vec<f32>, String> {
        let output = vec![ValueInfoProto { name: "y".into(), ..ValueInfoProto::default() }];
        let graph = GraphProto { initializer: tensors, output, ..GraphProto::default() };
        let opset = OperatorSetIdProto { version: 18, ..OperatorSetIdProto::default() };
        let model = ModelProto { graph: Some(graph), opset_import: vec![opset], ..ModelProto::default() };
        let path = folder.join("model.onnx");
        std::fs::write(&path, encode(&model)).unwrap();
        let model = load(&path).map_err(|error| error.to_string())?;
        Ok(decode_tensor(&model.graph.unwrap().initializer[0]).unwrap().as_f32().unwrap().to_vec())
    }

    #[test]
    fn data_beside_the_model_is_read_and_checked() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let bytes: Vec<u8> = [1.5f32, -2.0, 3.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        std::fs::write(inner.join("w.data"), &bytes).unwrap();
        std::fs::write(folder.path().join("secret"), &bytes).unwrap();
        let at = |entries: &[(&str, &str)]| read(&inner, vec![tensor("w", entries)]);
        assert_eq!(at(&[("location", "w.data"), ("offset", "4"), ("length", "8")]), Ok(vec![-2.0, 3.0]));
        assert_eq!(at(&[("location", "w.data")]), Ok(vec![1.5, -2.0]));
        for (entries, part) in [
            (vec![("location", "w.data"), ("offset", "8"), ("length", "8")], "has 12 bytes, and needs bytes 8 to 16"),
            (vec![("location", "w.data"), ("length", "4")], "4 bytes, and its shape [2] has 8"),
            (vec![("location", "w.data"), ("offset", "-4")], "its offset '-4' is no number"),
            (vec![("location", "w.data"), ("offset", "18446744073709551615")], "copy it again"),
            (vec![("location", "../secret")], "outside the model's folder"),
            (vec![("location", "none.data")], "cannot be read"),
            (vec![("location", ".")], "is no file"),
            (vec![], "names no file"),
        ] {
            let error = at(&entries).unwrap_err();
            assert!(error.contains("tensor 'w'") && error.contains(part), "{entries:?}: {error}");
        }
        let absolute = folder.path().join("secret").display().to_string();
        assert!(at(&[("location", &absolute)]).unwrap_err().contains("outside the model's folder"));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(folder.path().join("secret"), inner.join("link")).unwrap();
            assert!(at(&[("location", "link")]).unwrap_err().contains("outside the model's folder"));
        }
        // The same bytes may be one weight twice. Some of them are not.
        let pair = |offset: &str| {
            let first = tensor("w", &[("location", "w.data")]);
            read(&inner, vec![first, tensor("v", &[("location", "w.data"), ("offset", offset)])])
        };
        assert_eq!(pair("0"), Ok(vec![1.5, -2.0]));
        assert!(pair("4").unwrap_err().contains("some of them are those of 'w'"));
    }
}
