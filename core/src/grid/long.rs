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

use super::{
    BLOCK, LANES, OnGrid, RUN, Scale, SumWord, Word, add_bounded, add_squares, quantise, quantise_block, quantise_run,
};
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
                let [of_run, sizes_of_run] = norm_sq.add_measured(run);
                squares += f64::from(of_run);
                sizes += f64::from(sizes_of_run);
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
            let [squares, squares_before] = match before {
                Some(before) => quantise_counting(units as f32, [scale.scale, before], grads, sums),
                None => [quantise_run(units as f32, scale.scale, grads, sums), 0],
            };
            total = total.saturating_add(squares);
            total_before = total_before.saturating_add(squares_before);
        }
        rest = after;
    }
    if total > bound || before.is_some() && total_before <= bound {
        quantise(units, -scale.scale, pieces.clone(), sum);
        add_bounded((units, first), None, pieces.clone(), sum);
    }
}

/// As [`quantise_run`]; also `Σ q_i²` at a second scale, at which nothing is added.
#[inline(always)]
fn quantise_counting<W: Word>(unit: f32, [scale, other]: [f32; 2], grads: &[f32], sums: &mut [SumWord<W>]) -> [u64; 2] {
    let (mut grads, mut sums) = (grads, sums);
    let (mut lanes, mut counted) = ([0u64; LANES], [0u64; LANES]);
    while let Some((grad, more)) = grads.split_first_chunk() {
        let Some((sum, others)) = core::mem::take(&mut sums).split_first_chunk_mut() else { break };
        quantise_block::<W, BLOCK, LANES>(unit, scale, grad, sum, &mut lanes);
        add_squares(unit, other, grad, &mut counted);
        (grads, sums) = (more, others);
    }
    let (mut last, mut last_counted) = ([0], [0]);
    for (grad, sum) in grads.iter().zip(sums) {
        quantise_block(unit, scale, &[*grad], core::array::from_mut(sum), &mut last);
        add_squares(unit, other, &[*grad], &mut last_counted);
    }
    let mut totals = [last[0], last_counted[0]];
    // Squares are at most 2⁴⁴: those of a run fit with room to spare.
    for (squares, counted) in lanes.into_iter().zip(counted) {
        totals = [totals[0] + squares, totals[1] + counted];
    }
    totals
}
