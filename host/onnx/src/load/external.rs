//! Reads external tensors into a model.
//!
//! A file must be in the model's folder or a subfolder. No two tensors may overlap partly in it, and it must contain
//! all of their bytes.

use super::bytes::{LoadError, map};
use crate::pb::tensor_proto::DataLocation;
use crate::pb::{GraphProto, ModelProto, TensorProto};
use prost::bytes::Bytes;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path};

/// Tensors below this size are copied.
const SMALL: usize = 1 << 20;

/// Maximum depth of nested subgraphs in the search.
const DEEPEST: usize = 32;

/// Reads the tensors of `model` that are in files of `folder`. Errors refer to the model as `file`.
pub(super) fn read(model: &mut ModelProto, folder: &Path, file: &str) -> Result<(), LoadError> {
    let Some(graph) = model.graph.as_mut() else { return Ok(()) };
    let mut files = Files { folder, model: file, read: HashMap::new(), taken: HashMap::new(), copies: HashMap::new() };
    of_graph(graph, &mut files, 0)
}

fn of_graph(graph: &mut GraphProto, files: &mut Files<'_>, depth: usize) -> Result<(), LoadError> {
    for tensor in &mut graph.initializer {
        files.fill(tensor)?;
    }
    for attribute in graph.node.iter_mut().flat_map(|node| &mut node.attribute) {
        if let Some(tensor) = &mut attribute.t {
            files.fill(tensor)?;
        }
        if let Some(inner) = attribute.g.as_mut().filter(|_| depth < DEEPEST) {
            of_graph(inner, files, depth + 1)?;
        }
    }
    Ok(())
}

struct Files<'a> {
    folder: &'a Path,
    model: &'a str,
    read: HashMap<String, Bytes>,
    /// Ranges of each file that tensors use.
    taken: HashMap<String, Vec<(usize, usize)>>,
    /// Copies of small ranges, each shared by all of its tensors.
    copies: HashMap<(String, usize, usize), Bytes>,
}

