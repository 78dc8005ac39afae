//! Products of matrices, `Y[r, o] = Σ_k X[r, k] · W[k, o] + B[o]`, with weights that change from step to step.
//!
//! Outputs are in the lanes, and a tile of rows by outputs is summed in registers. Weights are packed in blocks of
//! outputs, as many at a time as stay in the cache while all rows are computed. Packing costs no more than a comparison
//! with the weights of the previous call, so packed weights are not stored. Rows of weights are often a power of two
//! apart, which would cause cache conflicts. Packed weights are contiguous and aligned to cache lines. If it is
//! cheaper, transposed weights take the role of a few rows: `Yᵀ = Wᵀ · Xᵀ`. Rows stored as columns are also packed, one
//! tile at a time. They need no transpose.
//!
//! Memory: packed weights, at most 256 KiB and a block (of 32 outputs in the widest SIMD). If rows and weights swap
//! roles, also a second copy of the few rows and their outputs. For columns, those of a tile.
//!
//! Numerics: each entry is one running sum over the terms in order, with fused multiply-adds if the processor supports
//! them, and then the bias. Its bits depend on the row, the parameters and the kind of processor, but not on other rows
//! or the SIMD width.

use crate::simd::{Aligned, MAX_LANES, SimdCall, SimdKernel, fetch, turn};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Rows of a tile, limited by the number of registers: for the widest SIMD or one register of outputs, and for two
/// registers otherwise.
const ROWS: usize = 12;
const FEWER_ROWS: usize = 6;

/// Number of weights packed at a time.
const NEAR: usize = 1 << 16;

/// Maximum number of floats in a tile's rows for which the next tile's rows are prefetched. Both should stay in the
/// first-level cache.
const FETCHED: usize = 1 << 12;

/// Floats in a cache line.
const LINE: usize = 16;

/// Cost of transposing a float, in products per lane. Transposing it back costs twice as much.
const PACKING: usize = 5;

/// Product of a session, with its memory.
#[derive(Debug)]
pub struct SimdProduct {
    terms: usize,
    outputs: usize,
    transposed: bool,
    /// True if rows are stored as columns: `x` is `[terms, rows]`.
    of_columns: bool,
    /// Packed weights `[blocks of outputs, terms, outputs of a block]`, or packed rows if roles are swapped. Blocks are
    /// [`apart`] from each other.
    packed: Aligned,
    /// Outputs `[outputs, rows]`, if weights have the role of rows. Otherwise `[terms, rows]` of a tile of columns, or
    /// a few columns as rows.
    across: Aligned,
}

impl SimdProduct {
    /// Product of rows of `terms` entries with weights `[terms, outputs]`, or `[outputs, terms]` if `transposed`. Both
    /// sizes must be at least 1.
    pub fn new([terms, outputs]: [usize; 2], transposed: bool) -> Self {
        Self { terms, outputs, transposed, of_columns: false, packed: Aligned::default(), across: Aligned::default() }
    }

    /// Product of rows stored as columns, `[terms, rows]`, with weights `[terms, outputs]`. Both sizes must be at least
    /// 1.
    pub fn of_columns(sizes: [usize; 2]) -> Self {
        Self { of_columns: true, ..Self::new(sizes, false) }
    }

    /// Returns true if it is cheaper for transposed weights to take the role of this many rows.
    fn changes_places(&self, rows: usize, lanes: usize) -> bool {
        let Self { terms, outputs, .. } = *self;
        let stay = terms * (outputs.next_multiple_of(lanes) * rows + outputs * PACKING);
        let change = terms * outputs * rows.next_multiple_of(lanes) + (terms + 2 * outputs) * rows * PACKING;
        rows <= 2 * lanes && change < stay
    }

