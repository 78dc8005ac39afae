//! The exact path: gradients on an integer grid, the clipping bound checked in integer arithmetic.
//!
//! A gradient `g` becomes `q_i = trunc(g_i · s)` with `s = 2^bits / divisor`, one grid unit standing for `C·2^-bits`. The sum
//! over samples is one of integers, so it does not depend on their order, nor on how they were spread over workers.
//!
//! # Numerics
//!
//! With `n = F(√Σ g_i²)`, the sum that of [`sum_of_squares`](crate::numerics::reduce::sum_of_squares), `d` the clipping rule's divisor for `n` and `u = 2^bits`:
//!
//! ```text
//! s = F(u/d)          q_i = trunc(F(g_i·s), at most u, at least −u)
//! ```
//!
//! Where `s` is not finite nothing is added. `s` and `g_i · s` round, so `Σ q_i²` may come out above `u²`. It is computed
//! exactly, in integers, on what was summed; a sample that fails is taken out again, shrunk, and added again: with
//! `h = 2^-20` at first, `s ← F(s·F(1 − h))`, `h ← 2h`, until it passes. Truncation pulls each coordinate toward zero by
//! half a unit on average, so samples of many coordinates pass at once: choose `2^bits ≫ √D`. A layer is clipped like a gradient of its own: lanes and blocks count from its first
//! coordinate, `u = ⌊s_l·2^bits⌋`, and its threshold is `F(C·s_l)`.
//!
//! The released mean is `F(F(sum + noise)·F(F(C/2^bits)/B))`.
//!
//! # Timing
//!
//! Coordinates choose values, not ways. A sample that fails the check of its integers is taken out and redone, in about three times
//! the time. So the time depends on the sample, and so do float operations where they are computed in software.
//!
//! # Privacy
//!
//! What one sample adds has an exact Euclidean norm of at most `C`. Sums wrap: reduction modulo a power of two is linear,
//! hence private and independent of order, while saturation or an overflow error would depend on the data.

mod streamed;
#[cfg(test)]
mod tests;

pub(crate) use streamed::StreamError;

use crate::clip::{AddLayer, Clip, Layer, Pieces, each_layer, norm};
use crate::error::{CallError, ConfigError, check_len};
use crate::numerics::round::truncate;
use crate::private::{ClippedSum, SumWord};

/// The integer a sum is kept in: `i32` on devices, `i64` on the host. Where nothing overflows `i32`, both give the same bits.
pub trait Word: Copy + Default + PartialEq + core::fmt::Debug + sealed::SealedWord {
    /// Sum modulo 2^bits.
    #[must_use]
    fn wrapping_add(self, other: Self) -> Self;
    /// `x` modulo 2^bits.
    fn wrap(x: i64) -> Self;
    /// Nearest float, ties to even.
    fn to_f32(self) -> f32;
    /// The word whose low 32 bits are a float's.
    fn store_released(x: f32) -> Self;
    /// The float of the low 32 bits.
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grid {
    bits: u32,
}

/// Coordinates quantised at a time: what fills the registers of a processor with 128-bit vectors; one where there are none.
const BLOCK: usize = if cfg!(target_pointer_width = "64") { 16 } else { 1 };
/// Coordinates whose squares are added in lanes.
const LANES: usize = if BLOCK == 1 { 1 } else { 8 };
const RUN: usize = 1 << 12;
/// Samples added abreast.
const ABREAST: usize = 8;

impl Grid {
    /// A grid on which the clip is `2^bits` units, `bits` in `8..=22`.
    ///
    /// # Errors
    ///
    /// `bits` out of range.
    pub fn new(bits: u32) -> Result<Self, ConfigError> {
        if (8..=22).contains(&bits) { Ok(Self { bits }) } else { Err(ConfigError::new("grid bits", "from 8 to 22")) }
    }

    /// `2^bits`: the clip in grid units.
    #[must_use]
    pub fn unit(self) -> u32 {
        1 << self.bits
    }

    /// `bits`.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// Returns true if `expected_batch` samples and noise of `sigma` units may come near the edge of `i32`: `min(8·B, 4·B + 32)` samples
    /// of an expected batch `B`, all aligned, plus twelve standard deviations. From `B` = 8 on a Poisson draw has that many or more with probability
    /// 2⁻¹¹¹ or less.
    #[must_use]
    pub fn may_overflow_i32(self, expected_batch: u32, sigma: u32) -> bool {
        let batch = u64::from(expected_batch);
        let samples = (8 * batch).min(4 * batch + 32).saturating_mul(self.unit().into());
        samples.saturating_add(12 * u64::from(sigma)) >= 1 << 31
    }

