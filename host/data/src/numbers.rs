//! Numbers of files and settings, stored in memory or in a file.

mod constant;
mod file_values;
mod memory_or_file;
mod number;

pub use constant::constant;
pub(crate) use file_values::{FileValues, Room};
pub(crate) use memory_or_file::{Element, Held, Sink, Values};
pub(crate) use number::{Number, not_finite, rounded};
