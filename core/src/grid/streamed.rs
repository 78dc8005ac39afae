//! The exact path without a stored gradient: a producer yields it again in each pass.
//!
//! # Numerics
//!
//! Every bit equals that of [`Grid::add_sample`]. Norms are sums in the same lanes, coordinates use the same function,
//! and the scale decreases in the same steps. These are the passes over a layer of one sample, or over the whole
//! gradient without layers:
//!
//! ```text
//! 1. Σ g_i² in floats, of the whole first; not finite: nothing is added
//! 2. Σ q_i² in integers; above u²: shrink the scale, and again
//! 3. q_i is added, and Σ q_i² counted again as it goes; above u²: the last segment is subtracted
//! ```
//!
//! # Privacy
//!
//! The bound does not depend on the producer. Pass 3 keeps a segment of coordinates only if the sum of squares,
//! including the segment, is at most `u²`. Otherwise it subtracts the same segment again and stops. The contribution of
//! one sample therefore has an exact norm of at most `C`, whatever the producer yields.
//!
//! If pass 3 yields other values than pass 2, `Σ q_i²` or the length reveals it, unless both agree. The sample was then
//! added in part and must not be added again. The caller ends the step without a release.
//!
//! # Memory
//!
//! None beyond the sum.

use super::{Grid, OnGrid, Word, quantise, squares};
use crate::clip::{Clip, Layer, Segments};
use crate::numerics::function::sqrt_f32;
use crate::numerics::reduce::SumOfSquares;
use crate::private::SumWord;

/// Cause that kept a sample from being added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StreamError {
    /// The producer yielded this number of coordinates instead of `[D]`. Nothing was added.
    Length(usize),
    /// The producer yielded other values in a later pass. The sample may have been added in part.
    Changed,
}

/// Producer of one sample, and the length of its gradient.
struct Stream<'a> {
    producer: &'a mut dyn FnMut(&mut Segments<'_>),
    dim: usize,
}

impl Stream<'_> {
    /// Passes the coordinates `from..from + len` to `take`. Returns the total number of coordinates.
    fn pass(&mut self, from: usize, len: usize, take: &mut dyn FnMut(&[f32])) -> usize {
        let mut segments = Segments::new(from, from.saturating_add(len), take);
        (self.producer)(&mut segments);
        segments.len()
    }

    fn sum_of_squares(&mut self, from: usize, len: usize) -> Result<f32, StreamError> {
        let mut sum = SumOfSquares::default();
        match self.pass(from, len, &mut |segment| sum.add(segment)) {
            all if all == self.dim => Ok(sum.take()),
            all => Err(StreamError::Length(all)),
        }
    }

    /// Passes the segments of a layer to `take`, until it returns false. Fails if it does, or if the coordinates are
    /// not finite or their number changed.
    // Not inlined on small targets, to save flash.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    fn each(&mut self, (from, len): (usize, usize), take: &mut dyn FnMut(&[f32]) -> bool) -> Result<(), StreamError> {
        let mut is_right = true;
        let all = self.pass(from, len, &mut |grads| {
            // The finite norm excludes such values. A product with them has no bound.
            is_right = is_right && grads.iter().all(|grad| grad.is_finite()) && take(grads);
        });
        if is_right && all == self.dim { Ok(()) } else { Err(StreamError::Changed) }
    }

    /// Adds a layer with this norm and first coordinate `from`, as [`OnGrid`] adds a stored layer.
    fn add_layer<C: Clip, W: Word>(
        &mut self,
        rule: &OnGrid<'_, C>,
        from: usize,
        layer: Layer,
        norm: f32,
        sum: &mut [SumWord<W>],
    ) -> Result<(), StreamError> {
        let (units, mut scale) = rule.scale(layer, norm);
        if !scale.is_finite() {
            return Ok(());
        }
        let bound = u64::from(units) * u64::from(units);
        let mut shrink = 1.0 / (1u32 << 20) as f32;
        let place = (from, layer.len);
        let expected = loop {
            let mut total = 0u64;
            self.each(place, &mut |grads| {
                total = total.saturating_add(squares(units, scale, grads));
                true
            })?;
            if total <= bound {
                break total;
            }
            scale *= 1.0 - shrink;
            shrink *= 2.0;
        };
        let (mut total, mut rest) = (0u64, sum);
        self.each(place, &mut |grads| {
            if grads.len() > rest.len() {
                return false;
            }
            let (here, after) = core::mem::take(&mut rest).split_at_mut(grads.len());
            total = total.saturating_add(quantise(units, scale, core::iter::once(grads), here));
            rest = after;
            if total > bound {
                // Truncation is symmetric, so this subtracts exactly what was added.
                quantise(units, -scale, core::iter::once(grads), here);
            }
            total <= bound
        })?;
        if total == expected { Ok(()) } else { Err(StreamError::Changed) }
    }
}

