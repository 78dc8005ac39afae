//! Combination of one sample's gradients at several evaluation points.

use super::adder::{Adder, total_len};
use super::config::{CountsOf, StepConfig};
use crate::error::{CallError, check_len};
use crate::filter::{Filter, mix};
use crate::private::Mechanism;

/// One sample with gradients that arrive one evaluation point at a time. Dropping it before [`Mixing::add`] adds
/// nothing.
///
/// ```
/// use damper_core::prelude::*;
///
/// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(4).build()?;
/// let (mut state, mut ledger) = (config.state::<2>(), Ledger::volatile(2));
/// let (params, mut point, mut buffer) = ([1.0; 2], [0.0; 2], [0.0; 2]);
/// let mut step = config.open(&mut state, &mut ledger)?;
/// let mut sample = step.add_points(&mut buffer)?;
/// while sample.next_eval_point(&params, &mut point)? {
///     // The gradient of ‖x‖²/2 at the evaluation point.
///     sample.eval_point(&[&point])?;
/// }
/// sample.add()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the sample is not added before `add`"]
pub struct Mixing<'a, P: StepConfig, FS> {
    adder: &'a Adder<P::Mechanism, P::Clip>,
    /// Borrowed sum of the step, which is not wiped when this is dropped.
    sum: &'a mut [<P::Mechanism as Mechanism>::Word],
    counts: &'a mut CountsOf<P>,
    filter: &'a P::Filter,
    filter_state: &'a FS,
    buffer: &'a mut [f32],
    next: usize,
}

impl<'a, P: StepConfig, FS> Mixing<'a, P, FS>
where
    P::Filter: Filter<FS>,
{
    /// Creates the combination before the first evaluation point.
    pub(super) fn new(
        adder: &'a Adder<P::Mechanism, P::Clip>,
        sum: &'a mut [<P::Mechanism as Mechanism>::Word],
        counts: &'a mut CountsOf<P>,
        filter: &'a P::Filter,
        filter_state: &'a FS,
        buffer: &'a mut [f32],
    ) -> Self {
        Self { adder, sum, counts, filter, filter_state, buffer, next: 0 }
    }

    /// Writes the next evaluation point of the sample (`[D]`) to `out`. Returns `false` after the last point.
    ///
    /// # Errors
    ///
    /// Fails if the lengths are wrong.
    pub fn next_eval_point(&self, params: &[f32], out: &mut [f32]) -> Result<bool, CallError> {
        if self.next >= self.filter.eval_points(self.filter_state) {
            return Ok(false);
        }
        self.filter.eval_point(self.filter_state, self.next, params, out).map(|_| true)
    }

    /// Takes the sample's gradient at the next evaluation point, `[D]` elements in consecutive parts.
    ///
    /// # Errors
    ///
    /// Fails if the length is wrong, or after the filter's last evaluation point.
    pub fn eval_point(&mut self, parts: &[&[f32]]) -> Result<(), CallError> {
        check_len("the gradient", self.buffer.len(), total_len(parts))?;
        if self.next >= self.filter.eval_points(self.filter_state) {
            return Err(CallError::Order("more points than the filter wants"));
        }
        mix(self.next, self.filter.weight(self.filter_state, self.next), parts, self.buffer);
        self.next += 1;
        Ok(())
    }

    /// Clips the combined gradient and adds it.
    ///
    /// # Errors
    ///
    /// Fails if an evaluation point is missing. Nothing is added.
    pub fn add(self) -> Result<(), CallError> {
        if self.next != self.filter.eval_points(self.filter_state) {
            return Err(CallError::Order("fewer points than the filter wants"));
        }
        self.adder.add(&[self.buffer], self.sum, self.counts);
        Ok(())
    }
}
