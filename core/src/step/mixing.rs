//! One sample whose gradients at several points become one.

use super::adder::{Adder, total_len};
use crate::clip::Clip;
use crate::count::Counts;
use crate::error::{CallError, check_len};
use crate::filter::{Filter, mix};
use crate::private::Mechanism;

/// One sample whose gradients arrive point by point. Dropping it before [`Mixing::add`] adds nothing.
pub struct Mixing<'a, M: Mechanism, C, K, F, FS> {
    adder: &'a Adder<M, C>,
    /// The step's sum, lent: not wiped when this ends.
    sum: &'a mut [M::Word],
    counts: &'a mut K,
    filter: &'a F,
    filter_state: &'a FS,
    buffer: &'a mut [f32],
    next: usize,
}

impl<'a, M: Mechanism, C: Clip, K: Counts, F: Filter<FS>, FS> Mixing<'a, M, C, K, F, FS> {
    /// Before the first point.
    pub(super) fn new(
        adder: &'a Adder<M, C>,
        sum: &'a mut [M::Word],
        counts: &'a mut K,
        filter: &'a F,
        filter_state: &'a FS,
        buffer: &'a mut [f32],
    ) -> Self {
        Self { adder, sum, counts, filter, filter_state, buffer, next: 0 }
    }

    /// Writes where the sample's next gradient is wanted (`[D]`) to `out`; `false` when there are no more points.
    ///
    /// # Errors
    ///
    /// Wrong lengths.
    pub fn next_point(&self, params: &[f32], out: &mut [f32]) -> Result<bool, CallError> {
        if self.next >= self.filter.points(self.filter_state) {
            return Ok(false);
        }
        self.filter.point(self.filter_state, self.next, params, out).map(|_| true)
    }

    /// Takes the sample's gradient at the next point, `[D]` elements in consecutive parts.
    ///
    /// # Errors
    ///
    /// Wrong length, or more points than the filter wants.
    pub fn point(&mut self, parts: &[&[f32]]) -> Result<(), CallError> {
        check_len("the gradient", self.buffer.len(), total_len(parts))?;
        if self.next >= self.filter.points(self.filter_state) {
            return Err(CallError::Order("more points than the filter wants"));
        }
        mix(self.next, self.filter.weight(self.filter_state, self.next), parts, self.buffer);
        self.next += 1;
        Ok(())
    }

    /// Clips the mixed gradient and adds it.
    ///
    /// # Errors
    ///
    /// A point is missing; nothing was added.
    pub fn add(self) -> Result<(), CallError> {
        if self.next != self.filter.points(self.filter_state) {
            return Err(CallError::Order("fewer points than the filter wants"));
        }
        self.adder.add(&[self.buffer], self.sum, self.counts);
        Ok(())
    }
}
