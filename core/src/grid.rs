//! The exact path: gradients on an integer grid, with the clipping bound checked in integer arithmetic.
//!
//! A gradient `g` becomes `q_i = trunc(g_i · s)` with `s = 2^bits / divisor`. One grid unit stands for `C·2^-bits`. The
//! sum over samples is an integer sum, so it does not depend on their order or on their distribution over workers.
//!
//! # Numerics
//!
//! Let `n = F(√Σ g_i²)`, with the sum of [`sum_of_squares`](crate::numerics::reduce::sum_of_squares). Let `d` be the
//! clipping rule's divisor for `n`, and `u = 2^bits`:
//!
//! ```text
//! s = F(u/d)          q_i = trunc(F(g_i·s), at most u, at least −u)
//! ```
//!
//! If `s` is not finite, nothing is added. `s` and `g_i · s` are rounded, so `Σ q_i²` may exceed `u²`. It is computed
//! exactly, in integers, from the values that were summed. A sample that fails is subtracted, scaled down and added
//! again, until it passes: `s ← F(s·F(1 − h))`, `h ← 2h`, with `h = 2^-20` at first.
//!
//! Truncation moves each coordinate toward zero by half a unit on average. Samples of many coordinates therefore pass
//! at once. Choose `2^bits ≫ √D`. A layer is clipped like a separate gradient: lanes and blocks count from its first
//! coordinate, `u = ⌊s_l·2^bits⌋`, and its threshold is `F(C·s_l)`.
//!
//! The released mean is `F(F(sum + noise)·F(F(C/2^bits)/B))`.
//!
//! # Timing
//!
//! Coordinates affect values, not branches. A sample that fails the integer check is subtracted and added again, in
//! about three times the time. The time therefore depends on the sample. So do float operations on processors that
//! emulate them in software.
//!
//! # Privacy
//!
//! The contribution of one sample has an exact Euclidean norm of at most `C`. Sums wrap. Reduction modulo a power of
//! two is linear, so it is private and independent of order. Saturation or an overflow error would depend on the data.

mod streamed;
#[cfg(test)]
mod tests;

pub(crate) use streamed::StreamError;

use crate::clip::{AddLayer, Clip, Layer, Pieces, each_layer, norm};
use crate::error::{CallError, ConfigError, check_len};
use crate::numerics::round::truncate;
use crate::private::{ClippedSum, SumWord};

/// Integer type of a sum: `i32` on devices, `i64` on the host. Without overflow of `i32`, both give the same bits.
///
/// ```
/// use damper_core::grid::Word;
///
/// assert_eq!(i64::MAX.wrapping_add(1), i64::MIN);
/// assert_eq!(<i32 as Word>::wrap(1 << 32 | 5), 5);
/// assert_eq!(<i32 as Word>::load_released(<i32 as Word>::store_released(0.25)), 0.25);
/// assert_eq!(Word::to_f32((1i64 << 24) + 1), 16_777_216.0, "ties to even");
/// ```
pub trait Word: Copy + Default + PartialEq + core::fmt::Debug + sealed::SealedWord {
    /// Returns the sum modulo 2^bits.
    #[must_use]
    fn wrapping_add(self, other: Self) -> Self;
    /// Returns `x` modulo 2^bits.
    fn wrap(x: i64) -> Self;
    /// Returns the nearest float, ties to even.
    fn to_f32(self) -> f32;
    /// Returns a word with the bits of `x` in its low 32 bits.
    fn store_released(x: f32) -> Self;
    /// Returns the float in the low 32 bits.
    fn load_released(self) -> f32;
}

mod sealed {
    pub trait SealedWord {}
    impl SealedWord for i32 {}
    impl SealedWord for i64 {}
}

macro_rules! word {
    ($type:ty) => {
        impl Word for $type {
            #[inline(always)]
            fn wrapping_add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn wrap(x: i64) -> Self {
                x as Self
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                self as f32
            }
            #[inline(always)]
            fn store_released(x: f32) -> Self {
                x.to_bits() as Self
            }
            #[inline(always)]
            fn load_released(self) -> f32 {
                f32::from_bits(self as u32)
            }
        }
    };
}
word!(i32);
word!(i64);

/// Resolution of the grid: the clipping threshold is `2^bits` units.
///
/// ```
/// use damper_core::grid::Grid;
///
/// let grid = Grid::new(20)?;
/// assert_eq!((grid.bits(), grid.unit()), (20, 1 << 20));
/// // At 20 bits, sums of 32 bits hold batches of some hundreds.
/// assert!(!grid.may_overflow_i32(400, 1 << 20) && grid.may_overflow_i32(600, 1 << 20));
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grid {
    bits: u32,
}

