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
//! `h = 2^-20` at first, `s ← F(s·F(1 − h))`, `h ← 2h`, until it passes. `F` and truncation are monotone, so a scale fails if a smaller
//! one does: on processors with vectors the scales up to one that fails are left out, with the same result. Truncation pulls each coordinate toward zero by
//! half a unit on average: choose `2^bits ≫ √D`. A layer is clipped like a gradient of its own: lanes count from its first
//! coordinate, `u = ⌊s_l·2^bits⌋`, and its threshold is `F(C·s_l)`.
//!
//! The released mean is `F(F(sum + noise)·F(F(C/2^bits)/B))`.
//!
//! # Timing
//!
//! Coordinates choose values, not ways. A sample that fails the check of its integers is taken out and redone, in about three times
//! the time: that depends on the sample, and so do float operations where they are computed in software.
//!
//! # Privacy
//!
//! What one sample adds has an exact Euclidean norm of at most `C`. Sums wrap: reduction modulo a power of two is linear,
//! hence private and independent of order, while saturation or an overflow error would depend on the data.

mod streamed;

pub(crate) use streamed::StreamError;

use crate::clip::{AddLayer, Clip, Layer, Pieces, each_layer, norm};
use crate::error::{CallError, ConfigError, check_len};
use crate::mutant::{self, Mutant};
use crate::numerics::round::truncate;
use crate::numerics::scalar::sqrt;
use crate::private::{ClippedSum, SumWord};

/// The integer a sum is kept in: `i32` on devices, `i64` on the host. Where nothing overflows `i32`, both give the same bits.
pub trait Word: Copy + Default + PartialEq + core::fmt::Debug + sealed::Sealed {
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
    pub trait Sealed {}
    impl Sealed for i32 {}
    impl Sealed for i64 {}
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

