//! The samples of each step, and the grouping of steps into accounted events.
//!
//! - **Poisson:** one draw per step, each an event at the sampling rate. A draw of any size is split over physical
//!   batches. It is truncated only if requested, which is charged to δ ([`Truncation`]).
//! - **Shuffled:** batches of the declared size from a new permutation of all samples each epoch, with a shorter last
//!   batch. A sample is in one batch of an epoch, at any position. So an epoch is one Gaussian release at a rate of 1,
//!   with the least noise of its batches. The order provides no privacy amplification.
//! - **Cyclic Poisson:** sample i is in group `i mod G`, and step t draws from group `t mod G`. A sample is in at most
//!   one draw of each G consecutive steps, which are one event at the sampling rate of the draws.
//! - **Minimum separation:** one permutation of all samples for the whole run, from the key, in batches of the declared
//!   size. Step t has batch `t mod b`, `b = ⌈N / B⌉`, so two steps of a sample are a multiple of b apart. An epoch is
//!   one event at a rate of 1, as with shuffled batches. With correlated noise the whole run is one event.
//!
//! # Memory
//!
//! For a shuffled run and a fixed order, twelve bytes per sample.

use crate::{Run, TrainConfig};
use damper_accounting::{Sampler, Truncation};
use damper_core::accounting::Rate;
use damper_core::noise::{Address, Generator, Purpose};
use damper_core::sampling::{poisson, poisson_part};
use rand_core::Rng;
use std::ops::Range;

/// Number of samples that share one noise address, as Bernoulli trials of Poisson sampling do.
const CHUNK: u32 = 1024;

/// Number of samples whose Bernoulli trials take several times as long as starting a thread.
const WORTH_A_THREAD: u32 = 1 << 14;

/// Returns the number of steps in an epoch of shuffled batches, `⌈N / B⌉`.
pub fn epoch_steps(samples: u64, batch: u32) -> u32 {
    u32::try_from(samples.div_ceil(u64::from(batch).max(1))).unwrap_or(u32::MAX).max(1)
}

/// Returns the number of steps in one event, in a run of `steps` steps.
pub(crate) fn steps_per_event(config: &TrainConfig, samples: u64, steps: u32) -> u32 {
    match config.sampler {
        Sampler::Poisson => 1,
        Sampler::MinSeparation if !config.noise_correlation.is_none() => steps,
        Sampler::Shuffled | Sampler::MinSeparation => epoch_steps(samples, config.batch_size),
        Sampler::CyclicPoisson => config.groups(),
    }
}

/// Chooses the samples of each step.
pub struct BatchSampler {
    sampler: Sampler,
    /// The rate of the Bernoulli trials.
    rate: Rate,
    groups: u32,
    steps_per_event: u32,
    truncation: Option<Truncation>,
    samples: u32,
    /// The samples that this sampler returns, of all that are drawn.
    own: Range<u32>,
    batch: u32,
    steps: u32,
    /// Number of threads that draw.
    threads: u32,
    /// The permutation of the epoch, sorted by random words.
    order: Vec<(u64, u32)>,
    epoch: Option<u32>,
}

impl BatchSampler {
    /// Creates the sampler of `run`, over `samples` samples.
    pub fn new(run: &Run, samples: u32) -> Self {
        Self {
            sampler: run.config.sampler,
            rate: run.price.terms.event_rate,
            groups: run.config.groups(),
            steps_per_event: steps_per_event(&run.config, samples.into(), run.price.terms.steps),
            truncation: run.price.terms.truncation,
            samples,
            own: 0..samples,
            batch: run.config.batch_size,
            steps: run.price.terms.steps,
            threads: u32::try_from(run.threads()).unwrap_or(u32::MAX),
            order: Vec::new(),
            epoch: None,
        }
    }

    /// Uses the same Bernoulli trials at another rate, without truncation.
    pub fn at(self, rate: Rate) -> Self {
        Self { rate, truncation: None, ..self }
    }

    /// Returns only the samples in `own`, of the same draws.
    pub fn limit(&mut self, own: Range<u32>) {
        self.own = own;
    }

