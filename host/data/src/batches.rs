//! From the samples of a split to the batches of a step.

mod augment;
mod batch;

pub use augment::{Augment, Motion, View};
pub use batch::{Batch, BatchLabels, Chunk, chunks};
