//! The plain sum of a batch's gradients, **not private**: without clipping and noise.
//!
//! Sums are added in chunk order, regardless of the worker, so the result does not depend on the number of workers. A
//! sample without a finite gradient adds nothing, as in a private step.

use super::ordered_lock::{OrderedLock, share_chunks};
use super::reader::Reader;
use super::{ParamLayout, Sessions, Views};
use damper_data::{Chunk, Split};
use damper_runtime::{BackendError, KeptInputs};

/// Workers that compute plain sums.
pub struct PlainSums {
    workers: Vec<Worker>,
    layout: ParamLayout,
}

struct Worker {
    gradients: Reader,
    /// The sum of a chunk, `[D]`.
    sum: Vec<f64>,
    /// Number of gradients in the last sum that were not finite. Each view of a sample counts.
    non_finite: u32,
}

impl PlainSums {
    /// Loads the gradient graph for each thread.
    pub fn new(sessions: &Sessions<'_>) -> Result<Self, BackendError> {
        let layout = ParamLayout::new(sessions.grad);
        let workers = sessions.each(|sessions| {
            Ok(Worker { gradients: Reader::new(sessions)?, sum: vec![0.0; layout.dim()], non_finite: 0 })
        })?;
        Ok(Self { workers, layout })
    }

    /// Returns the number of gradients in the last sum that were not finite, over all views.
    pub fn non_finite(&self) -> u32 {
        self.workers.iter().map(|worker| worker.non_finite).sum()
    }

    /// Returns the number of threads.
    pub fn count(&self) -> usize {
        self.workers.len()
    }

    /// Writes the sum over the samples of `chunks` at `params` to `sum`, `[D]`. Each sample adds the mean over its
    /// views.
    pub fn sum(
        &mut self,
        split: &Split,
        chunks: &[Chunk<'_>],
        views: Option<Views<'_>>,
        params: &[f32],
        sum: &mut [f64],
    ) -> Result<(), BackendError> {
        sum.fill(0.0);
        self.workers.iter_mut().for_each(|worker| worker.non_finite = 0);
        let Self { workers, layout } = self;
        let params = layout.kept(params);
        let turn = OrderedLock::new(sum);
        share_chunks(workers, chunks, &turn, |worker, chunk| {
            worker.sum.fill(0.0);
            for view in 0..views.map_or(1, |views| views.count()) {
                worker.gradients.fill(split, chunk)?;
                if let Some(views) = views {
                    views.apply(&mut worker.gradients.batch, split, chunk, view);
                }
                worker.add(split, chunk, &params)?;
            }
            if let Some(views) = views {
                worker.sum.iter_mut().for_each(|x| *x /= f64::from(views.count()));
            }
            turn.take(chunk.index, |sum| add(sum, &worker.sum));
            Ok(())
        })
    }
}

impl Worker {
    /// Adds the gradients of a chunk to its sum. The rows after its samples are padding, and a null sample adds
    /// nothing.
    fn add(&mut self, split: &Split, chunk: Chunk<'_>, params: &KeptInputs<'_>) -> Result<(), BackendError> {
        let Self { gradients, sum, non_finite } = self;
        let rows = (0..chunk.samples.len()).filter(|row| !split.is_null(chunk.samples[*row] as usize));
        gradients.each_row(rows, params, &mut |_, grad| {
            if grad.iter().all(|part| part.iter().all(|x| x.is_finite())) {
                let grad = grad.iter().flat_map(|part| part.iter());
                sum.iter_mut().zip(grad).for_each(|(sum, x)| *sum += f64::from(*x));
            } else {
                *non_finite += 1;
            }
        })
    }
}

fn add(sum: &mut [f64], other: &[f64]) {
    sum.iter_mut().zip(other).for_each(|(sum, x)| *sum += x);
}
