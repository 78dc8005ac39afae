//! Weights as 8-bit integers with a scale per channel, as in ONNX's `DequantizeLinear`. Element `i`, in channel `c`, is
//! `(values[i] − zeros[c]) · scales[c]`, rounded once to f32.
//!
//! Each kernel has the same bits as the float kernel on the dequantised weights. It dequantises a
//! [block](crate::sum::BLOCK) of weights at a time, on the stack. The weights stay in place, one byte each.

mod convolution;
mod gather;
mod product;

pub use convolution::{forward, transposed};
pub use gather::gather;
pub use product::{product_left, product_right};

use crate::sum::BLOCK;
use crate::tile::{Columns, Lanes, Panel, PanelRange, Rows, pack_rows};
use crate::window::split;
use crate::{Error, check};

/// Quantised weight. Any lengths are permitted, because the kernels check them.
///
/// ```
/// use damper_nn::quantized::Quantized;
///
/// // Two rows, each with its scale and zero point.
/// let weight = Quantized { values: &[1, 2, 3, 4], scales: &[0.5, 2.0], zeros: &[0, 1], inner: 2 };
/// let mut out = [0.0; 4];
/// weight.dequantize(&mut out)?;
/// assert_eq!(out, [0.5, 1.0, 4.0, 6.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quantized<'a> {
    /// The integers, in row-major order.
    pub values: &'a [i8],
    /// Scale of each channel. There is one channel for all elements, or one per index of an axis.
    pub scales: &'a [f32],
    /// Zero point of each channel.
    pub zeros: &'a [i8],
    /// Number of elements in the axes after the channel axis.
    pub inner: usize,
}

impl Quantized<'_> {
    /// Dequantises the elements at `start`, `start + stride`, ….
    #[inline(always)]
    fn read(&self, start: usize, stride: usize, out: &mut [f32]) {
        let (mut at, mut end) = (start, 0);
        let (mut scale, mut zero) = (0.0f32, 0i16);
        for out in out {
            // Elements up to `end` are in one channel.
            if at >= end {
                let (block, _) = split(at, self.inner);
                let (_, channel) = split(block, self.scales.len());
                end = block.wrapping_add(1).wrapping_mul(self.inner);
                scale = self.scales.get(channel).copied().unwrap_or(0.0);
                zero = self.zeros.get(channel).copied().unwrap_or(0).into();
            }
            let value: i16 = self.values.get(at).copied().unwrap_or(0).into();
            // From −255 to 255, so it is exact as a float.
            *out = f32::from(value.wrapping_sub(zero)) * scale;
            at = at.wrapping_add(stride);
        }
    }

    /// Fails if there are fewer than `len` elements, a channel is incomplete, or scales and zero points differ in
    /// number.
    #[inline(always)]
    fn check(&self, len: usize) -> Result<(), Error> {
        let channel = self.scales.len().wrapping_mul(self.inner);
        check(self.values.len() >= len && self.zeros.len() == self.scales.len())?;
        check(len == 0 || self.values.len().checked_rem(channel) == Some(0))
    }

    /// Writes the elements as floats to `out`.
    ///
    /// # Errors
    ///
    /// Fails if the length of `out` differs, or if the weight's lengths are inconsistent.
    #[inline(always)]
    pub fn dequantize(&self, out: &mut [f32]) -> Result<(), Error> {
        check(out.len() == self.values.len())?;
        self.check(out.len())?;
        self.read(0, 1, out);
        Ok(())
    }
}

/// Rows of a quantised weight, starting at element `start`.
#[derive(Clone, Copy)]
struct QuantizedRows<'a> {
    weight: &'a Quantized<'a>,
    start: usize,
    row_stride: usize,
    term_stride: usize,
}

impl Rows for QuantizedRows<'_> {
    #[inline(always)]
    fn block<'b>(&'b self, row: usize, first: usize, count: usize, buffer: &'b mut [f32; BLOCK]) -> &'b [f32] {
        let start = row.wrapping_mul(self.row_stride).wrapping_add(first.wrapping_mul(self.term_stride));
        let buffer = buffer.get_mut(..count).unwrap_or_default();
        self.weight.read(self.start.wrapping_add(start), self.term_stride, buffer);
        buffer
    }
}

impl Columns for QuantizedRows<'_> {
    #[inline(always)]
    fn pack<L: Lanes>(&self, place: PanelRange, panel: &mut Panel<L>) {
        pack_rows(self, place, panel);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use damper_testing::Random;
    use std::vec::Vec;

    /// Quantised weight that owns its values, with the same weight as floats.
    pub struct Owned {
        values: Vec<i8>,
        scales: Vec<f32>,
        zeros: Vec<i8>,
        inner: usize,
        pub floats: Vec<f32>,
    }

    impl Owned {
        /// Creates a tensor `[outer, channels, inner]` with extreme integers and zero points, and scales of either
        /// sign.
        pub fn new(random: &mut Random, outer: usize, channels: usize, inner: usize) -> Self {
            let mut integer = |edge: usize| match random.below(edge) {
                0 => -128,
                1 => 127,
                _ => (random.below(256) as i16 - 128) as i8,
            };
            let values: Vec<i8> = (0..outer * channels * inner).map(|_| integer(8)).collect();
            let zeros: Vec<i8> = (0..channels).map(|_| integer(3)).collect();
            let scales: Vec<f32> = (0..channels).map(|_| random.signed() * 0.1).collect();
            let float = |(at, value): (usize, &i8)| {
                let channel = at / inner % channels;
                (i32::from(*value) - i32::from(zeros[channel])) as f32 * scales[channel]
            };
            let floats = values.iter().enumerate().map(float).collect();
            Self { values, scales, zeros, inner, floats }
        }

        pub fn weight(&self) -> Quantized<'_> {
            Quantized { values: &self.values, scales: &self.scales, zeros: &self.zeros, inner: self.inner }
        }
    }

    pub fn floats(random: &mut Random, len: usize) -> Vec<f32> {
        (0..len).map(|_| (random.below(1 << 16) as f32 - 32768.0) * 3.1e-5).collect()
    }

    pub fn assert_same(got: &[f32], want: &[f32]) {
        assert!(got.iter().map(|x| x.to_bits()).eq(want.iter().map(|x| x.to_bits())), "{got:?}, not {want:?}");
    }

    // Elements match the definition, from any start and with any stride. Inconsistent lengths are errors.
    #[test]
    fn elements_match_definition() {
        let mut random = Random(31);
        for _ in 0..200 {
            let [outer, channels, inner] = [1, 2, 3].map(|_| 1 + random.below(5));
            let owned = Owned::new(&mut random, outer, channels, inner);
            let len = owned.floats.len();
            let mut all = std::vec![0.0; len];
            owned.weight().dequantize(&mut all).unwrap();
            assert_same(&all, &owned.floats);
            let (start, stride) = (random.below(len), 1 + random.below(7));
            let want: Vec<f32> = owned.floats.iter().skip(start).step_by(stride).copied().collect();
            let mut some = std::vec![0.0; want.len()];
            owned.weight().read(start, stride, &mut some);
            assert_same(&some, &want);
            let short = Quantized { zeros: &owned.zeros[1..], ..owned.weight() };
            assert_eq!(short.dequantize(&mut all), Err(Error::Length));
            let ragged = Quantized { inner: len + 1, ..owned.weight() };
            assert_eq!(ragged.dequantize(&mut all), Err(Error::Length));
        }
    }
}
