//! A file's bytes to a `ModelProto`, and back.

mod bytes;
mod external;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use prost::Message as _;
use prost::bytes::Buf;

use bytes::map;
pub use bytes::{LoadError, MAX_MODEL_BYTES};

use super::pb::ModelProto;
use super::source;

/// Reads a model, and the tensors that it keeps in files of its folder. Its tensors have the names of its source, as far as the file
/// records them. Weights of a large file stay in the file, which all copies of the model share, until they are used. Do not write to the file while they are; a file that takes its place does not matter.
///
/// # Errors
/// [`LoadError`], which names the file.
pub fn load(path: &Path) -> Result<ModelProto, LoadError> {
    let file = path.display().to_string();
    let unreadable = |error: io::Error| LoadError::Unreadable { file: file.clone(), reason: error.to_string() };
    let opened = File::open(path).map_err(unreadable)?;
    let is_small = opened.metadata().is_ok_and(|data| data.len() <= MAX_MODEL_BYTES);
    let bytes = match map(&opened).filter(|_| is_small) {
        Some(bytes) => bytes,
        None => {
            let mut bytes = Vec::new();
            opened.take(MAX_MODEL_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
            bytes.into()
        }
    };
    let mut model = read(file.clone(), bytes)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    external::read(&mut model, folder, &file)?;
    source::restore(&mut model);
    Ok(model)
}

/// Decodes a model; `file` is what errors call it.
///
/// # Errors
/// [`LoadError`], which names `file`.
pub fn decode(file: &str, bytes: &[u8]) -> Result<ModelProto, LoadError> {
    let mut model = read(file.to_string(), bytes)?;
    source::restore(&mut model);
    Ok(model)
}

/// Weights share the memory of `bytes` if that can be shared.
fn read(file: String, bytes: impl Buf) -> Result<ModelProto, LoadError> {
    if !bytes.has_remaining() {
        return Err(LoadError::Empty(file));
    }
    if bytes.remaining() as u64 > MAX_MODEL_BYTES {
        return Err(LoadError::TooLarge(file));
    }
    let Ok(model) = ModelProto::decode(bytes) else {
        return Err(LoadError::NotOnnx(file));
    };
    if model.graph.as_ref().is_none_or(|graph| graph.output.is_empty()) {
        return Err(LoadError::Incomplete { file, what: "graph" });
    }
    if model.opset_import.is_empty() {
        return Err(LoadError::Incomplete { file, what: "operator set" });
    }
    Ok(model)
}

/// Encodes a model.
pub fn encode(model: &ModelProto) -> Vec<u8> {
    model.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pb::{GraphProto, OperatorSetIdProto};
    use crate::{DType, Extent, make_node, make_value_info};

    fn model() -> ModelProto {
        let info = |name| make_value_info(name, DType::F32, &[Extent::Batch, Extent::Fixed(3)]);
        ModelProto {
            ir_version: 8,
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 17 }],
            graph: Some(GraphProto {
                node: vec![make_node("Tanh", "t", &["x"], &["y"], vec![])],
                input: vec![info("x")],
                output: vec![info("y")],
                ..GraphProto::default()
            }),
            ..ModelProto::default()
        }
    }

    #[test]
    fn an_encoded_model_decodes_to_itself() {
        assert_eq!(decode("m.onnx", &encode(&model())).unwrap(), model());
    }

    // The error for an invalid model names the file and the problem.
    #[test]
    fn invalid_model_error_names_file() {
        let missing = load(Path::new("no/such/model.onnx")).unwrap_err().to_string();
        assert!(missing.starts_with("no/such/model.onnx: cannot read the model"), "{missing}");
        assert_eq!(decode("m.onnx", &[]).unwrap_err().to_string(), "m.onnx: the file is empty: export the model again");
        let text = decode("m.onnx", b"not a protobuf file").unwrap_err().to_string();
        assert!(text.starts_with("m.onnx: not an ONNX model, or truncated"), "{text}");
        let bare = ModelProto { graph: None, ..model() };
        assert_eq!(
            decode("m.onnx", &encode(&bare)).unwrap_err(),
            LoadError::Incomplete { file: "m.onnx".into(), what: "graph" }
        );
        let bare = ModelProto { opset_import: vec![], ..model() };
        assert_eq!(
            decode("m.onnx", &encode(&bare)).unwrap_err(),
            LoadError::Incomplete { file: "m.onnx".into(), what: "operator set" }
        );
    }
}
