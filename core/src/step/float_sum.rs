//! The door for sums that were clipped elsewhere, in floats: the float path of large models.

use super::Shard;
use super::adder::total_len;
use crate::clip::Clip;
use crate::count::Counts;
use crate::error::{CallError, check_len};
use crate::noise::ContinuousGaussian;
use crate::numerics::reduce::sum_of_squares;

/// A sum of gradients that a backend clipped in its own floats. **Not exact**: that no sample adds more than `bound` is the
/// backend's claim, true up to its rounding; it cannot be checked on a sum.
#[derive(Clone, Copy)]
pub struct FloatSum<'a> {
    /// The sum, `[D]` elements in consecutive parts.
    pub parts: &'a [&'a [f32]],
    /// The Euclidean norm that no sample's share exceeds.
    pub bound: f32,
    /// The norms before the clip, one a sample in the sum: a sample whose norm is not finite must have added nothing.
    pub norms: &'a [f32],
}

/// A little above what `n` samples can add: the claim is one of floats.
const TOLERANCE: f32 = 1.0 + 1.0 / 1024.0;

/// For the continuous Gaussian alone: the exact path takes no sum that it did not bound itself.
///
/// ```compile_fail,E0599
/// use damper_core::{clip::FlatL2, noise::DiscreteGaussian, step::{FloatSum, Shard}};
/// fn add(shard: &mut Shard<'_, DiscreteGaussian<i64>, FlatL2, [i32; 1]>, sum: FloatSum<'_>) {
///     let _ = shard.add_float_sum(sum);
/// }
/// ```
impl<C: Clip, K: Counts> Shard<'_, ContinuousGaussian, C, K> {
    /// Adds a sum over samples that were clipped elsewhere, and counts their norms.
    ///
    /// # Errors
    ///
    /// The parts have another number of elements, the bound is not this step's clip, or the sum is longer than that many
    /// samples of that bound can make it, or not finite; nothing was added.
    pub fn add_float_sum(&mut self, sum: FloatSum<'_>) -> Result<(), CallError> {
        check_len("the sum", self.sum.sum.len(), total_len(sum.parts))?;
        if sum.bound.to_bits() != self.adder.threshold.to_bits() {
            return Err(CallError::Order("a sum bounded by another clip than this step's"));
        }
        let samples = sum.norms.iter().filter(|norm| norm.is_finite());
        let longest = samples.count() as f32 * sum.bound * TOLERANCE;
        let square = sum_of_squares(sum.parts.iter().copied());
        // The squares of a long but finite sum may overflow, and so may those of its bound.
        let is_finite = sum.parts.iter().all(|part| part.iter().all(|x| x.is_finite()));
        if !is_finite || square > longest * longest {
            return Err(CallError::Order("a sum longer than its samples' bounds together: it was not clipped"));
        }
        let mut rest = &mut *self.sum.sum;
        for part in sum.parts {
            let (here, after) = rest.split_at_mut(part.len().min(rest.len()));
            for (sum, x) in here.iter_mut().zip(*part) {
                sum.0 += x;
            }
            rest = after;
        }
        for norm in sum.norms {
            if norm.is_finite() {
                self.adder.query.count(*norm, self.counts.as_mut());
            } else {
                self.counts.non_finite(&self.adder.query);
            }
        }
        Ok(())
    }
}
