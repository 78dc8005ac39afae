//! A gradient that arrives in segments, in order, and is not stored.

/// Receives the consecutive segments of one sample's gradient from its producer. See
/// [`Open::add_streamed`](crate::step::Open::add_streamed).
///
/// ```
/// use damper_core::prelude::*;
///
/// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(1).build()?;
/// let (mut state, mut ledger) = (config.state::<4>(), Ledger::volatile(1));
/// let mut step = config.open(&mut state, &mut ledger)?;
/// step.add_streamed(|segments| {
///     // A layer of which this call may need nothing.
///     if !segments.skip(2) {
///         segments.push(&[0.1, 0.2]);
///     }
///     segments.push(&[0.3, 0.4]);
/// })?;
/// step.finish(&mut [0.0; 4], &NoiseRng::simulation(1))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Segments<'a> {
    /// Number of coordinates so far.
    at: usize,
    /// First coordinate of the requested range, and the first coordinate after it.
    from: usize,
    to: usize,
    take: &'a mut dyn FnMut(&[f32]),
}

impl<'a> Segments<'a> {
    pub(crate) fn new(from: usize, to: usize, take: &'a mut dyn FnMut(&[f32])) -> Self {
        Self { at: 0, from, to, take }
    }

    /// Returns the number of coordinates so far.
    pub(crate) fn len(&self) -> usize {
        self.at
    }

    /// Takes the next segment, of any length.
    pub fn push(&mut self, segment: &[f32]) {
        let (_, rest) = segment.split_at(self.from.saturating_sub(self.at).min(segment.len()));
        let start = self.at.max(self.from);
        let (wanted, _) = rest.split_at(self.to.saturating_sub(start).min(rest.len()));
        self.at = self.at.saturating_add(segment.len());
        if !wanted.is_empty() {
            (self.take)(wanted);
        }
    }

    /// Returns true if this call needs none of the next `len` coordinates. They then count as passed, and must not be
    /// pushed.
    ///
    /// A producer may ignore this function. It saves the work of the other layers with
    /// [`PerLayer`](crate::clip::PerLayer).
    pub fn skip(&mut self, len: usize) -> bool {
        let end = self.at.saturating_add(len);
        let unwanted = end <= self.from || self.at >= self.to;
        if unwanted {
            self.at = end;
        }
        unwanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    extern crate std;
    use std::vec::Vec;

    proptest! {
        // The requested coordinates arrive in order, with or without calls of `skip`.
        #[test]
        fn segments_are_the_wanted_range(
            lengths in prop::collection::vec(0usize..7, 0..9), asks in prop::collection::vec(any::<bool>(), 9),
            from in 0usize..40, len in 0usize..40,
        ) {
            let (mut next, mut taken) = (0u8, Vec::new());
            let mut take = |segment: &[f32]| taken.extend_from_slice(segment);
            let mut segments = Segments::new(from, from + len, &mut take);
            for (len, asks) in lengths.iter().zip(asks) {
                let segment: Vec<f32> = (0..*len).map(|i| f32::from(next + i as u8)).collect();
                next += *len as u8;
                if !(asks && segments.skip(*len)) {
                    segments.push(&segment);
                }
            }
            prop_assert_eq!(segments.len(), usize::from(next));
            let to = (from + len).min(usize::from(next));
            prop_assert_eq!(taken, (from.min(to)..to).map(|i| i as f32).collect::<Vec<_>>());
        }
    }
}
