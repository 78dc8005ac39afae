//! Blocks of a matrix product for processors with vectors: [`ROWS`] rows by [`LANES`] columns at once, each entry a sum of its own.
//!
//! Who calls writes the panels: what a product reads may be a matrix, its transpose, or the windows of an image. The stack holds 5 KB.

use crate::sum::BLOCK;

/// Rows that are computed at once.
pub const ROWS: usize = 4;
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
pub struct Place {
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
    mut pack: impl FnMut(Place, &mut Panel),
    mut store: impl FnMut(usize, Place, &[f32; LANES]),
) {
    let mut panel = [[0.0; LANES]; BLOCK];
    for column in (0..columns).step_by(LANES) {
        for term in (0..terms).step_by(BLOCK) {
            let place =
                Place { term, terms: BLOCK.min(terms - term), column, columns: LANES.min(columns - column) };
            pack(place, &mut panel);
            let mut row = 0;
            while row + ROWS <= rows {
                let sums = tile::<ROWS>(left, row, place, &panel);
                for (lead, sums) in sums.iter().enumerate() {
                    store(row + lead, place, sums);
                }
                row += ROWS;
            }
            while row < rows {
                let [sums] = tile::<1>(left, row, place, &panel);
                store(row, place, &sums);
                row += 1;
            }
        }
    }
}

/// The block sums of rows `row` to `row + R`.
#[inline(always)]
pub fn tile<const R: usize>(left: Left<'_>, row: usize, place: Place, panel: &Panel) -> [[f32; LANES]; R] {
    let mut buffers = [[0.0f32; BLOCK]; R];
    let mut rows = [&[0.0f32; BLOCK]; R];
    for ((lead, rows), buffer) in rows.iter_mut().enumerate().zip(&mut buffers) {
        *rows = left.block(row.wrapping_add(lead), place.term, place.terms, buffer);
    }
    let mut sums = [[0.0f32; LANES]; R];
    for (term, columns) in panel.iter().enumerate().take(place.terms) {
        for (sums, row) in sums.iter_mut().zip(&rows) {
            let factor = row[term];
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum += factor * column;
            }
        }
    }
    sums
}
