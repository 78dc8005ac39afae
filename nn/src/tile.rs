//! Tiles of a matrix product: some columns of a row at once, each with its own sum.
//!
//! The caller packs the panels, from a matrix, its transpose or the windows of an image. The stack holds one panel and
//! one block of factors: 2.3 KB with [`Narrow`] lanes, 4.3 KB with [`Wide`] lanes.

use crate::sum::BLOCK;

/// Columns of a tile, computed in parallel. Their number changes no bit, because each column has its own sum.
///
/// ```
/// use damper_nn::{Lanes, Narrow, Walk, Wide, product::{Product, product}};
///
/// fn dot<L: Lanes>(a: &[f32], b: &[f32]) -> f32 {
///     let shape = Product::new([1, 1, a.len()], [a.len(), 1], [1, 1], Walk::broadcast(&[1], [&[1], &[1]]).unwrap());
///     let mut out = [0.0];
///     product::<L>(&shape.unwrap(), a, b, &mut out).unwrap();
///     out[0]
/// }
/// // The number of lanes changes no bit.
/// let (a, b): (Vec<f32>, Vec<f32>) = (0..1000).map(|i| (i as f32 / 7.0, 3.0 / (i + 1) as f32)).unzip();
/// assert_eq!(dot::<Narrow>(&a, &b).to_bits(), dot::<Wide>(&a, &b).to_bits());
/// assert_eq!((Narrow::first_of(&a).map(|lanes| lanes.as_ref()[0]), Wide::COUNT >= Narrow::COUNT), (Some(0.0), true));
/// ```
pub trait Lanes: Copy + AsRef<[f32]> + AsMut<[f32]> {
    /// Number of lanes.
    const COUNT: usize;
    /// Zero in every lane.
    const ZERO: Self;

    /// Returns the first [`COUNT`](Self::COUNT) values of `x`. `None` if it is shorter.
    fn first_of(x: &[f32]) -> Option<&Self>;

    /// Returns the first [`COUNT`](Self::COUNT) values of `x`, writable. `None` if it is shorter.
    ///
    /// ```
    /// use damper_nn::{Lanes, Narrow};
    ///
    /// let mut sums = vec![1.0; Narrow::COUNT];
    /// let lanes = Narrow::first_of_mut(&mut sums).unwrap();
    /// let columns = *lanes;
    /// lanes.add_product(2.0, &columns);
    /// assert_eq!(sums, vec![3.0; Narrow::COUNT]);
    /// assert!(Narrow::first_of_mut(&mut sums[1..]).is_none());
    /// ```
    fn first_of_mut(x: &mut [f32]) -> Option<&mut Self>;

    /// Adds `factor · column` to each lane.
    fn add_product(&mut self, factor: f32, columns: &Self);

    /// Returns the sums of the first `columns` columns over a block of `factors`. The other lanes have any value.
    ///
    /// ```
    /// use damper_nn::{Lanes, Narrow, sum::BLOCK};
    ///
    /// let mut one = Narrow::ZERO;
    /// one.as_mut().fill(1.0);
    /// // The sum of the factors in each lane.
    /// let sums = Narrow::block_sums(&[1.0, 2.0, 3.0], &[one; BLOCK], Narrow::COUNT);
    /// assert_eq!(sums.as_ref(), vec![6.0; Narrow::COUNT]);
    /// ```
    #[inline(always)]
    fn block_sums(factors: &[f32], panel: &Panel<Self>, columns: usize) -> Self {
        let _ = columns;
        all_sums(factors, panel)
    }
}

/// Eight lanes, for a processor without SIMD. Sums and columns fit in the 32 registers of a Cortex-M4F.
pub type Narrow = [f32; 8];
/// Sixteen lanes, for a processor with SIMD.
pub type Wide = [f32; 16];

impl Lanes for Narrow {
    const COUNT: usize = 8;
    const ZERO: Self = [0.0; 8];

    #[inline(always)]
    fn first_of(x: &[f32]) -> Option<&Self> {
        x.first_chunk()
    }

    #[inline(always)]
    fn first_of_mut(x: &mut [f32]) -> Option<&mut Self> {
        x.first_chunk_mut()
    }

