//! File access for the formats: bytes, arrays of bytes, lines.

mod array_bytes;
mod delimiter;
mod library_panics;
mod open;
mod quotation_marks;
mod record_lines;

pub(crate) use array_bytes::{ArrayBytes, each, elements};
pub(crate) use delimiter::check_delimiter;
pub use library_panics::catches_panics;
pub(crate) use library_panics::guarded;
pub(crate) use open::{DEFLATE_RATIO, FETCH_AGAIN, Source, open, open_plain, read_failed};
pub(crate) use quotation_marks::Quotes;
pub(crate) use record_lines::{Counted, LONGEST, LineStarts, too_long, without_mark};
