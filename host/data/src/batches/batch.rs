//! The samples drawn for one step, as batches of one fixed physical size.
//!
//! A draw of `n` samples is split, in order, into `⌈n / R⌉` chunks of `R` rows. The sample at position `p` of the draw
//! is row `p mod R` of chunk `⌊p / R⌋`. The last chunk is padded with copies of its first sample at weight 0. So the
//! position of a sample follows from the draw alone, for any distribution of chunks over threads. Every chunk has the
//! shape that the runtime was loaded for. An empty draw has no chunks, so nothing runs, and the step continues with a
//! sum of zero.

use super::augment::{Augment, PictureShape, View};
use crate::dataset::Scaling;
use crate::{DataError, Features, Labels, Normalize, Numbers, Split};
use damper_onnx::TensorRef;
use std::num::NonZeroUsize;

/// One chunk of a draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk<'a> {
    /// Index of the chunk in its draw.
    pub index: usize,
    /// The samples of the first rows, from 1 to R. The rows after them are padding.
    pub samples: &'a [u32],
}

/// Splits a draw into chunks of `rows` rows.
pub fn chunks(draw: &[u32], rows: NonZeroUsize) -> impl ExactSizeIterator<Item = Chunk<'_>> {
    draw.chunks(rows.get()).enumerate().map(|(index, samples)| Chunk { index, samples })
}

/// Buffers of one physical batch for one thread. Each chunk refills them without allocating.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    rows: usize,
    features: Vec<Numbers>,
    labels: BatchLabels,
    weights: Vec<f32>,
    /// Buffer for the bytes of a sample read from a file.
    bytes: Vec<u8>,
    /// Buffer for a sample's image before its motion.
    unmoved: Vec<f32>,
    /// The scaling of each input, if any.
    scaling: Vec<Option<Scaling>>,
}

/// The labels of a physical batch.
#[derive(Clone, PartialEq, Debug)]
pub enum BatchLabels {
    /// Class numbers, `[R]` or `[R, S]`.
    Classes(Vec<i64>),
    /// Numbers, `[R, *shape]`.
    Values(Vec<f32>),
    /// No labels.
    None,
}

impl Batch {
    /// Creates buffers of `rows` rows for the samples of `split`.
    pub fn new(split: &Split, rows: NonZeroUsize) -> Self {
        let rows = rows.get();
        let size = |shape: &[usize]| rows * shape.iter().product::<usize>();
        Self {
            rows,
            features: split
                .features
                .iter()
                .map(|features| match features.values.are_integers() {
                    true => Numbers::I64(vec![0; size(&features.shape)]),
                    false => Numbers::F32(vec![0.0; size(&features.shape)]),
                })
                .collect(),
            labels: match &split.labels {
                Labels::Classes { shape, .. } => BatchLabels::Classes(vec![0; size(shape)]),
                Labels::Values { shape, .. } => BatchLabels::Values(vec![0.0; size(shape)]),
                Labels::Stored { shape, values } if values.is_integer() => BatchLabels::Classes(vec![0; size(shape)]),
                Labels::Stored { shape, .. } => BatchLabels::Values(vec![0.0; size(shape)]),
                Labels::None => BatchLabels::None,
            },
            weights: vec![0.0; rows],
            bytes: Vec::new(),
            unmoved: Vec::new(),
            scaling: Vec::new(),
        }
    }

