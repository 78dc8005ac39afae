//! The random views of each sample in a step.

use crate::engine::generator::RunGenerator;
use damper_core::noise::{Address, Generator, Purpose};
use damper_data::{Augment, Batch, Chunk, Split, View};
use rand_core::Rng;

/// The views of a step. They follow from key, step and sample alone, not from the row or worker of a sample.
#[derive(Clone, Copy)]
pub struct Views<'a> {
    augment: Augment,
    generator: &'a RunGenerator,
    step: u32,
}

impl<'a> Views<'a> {
    /// Creates the views of step `step`. Returns `None` if samples are used unchanged.
    pub fn new(augment: Option<Augment>, generator: &'a RunGenerator, step: u32) -> Option<Self> {
        augment.map(|augment| Self { augment, generator, step })
    }

    /// Returns the number of views.
    pub fn count(&self) -> u32 {
        self.augment.views.get()
    }

    /// Replaces the samples of `chunk`, which fill `batch`, by their view number `view`.
    pub fn apply(&self, batch: &mut Batch, split: &Split, chunk: Chunk<'_>, view: u32) {
        let views = chunk.samples.iter().map(|sample| self.view(*sample, view));
        batch.augment(split, &self.augment, views);
    }

    fn view(&self, sample: u32, view: u32) -> View {
        let mut words =
            self.generator.stream(Address { purpose: Purpose::Augmentation, step: self.step, chunk: sample });
        (0..3 * view).for_each(|_| {
            words.next_u32();
        });
        self.augment.view(std::array::from_fn(|_| words.next_u32()))
    }
}