    /// Computes with weights `[outputs, terms]` as rows.
    #[inline(always)]
    fn places_changed<S: Simd>(&mut self, simd: S, x: &[f32], weights: &[f32], bias: Option<&[f32]>, y: &mut [f32]) {
        let Self { terms, outputs, .. } = *self;
        let rows = y.len() / outputs;
        let wide = rows.next_multiple_of(S::F32_LANES);
        let packed = self.packed.of_len(terms * wide);
        turn_block::<S>(x, [rows, terms], packed);
        let across = self.across.of_len(outputs * wide);
        let sizes = [terms, wide];
        simd.vectorize(Rows { x: weights, panel: &mut [], packed, within: 0..wide, bias: None, y: across, sizes });
        turn(across, y, [outputs, rows], [wide, outputs]);
        if let Some(bias) = bias {
            for y in y.chunks_exact_mut(outputs) {
                for (y, bias) in y.iter_mut().zip(bias) {
                    *y += bias;
                }
            }
        }
    }

    /// Computes groups of outputs whose weights stay in the cache.
    #[inline(always)]
    fn by_groups<S: Simd>(&mut self, simd: S, x: &[f32], weights: &[f32], bias: Option<&[f32]>, y: &mut [f32]) {
        let Self { terms, outputs, transposed, of_columns, .. } = *self;
        let rows = y.len() / outputs;
        let block = 2 * S::F32_LANES;
        let near = (NEAR / terms).max(1).next_multiple_of(block);
        for first in (0..outputs).step_by(near) {
            let within = first..outputs.min(first + near);
            let blocks = within.len().div_ceil(block);
            let packed = self.packed.of_len(blocks * apart::<S>(terms));
            if transposed {
                for (output, packed) in within.clone().step_by(block).zip(packed.chunks_mut(apart::<S>(terms))) {
                    turn_block::<S>(&weights[output * terms..], [block.min(within.end - output), terms], packed);
                }
            } else {
                pack(simd, weights, [terms, outputs], within.clone(), packed);
            }
            let (x, panel): (_, &mut [f32]) = if !of_columns {
                (x, &mut [])
            } else if rows >= ROWS {
                (x, self.across.of_len(ROWS * terms))
            } else {
                let turned = self.across.of_len(rows * terms);
                turn(x, turned, [terms, rows], [rows, terms]);
                (&*turned, &mut [])
            };
            simd.vectorize(Rows { x, panel, packed, within, bias, y, sizes: [terms, outputs] });
        }
    }
}

/// Packs `[lines, terms]` to a block `[terms, lines]` of full registers. Their unused lanes are never read.
#[inline(always)]
fn turn_block<S: Simd>(from: &[f32], [lines, terms]: [usize; 2], block: &mut [f32]) {
    // Constant strides make the transpose faster.
    if lines > S::F32_LANES {
        turn(from, block, [lines, terms], [terms, 2 * S::F32_LANES]);
    } else {
        turn(from, block, [lines, terms], [terms, S::F32_LANES]);
    }
}

/// Distance between blocks, in floats: a block and a cache line. Strides of a power of two would cause cache conflicts
/// when blocks are packed together.
#[inline(always)]
fn apart<S: Simd>(terms: usize) -> usize {
    2 * S::F32_LANES * terms + MAX_LANES
}

/// Packs the outputs `within` of weights `[terms, outputs]` to blocks, line by line in the original order. Unused lanes
/// are never read.
#[inline(always)]
fn pack<S: Simd>(simd: S, weights: &[f32], [terms, outputs]: [usize; 2], within: Range<usize>, packed: &mut [f32]) {
    let (block, whole) = (2 * S::F32_LANES, within.len() / (2 * S::F32_LANES));
    // Of a partial block: one register, or two.
    let wide = (within.len() % block).next_multiple_of(S::F32_LANES);
    for (term, line) in weights.chunks_exact(outputs).enumerate().take(terms) {
        let line = &line[within.clone()];
        for (from, into) in line.chunks_exact(block).zip(packed.chunks_exact_mut(apart::<S>(terms))) {
            let into = S::as_mut_simd_f32s(&mut into[term * block..][..block]).0;
            into.copy_from_slice(S::as_simd_f32s(from).0);
        }
        let rest = &line[whole * block..];
        let into = &mut packed[whole * apart::<S>(terms) + term * wide..];
        for (from, into) in rest.chunks(S::F32_LANES).zip(S::as_mut_simd_f32s(into).0) {
            *into = simd.partial_load_f32s(from);
        }
    }
}

