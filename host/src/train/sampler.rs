//! The samples of each step, and the events that they make of the steps.
//!
//! - **Poisson:** a draw a step, each an event at the sampling rate. A draw of any size is split over physical batches; it is cut only
//!   where that was asked for, and then paid for out of δ ([`Truncation`](crate::accounting::Truncation)).
//! - **Shuffled:** batches of the declared size out of a new order of all samples each epoch, the last one shorter. One sample is in one
//!   batch of an epoch, wherever that lies, so an epoch is one Gaussian release at a rate of 1, with the least noise that any of its
//!   batches has. Nothing is claimed of the order.
//!
//! # Memory
//!
//! Of a shuffled run, twelve bytes a sample.

use super::Run;
use crate::accounting::Sampler;
use damper_core::noise::{Address, Generator, Purpose};
use damper_core::sampling::poisson;
use rand_core::Rng;
use std::ops::Range;

/// Samples that share one address, as the coins of Poisson draws do.
const CHUNK: u32 = 1024;

/// The steps of an epoch of shuffled batches: `⌈N / B⌉`.
pub(super) fn epoch_steps(samples: u64, batch: u32) -> u32 {
    u32::try_from(samples.div_ceil(u64::from(batch).max(1))).unwrap_or(u32::MAX).max(1)
}

/// Chooses the samples of each step.
pub(super) struct Draws<'a> {
    run: &'a Run,
    samples: u32,
    /// The order of the epoch, by random words.
    order: Vec<(u64, u32)>,
    epoch: Option<u32>,
}

impl<'a> Draws<'a> {
    pub(super) fn new(run: &'a Run) -> Self {
        Self { run, samples: run.data.train.len() as u32, order: Vec::new(), epoch: None }
    }

    /// The samples of step `step`, ascending.
    pub(super) fn draw(&mut self, generator: &impl Generator, step: u32, draw: &mut Vec<u32>) {
        draw.clear();
        match self.run.config.sampler {
            Sampler::Poisson => {
                draw.extend(poisson(generator, step, self.run.rate, self.samples));
                if let Some(truncation) = self.run.truncation {
                    // The first ones by their number, which says nothing of the data.
                    draw.truncate(usize::try_from(truncation.most).unwrap_or(usize::MAX));
                }
            }
            Sampler::Shuffled => {
                let per_epoch = epoch_steps(u64::from(self.samples), self.run.config.batch_size);
                let epoch = step / per_epoch;
                if self.epoch != Some(epoch) {
                    self.epoch = Some(epoch);
                    self.shuffle(generator, epoch);
                }
                let batch = self.run.config.batch_size as usize;
                let from = (step % per_epoch) as usize * batch;
                draw.extend(self.order.iter().skip(from).take(batch).map(|(_, sample)| sample));
                draw.sort_unstable();
            }
        }
    }

    /// Orders the samples by a word each, from the addresses that their coins would have.
    fn shuffle(&mut self, generator: &impl Generator, epoch: u32) {
        self.order.clear();
        for chunk in 0..self.samples.div_ceil(CHUNK) {
            let mut words = generator.stream(Address { purpose: Purpose::Sampling, step: epoch, chunk });
            let samples = chunk * CHUNK..self.samples.min((chunk + 1).saturating_mul(CHUNK));
            self.order.extend(samples.map(|sample| (words.next_u64(), sample)));
        }
        self.order.sort_unstable();
    }

    /// The steps whose least noise is that of the event which begins at step `step`, if one does.
    pub(super) fn event(&self, step: u32) -> Option<Range<u32>> {
        match self.run.config.sampler {
            Sampler::Poisson => Some(step..step + 1),
            Sampler::Shuffled => {
                let per_epoch = epoch_steps(u64::from(self.samples), self.run.config.batch_size);
                step.is_multiple_of(per_epoch).then(|| step..self.run.steps.min(step.saturating_add(per_epoch)))
            }
        }
    }
}
