//! Builds the batches of a step from the samples of a split.

mod augment;
mod batch;

pub use augment::{Augment, Motion, View};
pub use batch::{Batch, BatchLabels, Chunk, chunks};