    // Unrolled: compiled for size, a loop would keep the sums in memory.
    #[inline(always)]
    fn add_product(&mut self, factor: f32, [a, b, c, d, e, f, g, h]: &Self) {
        let [sum_a, sum_b, sum_c, sum_d, sum_e, sum_f, sum_g, sum_h] = self;
        *sum_a += factor * a;
        *sum_b += factor * b;
        *sum_c += factor * c;
        *sum_d += factor * d;
        *sum_e += factor * e;
        *sum_f += factor * f;
        *sum_g += factor * g;
        *sum_h += factor * h;
    }

    // Not inlined: all kernels share it, which saves flash.
    #[inline(never)]
    fn block_sums(factors: &[f32], panel: &Panel<Self>, columns: usize) -> Self {
        // Separate sums are faster than eight lanes.
        if columns <= 2 {
            return few_sums(factors, panel, columns);
        }
        all_sums(factors, panel)
    }
}

impl Lanes for Wide {
    const COUNT: usize = 16;
    const ZERO: Self = [0.0; 16];

    #[inline(always)]
    fn first_of(x: &[f32]) -> Option<&Self> {
        x.first_chunk()
    }

    #[inline(always)]
    fn first_of_mut(x: &mut [f32]) -> Option<&mut Self> {
        x.first_chunk_mut()
    }

    #[inline(always)]
    fn add_product(&mut self, factor: f32, columns: &Self) {
        for (sum, column) in self.iter_mut().zip(columns) {
            *sum += factor * column;
        }
    }
}

/// Columns of a tile for each term of a block.
pub type Panel<L> = [L; BLOCK];

/// The operand of a product whose rows are read one at a time.
pub trait Rows {
    /// Returns `count` factors of row `row`, starting at term `first`. `count` is at most [`BLOCK`]. The factors may be
    /// written into `buffer`.
    fn block<'b>(&'b self, row: usize, first: usize, count: usize, buffer: &'b mut [f32; BLOCK]) -> &'b [f32];
}

/// The operand of a product whose columns are the lanes.
pub trait Columns {
    /// Writes the panel of these columns.
    fn pack<L: Lanes>(&self, place: PanelRange, panel: &mut Panel<L>);

    /// Returns the columns as contiguous rows, if they are.
    #[inline(always)]
    fn contiguous(&self) -> Option<Strided<'_>> {
        None
    }
}

/// Writes the panel that has `rows` as columns.
#[inline(always)]
pub fn pack_rows<L: Lanes>(rows: &impl Rows, place: PanelRange, panel: &mut Panel<L>) {
    let mut buffer = [0.0f32; BLOCK];
    for lane in 0..place.columns {
        let factors = rows.block(place.column.wrapping_add(lane), place.term, place.terms, &mut buffer);
        for (lanes, factor) in panel.iter_mut().zip(factors) {
            if let Some(lane) = lanes.as_mut().get_mut(lane) {
                *lane = *factor;
            }
        }
    }
}

/// Rows of a matrix of floats, read at strides.
#[derive(Clone, Copy)]
pub struct Strided<'a> {
    pub x: &'a [f32],
    pub row_stride: usize,
    pub term_stride: usize,
}

impl Rows for Strided<'_> {
    #[inline(always)]
    fn block<'b>(&'b self, row: usize, first: usize, count: usize, buffer: &'b mut [f32; BLOCK]) -> &'b [f32] {
        let start = row.wrapping_mul(self.row_stride).wrapping_add(first.wrapping_mul(self.term_stride));
        if self.term_stride == 1 {
            return self.x.get(start..start.wrapping_add(count)).unwrap_or_default();
        }
        let rest = self.x.get(start..).unwrap_or_default();
        let buffer = buffer.get_mut(..count).unwrap_or_default();
        for (buffer, x) in buffer.iter_mut().zip(rest.iter().step_by(self.term_stride.max(1))) {
            *buffer = *x;
        }
        buffer
    }
}

