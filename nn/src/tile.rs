//! Blocks of a matrix product for processors with vectors: [`LANES`] columns of a row at once, each entry a sum of its own.
//!
//! Who calls writes the panels: what a product reads may be a matrix, its transpose, or the windows of an image. The stack holds 5 KB.

use crate::sum::BLOCK;

/// Columns that are computed at once.
pub const LANES: usize = 16;
/// A block of terms, and for each the columns of a tile.
pub type Panel = [[f32; LANES]; BLOCK];

/// The left side of a product: rows of terms.
#[derive(Clone, Copy)]
pub struct Left<'a> {
    pub x: &'a [f32],
    pub row_stride: usize,
    pub term_stride: usize,
}

impl Left<'_> {
    /// The terms from `first` on of row `row`, in place where they lie together, else by way of `buffer`. What is behind `count` is not read.
    #[inline(always)]
    fn block<'b>(&'b self, row: usize, first: usize, count: usize, buffer: &'b mut [f32; BLOCK]) -> &'b [f32; BLOCK] {
        let start = row.wrapping_mul(self.row_stride).wrapping_add(first.wrapping_mul(self.term_stride));
        let rest = self.x.get(start..).unwrap_or_default();
        if self.term_stride == 1 {
            if let Some(block) = rest.first_chunk() {
                return block;
            }
            for (buffer, x) in buffer.iter_mut().zip(rest) {
                *buffer = *x;
            }
        } else {
            for (buffer, x) in buffer.iter_mut().take(count).zip(rest.iter().step_by(self.term_stride.max(1))) {
                *buffer = *x;
            }
        }
        buffer
    }
}

/// Which terms and columns a panel holds.
#[derive(Clone, Copy)]
pub struct PanelRange {
    /// The first term.
    pub term: usize,
    /// Terms, at most [`BLOCK`].
    pub terms: usize,
    /// The first column.
    pub column: usize,
    /// Columns, at most [`LANES`].
    pub columns: usize,
}

/// All sums of a product of `rows` × `terms` by `terms` × `columns`, block by block: `pack` writes a panel, and `store` takes a row of
/// block sums, which is the first of its entries or is to be added to them.
#[inline(always)]
pub fn product(
    (rows, columns, terms): (usize, usize, usize),
    left: Left<'_>,
    mut pack: impl FnMut(PanelRange, &mut Panel),
    mut store: impl FnMut(usize, PanelRange, &[f32; LANES]),
) {
    let mut panel = [[0.0; LANES]; BLOCK];
    for column in (0..columns).step_by(LANES) {
        for term in (0..terms).step_by(BLOCK) {
            let place =
                PanelRange { term, terms: BLOCK.min(terms - term), column, columns: LANES.min(columns - column) };
            pack(place, &mut panel);
            for row in 0..rows {
                store(row, place, &tile(left, row, place, &panel));
            }
        }
    }
}

/// Stores block sums in the row of `out` that begins at `row`: the first block's as they are, others added. Returns where they lie.
#[inline(always)]
pub fn store<'a>(out: &'a mut [f32], row: usize, place: PanelRange, sums: &[f32; LANES]) -> &'a mut [f32] {
    let start = row.wrapping_add(place.column);
    let Some(out) = out.get_mut(start..start.wrapping_add(place.columns)) else { return &mut [] };
    match (place.term, out.first_chunk_mut()) {
        (0, Some(out)) => *out = *sums,
        _ => {
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = if place.term == 0 { *sum } else { *out + sum };
            }
        }
    }
    out
}

/// The block sums of row `row`.
#[inline(always)]
pub fn tile(left: Left<'_>, row: usize, place: PanelRange, panel: &Panel) -> [f32; LANES] {
    let mut buffer = [0.0f32; BLOCK];
    let factors = left.block(row, place.term, place.terms, &mut buffer);
    let mut sums = [0.0f32; LANES];
    for (factor, columns) in factors.iter().zip(panel).take(place.terms) {
        for (sum, column) in sums.iter_mut().zip(columns) {
            *sum += factor * column;
        }
    }
    sums
}