/// Computation of the outputs `within` for all rows.
struct Rows<'a> {
    x: &'a [f32],
    /// Memory for a tile's rows, `[terms, M]`, if they are stored as columns. Otherwise empty.
    panel: &'a mut [f32],
    /// Blocks, [`apart`] from each other.
    packed: &'a [f32],
    within: Range<usize>,
    bias: Option<&'a [f32]>,
    y: &'a mut [f32],
    /// Number of terms and outputs.
    sizes: [usize; 2],
}

impl Rows<'_> {
    /// Computes the `M` rows from `row` on.
    #[inline(always)]
    fn tile_of_rows<S: Simd, const M: usize>(&mut self, simd: S, row: usize) {
        let terms = self.sizes[0];
        let (x, after) = self.x[row * terms..].split_at(M * terms);
        let after = after[..x.len().min(after.len())].iter().step_by(LINE);
        self.tile::<S, M, false>(simd, row, x, after);
    }

    /// Computes the `M` columns from `row` on.
    #[inline(always)]
    fn tile_of_columns<S: Simd, const M: usize>(&mut self, simd: S, row: usize) {
        let lines = self.x.chunks_exact(self.y.len() / self.sizes[1]);
        let panel = std::mem::take(&mut self.panel);
        for (line, rows) in lines.clone().zip(panel.as_chunks_mut().0) {
            *rows = *line[row..].first_chunk::<M>().expect("a tile's rows");
        }
        let after = lines.map(|line| &line[line.len().min(row + 2 * M) - 1]);
        self.tile::<S, M, true>(simd, row, &panel[..M * self.sizes[0]], after);
        self.panel = panel;
    }

    /// Computes the `M` rows of `x` from `row` on, or the same rows stored as columns. Meanwhile prefetches `after`.
    #[inline(always)]
    fn tile<'f, S: Simd, const M: usize, const COLUMNS: bool>(
        &mut self,
        simd: S,
        row: usize,
        x: &[f32],
        mut after: impl ExactSizeIterator<Item = &'f f32>,
    ) {
        let [terms, outputs] = self.sizes;
        let blocks = self.within.clone().step_by(2 * S::F32_LANES);
        let fetches = x.len() <= FETCHED && self.y.len() > 2 * S::F32_LANES * outputs;
        let part = after.len().div_ceil(blocks.len());
        for first in blocks {
            let count = (2 * S::F32_LANES).min(self.within.end - first);
            let block = &self.packed[(first - self.within.start) / (2 * S::F32_LANES) * apart::<S>(terms)..];
            // −0 is the neutral element of addition, also for −0.
            let mut biases = [-0.0; 2 * MAX_LANES];
            if let Some(bias) = self.bias {
                biases[..count].copy_from_slice(&bias[first..][..count]);
            }
            let (bias, y, sizes) = (&biases, &mut self.y[row * outputs + first..], [terms, outputs, count]);
            if fetches {
                // Prefetches the outputs of this tile, and a part of the following rows.
                for m in 0..M {
                    let y = &y[m * outputs..][..count];
                    [0, count / 2, count - 1].into_iter().for_each(|output| fetch(&y[output]));
                }
                after.by_ref().take(part).for_each(fetch);
            }
            // Separate functions. In a larger function, some of the sums would be spilled.
            if count > S::F32_LANES {
                simd.vectorize(Tile::<M, 2, COLUMNS> { x, block, bias, y, sizes });
            } else {
                simd.vectorize(Tile::<M, 1, COLUMNS> { x, block, bias, y, sizes });
            }
        }
    }
}

