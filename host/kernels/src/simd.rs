//! Common code of SIMD kernels.

#[cfg(test)]
pub(crate) mod testing;

use pulp::bytemuck::{self, Pod, Zeroable};
use pulp::{Arch, Simd, WithSimd};
use std::ops::{Deref, DerefMut};

/// Number of lanes in the widest SIMD.
pub const MAX_LANES: usize = 16;

/// Maximum number of registers across a tile of sums with four or eight factors per line. With eight lanes, three
/// registers, their twelve sums and the factors exceed sixteen registers, so a sum would be spilled for each product.
#[inline(always)]
pub fn most_vectors<S: Simd>() -> usize {
    if S::F32_LANES >= MAX_LANES { 3 } else { 2 }
}

/// Side of a square that is transposed in registers.
pub const SIDE: usize = 4;

/// Number of adjacent squares transposed at a time. Their lines are cache lines.
const SQUARES: usize = 4;

/// Cache line, and widest register.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([f32; MAX_LANES]);

// SAFETY: all zeros are valid floats.
unsafe impl Zeroable for Line {}
// SAFETY: sixteen floats fill a line without padding, and any bits are valid floats.
unsafe impl Pod for Line {}

/// Floats aligned to cache lines. A load that crosses two lines counts as two.
#[derive(Clone, Debug, Default)]
pub struct Aligned(Vec<Line>);

impl Aligned {
    /// `len` zeros, rounded up to a full line.
    pub fn zeros(len: usize) -> Self {
        Self(vec![Line::zeroed(); len.div_ceil(MAX_LANES)])
    }

    /// The first `len` floats. Grows if necessary.
    pub fn of_len(&mut self, len: usize) -> &mut [f32] {
        if self.len() < len {
            self.0.resize(len.div_ceil(MAX_LANES), Line::zeroed());
        }
        &mut self[..len]
    }
}

impl Deref for Aligned {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        bytemuck::cast_slice(&self.0)
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f32] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

/// Kernel that sums products of `x` and weights, with its memory.
pub trait SimdKernel: Sized {
    /// Runs with this SIMD width.
    fn work<S: Simd>(run: SimdCall<'_, Self>, simd: S);

    /// Runs with the widest SIMD that the processor supports.
    fn run(&mut self, x: &[f32], weights: &[f32], bias: Option<&[f32]>, y: &mut [f32]) {
        Arch::new().dispatch(SimdCall { of: self, x, weights, bias, y });
    }
}

/// Arguments of one call.
pub struct SimdCall<'a, K> {
    /// Kernel with its memory.
    pub of: &'a mut K,
    /// Input.
    pub x: &'a [f32],
    /// Weights.
    pub weights: &'a [f32],
    /// Bias.
    pub bias: Option<&'a [f32]>,
    /// Output.
    pub y: &'a mut [f32],
}

impl<K: SimdKernel> WithSimd for SimdCall<'_, K> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        K::work(self, simd);
    }
}

/// Transpose of a square of floats.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn transposed(square: [[f32; SIDE]; SIDE]) -> [[f32; SIDE]; SIDE] {
    use std::arch::x86_64::{_mm_movehl_ps, _mm_movelh_ps, _mm_unpackhi_ps, _mm_unpacklo_ps};
    let [a, b, c, d] = square.map(pulp::cast);
    // SAFETY: SSE is part of every x86-64 processor.
    let transposed = unsafe {
        let (ab, cd) = (_mm_unpacklo_ps(a, b), _mm_unpacklo_ps(c, d));
        let (ab_after, cd_after) = (_mm_unpackhi_ps(a, b), _mm_unpackhi_ps(c, d));
        let [first, second] = [_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab)];
        [first, second, _mm_movelh_ps(ab_after, cd_after), _mm_movehl_ps(cd_after, ab_after)]
    };
    transposed.map(pulp::cast)
}

/// Transpose of a square of floats.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn transposed([a, b, c, d]: [[f32; SIDE]; SIDE]) -> [[f32; SIDE]; SIDE] {
    [0, 1, 2, 3].map(|i| [a[i], b[i], c[i], d[i]])
}

/// Prefetches the cache line that contains `float`.
#[inline(always)]
pub fn fetch(float: &f32) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of every x86-64 processor, and a prefetch hint has no other effect.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(float).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = float;
}

/// Transposes `from` `[lines, columns]` to `into` `[columns, lines]`. `apart` has the line strides of both.
#[inline(always)]
pub fn turn(from: &[f32], into: &mut [f32], [lines, columns]: [usize; 2], apart: [usize; 2]) {
    if lines < SIDE || columns < SIDE {
        for line in 0..lines {
            for column in 0..columns {
                into[column * apart[1] + line] = from[line * apart[0] + column];
            }
        }
    } else if columns < SQUARES * SIDE {
        turn_squares::<1>(from, into, [lines, columns], apart);
    } else {
        turn_squares::<SQUARES>(from, into, [lines, columns], apart);
    }
}

#[inline(always)]
fn turn_squares<const SQUARES: usize>(
    from: &[f32],
    into: &mut [f32],
    [lines, columns]: [usize; 2],
    [from_apart, into_apart]: [usize; 2],
) {
    // The last squares end with the lines and columns.
    for column in (0..columns).step_by(SQUARES * SIDE) {
        let column = column.min(columns - SQUARES * SIDE);
        for line in (0..lines).step_by(SIDE) {
            let line = line.min(lines - SIDE);
            let from = &from[line * from_apart + column..][..(SIDE - 1) * from_apart + SQUARES * SIDE];
            let into = &mut into[column * into_apart + line..][..(SQUARES * SIDE - 1) * into_apart + SIDE];
            for j in 0..SQUARES {
                let mut square = [[0.0; SIDE]; SIDE];
                for i in 0..SIDE {
                    square[i] = *from[i * from_apart + j * SIDE..].first_chunk().expect("a side");
                }
                let square = transposed(square);
                for i in 0..SIDE {
                    *into[(j * SIDE + i) * into_apart..].first_chunk_mut().expect("a side") = square[i];
                }
            }
        }
    }
}
