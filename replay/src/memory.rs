//! The memory that a pack is played in.

use damper_core::noise::NoiseWord;
use damper_core::private::SumWord;

/// Memory to play in, the caller's. A run of `D` parameters takes of `floats` the `2·D` of parameters and a gradient (`4·D` where
/// it generates its samples) and what its filter and optimizer state in their pages; and sums, `D` or `2·D`: of `narrow` for sums of
/// i32, of `wide` for those of i64, of `float_sums` for those of f32. Correlated noise takes its buffers of `noise`.
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
