//! The words of a private sum.

use core::fmt;

/// One word of a private sum. It has no accessor, no comparison and no conversion: whoever owns the memory of a sum can create,
/// copy and drop its words, and can read none. So a step or a shard that is forgotten leaves nothing that safe code reads.
///
/// The memory holds a `W` (`i32`, `i64` or `f32`), with the same layout.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct SumWord<W>(pub(crate) W);

impl<W: Number> SumWord<W> {
    /// The word of an empty sum.
    pub const ZERO: Self = Self(W::ZERO);
}

/// Writes the name alone, not the value.
impl<W> fmt::Debug for SumWord<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SumWord")
    }
}

/// The content of a word. Nameable in this module alone.
pub trait Number {
    /// Nothing.
    const ZERO: Self;
}

impl Number for i32 {
    const ZERO: Self = 0;
}

impl Number for i64 {
    const ZERO: Self = 0;
}

impl Number for f32 {
    const ZERO: Self = 0.0;
}