/// Number of coordinates quantised at a time. It fills the registers of a processor with 128-bit SIMD. 1 without SIMD.
const BLOCK: usize = if cfg!(target_pointer_width = "64") { 16 } else { 1 };
/// Number of lanes in the sum of squares.
const LANES: usize = if BLOCK == 1 { 1 } else { 8 };
const RUN: usize = 1 << 12;
/// Number of samples added together.
const ABREAST: usize = 8;

impl Grid {
    /// Creates a grid on which the clip is `2^bits` units, for `bits` in `8..=22`.
    ///
    /// # Errors
    ///
    /// Fails if `bits` is out of range.
    pub fn new(bits: u32) -> Result<Self, ConfigError> {
        if (8..=22).contains(&bits) { Ok(Self { bits }) } else { Err(ConfigError::new("grid bits", "from 8 to 22")) }
    }

    /// Returns `2^bits`: the clip in grid units.
    #[must_use]
    pub fn unit(self) -> u32 {
        1 << self.bits
    }

    /// Returns `bits`.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// Returns true if `expected_batch` samples and noise of `sigma` units may approach the limits of `i32`.
    ///
    /// The criterion is `min(8·B, 4·B + 32)` aligned samples for an expected batch `B`, plus twelve standard deviations
    /// of noise. For `B` of 8 or more, a Poisson batch is that large with probability 2⁻¹¹¹ or less.
    #[must_use]
    pub fn may_overflow_i32(self, expected_batch: u32, sigma: u32) -> bool {
        let batch = u64::from(expected_batch);
        let samples = (8 * batch).min(4 * batch + 32).saturating_mul(self.unit().into());
        samples.saturating_add(12 * u64::from(sigma)) >= 1 << 31
    }

    /// Checks that `clip · 2^-bits`, the size of a grid unit, is a normal f32.
    pub(crate) fn check_clip(self, clip: f32) -> Result<(), ConfigError> {
        let step = clip / self.unit() as f32;
        if step.is_normal() && clip.is_finite() && step > 0.0 {
            Ok(())
        } else {
            Err(ConfigError::new("clip", "above 0, with clip / 2^bits a normal f32"))
        }
    }

    /// Returns the value of one grid unit of the sum in the released mean: `C · 2^-bits / B`.
    pub(crate) fn mean_unit(self, clip: f32, expected_batch: u32) -> f32 {
        clip / self.unit() as f32 / expected_batch as f32
    }

    /// Clips the gradient in consecutive `parts`, rounds it onto the grid and adds it to `sum` (`[D]`). Returns its
    /// norm before clipping. A gradient with a squared norm that is not a finite f32 adds exactly nothing.
    #[inline(always)]
    pub(crate) fn add_sample<C: Clip, W: Word>(
        self,
        clip: &C,
        threshold: f32,
        parts: &[&[f32]],
        sum: &mut [SumWord<W>],
    ) -> Option<f32> {
        each_layer(clip, parts, sum, &OnGrid { grid: self, clip, threshold })
    }

    /// Adds each of `samples` in turn, with the bits of [`add_sample`](Self::add_sample). Passes the norms to `each`.
    ///
    /// A run of the sum's coordinates stays in the cache for up to eight samples, so it is read and written once for
    /// them.
    #[inline(always)]
    pub(crate) fn add_samples<C: Clip, W: Word>(
        self,
        clip: &C,
        threshold: f32,
        samples: &[&[&[f32]]],
        sum: &mut [SumWord<W>],
        mut each: impl FnMut(Option<f32>),
    ) {
        if clip.layers().is_some() || samples.len() == 1 {
            // No closure here: it would be compiled without the processor's SIMD instructions.
            for parts in samples {
                each(self.add_sample(clip, threshold, parts, sum));
            }
            return;
        }
        let rule = OnGrid { grid: self, clip, threshold };
        let whole = Layer::whole(sum.len());
        for samples in samples.chunks(ABREAST) {
            // The scale of a sample that adds nothing stays infinite.
            let mut added = [(f32::INFINITY, 0u64); ABREAST];
            for (parts, (scale, _)) in samples.iter().zip(&mut added) {
                let norm = norm(parts, sum.len());
                each(norm);
                if let Some(norm) = norm {
                    *scale = rule.scale(whole, norm).1;
                }
            }
            let units = rule.units(whole);
            for (run, sum) in sum.chunks_mut(RUN).enumerate() {
                for (parts, (scale, total)) in samples.iter().zip(&mut added) {
                    if scale.is_finite() {
                        let pieces = Pieces::new(parts, run.wrapping_mul(RUN), sum.len());
                        *total = total.saturating_add(quantise(units, *scale, pieces, sum));
                    }
                }
            }
            for (parts, (scale, total)) in samples.iter().zip(added) {
                if scale.is_finite() {
                    add_bounded((units, scale), Some(total), Pieces::new(parts, 0, sum.len()), sum);
                }
            }
        }
    }