    /// Returns true if `expected_batch` samples and noise of `sigma` units may come near the edge of `i32`: eight times the
    /// batch, all aligned, plus twelve standard deviations.
    #[must_use]
    pub fn may_overflow_i32(self, expected_batch: u32, sigma: u32) -> bool {
        let samples = u64::from(expected_batch).saturating_mul(8 * u64::from(self.unit()));
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
        if clip.layers().is_some() {
            samples.iter().for_each(|parts| each(self.add_sample(clip, threshold, parts, sum)));
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
        layer.units(self.grid.bits) << u32::from(mutant::is(Mutant::ClipDoubled))
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
    let mut scale = Scale { scale, shrink: 1.0 / (1u32 << 20) as f32 };
    let mut taking_out = false;
    // The shrinking doubles up to the whole, at which nothing is added: it ends.
    loop {
        // Truncation is symmetric: the opposite takes out again what was added, and has the same squares.
        let signed = if taking_out { -scale.scale } else { scale.scale };
        // Not by a closure: that would not be compiled for the processor's vectors.
        let total = match added.take() {
            Some(total) => total,
            None => quantise(units, signed, pieces.clone(), sum),
        };
        if total <= bound || mutant::is(Mutant::RoundOutward) || mutant::is(Mutant::NonFiniteAdds) {
            return;
        }
        if taking_out {
            // On devices gradients are short, and code is.
            scale = if BLOCK == 1 { scale.next() } else { scale.next_that_may_fit((units, bound), total, &pieces) };
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
    /// Scales that are tried after one another, at most.
    const TRIES: usize = 24;

    #[inline(always)]
    fn next(self) -> Self {
        Self { scale: self.scale * (1.0 - self.shrink), shrink: self.shrink * 2.0 }
    }

    /// The first of the next scales at which the squares may be within the bound, after this one gave `total`: the norm of millions of
    /// coordinates is often some 10⁻⁴ too small. The squares do not grow as the scale shrinks, for products round and truncate
    /// monotonically: if they exceed the bound at one scale, they do at each before it. So one count replaces trying them all.
    #[inline(always)]
    fn next_that_may_fit(self, (units, bound): (u32, u64), total: u64, pieces: &Pieces<'_>) -> Self {
        let wanted = f64::from(self.scale) * sqrt(bound as f64 / total as f64);
        let mut tries = [self.next(); Self::TRIES];
        let mut last = tries[0];
        for scale in tries.iter_mut().skip(1) {
            last = last.next();
            *scale = last;
        }
        let mut first = tries.iter().take_while(|scale| f64::from(scale.scale) > wanted).count();
        while let Some(before) = first.checked_sub(1).and_then(|before| tries.get(before)) {
            if squares(units, before.scale, pieces.clone()) > bound {
                break;
            }
            first -= 1;
        }
        tries.get(first).copied().unwrap_or(last)
    }
}

/// `Σ q_i²` (saturating) of `q_i = trunc(g_i · scale)`; nothing is added.
#[inline(always)]
fn squares<'a>(units: u32, scale: f32, parts: impl Iterator<Item = &'a [f32]>) -> u64 {
    let mut nowhere = [SumWord(0i32); 1 << 10];
    let mut total = 0u64;
    for part in parts {
        for grads in part.chunks(1 << 10) {
            let (here, _) = nowhere.split_at_mut(grads.len().min(1 << 10));
            total = total.saturating_add(quantise_run(units as f32, scale, grads, here));
        }
    }
    total
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
        *magnitude = mutant::magnitude(truncate(if size > unit { unit } else { size }), size);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clip::{FlatL2, Layers, PerLayer};
    use crate::numerics::function::sqrt_f32;
    use proptest::prelude::*;

    extern crate std;
    use std::vec;
    use std::vec::Vec;

    fn added(bits: u32, clip: f32, parts: &[&[f32]]) -> Vec<i64> {
        let mut sum = vec![SumWord(0i64); parts.iter().map(|p| p.len()).sum()];
        Grid::new(bits).unwrap().add_sample(&FlatL2, clip, parts, &mut sum);
        sum.into_iter().map(|word| word.0).collect()
    }

    fn square(q: &[i64]) -> u128 {
        q.iter().map(|q| u128::from(q.unsigned_abs()).pow(2)).sum()
    }

    /// Gradients that have tried to slip past a bound: one coordinate, equal coordinates, powers of two, huge, tiny, mixed.
    pub(super) fn adversarial() -> impl Strategy<Value = Vec<f32>> {
        let any_finite = prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL | prop::num::f32::ZERO;
        let plain = prop::collection::vec(-2f32..2.0, 1..40);
        prop_oneof![
            prop::collection::vec(any_finite, 1..20),
            plain,
            (1usize..5000, -1e3f32..1e3).prop_map(|(n, x)| vec![x; n]),
            (1usize..30, -30i32..30).prop_map(|(n, e)| vec![(e as f32).exp2(); n]),
            (0usize..9, -1e-3f32..1e-3).prop_map(|(n, x)| {
                let mut v = vec![x; 9];
                v[n] = 1.0;
                v
            }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn sample_adds_at_most_the_clip(
            grad in adversarial(), bits in 8u32..=22, clip in prop_oneof![1e-30f32..1e-20, 1e-3f32..10.0, 1e20f32..1e30],
        ) {
            prop_assert!(square(&added(bits, clip, &[&grad])) <= 1u128 << (2 * bits));
        }

        // The grid point is the clipped gradient to within one unit, and never longer.
        #[test]
        fn grid_point_is_within_one_unit(
            grad in prop::collection::vec(-2f32..2.0, 1..40), clip in 1e-2f32..10.0,
        ) {
            let norm = grad.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
            let factor = (f64::from(clip) / norm).min(1.0) * f64::from(1u32 << 20) / f64::from(clip);
            for (q, g) in added(20, clip, &[&grad]).iter().zip(&grad) {
                let exact = f64::from(*g) * factor;
                prop_assert!((*q as f64 - exact).abs() <= 1.0 + exact.abs() * 4e-6, "{q} {exact}");
                prop_assert!(q.unsigned_abs() as f64 <= exact.abs() * (1.0 + 1e-6));
            }
        }

        #[test]
        fn parts_add_what_the_whole_adds(grad in adversarial(), cut in 0usize..5000) {
            let cut = cut.min(grad.len());
            prop_assert_eq!(added(20, 1.0, &[&grad]), added(20, 1.0, &[&grad[..cut], &grad[cut..]]));
        }

        #[test]
        fn non_finite_sample_adds_nothing(
            grad in adversarial(), at in 0usize..5000,
            bad in prop::sample::select(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30][..]),
        ) {
            let mut grad = grad;
            let at = at % grad.len();
            grad[at] = bad;
            prop_assert!(added(20, 1.0, &[&grad]).iter().all(|q| *q == 0));
        }

        // Samples added abreast have the bits and norms of samples added in turn: of any number, with any parts, where some are not finite
        // and some are shrunk, with every clip rule.
        #[test]
        fn samples_abreast_have_bits_of_samples_in_turn(
            grads in prop::collection::vec(adversarial(), 0..20), len in 1usize..5000, cut in 0usize..5000,
            threshold in prop_oneof![1e-30f32..1e-20, 1e-3f32..10.0],
        ) {
            let grads: Vec<Vec<f32>> = grads.iter().map(|grad| grad.iter().copied().cycle().take(len).collect()).collect();
            let cut = cut.min(len);
            let parts: Vec<[&[f32]; 2]> = grads.iter().map(|grad| [&grad[..cut], &grad[cut..]]).collect();
            let samples: Vec<&[&[f32]]> = parts.iter().map(|parts| &parts[..]).collect();
            let layers = [Layer::equal(cut, 2), Layer::equal(len - cut, 2)];
            let layered = PerLayer::new(FlatL2, Layers::new(&layers).unwrap()).unwrap();
            let grid = Grid::new(20).unwrap();
            fn same<C: Clip>(grid: Grid, clip: &C, threshold: f32, samples: &[&[&[f32]]], len: usize) -> Result<(), TestCaseError> {
                let (mut abreast, mut in_turn) = (vec![SumWord(3i64); len], vec![SumWord(3i64); len]);
                let mut norms = vec![];
                grid.add_samples(clip, threshold, samples, &mut abreast, |norm| norms.push(norm));
                let want: Vec<_> =
                    samples.iter().map(|parts| grid.add_sample(clip, threshold, parts, &mut in_turn)).collect();
                prop_assert_eq!(norms, want);
                prop_assert!(abreast.iter().zip(&in_turn).all(|(a, b)| a.0 == b.0));
                Ok(())
            }
            same(grid, &FlatL2, threshold, &samples, len)?;
            same(grid, &layered, threshold, &samples, len)?;
        }

        // Scales that are left out would not have fitted: the scale found is the first of the sequence, whatever norm it began with.
        #[test]
        fn scale_is_first_that_fits(grad in adversarial(), n in 1usize..5000, bits in 8u32..=22, low in 0f32..0.9) {
            let grad: Vec<f32> = grad.iter().copied().cycle().take(n).collect();
            let (units, norm) = (1u32 << bits, sqrt_f32(crate::numerics::reduce::sum_of_squares([&grad[..]].into_iter())));
            // A norm that is too small.
            let scale = units as f32 / (norm * (1.0 - low * low * low * low * low * low));
            prop_assume!(scale.is_finite());
            let (parts, bound) = ([&grad[..]], 1u64 << (2 * bits));
            let mut plain = Scale { scale, shrink: 1.0 / (1u32 << 20) as f32 };
            let mut want = vec![SumWord(5i64); n];
            while squares(units, plain.scale, parts.into_iter()) > bound {
                plain = plain.next();
            }
            quantise(units, plain.scale, parts.into_iter(), &mut want);
            for added in [false, true] {
                let mut found = vec![SumWord(5i64); n];
                let total = added.then(|| quantise(units, scale, parts.into_iter(), &mut found));
                add_bounded((units, scale), total, Pieces::new(&parts, 0, n), &mut found);
                prop_assert!(found.iter().zip(&want).all(|(a, b)| a.0 == b.0), "{} {}", scale, plain.scale);
            }
        }

        // Sums in i32 and i64 agree below overflow.
        #[test]
        fn i32_and_i64_sums_agree(grad in adversarial()) {
            let grid = Grid::new(20).unwrap();
            let mut narrow = vec![SumWord(0i32); grad.len()];
            grid.add_sample(&FlatL2, 1.0, &[&grad], &mut narrow);
            let wide = added(20, 1.0, &[&grad]);
            prop_assert!(narrow.iter().zip(&wide).all(|(n, w)| i64::from(n.0) == *w && n.0.to_f32().to_bits() == w.to_f32().to_bits()));
        }
    }

    /// Whatever the memory held is neither read nor kept.
    #[test]
    fn a_rounded_sample_is_what_it_adds() {
        let (grid, grad) = (Grid::new(20).unwrap(), [0.3f32, -2.0, 0.5]);
        let mut memory = [SumWord(7i64); 3];
        let mut found = vec![];
        let norm = grid.round_sample(&FlatL2, 1.0, &[&grad[..1], &grad[1..]], &mut memory, |q| found.push(q));
        assert_eq!(norm, Ok(Some(sqrt_f32(4.34))));
        assert_eq!(found, added(20, 1.0, &[&grad]));
        assert!(memory.iter().all(|word| word.0 == 0));
    }

    #[test]
    fn misfits_round_no_sample() {
        let grid = Grid::new(20).unwrap();
        let layers = [Layer::equal(2, 1)];
        let layered = PerLayer::new(FlatL2, Layers::new(&layers).unwrap()).unwrap();
        let none = |_: i64| panic!("a coordinate of a sample that does not fit");
        let memory = &mut [SumWord::ZERO; 3];
        assert_eq!(grid.round_sample(&FlatL2, 0.0, &[&[1.0; 3]], memory, none), Err(CallError::Clip));
        assert!(grid.round_sample(&FlatL2, 1.0, &[&[1.0; 2]], memory, none).is_err());
        assert!(grid.round_sample(&layered, 1.0, &[&[1.0; 3]], memory, none).is_err());
    }

    /// Squares that underflow give too small a norm: the sample is shrunk until it is within the clip, and not to nothing.
    #[test]
    fn a_norm_that_underflowed_is_made_up_for() {
        let mut shrunk = 0;
        for (size, n) in [(2.7e-23f32, 9), (1e-22, 30), (1e-22, 700), (4e-23, 5000), (6e-23, 3)] {
            let grad: Vec<f32> =
                (0..n).map(|i| if i % 3 == 0 { -size } else { size * (1.0 + i as f32 / 4e4) }).collect();
            let norm = grad.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
            let found = f64::from(crate::numerics::reduce::sum_of_squares([&grad[..]].into_iter())).sqrt();
            for bits in [16, 20, 22] {
                let q = added(bits, 1e-23, &[&grad]);
                let (square, bound) = (square(&q) as f64, f64::from(1u32 << bits).powi(2));
                assert!(square <= bound, "{size} {n} {bits}: {square}");
                if norm < 3.0 * found {
                    assert!(square > 0.1 * bound, "{size} {n} {bits}: {square} of {bound}");
                    assert!(q.iter().zip(&grad).all(|(q, g)| (*q > 0) == (*g > 0.0) && *q != 0));
                    shrunk += u32::from(norm > 1.001 * found);
                }
            }
        }
        assert!(shrunk >= 3, "{shrunk}");
    }

    #[test]
    fn what_is_longer_than_the_sum_is_left_out() {
        for (len, kept) in [(5, 3), (40, 33), (3, 5), (9000, 8190)] {
            let mut sum = vec![SumWord(0i64); kept];
            let part = vec![2.75f32; len];
            let shared = len.min(kept);
            assert_eq!(quantise(64, 4.0, [&part[..]].into_iter(), &mut sum), 121 * shared as u64);
            assert!(sum.iter().enumerate().all(|(i, sum)| sum.0 == if i < shared { 11 } else { 0 }));
        }
    }

    #[test]
    fn sums_wrap_and_do_not_depend_on_order() {
        let grid = Grid::new(22).unwrap();
        let mut forward = [SumWord(i32::MAX - 5)];
        let mut backward = [SumWord(i32::MAX - 5)];
        let samples: Vec<f32> = (1..200).map(|i| 1.0 / i as f32).collect();
        for x in &samples {
            grid.add_sample(&FlatL2, 1.0, &[&[*x]], &mut forward);
        }
        for x in samples.iter().rev() {
            grid.add_sample(&FlatL2, 1.0, &[&[*x]], &mut backward);
        }
        assert_eq!(forward[0].0, backward[0].0);
        assert!(forward[0].0 < 0);
    }

    // The warning about i32 comes before any sum can overflow.
    #[test]
    fn i32_warning_precedes_overflow() {
        let grid = Grid::new(20).unwrap();
        assert!(!grid.may_overflow_i32(200, 1 << 20));
        assert!(grid.may_overflow_i32(256, 1 << 20));
        assert!(grid.may_overflow_i32(1, 1 << 28));
        // Twice the expected batch, all aligned, and ten standard deviations still fit where there is no warning.
        assert!(2 * 200 * i64::from(grid.unit()) + 10 * (1 << 20) < i64::from(i32::MAX));
    }
}
