//! The files of a run: checkpoints, ledgers, recordings, and the digest of its data.

pub(crate) mod checkpoint;
pub(crate) mod data_digest;
pub mod files;
pub mod model_file;
pub(crate) mod recording;
pub mod replay;
pub(crate) mod space;
pub(crate) mod store;
