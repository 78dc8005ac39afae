//! Data sets: read, checked by their owner before any release, and held as plain arrays, or beyond
//! [`DataOptions::data_memory`] in a file that is read for each draw.
//!
//! [`load`] reads `KIND:PATH` by [`DataOptions`] and returns a [`Dataset`]. [`FORMATS`] lists the kinds. [`chunks`] and [`Batch`] then turn
//! the samples drawn for a step into batches of the one physical size of a run.
//!
//! The rooms, from above to below: `load`; `formats`, a file for each format; `pictures` and `files`, which read images and bytes for them;
//! `rows`, from a file's rows to samples; `batches`; `dataset`; `options`; `numbers`. Each uses only those after it.
//!
//! What is private and what is public here:
//!
//! - Preprocessing uses public constants alone: bytes are scaled by 1/255, and [`DataOptions::normalize`] takes a mean
//!   and a standard deviation that the user knows in advance. Nothing is computed from the samples here;
//!   [`Batch::scaled_by`] takes what was released of them.
//! - The number of rows N is public. Under [`OnBadRow::Drop`] a bad row keeps its place and becomes a null sample,
//!   which contributes nothing: N, the draw, the split and every other sample are what they were. How many rows were
//!   bad is private, and nothing here reports it.
//! - The held-out rows follow from a public seed and the rows' positions alone ([`TestSource::Fraction`]); with
//!   [`DataOptions::stratify`] also from their classes, which are then public.

// A build without a format has the parts that this format alone uses.
#![cfg_attr(not(all(feature = "parquet", feature = "text")), allow(dead_code, unused_imports))]

mod batches;
mod data_names;
mod dataset;
mod error;
mod files;
mod formats;
mod load;
mod numbers;
mod options;
mod pictures;
mod rows;

pub use batches::{Augment, Batch, BatchLabels, Chunk, Motion, View, chunks};
pub use data_names::{DataNames, KnownNames, TableNames};
pub use dataset::{Dataset, Features, Labels, Numbers, Sample, Split, Stored, held_out_rows};
pub use error::DataError;
pub use files::catches_panics;
pub use formats::{FORMATS, Format};
pub use load::{load, sample_shapes};
pub use numbers::constant;
pub use options::{
    ChannelLayout, DataOptions, InputShape, LabelKind, MemoryArray, MemoryArrays, MemorySplit, MemoryValues, Normalize,
    OnBadRow, Resize, TestSource, TextOptions, TextTask,
};

#[cfg(test)]
mod tests;
