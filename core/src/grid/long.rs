//! Samples that no cache holds: fewer passes over memory, the same bits.
//!
//! The norm of millions of coordinates, a sum of `f32`s in eight lanes, often comes out some 10⁻⁴ too small, and then the first scales fail.
//!
//! 1. A first pass takes the norm, and `Σ g_i²` and `Σ |g_i|` in short sums. These predict the squares at a scale `s`, `Σ q_i² ≈ s²·Σ g_i² −
//!    s·Σ |g_i| + D/3`, where truncation takes away what is uniform in a unit. So they predict the first scale that fits.
//! 2. A second pass adds the sample at that scale, and counts its squares at the scale before.
//!
//! The prediction chooses no bits: if the squares that were added exceed the bound, or those at the scale before do not, the sample is
//! taken out again and added as a short one.

use super::{LANES, OnGrid, RUN, Scale, SumWord, Word, add_bounded, quantise, quantise_run, squares};
use crate::clip::{Clip, Layer, Pieces, norm_of};
use crate::numerics::reduce::SumOfSquares;

/// Sums over the coordinates of a sample, of one pass.
pub(super) struct Measured {
    /// `Σ g_i²` as the norm has it.
    pub(super) norm_sq: f32,
    /// `Σ g_i²`, without that sum's bias.
    squares: f64,
    /// `Σ |g_i|`.
    sizes: f64,
    dim: usize,
}

impl Measured {
    /// Of the sample whose consecutive parts are `parts`, `dim` coordinates.
    #[inline(always)]
    pub(super) fn of(parts: &[&[f32]], dim: usize) -> Self {
        let mut norm_sq = SumOfSquares::default();
        let (mut squares, mut sizes) = (0.0, 0.0);
        for piece in Pieces::new(parts, 0, dim) {
            for run in piece.chunks(RUN) {
                norm_sq.add(run);
                let (mut of_run, mut lanes) = (SumOfSquares::default(), [0f32; LANES]);
                of_run.add(run);
                let blocks = run.chunks_exact(LANES);
                let rest = blocks.remainder();
                for block in blocks {
                    for (size, x) in lanes.iter_mut().zip(block) {
                        *size += x.abs();
                    }
                }
                for (size, x) in lanes.iter_mut().zip(rest) {
                    *size += x.abs();
                }
                squares += f64::from(of_run.total());
                for size in lanes {
                    sizes += f64::from(size);
                }
            }
        }
        Self { norm_sq: norm_sq.total(), squares, sizes, dim }
    }

    /// The squares of the integers at a scale, about.
    fn at(&self, scale: f32) -> f64 {
        let scale = f64::from(scale);
        scale * (scale * self.squares - self.sizes) + self.dim as f64 / 3.0
    }
}

impl<C: Clip> OnGrid<'_, C> {
    /// Adds the sample whose consecutive parts are `parts`, without layers; its norm, if that is finite.
    #[inline(always)]
    pub(super) fn add_long<W: Word>(&self, parts: &[&[f32]], sum: &mut [SumWord<W>]) -> Option<f32> {
        let measured = Measured::of(parts, sum.len());
        let norm = norm_of(measured.norm_sq)?;
        let scale = self.scale(Layer::whole(sum.len()), norm);
        // A rule that gives no number adds nothing.
        if scale.1.is_finite() {
            add_long(scale, &measured, &Pieces::new(parts, 0, sum.len()), sum);
        }
        Some(norm)
    }
}

/// As [`add_bounded`].
#[inline(always)]
pub(super) fn add_long<W: Word>(
    (units, first): (u32, f32),
    measured: &Measured,
    pieces: &Pieces<'_>,
    sum: &mut [SumWord<W>],
) {
    let bound = u64::from(units) * u64::from(units);
    let (mut scale, mut before) = (Scale::first(first), None);
    for _ in 0..Scale::TRIES {
        if measured.at(scale.scale) <= bound as f64 {
            break;
        }
        before = Some(scale.scale);
        scale = scale.next();
    }
    let (mut total, mut total_before) = (0u64, 0u64);
    let mut rest = &mut *sum;
    for piece in pieces.clone() {
        let (here, after) = rest.split_at_mut(piece.len().min(rest.len()));
        for (grads, sums) in piece.chunks(RUN).zip(here.chunks_mut(RUN)) {
            total = total.saturating_add(quantise_run(units as f32, scale.scale, grads, sums));
            if let Some(before) = before {
                total_before = total_before.saturating_add(squares(units, before, core::iter::once(grads)));
            }
        }
        rest = after;
    }
    if total > bound || before.is_some() && total_before <= bound {
        quantise(units, -scale.scale, pieces.clone(), sum);
        add_bounded((units, first), None, pieces.clone(), sum);
    }
}
