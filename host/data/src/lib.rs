//! Reads data sets, checks them for their owner before any release, and stores them as plain arrays. Above
//! [`DataOptions::data_memory`], they are in a file that each draw reads.
//!
//! [`load`] reads `KIND:PATH` with [`DataOptions`] and returns a [`Dataset`]. [`FORMATS`] lists the kinds. [`chunks`]
//! and [`Batch`] convert the samples drawn for a step to batches of one physical size.
//!
//! The modules from top to bottom, each using only modules after it:
//!
//! - `load`
//! - `formats`, with a file for each format
//! - `pictures` and `files`, which read images and bytes for the formats
//! - `rows`, from the rows of a file to samples
//! - `batches`
//! - `dataset`
//! - `options`
//! - `numbers`
//!
//! Private and public data in this crate:
//!
//! - Preprocessing uses only public constants. Bytes are scaled by 1/255. [`DataOptions::normalize`] is a mean and a
//!   standard deviation from the user. This crate does not compute anything from the samples. [`Batch::scaled_by`] uses
//!   released constants.
//! - The number of rows N is public. With [`OnBadRow::Drop`] a bad row keeps its index and becomes a null sample, which
//!   contributes nothing. N, the draw, the split and every other sample do not change. The number of bad rows is
//!   private, and this crate does not report it.
//! - The held-out rows follow from a public seed and the rows' positions alone ([`TestSource::Fraction`]). With
//!   [`DataOptions::stratify`] they also follow from the classes, which are then public.

// A build without a format has unused code of that format.
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
pub use formats::guess::{is_kind, with_kind};
pub use formats::sizes::{SampleSizes, sample_sizes};
pub use formats::{FORMATS, Format};
pub use load::{load, sample_shapes};
pub use numbers::constant;
pub use options::{
    ChannelLayout, DataOptions, ENGLISH, ENGLISH_FILE, InputShape, LabelKind, MemoryArray, MemoryArrays, MemorySplit,
    MemoryValues, Normalize, OnBadRow, Resize, TestSource, TextOptions, TextTask,
};

#[cfg(test)]
mod tests;