    /// Scales the values of each float input of `split` while filling, with one constant per value of a sample, or one
    /// for all values. The rows of the split stay unchanged.
    ///
    /// # Errors
    ///
    /// An input has another number of values.
    pub fn scaled_by(mut self, split: &Split, constants: &Normalize) -> Result<Self, DataError> {
        let scaling = |features: &Features| {
            let is_float = !features.values.are_integers();
            is_float.then(|| Scaling::new(Some(constants), &features.shape, true)).transpose()
        };
        self.scaling = split.features.iter().map(scaling).collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// Copies the samples of `chunk` into the first rows, and its first sample into the remaining rows.
    ///
    /// # Errors
    ///
    /// Samples in a file cannot be read.
    ///
    /// # Panics
    ///
    /// `chunk` is empty or has more samples than rows, a sample is not in `split`, or the shapes of `split` differ from
    /// those of the buffers.
    pub fn fill(&mut self, split: &Split, chunk: Chunk<'_>) -> Result<(), DataError> {
        assert!(!chunk.samples.is_empty() && chunk.samples.len() <= self.rows, "a chunk fits its batch");
        assert_eq!(self.features.len(), split.features.len(), "a batch is of its split's shape");
        let padding = std::iter::repeat_n(chunk.samples[0], self.rows - chunk.samples.len());
        let samples =
            || chunk.samples.iter().copied().chain(padding.clone()).map(|sample| split.place(sample as usize));
        for (input, (to, from)) in self.features.iter_mut().zip(&split.features).enumerate() {
            let scaling = self.scaling.get(input).and_then(Option::as_ref);
            match (to, &from.values) {
                (Numbers::F32(to), Numbers::F32(from)) => {
                    gather(to, from, self.rows, samples());
                    let width = to.len() / self.rows;
                    match scaling {
                        Some(scaling) if split.are_bytes.get(input) == Some(&true) => scaling.apply_to_bytes(to, width),
                        Some(scaling) => scaling.apply(to, width),
                        None => {}
                    }
                }
                (Numbers::I64(to), Numbers::I64(from)) => gather(to, from, self.rows, samples()),
                (Numbers::F32(to), Numbers::Stored(from)) if !from.is_integer() => {
                    let bytes = &mut self.bytes;
                    let floats = |row, to: &mut [f32]| from.scaled_floats(row, scaling, to, bytes);
                    read(to, 0.0, self.rows, samples(), split, floats)?;
                }
                (Numbers::I64(to), Numbers::Stored(from)) if from.is_integer() => {
                    let bytes = &mut self.bytes;
                    read(to, 0, self.rows, samples(), split, |row, to| from.integers(row, to, bytes))?;
                }
                _ => panic!("a batch has its split's kind of features"),
            }
        }
        match (&mut self.labels, &split.labels) {
            (BatchLabels::Classes(to), Labels::Classes { values, .. }) => gather(to, values, self.rows, samples()),
            (BatchLabels::Values(to), Labels::Values { values, .. }) => gather(to, values, self.rows, samples()),
            (BatchLabels::Classes(to), Labels::Stored { values, .. }) => {
                let bytes = &mut self.bytes;
                read(to, 0, self.rows, samples(), split, |row, to| values.integers(row, to, bytes))?;
            }
            (BatchLabels::Values(to), Labels::Stored { values, .. }) => {
                let bytes = &mut self.bytes;
                read(to, 0.0, self.rows, samples(), split, |row, to| values.floats(row, to, bytes))?;
            }
            (BatchLabels::None, Labels::None) => {}
            _ => panic!("a batch has its split's kind of labels"),
        }
        for (row, weight) in self.weights.iter_mut().enumerate() {
            let counts = chunk.samples.get(row).is_some_and(|sample| !split.is_null(*sample as usize));
            *weight = if counts { 1.0 } else { 0.0 };
        }
        Ok(())
    }

    /// Applies one view per row to the images of the first rows. The other rows stay as [`Batch::fill`] left them.
    pub fn augment(&mut self, split: &Split, augment: &Augment, views: impl Iterator<Item = View> + Clone) {
        for (values, features) in self.features.iter_mut().zip(&split.features) {
            let (Numbers::F32(values), Some(picture)) = (values, PictureShape::of(&features.shape)) else { continue };
            let width = values.len() / self.rows;
            for (row, view) in values.chunks_exact_mut(width).zip(views.clone()) {
                self.unmoved.clear();
                self.unmoved.extend_from_slice(row);
                picture.write(augment.motion, view, &self.unmoved, row);
            }
        }
    }

    /// Returns the number of rows R.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the values of model input `index`, row-major `[R, *shape]`.
    pub fn features(&self, index: usize) -> TensorRef<'_> {
        match &self.features[index] {
            Numbers::F32(values) => TensorRef::F32(values),
            Numbers::I64(values) => TensorRef::I64(values),
            Numbers::Stored(_) => unreachable!("a batch is in memory"),
        }
    }

    /// Returns the labels.
    pub fn labels(&self) -> &BatchLabels {
        &self.labels
    }

    /// Returns one weight per row: 1 for a sample, 0 for padding and for a null sample. Rows of weight 0 must be left
    /// out of every sum, not multiplied by it.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// Returns the data inputs of a session: each model input, then the labels if there are any.
    pub fn inputs(&self) -> impl Iterator<Item = TensorRef<'_>> {
        let labels = match &self.labels {
            BatchLabels::Classes(labels) => Some(TensorRef::I64(labels)),
            BatchLabels::Values(labels) => Some(TensorRef::F32(labels)),
            BatchLabels::None => None,
        };
        (0..self.features.len()).map(|index| self.features(index)).chain(labels)
    }
}

fn gather<T: Copy>(to: &mut [T], from: &[T], rows: usize, samples: impl Iterator<Item = usize>) {
    let width = to.len() / rows;
    if width == 0 {
        return;
    }
    for (row, sample) in to.chunks_exact_mut(width).zip(samples) {
        row.copy_from_slice(&from[sample * width..][..width]);
    }
}