    /// Clips a gradient, rounds it onto the grid and passes each coordinate, in grid units, to `each`. Returns the norm
    /// before clipping.
    ///
    /// Without a finite norm, all coordinates are 0. `memory` (`[D]`) is wiped before and after, so no sum can be read
    /// from it.
    ///
    /// # Errors
    ///
    /// Fails if the clip cannot be represented, or the lengths of the gradient, the layers and the memory differ.
    ///
    /// ```
    /// use damper_core::{clip::FlatL2, grid::Grid, private::SumWord};
    ///
    /// let (mut memory, mut units) = ([SumWord::<i32>::ZERO; 2], vec![]);
    /// // Clipped from the norm 5 to 1, on a grid of 2¹⁰ units per clip.
    /// let norm = Grid::new(10)?.round_sample(&FlatL2, 1.0, &[&[3.0, -4.0]], &mut memory, |unit| units.push(unit))?;
    /// assert_eq!((norm, units), (Some(5.0), vec![614, -819]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn round_sample<C: Clip, W: Word>(
        self,
        clip: &C,
        threshold: f32,
        parts: &[&[f32]],
        memory: &mut [SumWord<W>],
        mut each: impl FnMut(W),
    ) -> Result<Option<f32>, CallError> {
        self.check_clip(threshold).map_err(|_| CallError::Clip)?;
        check_len("the gradient", memory.len(), parts.iter().fold(0, |len, part| part.len().saturating_add(len)))?;
        if let Some(layers) = clip.layers() {
            layers.check(memory.len())?;
        }
        let own = ClippedSum::new(memory);
        let norm = self.add_sample(clip, threshold, parts, own.sum);
        own.sum.iter().for_each(|word| each(word.0));
        Ok(norm)
    }
}

/// Clips to a threshold by a rule, and rounds onto a grid.
struct OnGrid<'a, C> {
    grid: Grid,
    clip: &'a C,
    threshold: f32,
}

impl<C: Clip, W: Word> AddLayer<SumWord<W>> for OnGrid<'_, C> {
    /// Adds `trunc(g_i · units/divisor)`, with a norm of at most `units` on the grid.
    // Not inlined on small targets, to save flash.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    fn add_layer(&self, layer: Layer, norm: f32, pieces: Pieces<'_>, sum: &mut [SumWord<W>]) {
        let (units, scale) = self.scale(layer, norm);
        // If the rule gives no finite scale, nothing is added.
        if scale.is_finite() {
            add_bounded((units, scale), None, pieces, sum);
        }
    }
}

impl<C: Clip> OnGrid<'_, C> {
    /// Returns the bound on a layer's norm, in grid units.
    #[inline(always)]
    fn units(&self, layer: Layer) -> u32 {
        layer.units(self.grid.bits)
    }

    /// Returns the bound on a layer's norm in grid units, and the scale of its coordinates.
    #[inline(always)]
    fn scale(&self, layer: Layer, norm: f32) -> (u32, f32) {
        let units = self.units(layer);
        (units, units as f32 / self.clip.divisor(norm, self.threshold * layer.share_f32()))
    }
}

/// Adds a layer at `scale`. While its norm exceeds `units`, subtracts it and adds it again at a smaller scale.
///
/// If the layer is already added, `added` is its sum of squares.
#[inline(always)]
fn add_bounded<W: Word>(
    (units, scale): (u32, f32),
    mut added: Option<u64>,
    pieces: Pieces<'_>,
    sum: &mut [SumWord<W>],
) {
    let bound = u64::from(units) * u64::from(units);
    let mut scale = Scale::first(scale);
    let mut taking_out = false;
    // Terminates: `shrink` doubles until it reaches 1, and then nothing is added.
    loop {
        // Truncation is symmetric, so the negated scale subtracts exactly what was added, and has the same squares.
        let signed = if taking_out { -scale.scale } else { scale.scale };
        // No closure, as above.
        let total = match added.take() {
            Some(total) => total,
            None => quantise(units, signed, pieces.clone(), sum),
        };
        if total <= bound {
            return;
        }
        if taking_out {
            scale = scale.next();
        }
        taking_out = !taking_out;
    }
}