impl Grid {
    /// Adds the gradient that `producer` yields in several passes, as [`Grid::add_sample`] does.
    pub(crate) fn add_streamed<C: Clip, W: Word>(
        self,
        clip: &C,
        threshold: f32,
        producer: &mut dyn FnMut(&mut Segments<'_>),
        sum: &mut [SumWord<W>],
    ) -> Result<Option<f32>, StreamError> {
        let mut stream = Stream { producer, dim: sum.len() };
        let norm_sq = stream.sum_of_squares(0, sum.len())?;
        if !norm_sq.is_finite() {
            return Ok(None);
        }
        let norm = sqrt_f32(norm_sq);
        let rule = OnGrid { grid: self, clip, threshold };
        let Some(layers) = clip.layers() else {
            stream.add_layer(&rule, 0, Layer::whole(sum.len()), norm, sum)?;
            return Ok(Some(norm));
        };
        let (mut at, mut rest) = (0usize, sum);
        for layer in layers.as_slice() {
            let (here, after) = rest.split_at_mut(layer.len.min(rest.len()));
            let norm_sq = stream.sum_of_squares(at, layer.len).map_err(|_| StreamError::Changed)?;
            if !norm_sq.is_finite() {
                return Err(StreamError::Changed);
            }
            stream.add_layer(&rule, at, *layer, sqrt_f32(norm_sq), here)?;
            at = at.saturating_add(layer.len);
            rest = after;
        }
        Ok(Some(norm))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::adversarial;
    use super::*;
    use crate::clip::{Automatic, FlatL2, Layers, PerLayer};
    use proptest::prelude::*;

    extern crate std;
    use std::vec;
    use std::vec::Vec;

    const BITS: u32 = 16;

    /// Yields `grad` in segments of these lengths, repeated.
    fn push(grad: &[f32], lengths: &[usize], skips: bool, segments: &mut Segments<'_>) {
        let (mut rest, mut turn) = (grad, 0);
        while !rest.is_empty() {
            let (segment, after) = rest.split_at(lengths[turn % lengths.len()].min(rest.len()));
            if !(skips && segments.skip(segment.len())) {
                segments.push(segment);
            }
            (rest, turn) = (after, turn + 1);
        }
    }

    fn square(sum: &[SumWord<i64>]) -> u128 {
        sum.iter().map(|word| u128::from(word.0.unsigned_abs()).pow(2)).sum()
    }

    fn words(sum: &[SumWord<i64>]) -> Vec<i64> {
        sum.iter().map(|word| word.0).collect()
    }

    fn same<C: Clip>(clip: C, threshold: f32, grad: &[f32], lengths: &[usize]) -> Result<(), TestCaseError> {
        let grid = Grid::new(BITS).unwrap();
        let (mut stored, mut streamed) = (vec![SumWord(3i64); grad.len()], vec![SumWord(3i64); grad.len()]);
        let norm = grid.add_sample(&clip, threshold, &[grad], &mut stored);
        for skips in [false, true] {
            streamed.fill(SumWord(3));
            let mut producer = |segments: &mut Segments<'_>| push(grad, lengths, skips, segments);
            let found = grid.add_streamed(&clip, threshold, &mut producer, &mut streamed).unwrap();
            prop_assert_eq!(found.map(f32::to_bits), norm.map(f32::to_bits));
            prop_assert_eq!(words(&stored), words(&streamed));
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        // Sums and norms have the bits of a stored gradient, for any segments, clipping rule and gradient.
        #[test]
        fn streamed_sum_has_stored_bits(
            grad in adversarial(), lengths in prop::collection::vec(1usize..200, 1..4),
            threshold in prop_oneof![1e-30f32..1e-20, 1e-3f32..10.0, 1e20f32..1e30],
            bad in prop::option::weighted(0.1, prop::sample::select(&[f32::NAN, f32::INFINITY, 1e30][..])),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut grad = grad;
            let at = cut.index(grad.len());
            grad[at] = bad.unwrap_or(grad[at]);
            same(FlatL2, threshold, &grad, &lengths)?;
            same(Automatic::new(0.01).unwrap(), threshold, &grad, &lengths)?;
            let layers = [Layer::equal(at, 3), Layer::equal(grad.len() - at, 3), Layer::equal(0, 3)];
            same(PerLayer::new(FlatL2, Layers::new(&layers).unwrap()).unwrap(), threshold, &grad, &lengths)?;
        }

        // A producer with other values in each pass adds at most the clip.
        #[test]
        fn lying_producer_adds_at_most_the_clip(
            passes in prop::collection::vec(
                (adversarial(), any::<bool>(), prop::sample::select(&[1.0f32, 1e9, f32::NAN, f32::INFINITY][..])), 1..6,
            ),
            dim in 1usize..40, layered in any::<bool>(),
        ) {
            let grid = Grid::new(BITS).unwrap();
            let mut pass = 0;
            let mut producer = |segments: &mut Segments<'_>| {
                let (grad, fits, factor) = &passes[pass % passes.len()];
                let len = if *fits { dim } else { grad.len() };
                let grad: Vec<f32> = grad.iter().cycle().take(len).map(|x| x * factor).collect();
                push(&grad, &[7], false, segments);
                pass += 1;
            };
            let mut sum = vec![SumWord(0i64); dim];
            let layers = [Layer::equal(dim / 2, 2), Layer::equal(dim - dim / 2, 2)];
            let found = if layered {
                let clip = PerLayer::new(FlatL2, Layers::new(&layers).unwrap()).unwrap();
                grid.add_streamed(&clip, 1.0, &mut producer, &mut sum)
            } else {
                grid.add_streamed(&FlatL2, 1.0, &mut producer, &mut sum)
            };
            prop_assert!(square(&sum) <= 1u128 << (2 * BITS));
            if matches!(found, Err(StreamError::Length(_)) | Ok(None)) {
                prop_assert!(square(&sum) == 0);
            }
        }
    }

    /// Every change in the third pass is detected. Without the check of the added values, the first would add √D times
    /// the clip.
    #[test]
    fn lie_while_adding_is_found() {
        let grid = Grid::new(BITS).unwrap();
        let honest = vec![0.25f32; 1000];
        let lies = [
            vec![1e30; 1000],
            vec![0.5; 1000],
            vec![0.0; 1000],
            vec![f32::NAN; 1000],
            vec![0.25; 999],
            vec![0.25; 1001],
        ];
        for lie in lies {
            let (mut pass, mut sum) = (0, vec![SumWord(0i64); 1000]);
            let mut producer = |segments: &mut Segments<'_>| {
                pass += 1;
                segments.push(if pass == 3 { &lie } else { &honest });
            };
            let found = grid.add_streamed(&FlatL2, 1.0, &mut producer, &mut sum);
            assert_eq!(found, Err(StreamError::Changed), "{}", lie[0]);
            assert!(square(&sum) <= 1u128 << (2 * BITS), "{}", lie[0]);
        }
    }

    /// Squares that underflow give too small a norm. The scale then decreases as that of a stored gradient does, in
    /// more passes.
    #[test]
    fn shrinking_takes_more_passes() {
        let grid = Grid::new(BITS).unwrap();
        let mut most = 0;
        for (size, n) in [(2.7e-23f32, 9), (1e-22, 30), (1e-22, 700), (4e-23, 5000), (6e-23, 3)] {
            let grad: Vec<f32> =
                (0..n).map(|i| if i % 3 == 0 { -size } else { size * (1.0 + i as f32 / 4e4) }).collect();
            let (mut passes, mut sum, mut stored) = (0, vec![SumWord(0i64); n], vec![SumWord(0i64); n]);
            let mut producer = |segments: &mut Segments<'_>| {
                passes += 1;
                segments.push(&grad);
            };
            grid.add_streamed(&FlatL2, 1e-23, &mut producer, &mut sum).unwrap();
            grid.add_sample(&FlatL2, 1e-23, &[&grad], &mut stored);
            assert_eq!(words(&sum), words(&stored));
            most = most.max(passes);
        }
        assert!(most > 3, "{most}");
    }
}