/// Reads rows from a file. Null samples become zeros.
fn read<T: Copy>(
    to: &mut [T],
    zero: T,
    rows: usize,
    samples: impl Iterator<Item = usize>,
    split: &Split,
    mut reader: impl FnMut(usize, &mut [T]) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let width = to.len() / rows;
    for (to, sample) in to.chunks_exact_mut(width.max(1)).zip(samples) {
        if split.null.get(sample).copied().unwrap_or(false) {
            to.fill(zero);
        } else {
            reader(sample, to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(rows: usize) -> NonZeroUsize {
        NonZeroUsize::new(rows).unwrap()
    }

    /// Sample `i` has the features `[i, i + 0.5]` and the label `10 · i`.
    fn split(len: usize, null: &[usize]) -> Split {
        Split {
            rows: len,
            features: vec![Features {
                shape: vec![2],
                values: Numbers::F32((0..len).flat_map(|i| [i as f32, i as f32 + 0.5]).collect()),
            }],
            labels: Labels::Classes { shape: vec![], values: (0..len).map(|i| 10 * i as i64).collect() },
            null: (0..len).map(|i| null.contains(&i)).collect(),
            held: None,
            are_bytes: vec![],
            label_scale: None,
        }
    }

    fn floats(batch: &Batch) -> &[f32] {
        match batch.features(0) {
            TensorRef::F32(values) => values,
            TensorRef::I64(_) => panic!("the split holds floats"),
        }
    }

    #[test]
    fn an_empty_draw_has_no_chunk() {
        assert_eq!(chunks(&[], rows(4)).len(), 0);
    }

    // The last chunk is padded with its first sample at weight zero.
    #[test]
    fn last_chunk_is_padded_at_weight_zero() {
        let split = split(9, &[]);
        let draw = [1, 3, 4, 8, 7, 2];
        let mut batch = Batch::new(&split, rows(4));
        let all: Vec<_> = chunks(&draw, rows(4)).collect();
        assert_eq!(all.len(), 2);
        batch.fill(&split, all[0]).unwrap();
        assert_eq!(floats(&batch), [1.0, 1.5, 3.0, 3.5, 4.0, 4.5, 8.0, 8.5]);
        assert_eq!(batch.weights(), [1.0; 4]);
        batch.fill(&split, all[1]).unwrap();
        assert_eq!(floats(&batch), [7.0, 7.5, 2.0, 2.5, 7.0, 7.5, 7.0, 7.5]);
        assert_eq!(batch.labels(), &BatchLabels::Classes(vec![70, 20, 70, 70]));
        assert_eq!(batch.weights(), [1.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn a_null_sample_has_weight_zero() {
        let split = split(4, &[2]);
        let mut batch = Batch::new(&split, rows(3));
        batch.fill(&split, chunks(&[0, 2, 3], rows(3)).next().unwrap()).unwrap();
        assert_eq!(batch.weights(), [1.0, 0.0, 1.0]);
    }

    // A batch is refilled in the same memory.
    #[test]
    fn refill_reuses_memory() {
        let split = split(50, &[]);
        let mut batch = Batch::new(&split, rows(8));
        let place = |batch: &Batch| (floats(batch).as_ptr(), batch.weights().as_ptr());
        let before = place(&batch);
        for draw in [vec![1, 2, 3], (0..50).collect(), vec![49]] {
            for chunk in chunks(&draw, rows(8)) {
                batch.fill(&split, chunk).unwrap();
                assert_eq!(place(&batch), before);
            }
        }
    }

    #[test]
    fn inputs_are_features_then_labels() {
        let split = split(3, &[]);
        let batch = Batch::new(&split, rows(2));
        let inputs: Vec<_> = batch.inputs().collect();
        assert!(matches!(inputs[..], [TensorRef::F32([_, _, _, _]), TensorRef::I64([_, _])]));
    }

    #[test]
    fn integers_reach_the_session_as_integers() {
        let mut split = split(3, &[]);
        split.features.push(Features { shape: vec![2], values: Numbers::I64(vec![1, 2, 3, 4, 5, 6]) });
        let mut batch = Batch::new(&split, rows(2));
        batch.fill(&split, chunks(&[2, 0], rows(2)).next().unwrap()).unwrap();
        let inputs: Vec<_> = batch.inputs().collect();
        assert!(matches!(inputs[..], [TensorRef::F32(_), TensorRef::I64([5, 6, 1, 2]), TensorRef::I64([20, 0])]));
    }

    proptest! {
        // Every sample of the batch fills one row, in order.
        #[test]
        fn each_drawn_sample_fills_one_row(
            draw in proptest::collection::vec(0u32..40, 0..60),
            size in 1usize..20,
        ) {
            let split = split(40, &[]);
            let mut batch = Batch::new(&split, rows(size));
            let mut seen = Vec::new();
            for (index, chunk) in chunks(&draw, rows(size)).enumerate() {
                prop_assert_eq!(chunk.index, index);
                batch.fill(&split, chunk).unwrap();
                for (row, weight) in batch.weights().iter().enumerate() {
                    prop_assert_eq!(floats(&batch)[2 * row] + 0.5, floats(&batch)[2 * row + 1]);
                    if *weight == 1.0 {
                        seen.push(floats(&batch)[2 * row] as u32);
                    }
                }
            }
            prop_assert_eq!(seen, draw);
        }
    }
}
