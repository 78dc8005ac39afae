//! Files of models as bytes, and what may be wrong with them.

use std::fs::File;

use prost::bytes::Bytes;

/// The largest model that is read: protobuf itself holds no more.
pub const MAX_MODEL_BYTES: u64 = 1 << 31;

/// A file that is no usable ONNX model.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be opened or read.
    #[error("{file}: cannot read the model ({reason}): check the path")]
    Unreadable {
        /// The file.
        file: String,
        /// The system's message.
        reason: String,
    },
    /// No bytes.
    #[error("{0}: the file is empty: export the model again")]
    Empty(String),
    /// More bytes than protobuf can hold.
    #[error("{0}: the file is larger than 2 GiB, which no ONNX model can be: check the path")]
    TooLarge(String),
    /// The bytes are no protobuf message of this kind.
    #[error("{0}: not an ONNX model, or truncated: export it again with torch.onnx.export")]
    NotOnnx(String),
    /// A message without a graph or without an operator set.
    #[error("{file}: the model has no {what}, so it is not an ONNX model, or truncated: export it again")]
    Incomplete {
        /// The file.
        file: String,
        /// The missing part.
        what: &'static str,
    },
    /// A tensor whose data is in another file, which cannot be used.
    #[error(
        "{file}: tensor '{tensor}' keeps its data in another file: {problem}; put the files beside the model as they were exported"
    )]
    External {
        /// The model's file.
        file: String,
        /// The tensor.
        tensor: String,
        /// The problem.
        problem: String,
    },
}

/// Files of at least so many bytes are mapped.
const MAPPED: u64 = 32 << 20;

/// The bytes of a large regular file, in the file.
pub(super) fn map(file: &File) -> Option<Bytes> {
    let data = file.metadata().ok().filter(|data| data.is_file() && data.len() >= MAPPED)?;
    // SAFETY: the map is read alone. Whoever writes to the file meanwhile changes weights, and whoever cuts it ends the process, as `load`
    // states. damper replaces files and writes to none.
    let map = unsafe { memmap2::Mmap::map(file) }.ok()?;
    (map.len() as u64 == data.len()).then(|| Bytes::from_owner(map))
}
