//! The words of a private sum.

use core::fmt;

/// One word of a private sum. It has no accessor, no comparison and no conversion.
///
/// The owner of the memory can create, copy and drop words, but cannot read them. A forgotten step or shard therefore
/// leaves nothing that safe code can read.
///
/// The memory layout is that of `W` (`i32`, `i64` or `f32`).
///
/// ```
/// use damper_core::private::SumWord;
///
/// let memory = [SumWord::<i32>::ZERO; 3];
/// assert!(memory.iter().all(|word| format!("{word:?}") == format!("{:?}", memory[0])));
/// ```
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct SumWord<W>(pub(crate) W);

impl<W: Number> SumWord<W> {
    /// Word of an empty sum.
    pub const ZERO: Self = Self(W::ZERO);
}

/// Writes only the type's name, not the value.
impl<W> fmt::Debug for SumWord<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SumWord")
    }
}

/// Content of a word. The trait can be named only in this module.
pub trait Number {
    /// Zero.
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
