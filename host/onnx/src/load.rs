//! Reads a `ModelProto` from the bytes of a file.

mod bytes;
mod external;
mod stream;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use prost::Message as _;
use prost::bytes::Buf;

pub use bytes::{LoadError, MAX_MODEL_BYTES};
use stream::Stream;

use super::pb::ModelProto;
use super::source;

/// Reads a model, and its external tensors from files in the same folder. The tensors get the names of the source, as
/// far as the file records them. All copies of the model share the memory of its weights. Weights in other large files
/// stay memory-mapped. Do not write to those files while the model is in use. Replacing them is safe.
///
/// # Errors
/// [`LoadError`], which names the file.
pub fn load(path: &Path) -> Result<ModelProto, LoadError> {
    let file = path.display().to_string();
    let unreadable = |error: io::Error| LoadError::Unreadable { file: file.clone(), reason: error.to_string() };
    let opened = File::open(path).map_err(unreadable)?;
    let data = opened.metadata().map_err(unreadable)?;
    if data.len() > MAX_MODEL_BYTES {
        return Err(LoadError::TooLarge(file));
    }
    let mut model = if data.is_file() {
        let mut stream = Stream::new(opened, data.len() as usize);
        let model = read(file.clone(), &mut stream);
        stream.end().map_err(unreadable)?;
        model?
    } else {
        let mut bytes = Vec::new();
        opened.take(MAX_MODEL_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        read(file.clone(), &bytes[..])?
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    external::read(&mut model, folder, &file)?;
    source::restore(&mut model);
    Ok(model)
}

/// Decodes a model. Errors refer to it as `file`.
///
/// # Errors
/// [`LoadError`], which names `file`.
pub fn decode(file: &str, bytes: &[u8]) -> Result<ModelProto, LoadError> {
    let mut model = read(file.to_string(), bytes)?;
    source::restore(&mut model);
    Ok(model)
}

/// Copies each tensor to separate memory because floats may be unaligned within a message.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pb::{GraphProto, OperatorSetIdProto};
    use crate::{DType, Extent, encode, make_node, make_value_info};

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
