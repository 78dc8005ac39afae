//! Float sums that a backend clipped: the float path of large models.

use super::Shard;
use super::adder::total_len;
use crate::clip::Clip;
use crate::count::Counts;
use crate::error::{CallError, check_len};
use crate::noise::ContinuousGaussian;
use crate::numerics::reduce::sum_of_squares;

/// Sum of gradients that a backend clipped in its own float arithmetic.
///
/// **Not exact**: the backend claims that no sample adds more than `bound`. The claim holds up to the backend's
/// rounding, and cannot be checked on a sum.
///
/// ```
/// use damper_core::{clip::FlatL2, filter::Identity, noise::ContinuousGaussian, optimizer::{Sgd, SgdState}};
/// use damper_core::{prelude::*, private::SumWord, schedule::Constant, step::FloatSum, threshold::Fixed};
///
/// let config = PrivateStep::new(Slots {
///     filter: Identity,
///     optimizer: Sgd::new(0.0, false, 0.0)?,
///     mechanism: ContinuousGaussian::new(1.1)?,
///     threshold: Fixed(1.0),
///     clip: FlatL2,
///     schedule: Constant(0.1),
///     expected_batch: 4,
/// })?;
/// let mut state = StepState::new([SumWord::ZERO; 2], (), SgdState { momentum: [] as [f32; 0] }, ());
/// let (step, mut memory) = (config.open(&mut state, &mut Ledger::volatile(1))?, [SumWord::ZERO; 2]);
/// let mut shard = step.shard(&mut memory)?;
/// // Two samples of the norm 2, clipped to 1.
/// let sum = |scale: f32| [2.0 * scale, 0.0];
/// assert!(shard.add_float_sum(FloatSum { parts: &[&sum(1.0)], bound: 1.0, norms: &[2.0, 2.0] }).is_ok());
/// // Not clipped.
/// assert!(shard.add_float_sum(FloatSum { parts: &[&sum(2.0)], bound: 1.0, norms: &[2.0, 2.0] }).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct FloatSum<'a> {
    /// Sum, `[D]` elements in consecutive parts.
    pub parts: &'a [&'a [f32]],
    /// Largest Euclidean norm of a sample's contribution.
    pub bound: f32,
    /// Norms before clipping, one for each sample of the sum. A sample with a norm that is not finite must have added
    /// nothing.
    pub norms: &'a [f32],
}

/// Slack on the bound of `n` samples, because the backend's arithmetic rounds.
const TOLERANCE: f32 = 1.0 + 1.0 / 1024.0;

/// For the continuous Gaussian only. The exact path rejects sums that it did not bound itself:
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
    /// Fails if the parts have another number of elements, or the bound is not this step's clip. Also fails if the sum
    /// is not finite, or longer than its number of samples times the bound. Nothing is added.
    pub fn add_float_sum(&mut self, sum: FloatSum<'_>) -> Result<(), CallError> {
        check_len("the sum", self.sum.sum.len(), total_len(sum.parts))?;
        if sum.bound.to_bits() != self.adder.threshold.to_bits() {
            return Err(CallError::Order("a sum bounded by another clip than this step's"));
        }
        let samples = sum.norms.iter().filter(|norm| norm.is_finite());
        let longest = samples.count() as f32 * sum.bound * TOLERANCE;
        let square = sum_of_squares(sum.parts.iter().copied());
        // The squared norm of a long but finite sum may overflow, and so may the squared bound.
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