impl Files<'_> {
    fn fill(&mut self, tensor: &mut TensorProto) -> Result<(), LoadError> {
        if tensor.data_location != Some(DataLocation::External as i32) && tensor.external_data.is_empty() {
            return Ok(());
        }
        let entry = |key: &str| tensor.external_data.iter().find(|entry| entry.key == key).map(|entry| &*entry.value);
        let name = tensor.name.clone();
        let model = self.model;
        let wrong = |problem: String| LoadError::External { file: model.into(), tensor: name.clone(), problem };
        let location = entry("location").unwrap_or_default().to_owned();
        let number = |key: &str| match entry(key) {
            None => Ok(None),
            Some(text) => {
                let number =
                    text.parse::<usize>().map_err(|_| wrong(format!("its {key} '{text}' is no whole number")))?;
                Ok(Some(number))
            }
        };
        let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?);
        let bytes = self.bytes(&location).map_err(&wrong)?;
        let end = match length {
            Some(length) => offset.checked_add(length),
            None => Some(bytes.len()),
        };
        let end = end.filter(|&end| offset <= end && end <= bytes.len()).ok_or_else(|| {
            let wanted = length.map_or(String::new(), |length| format!("{length} bytes "));
            wrong(format!("it has {wanted}from byte {offset} of '{location}', which has {} bytes", bytes.len()))
        })?;
        let taken = self.taken.entry(location.clone()).or_default();
        let overlaps = |&(from, to): &(usize, usize)| (from, to) != (offset, end) && from < end && offset < to;
        if taken.iter().any(overlaps) {
            return Err(wrong(format!("its bytes {offset} to {end} of '{location}' are in part another tensor's")));
        }
        if !taken.contains(&(offset, end)) {
            taken.push((offset, end));
        }
        // A part in use keeps the whole file mapped.
        let data = bytes.slice(offset..end);
        tensor.raw_data = match data.len() < SMALL {
            true => {
                let copies = self.copies.entry((location, offset, end));
                copies.or_insert_with(|| Bytes::copy_from_slice(&data)).clone()
            }
            false => data,
        };
        tensor.external_data.clear();
        tensor.data_location = None;
        Ok(())
    }

    /// Bytes of the file at `location`.
    fn bytes(&mut self, location: &str) -> Result<Bytes, String> {
        if let Some(bytes) = self.read.get(location) {
            return Ok(bytes.clone());
        }
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        if location.is_empty() || !Path::new(location).components().all(is_plain) {
            return Err(format!("its file '{location}' is not in the model's folder"));
        }
        let missing = |error: std::io::Error| format!("its file '{location}' cannot be read ({error})");
        let folder = self.folder.canonicalize().map_err(missing)?;
        let path = self.folder.join(location).canonicalize().map_err(missing)?;
        if !path.starts_with(&folder) {
            return Err(format!("its file '{location}' is a link out of the model's folder"));
        }
        let opened = File::open(path).map_err(missing)?;
        let data = opened.metadata().map_err(missing)?;
        if !data.is_file() {
            return Err(format!("its file '{location}' is no plain file"));
        }
        let bytes = match map(&opened) {
            Some(bytes) => bytes,
            None => {
                let mut bytes = Vec::new();
                opened.take(data.len()).read_to_end(&mut bytes).map_err(missing)?;
                bytes.into()
            }
        };
        self.read.insert(location.to_owned(), bytes.clone());
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use crate::pb::tensor_proto::{DataLocation, DataType};
    use crate::pb::{GraphProto, ModelProto, OperatorSetIdProto, StringStringEntryProto, TensorProto, ValueInfoProto};
    use crate::{decode_tensor, encode, load};
    use std::path::PathBuf;

    /// Creates a folder with a file of the floats 0 to 3.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("damper-external-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let bytes: Vec<u8> = (0..4).flat_map(|x| (x as f32).to_le_bytes()).collect();
        std::fs::write(folder.join("weights.bin"), bytes).unwrap();
        folder
    }

    fn tensor(name: &str, location: &str, offset: &str, length: &str) -> TensorProto {
        let entries = [("location", location), ("offset", offset), ("length", length)];
        let entry = |(key, value): (&str, &str)| StringStringEntryProto { key: key.into(), value: value.into() };
        TensorProto {
            name: name.into(),
            dims: vec![2],
            data_type: DataType::Float as i32,
            data_location: Some(DataLocation::External as i32),
            external_data: entries.map(entry).into(),
            ..TensorProto::default()
        }
    }

    fn read(folder: &std::path::Path, initializer: Vec<TensorProto>) -> Result<ModelProto, String> {
        let graph = GraphProto { initializer, output: vec![ValueInfoProto::default()], ..GraphProto::default() };
        let model = ModelProto {
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 17 }],
            graph: Some(graph),
            ..ModelProto::default()
        };
        let path = folder.join("m.onnx");
        std::fs::write(&path, encode(&model)).unwrap();
        load(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn files_beside_model_are_read() {
        let folder = folder("read");
        let tensors = vec![tensor("a", "weights.bin", "0", "8"), tensor("b", "weights.bin", "8", "8")];
        let model = read(&folder, tensors).unwrap();
        let values = |at: usize| {
            let read = decode_tensor(&model.graph.as_ref().unwrap().initializer[at]).unwrap();
            read.as_f32().unwrap().to_vec()
        };
        assert_eq!([values(0), values(1)], [[0.0, 1.0], [2.0, 3.0]]);
        // Tensors with the same range share one copy.
        let tensors = vec![tensor("a", "weights.bin", "0", "8"), tensor("b", "weights.bin", "0", "8")];
        let graph = read(&folder, tensors).unwrap().graph.unwrap();
        assert_eq!(graph.initializer[0].raw_data.as_ptr(), graph.initializer[1].raw_data.as_ptr());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn other_files_and_ranges_are_errors() {
        let folder = folder("wrong");
        let error = |tensors: Vec<TensorProto>| read(&folder, tensors).unwrap_err();
        let one = |location: &str, offset: &str, length: &str| error(vec![tensor("a", location, offset, length)]);
        assert!(one("../weights.bin", "0", "8").contains("not in the model's folder"));
        assert!(one("/etc/hostname", "0", "8").contains("not in the model's folder"));
        assert!(one("none.bin", "0", "8").contains("cannot be read"));
        assert!(one("weights.bin", "12", "8").contains("8 bytes from byte 12 of 'weights.bin', which has 16 bytes"));
        assert!(one("weights.bin", "-1", "8").contains("'-1' is no whole number"));
        assert!(one("weights.bin", "9", "18446744073709551615").contains("which has 16 bytes"));
        let both = error(vec![tensor("a", "weights.bin", "0", "8"), tensor("b", "weights.bin", "4", "8")]);
        assert!(both.contains("tensor 'b'") && both.contains("another tensor's"), "{both}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