impl Columns for Strided<'_> {
    #[inline(always)]
    fn pack<L: Lanes>(&self, place: PanelRange, panel: &mut Panel<L>) {
        let Self { x, row_stride, term_stride } = *self;
        if row_stride != 1 {
            return pack_rows(self, place, panel);
        }
        let mut at = place.term.wrapping_mul(term_stride).wrapping_add(place.column);
        for lanes in panel.iter_mut().take(place.terms) {
            let rest = x.get(at..).unwrap_or_default();
            match L::first_of(rest) {
                // The lanes after the last column read other elements of `x`. Their sums are not used.
                Some(columns) => *lanes = *columns,
                None => lanes.as_mut().iter_mut().zip(rest).for_each(|(lane, x)| *lane = *x),
            }
            at = at.wrapping_add(term_stride);
        }
    }

    #[inline(always)]
    fn contiguous(&self) -> Option<Strided<'_>> {
        (self.term_stride == 1).then_some(*self)
    }
}

/// Range of terms and columns of a panel.
#[derive(Clone, Copy)]
pub struct PanelRange {
    /// First term.
    pub term: usize,
    /// Number of terms, at most [`BLOCK`].
    pub terms: usize,
    /// First column.
    pub column: usize,
    /// Number of columns, at most [`Lanes::COUNT`].
    pub columns: usize,
}

/// Computes all sums of a product of `rows` × `terms` by `terms` × `columns`, block by block.
///
/// `pack` writes a panel. `store` receives the block sums of a row: it writes those of the first block and adds the
/// others. `first` is the row of `left` at which the product begins.
#[inline(always)]
pub fn product<L: Lanes>(
    (first, rows, columns, terms): (usize, usize, usize, usize),
    left: &impl Rows,
    mut pack: impl FnMut(PanelRange, &mut Panel<L>),
    mut store: impl FnMut(usize, PanelRange, &L),
) {
    let mut panel = [L::ZERO; BLOCK];
    let mut buffer = [0.0f32; BLOCK];
    for column in (0..columns).step_by(L::COUNT) {
        for term in (0..terms).step_by(BLOCK) {
            let place =
                PanelRange { term, terms: BLOCK.min(terms - term), column, columns: L::COUNT.min(columns - column) };
            pack(place, &mut panel);
            for row in 0..rows {
                let factors = left.block(first.wrapping_add(row), term, place.terms, &mut buffer);
                store(row, place, &L::block_sums(factors, &panel, place.columns));
            }
        }
    }
}

/// Returns the sums of all columns over a block of `factors`.
#[inline(always)]
fn all_sums<L: Lanes>(factors: &[f32], panel: &Panel<L>) -> L {
    let mut sums = L::ZERO;
    for (factor, columns) in factors.iter().zip(panel) {
        sums.add_product(*factor, columns);
    }
    sums
}

/// Returns the sums of the first `columns` columns over a block of `factors`. The other lanes are 0.
// A separate function with its own `sums`: the iterator takes their address, which would keep the sums of all lanes in
// memory.
#[inline(always)]
fn few_sums(factors: &[f32], panel: &Panel<Narrow>, columns: usize) -> Narrow {
    let mut sums = Narrow::ZERO;
    for (lane, sum) in sums.iter_mut().enumerate().take(columns) {
        let mut alone = 0.0f32;
        for (factor, columns) in factors.iter().zip(panel) {
            alone += factor * columns.get(lane).copied().unwrap_or_default();
        }
        *sum = alone;
    }
    sums
}

/// Stores block sums in the row of `out` that begins at `row`: writes those of the first block and adds the others.
/// Returns the entries of `out`.
#[inline(always)]
pub fn store<'a, L: Lanes>(out: &'a mut [f32], row: usize, place: PanelRange, sums: &L) -> &'a mut [f32] {
    let start = row.wrapping_add(place.column);
    let Some(out) = out.get_mut(start..start.wrapping_add(place.columns)) else { return &mut [] };
    match (place.term, L::first_of_mut(out)) {
        (0, Some(out)) => *out = *sums,
        _ => {
            for (out, sum) in out.iter_mut().zip(sums.as_ref()) {
                *out = if place.term == 0 { *sum } else { *out + sum };
            }
        }
    }
    out
}