    /// The clip must be such that one grid unit is a normal f32.
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

    /// Clips the gradient whose consecutive parts are `parts`, rounds it onto the grid and adds it to `sum` (`[D]`); its
    /// norm before that. A gradient whose squared norm is not a finite f32 adds exactly nothing.
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

    /// As [`add_sample`](Self::add_sample) of each of `samples` in turn, with the same bits; the norms go to `each`. A run of coordinates of
    /// the sum stays near the processor while the samples go by, so that it is read and written once for up to eight of them.
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
            // Not by a closure: that would not be compiled for the processor's vectors.
            for parts in samples {
                each(self.add_sample(clip, threshold, parts, sum));
            }
            return;
        }
        let rule = OnGrid { grid: self, clip, threshold };
        let whole = Layer::whole(sum.len());
        for samples in samples.chunks(ABREAST) {
            // Of a sample that adds nothing the scale stays infinite.
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

    /// Clips the caller's gradient, rounds it onto the grid and passes each coordinate, in grid units, to `each`. Returns the norm before
    /// clipping; without a finite norm all coordinates are 0. `memory` (`[D]`) is wiped before and after: nothing of a sum is read.
    ///
    /// # Errors
    ///
    /// The clip cannot be represented, or the lengths of the gradient, the layers and the memory differ.
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

/// Clips by a rule to a threshold and rounds onto a grid.
struct OnGrid<'a, C> {
    grid: Grid,
    clip: &'a C,
    threshold: f32,
}

impl<C: Clip, W: Word> AddLayer<SumWord<W>> for OnGrid<'_, C> {
    /// Adds `trunc(g_i · units/divisor)`, whose norm is at most `units` on the grid.
    // Once where flash is short.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    fn add_layer(&self, layer: Layer, norm: f32, pieces: Pieces<'_>, sum: &mut [SumWord<W>]) {
        let (units, scale) = self.scale(layer, norm);
        // A rule that gives no number adds nothing.
        if scale.is_finite() {
            add_bounded((units, scale), None, pieces, sum);
        }
    }
}

impl<C: Clip> OnGrid<'_, C> {
    /// The bound of a layer's norm on the grid.
    #[inline(always)]
    fn units(&self, layer: Layer) -> u32 {
        layer.units(self.grid.bits)
    }

    /// The bound of a layer's norm on the grid, and the scale of its coordinates.
    #[inline(always)]
    fn scale(&self, layer: Layer, norm: f32) -> (u32, f32) {
        let units = self.units(layer);
        (units, units as f32 / self.clip.divisor(norm, self.threshold * layer.share_f32()))
    }
}

/// Adds a layer at `scale`, and takes it out and adds it again, shrunk, until its norm is at most `units`. If it is added already, `added`
/// has its squares.
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
    // The shrinking doubles up to the whole, at which nothing is added: it ends.
    loop {
        // Truncation is symmetric: the opposite takes out again what was added, and has the same squares.
        let signed = if taking_out { -scale.scale } else { scale.scale };
        // Not by a closure, as above.
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

/// A scale of a layer's coordinates, and by how much the next is smaller.
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

/// Adds `trunc(g_i · scale)` to the sum; returns `Σ q_i²` (saturating).
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
        // By hand: an iterator over chunks that is not made in place divides by their length, and may panic.
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

/// As [`quantise`], of at most `RUN` coordinates.
#[inline(always)]
fn quantise_run<W: Word>(unit: f32, scale: f32, grads: &[f32], sums: &mut [SumWord<W>]) -> u64 {
    // Squares are at most 2⁴⁴: those of a run fit with room to spare.
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

/// As [`quantise`], of `N` coordinates, each square added to its lane.
#[inline(always)]
fn quantise_block<W: Word, const N: usize, const L: usize>(
    unit: f32,
    scale: f32,
    grads: &[f32; N],
    sum: &mut [SumWord<W>; N],
    squares: &mut [u64; L],
) {
    // Short loops over arrays vectorise where one loop does not.
    let (mut magnitudes, mut signs) = ([0u32; N], [0u32; N]);
    for ((magnitude, sign), grad) in magnitudes.iter_mut().zip(&mut signs).zip(grads) {
        let x = grad * scale;
        // Within the units but for rounding, and where a tiny norm underflowed.
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
