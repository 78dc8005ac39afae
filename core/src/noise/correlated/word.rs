//! Words of noise buffers.

use core::fmt;

/// One word of the noise buffers. Like a [`SumWord`](crate::private::SumWord), it has no accessor, no comparison and no
/// conversion. It also has no copy: it is as secret as the key, and a stale copy would not be private.
///
/// ```compile_fail,E0616
/// fn peek(word: damper_core::noise::NoiseWord) -> i64 {
///     word.0
/// }
/// ```
///
/// ```compile_fail,E0382
/// use damper_core::noise::NoiseWord;
/// fn twice(word: NoiseWord) -> (NoiseWord, NoiseWord) {
///     (word, word)
/// }
/// ```
pub struct NoiseWord(pub(super) i64);

impl NoiseWord {
    /// Word of empty buffers.
    pub const ZERO: Self = Self(0);
}

impl Default for NoiseWord {
    fn default() -> Self {
        Self::ZERO
    }
}

/// Writes only the type's name, not the value.
impl fmt::Debug for NoiseWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NoiseWord")
    }
}