/// `M` rows, which may be stored as columns, of a block of `N` registers of outputs.
struct Tile<'a, const M: usize, const N: usize, const COLUMNS: bool> {
    x: &'a [f32],
    block: &'a [f32],
    bias: &'a [f32],
    y: &'a mut [f32],
    /// Number of terms, of all outputs, and of outputs in the block.
    sizes: [usize; 3],
}

impl<const M: usize, const N: usize, const COLUMNS: bool> WithSimd for Tile<'_, M, N, COLUMNS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { x, block, bias, y, sizes: [terms, outputs, count] } = self;
        let mut sums = [[simd.splat_f32s(0.0); N]; M];
        let mut rows = [&[] as &[f32]; M];
        for m in 0..M {
            rows[m] = &x[m * terms..][..terms];
        }
        let columns = &x.as_chunks::<M>().0[..terms];
        let block = &S::as_simd_f32s(block).0.as_chunks::<N>().0[..terms];
        for (term, vectors) in block.iter().enumerate() {
            for m in 0..M {
                let x = simd.splat_f32s(if COLUMNS { columns[term][m] } else { rows[m][term] });
                for n in 0..N {
                    sums[m][n] = simd.mul_add_e_f32s(x, vectors[n], sums[m][n]);
                }
            }
        }
        let bias = S::as_simd_f32s(bias).0;
        for m in 0..M {
            let y = &mut y[m * outputs..][..count];
            // Loops with constant bounds. Otherwise the sums would be in memory.
            if count == N * S::F32_LANES {
                let y = S::as_mut_simd_f32s(y).0;
                for n in 0..N {
                    y[n] = simd.add_f32s(sums[m][n], bias[n]);
                }
            } else {
                let (whole, part) = y.split_at_mut((N - 1) * S::F32_LANES);
                let whole = S::as_mut_simd_f32s(whole).0;
                for n in 0..N - 1 {
                    whole[n] = simd.add_f32s(sums[m][n], bias[n]);
                }
                simd.partial_store_f32s(part, simd.add_f32s(sums[m][N - 1], bias[N - 1]));
            }
        }
    }
}

impl WithSimd for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let most = if S::F32_LANES >= MAX_LANES || self.within.len() <= S::F32_LANES { ROWS } else { FEWER_ROWS };
        let rows = self.y.len() / self.sizes[1];
        if !self.panel.is_empty() {
            for row in (0..rows).step_by(most) {
                // The last tile ends with the rows.
                let row = row.min(rows - most);
                match most {
                    ROWS => self.tile_of_columns::<S, ROWS>(simd, row),
                    _ => self.tile_of_columns::<S, FEWER_ROWS>(simd, row),
                }
            }
            return;
        }
        let mut done = 0;
        while done < rows {
            // Tiles of heights as equal as possible.
            let tall = (rows - done).div_ceil((rows - done).div_ceil(most));
            macro_rules! of_rows {
                ($($m:literal)*) => {
                    match tall {
                        $($m => self.tile_of_rows::<S, $m>(simd, done),)*
                        _ => self.tile_of_rows::<S, ROWS>(simd, done),
                    }
                };
            }
            of_rows!(1 2 3 4 5 6 7 8 9 10 11);
            done += tall;
        }
    }
}

impl SimdKernel for SimdProduct {
    #[inline(always)]
    fn work<S: Simd>(SimdCall { of, x, weights, bias, y }: SimdCall<'_, Self>, simd: S) {
        if y.is_empty() {
            return;
        }
        if of.transposed && of.changes_places(y.len() / of.outputs, S::F32_LANES) {
            of.places_changed(simd, x, weights, bias, y);
        } else {
            of.by_groups(simd, x, weights, bias, y);
        }
    }
}

#[cfg(test)]
mod tests;