    /// Draws a Poisson-sampled batch in as many parts as are worth a thread. Each sample has its own Bernoulli trial,
    /// so the batch does not depend on the parts.
    fn draw_parts(&self, generator: &(impl Generator + Sync), step: u32, draw: &mut Vec<u32>) {
        // Truncation needs the draw of all samples.
        let all = if self.truncation.is_some() { 0..self.samples } else { self.own.clone() };
        let samples = all.end - all.start;
        let parts = (samples / WORTH_A_THREAD).clamp(1, self.threads);
        let width = samples.div_ceil(parts);
        let part = |index: u32| {
            let at = |index: u32| all.start + index.saturating_mul(width).min(samples);
            let range = at(index)..at(index + 1);
            poisson_part(generator, step, self.rate, range)
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..parts).map(|index| scope.spawn(move || part(index).collect::<Vec<_>>())).collect();
            draw.extend(part(0));
            for other in others {
                draw.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
        });
    }

    /// Draws the samples of step `step`, in ascending order.
    pub fn draw(&mut self, generator: &(impl Generator + Sync), step: u32, draw: &mut Vec<u32>) {
        draw.clear();
        match self.sampler {
            Sampler::Poisson => {
                self.draw_parts(generator, step, draw);
                if let Some(truncation) = self.truncation {
                    // Keeps the samples with the lowest indices, which do not depend on the data.
                    draw.truncate(usize::try_from(truncation.most).unwrap_or(usize::MAX));
                }
            }
            Sampler::CyclicPoisson => {
                let groups = self.groups.max(1);
                let group = step % groups;
                // Draws positions in the group.
                let size = self.samples / groups + u32::from(group < self.samples % groups);
                draw.extend(poisson(generator, step, self.rate, size).map(|place| place * groups + group));
            }
            Sampler::Shuffled | Sampler::MinSeparation => {
                let per_epoch = epoch_steps(u64::from(self.samples), self.batch);
                let epoch = if self.sampler == Sampler::MinSeparation { 0 } else { step / per_epoch };
                if self.epoch != Some(epoch) {
                    self.epoch = Some(epoch);
                    self.shuffle(generator, epoch);
                }
                let batch = self.batch as usize;
                let from = (step % per_epoch) as usize * batch;
                draw.extend(self.order.iter().skip(from).take(batch).map(|(_, sample)| sample));
                draw.sort_unstable();
            }
        }
        if self.own.end - self.own.start < self.samples {
            draw.retain(|sample| self.own.contains(sample));
        }
    }

    /// Sorts the samples by one random word each, from the addresses of their Bernoulli trials.
    fn shuffle(&mut self, generator: &impl Generator, epoch: u32) {
        self.order.clear();
        for chunk in 0..self.samples.div_ceil(CHUNK) {
            let mut words = generator.stream(Address { purpose: Purpose::Sampling, step: epoch, chunk });
            let samples = chunk * CHUNK..self.samples.min((chunk + 1).saturating_mul(CHUNK));
            self.order.extend(samples.map(|sample| (words.next_u64(), sample)));
        }
        self.order.sort_unstable();
    }

    /// Returns the steps of the event that starts at step `step`, if one does. The event has the least noise of these
    /// steps.
    pub fn event(&self, step: u32) -> Option<Range<u32>> {
        let of_event = self.steps_per_event;
        step.is_multiple_of(of_event).then(|| step..self.steps.max(step + 1).min(step.saturating_add(of_event)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_core::noise::ChaCha20;

    fn draws(sampler: Sampler, samples: u32, batch: u32, most: Option<u64>) -> BatchSampler {
        let truncation = most.map(|most| Truncation { samples: u64::from(samples), most });
        let rate = Rate::of(u64::from(batch), u64::from(samples)).unwrap();
        let steps_per_event = match sampler {
            Sampler::Poisson => 1,
            Sampler::Shuffled | Sampler::MinSeparation => epoch_steps(u64::from(samples), batch),
            Sampler::CyclicPoisson => 7,
        };
        BatchSampler {
            sampler,
            rate,
            groups: 7,
            steps_per_event,
            truncation,
            samples,
            own: 0..samples,
            batch,
            steps: 1000,
            threads: 1,
            order: Vec::new(),
            epoch: None,
        }
    }

    fn steps(mut draws: BatchSampler, steps: std::ops::Range<u32>) -> Vec<Vec<u32>> {
        let generator = ChaCha20::<4>::simulation(5);
        let mut draw = vec![7];
        let one = |step| {
            draws.draw(&generator, step, &mut draw);
            draw.clone()
        };
        steps.map(one).collect()
    }

    // A shuffled epoch has each sample once, in batches of the declared size.
    #[test]
    fn shuffled_epoch_has_each_sample_once() {
        for (samples, batch) in [(10, 3), (12, 4), (2500, 64), (5, 5), (1, 1)] {
            let per_epoch = epoch_steps(u64::from(samples), batch);
            let epochs = steps(draws(Sampler::Shuffled, samples, batch, None), 0..2 * per_epoch);
            for epoch in epochs.chunks(per_epoch as usize) {
                let (last, whole) = epoch.split_last().unwrap();
                assert!(whole.iter().all(|one| one.len() == batch as usize) && !last.is_empty());
                let mut all: Vec<u32> = epoch.concat();
                all.sort_unstable();
                assert_eq!(all, (0..samples).collect::<Vec<_>>());
            }
            let again = steps(draws(Sampler::Shuffled, samples, batch, None), per_epoch..2 * per_epoch);
            assert_eq!(epochs[per_epoch as usize..], again, "a step's batch is its own, whatever was drawn before");
            assert!(samples < 10 || epochs[0] != epochs[per_epoch as usize], "a new order each epoch");
        }
    }

    #[test]
    fn an_epoch_is_one_event_and_a_draw_is_one() {
        let shuffled = draws(Sampler::Shuffled, 10, 3, None);
        let events: Vec<_> = (0..1000).filter_map(|step| shuffled.event(step)).collect();
        assert_eq!(events.len(), 250);
        assert_eq!((events[0].clone(), events[249].clone()), (0..4, 996..1000));
        let poisson = draws(Sampler::Poisson, 10, 3, None);
        assert!((0..1000).all(|step| poisson.event(step) == Some(step..step + 1)));
    }

    // Each sample is in one batch of any b consecutive steps.
    #[test]
    fn fixed_order_separates_by_an_epoch() {
        for (samples, batch) in [(10, 3), (12, 4), (2500, 64), (5, 5)] {
            let per_epoch = epoch_steps(u64::from(samples), batch);
            let drawn = steps(draws(Sampler::MinSeparation, samples, batch, None), 0..4 * per_epoch);
            assert!(drawn.iter().all(|one| one.len() <= batch as usize));
            for window in drawn.windows(per_epoch as usize) {
                let mut all: Vec<u32> = window.concat();
                all.sort_unstable();
                assert_eq!(all, (0..samples).collect::<Vec<_>>());
            }
            assert_eq!(drawn[1], steps(draws(Sampler::MinSeparation, samples, batch, None), 1..2)[0]);
        }
    }

    // A sample is drawn only at the steps of its group, at the accounted rate.
    #[test]
    fn cyclic_draws_are_of_one_group_at_the_rate() {
        let (samples, count) = (1003u32, 7000);
        let mut sampler = draws(Sampler::CyclicPoisson, samples, 14, None);
        sampler.rate = Rate::of(98, 1003).unwrap();
        let drawn = steps(sampler, 0..count);
        let mut each = vec![0u32; samples as usize];
        for (step, draw) in drawn.iter().enumerate() {
            assert!(draw.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(draw.iter().all(|sample| *sample < samples && *sample as usize % 7 == step % 7));
            draw.iter().for_each(|sample| each[*sample as usize] += 1);
        }
        // For 1000 draws at a rate of 0.0977, the bound is eight standard deviations.
        assert!(each.iter().all(|drawn| (drawn.abs_diff(98)) < 76), "{each:?}");
        let mean = f64::from(each.iter().sum::<u32>()) / f64::from(samples);
        assert!((mean - 97.7).abs() < 2.0, "{mean}");
    }

    #[test]
    fn draws_ignore_the_number_of_threads() {
        for samples in [1, WORTH_A_THREAD - 1, 3 * WORTH_A_THREAD + 1, 200_003] {
            let of = |threads| steps(BatchSampler { threads, ..draws(Sampler::Poisson, samples, 1, None) }, 0..20);
            let one = of(1);
            assert!([2, 3, 8, 64].into_iter().all(|threads| of(threads) == one), "{samples} samples");
        }
    }

    #[test]
    fn batch_is_truncated_only_on_request() {
        let whole = steps(draws(Sampler::Poisson, 400, 40, None), 0..300);
        let cut = steps(draws(Sampler::Poisson, 400, 40, Some(40)), 0..300);
        assert!(whole.iter().any(|draw| draw.len() > 50));
        for (whole, cut) in whole.iter().zip(&cut) {
            assert_eq!(cut[..], whole[..whole.len().min(40)]);
        }
    }
}
