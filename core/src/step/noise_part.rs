//! Noise of a step in parts, which any number of workers may draw.
//!
//! Noise is addressed by chunks of coordinates, so its bits do not depend on the worker. A part overwrites the sum with
//! the released values.
//!
//! # Privacy
//!
//! An undrawn part would be a sum without noise. The parts are lent as a slice, so none can be forgotten or dropped.
//! Each has its own lifetime, so none can be exchanged for a part of another step. [`Drawing::each_part`] draws the
//! remaining parts at the end. Drawing does not panic, so a part is never half drawn.

use crate::noise::sealed::Inside;
use crate::noise::{Address, CHUNK, Generator, Purpose};
use crate::private::Mechanism;

/// Number of coordinates that are released, filtered and applied at a time. It is even, so that pairs of the float
/// mechanism never straddle two blocks. It is smaller on devices, which keep a block on the stack.
pub(super) const BLOCK: usize = if cfg!(target_pointer_width = "64") { 64 } else { 16 };

/// Overwrites the sum with released values.
#[inline(always)]
pub(super) fn store<M: Mechanism>(released: &[f32], sum: &mut [M::Word]) {
    for (word, released) in sum.iter_mut().zip(released) {
        *word = M::store_released(*released, Inside(()));
    }
}

/// Reads the released values that overwrote the sum. Wipes them if `wipes`.
#[inline(always)]
pub(super) fn load<M: Mechanism>(sum: &mut [M::Word], released: &mut [f32], wipes: bool) {
    for (released, word) in released.iter_mut().zip(sum) {
        *released = M::load_released(*word, Inside(()));
        if wipes {
            *word = Default::default();
        }
    }
}

/// Returns the address of the noise of a chunk.
pub(super) fn address(step: u32, chunk: u32) -> Address {
    Address { purpose: Purpose::GradientNoise, step, chunk }
}

/// Largest number of parts.
const MOST: usize = 64;

/// Returns the number of chunks in each of `parts` parts of `dim` coordinates. The last parts may have fewer.
pub(super) fn chunks_of_part(dim: usize, parts: usize) -> usize {
    dim.div_ceil(CHUNK).div_ceil(parts.clamp(1, MOST)).max(1)
}

/// Constants of a step, shared by all parts.
pub(super) struct Drawing<'a, M, G> {
    pub(super) mechanism: M,
    pub(super) threshold: f32,
    pub(super) step: u32,
    pub(super) expected_batch: u32,
    pub(super) generator: &'a G,
}

/// The sum over some coordinates of a step, before and after its release. The step owns its memory.
///
/// ```
/// use damper_core::prelude::*;
/// use damper_core::step::NoisePart;
///
/// let params = |parts: usize| {
///     let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(4).build()?;
///     let (mut state, mut params) = (config.state::<300>(), [0.0; 300]);
///     let mut step = config.open(&mut state, &mut Ledger::volatile(1))?;
///     step.add(&[0.01; 300])?;
///     step.finish_on(&mut params, &NoiseRng::simulation(1), parts, |parts| {
///         std::thread::scope(|scope| parts.iter_mut().for_each(|part| { scope.spawn(|| part.draw()); }));
///     })?;
///     Ok::<_, Box<dyn std::error::Error>>(params)
/// };
/// // The number of threads changes no bit.
/// assert_eq!(params(1)?, params(4)?);
/// assert!(NoisePart::<'_, damper_core::noise::DiscreteGaussian<i32>, NoiseRng>::MOST >= 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct NoisePart<'a, M: Mechanism, G> {
    drawing: Drawing<'a, M, G>,
    /// Number of the first chunk.
    pub(super) first: u32,
    pub(super) sum: &'a mut [M::Word],
    pub(super) is_drawn: bool,
}

impl<M: Mechanism, G> NoisePart<'_, M, G> {
    /// Largest number of parts.
    pub const MOST: usize = MOST;
}

impl<M: Mechanism, G: Generator> NoisePart<'_, M, G> {
    /// Draws the noise and releases the coordinates. A second call does nothing.
    pub fn draw(&mut self) {
        let Some(mut state) = M::independent_state() else { return };
        if core::mem::replace(&mut self.is_drawn, true) {
            return;
        }
        let Drawing { mechanism, threshold, step, expected_batch, generator } = self.drawing;
        let mut at = (self.first as usize).wrapping_mul(CHUNK);
        for (chunk, sum) in (self.first..).zip(self.sum.chunks_mut(CHUNK)) {
            let mut words = generator.stream(address(step, chunk));
            for sum in sum.chunks_mut(BLOCK) {
                let mut released = [0.0; BLOCK];
                let (released, _) = released.split_at_mut(sum.len().min(BLOCK));
                let words = (&mut words, None);
                mechanism.release((threshold, expected_batch), sum, (at, &mut state), words, released, Inside(()));
                store::<M>(released, sum);
                at = at.wrapping_add(sum.len());
            }
        }
    }
}

impl<M: Copy, G> Clone for Drawing<'_, M, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Copy, G> Copy for Drawing<'_, M, G> {}

impl<M: Mechanism, G: Generator> Drawing<'_, M, G> {
    /// Splits `sum` into parts of whole chunks, passes them to `draw`, and draws the remaining parts. `first` is the
    /// number of the first chunk of `sum`.
    pub(super) fn each_part<T>(
        self,
        sum: &mut [M::Word],
        mut first: u32,
        parts: usize,
        draw: impl for<'p> FnOnce(&mut [NoisePart<'p, M, G>]) -> T,
    ) -> T {
        let count = parts.clamp(1, MOST);
        let chunks = chunks_of_part(sum.len(), parts);
        let mut rest = sum;
        let mut all: [NoisePart<'_, M, G>; MOST] = core::array::from_fn(|_| {
            let sum = core::mem::take(&mut rest);
            let (sum, after) = sum.split_at_mut(chunks.saturating_mul(CHUNK).min(sum.len()));
            rest = after;
            let part = NoisePart { drawing: self, first, sum, is_drawn: false };
            first = first.wrapping_add(chunks as u32);
            part
        });
        let drawn = draw(all.get_mut(..count).unwrap_or_default());
        all.iter_mut().for_each(NoisePart::draw);
        drawn
    }
}
