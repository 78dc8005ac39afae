//! The caller's memory for a pack.

use damper_core::noise::NoiseWord;
use damper_core::private::SumWord;

/// The caller's memory for a pack. A run of `D` parameters uses:
///
/// - Of `floats`, `2·D` for parameters and a gradient (`4·D` if it generates its samples), plus the documented sizes of
///   its filter and optimizer.
/// - `D` or `2·D` sums: of `narrow` for i32 sums, of `wide` for i64 sums, of `float_sums` for f32 sums.
/// - Of `noise`, the buffers of correlated noise.
pub struct Memory<'a> {
    /// Vectors of f32.
    pub floats: &'a mut [f32],
    /// Sums of i32.
    pub narrow: &'a mut [SumWord<i32>],
    /// Sums of i64.
    pub wide: &'a mut [SumWord<i64>],
    /// Sums of f32.
    pub float_sums: &'a mut [SumWord<f32>],
    /// Buffers of correlated noise.
    pub noise: &'a mut [NoiseWord],
}

/// A part of [`Memory`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryPart {
    /// [`Memory::floats`].
    Floats,
    /// [`Memory::narrow`].
    Narrow,
    /// [`Memory::wide`].
    Wide,
    /// [`Memory::float_sums`].
    FloatSums,
    /// [`Memory::noise`].
    Noise,
}
