//! Bytes of model files, and errors of unusable files.

use std::fs::File;

use prost::bytes::Bytes;

/// Maximum size of a model, which is the limit of protobuf.
pub const MAX_MODEL_BYTES: u64 = 1 << 31;

/// Error of a file that is not a usable ONNX model.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be opened or read.
    #[error("{file}: cannot read the model ({reason}): check the path")]
    Unreadable {
        /// Name of the file.
        file: String,
        /// Message of the system.
        reason: String,
    },
    /// The file is empty.
    #[error("{0}: the file is empty: export the model again")]
    Empty(String),
    /// The file is larger than the limit of protobuf.
    #[error("{0}: the file is larger than 2 GiB, which no ONNX model can be: check the path")]
    TooLarge(String),
    /// The bytes are not a protobuf message of this kind.
    #[error("{0}: not an ONNX model, or truncated: export it again with torch.onnx.export")]
    NotOnnx(String),
    /// The message has no graph or no opset.
    #[error("{file}: the model has no {what}, so it is not an ONNX model, or truncated: export it again")]
    Incomplete {
        /// Name of the file.
        file: String,
        /// Missing part.
        what: &'static str,
    },
    /// A tensor's data is in another file, which cannot be used.
    #[error(
        "{file}: tensor '{tensor}' keeps its data in another file: {problem}; put the files beside the model as they were exported"
    )]
    External {
        /// Name of the model file.
        file: String,
        /// Name of the tensor.
        tensor: String,
        /// Description of the problem.
        problem: String,
    },
}

/// Minimum size of a file that is memory-mapped.
const MAPPED: u64 = 32 << 20;

/// Memory-mapped bytes of a large regular file.
pub(super) fn map(file: &File) -> Option<Bytes> {
    let data = file.metadata().ok().filter(|data| data.is_file() && data.len() >= MAPPED)?;
    // SAFETY: the map is only read. A concurrent write changes weights, and truncation aborts the process, as `load`
    // documents. damper replaces files and never writes to existing files.
    let map = unsafe { memmap2::Mmap::map(file) }.ok()?;
    (map.len() as u64 == data.len()).then(|| Bytes::from_owner(map))
}