/// Scale of a layer's coordinates, and the relative decrease to the next scale.
#[derive(Clone, Copy)]
struct Scale {
    scale: f32,
    shrink: f32,
}

impl Scale {
    #[inline(always)]
    fn first(scale: f32) -> Self {
        Self { scale, shrink: 1.0 / (1u32 << 20) as f32 }
    }

    #[inline(always)]
    fn next(self) -> Self {
        Self { scale: self.scale * (1.0 - self.shrink), shrink: self.shrink * 2.0 }
    }
}

/// Adds `trunc(g_i · scale)` to the sum. Returns `Σ q_i²` (saturating).
#[inline(always)]
fn quantise<'a, W: Word>(
    units: u32,
    scale: f32,
    parts: impl Iterator<Item = &'a [f32]>,
    sum: &mut [SumWord<W>],
) -> u64 {
    let mut total = 0u64;
    let mut rest = sum;
    for part in parts {
        let (here, after) = rest.split_at_mut(part.len().min(rest.len()));
        // Not `chunks`: if it is not inlined, it divides by the chunk length and may panic.
        let (mut grads, mut sums) = (part, here);
        while !(grads.is_empty() || sums.is_empty()) {
            let (grad, more) = grads.split_at(RUN.min(grads.len()));
            let (sum, others) = sums.split_at_mut(RUN.min(sums.len()));
            total = total.saturating_add(quantise_run(units as f32, scale, grad, sum));
            (grads, sums) = (more, others);
        }
        rest = after;
    }
    total
}

/// Returns `Σ q_i²` (saturating) as [`quantise`] does, and adds nothing.
#[inline(always)]
fn squares(units: u32, scale: f32, grads: &[f32]) -> u64 {
    let unit = units as f32;
    let mut total = 0u64;
    for grad in grads {
        let size = (grad * scale).abs();
        let magnitude = u64::from(truncate(if size > unit { unit } else { size }));
        total = total.saturating_add(magnitude * magnitude);
    }
    total
}

/// Quantises at most `RUN` coordinates, as [`quantise`] does.
#[inline(always)]
fn quantise_run<W: Word>(unit: f32, scale: f32, grads: &[f32], sums: &mut [SumWord<W>]) -> u64 {
    // Squares are at most 2⁴⁴, so those of a run do not overflow.
    let mut squares = [0u64; LANES];
    let (mut sums, last_sums) = sums.split_at_mut(sums.len() & !(BLOCK - 1));
    let (mut grads, last_grads) = grads.split_at(sums.len().min(grads.len()));
    while let Some((grad, more)) = grads.split_first_chunk() {
        let Some((sum, others)) = core::mem::take(&mut sums).split_first_chunk_mut() else { break };
        quantise_block::<W, BLOCK, LANES>(unit, scale, grad, sum, &mut squares);
        (grads, sums) = (more, others);
    }
    let mut total = [0];
    for (grad, sum) in last_grads.iter().zip(last_sums) {
        quantise_block(unit, scale, &[*grad], core::array::from_mut(sum), &mut total);
    }
    for square in squares {
        total[0] += square;
    }
    total[0]
}

/// Quantises `N` coordinates, as [`quantise`] does. Adds each square to its lane.
#[inline(always)]
fn quantise_block<W: Word, const N: usize, const L: usize>(
    unit: f32,
    scale: f32,
    grads: &[f32; N],
    sum: &mut [SumWord<W>; N],
    squares: &mut [u64; L],
) {
    // The compiler vectorises short loops over arrays, but not one combined loop.
    let (mut magnitudes, mut signs) = ([0u32; N], [0u32; N]);
    for ((magnitude, sign), grad) in magnitudes.iter_mut().zip(&mut signs).zip(grads) {
        let x = grad * scale;
        // Above `unit` only by rounding, or after underflow of a tiny norm.
        let size = x.abs();
        *magnitude = truncate(if size > unit { unit } else { size });
        *sign = (x.to_bits() as i32 >> 31) as u32;
    }
    for magnitudes in magnitudes.chunks_exact(L) {
        for (square, magnitude) in squares.iter_mut().zip(magnitudes) {
            *square += u64::from(*magnitude) * u64::from(*magnitude);
        }
    }
    for ((sum, magnitude), sign) in sum.iter_mut().zip(magnitudes).zip(signs) {
        let q = (magnitude ^ sign).wrapping_sub(sign) as i32;
        sum.0 = sum.0.wrapping_add(W::wrap(i64::from(q)));
    }
}
