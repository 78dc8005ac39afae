//! Counts of how often samples are drawn, alone and together.

use super::super::chance::binomial;
use super::super::made::Linear;
use super::super::tests_of::Tests;
use super::laws::Checks;
use crate::Run;
use damper_accounting::Sampler;

/// The draws of a course.
pub(super) struct BatchSampler {
    sampler: Sampler,
    /// Groups of cyclic draws, and how many steps each had; else one.
    groups: Vec<u64>,
    /// The least distance of two steps of a sample that is priced, the largest batch, and the step that each sample was in last.
    has_pattern: bool,
    separation: u32,
    most: usize,
    last: Vec<Option<u32>>,
    /// How often each sample was drawn.
    drawn: Vec<u64>,
    /// Pairs of draws that should be independent, and how often both came up: of neighbours, of samples a chunk apart, and of one sample
    /// at consecutive steps.
    both: [(u64, u64); 3],
    /// The draw of the step before.
    before: Vec<u32>,
}

impl BatchSampler {
    /// Of the samples of `run`.
    pub(super) fn new(run: &Run) -> Self {
        let (config, samples) = (&run.config, run.data.train.len());
        Self {
            sampler: config.sampler,
            has_pattern: config.sampler != Sampler::Poisson || run.terms.correlated.is_some(),
            groups: vec![0; config.groups() as usize],
            separation: match (&run.terms.correlated, config.sampler) {
                (Some(noise), _) => noise.participation.separation(),
                (None, Sampler::CyclicPoisson) => config.groups(),
                (None, Sampler::MinSeparation) => samples.div_ceil(config.batch_size as usize) as u32,
                (None, _) => 1,
            },
            most: if config.sampler == Sampler::MinSeparation { config.batch_size as usize } else { usize::MAX },
            last: vec![None; samples],
            drawn: vec![0; samples],
            both: [(0, 0); 3],
            before: vec![],
        }
    }

    /// The draw of a step, after `steps` of the same run.
    pub(super) fn add(&mut self, samples: &[u32], steps: u32, laws: &mut Checks) {
        let group = steps as usize % self.groups.len();
        self.groups[group] += 1;
        if self.has_pattern {
            let of_group = samples.iter().all(|sample| *sample as usize % self.groups.len() == group);
            laws.pattern.hold(of_group && samples.len() <= self.most, || {
                format!("step {steps}: {} samples, of which some are of another group, or too many", samples.len())
            });
            for sample in samples {
                let Some(last) = self.last.get_mut(*sample as usize) else { continue };
                let distance = last.map_or(u32::MAX, |last| steps - last);
                laws.pattern.hold(distance >= self.separation, || {
                    format!(
                        "sample {sample}: steps {} and {steps}, {} apart are priced",
                        steps - distance,
                        self.separation
                    )
                });
                *last = Some(steps);
            }
        }
        for sample in samples {
            if let Some(drawn) = self.drawn.get_mut(*sample as usize) {
                *drawn += 1;
            }
        }
        if self.sampler == Sampler::Poisson {
            self.pair(samples, steps);
        }
    }

    /// Counts the pairs of samples that were both drawn. No sample is in two pairs of a kind.
    fn pair(&mut self, samples: &[u32], steps: u32) {
        let count = self.drawn.len() as u64;
        let drew = |samples: &[u32], sample: u32| samples.binary_search(&sample).is_ok();
        for ((pairs, both), distance) in self.both.iter_mut().zip([1u32, 1024]) {
            let whole = count / (2 * u64::from(distance)) * u64::from(distance);
            let rest = (count % (2 * u64::from(distance))).saturating_sub(u64::from(distance));
            *pairs += whole + rest;
            let firsts = samples.iter().filter(|sample| (**sample / distance).is_multiple_of(2));
            *both += firsts.filter(|sample| drew(samples, **sample + distance)).count() as u64;
        }
        if steps % 2 == 1 {
            self.both[2].0 += count;
            self.both[2].1 += samples.iter().filter(|sample| drew(&self.before, **sample)).count() as u64;
        }
        self.before.clear();
        self.before.extend_from_slice(samples);
    }

    /// The next run begins.
    pub(super) fn again(&mut self) {
        self.before.clear();
        self.last.fill(None);
    }

    /// The tests of `steps` steps at `rate`.
    pub(super) fn conclude(self, name: &str, linear: Option<Linear>, rate: f64, steps: u64, tests: &mut Tests) {
        let of = |what: &str| format!("{name}: {what}");
        if self.sampler == Sampler::MinSeparation || self.sampler == Sampler::Shuffled {
            return;
        }
        for (sample, drawn) in self.drawn.iter().enumerate() {
            let steps = if self.groups.len() > 1 { self.groups[sample % self.groups.len()] } else { steps };
            tests.test(&of("draws of each sample, at the priced rate"), steps, binomial(*drawn, steps, rate), || {
                format!("sample {sample}: drawn {drawn} times in {steps} steps, at a rate of {rate:.6}")
            });
        }
        if self.sampler != Sampler::Poisson {
            return;
        }
        let mut group = |what: &str, of_group: &dyn Fn(usize) -> bool| {
            let members = (0..self.drawn.len()).filter(|sample| of_group(*sample));
            let (count, drawn) = members.fold((0u64, 0u64), |(n, k), sample| (n + 1, k + self.drawn[sample]));
            tests.test(
                &of("draws of groups of samples, at the priced rate"),
                count * steps,
                binomial(drawn, count * steps, rate),
                || format!("{what}: {drawn} draws in {steps} steps of {count} samples, at a rate of {rate:.6}"),
            );
        };
        group("all samples", &|_| true);
        if self.drawn.len() >= 64 {
            let tenth = self.drawn.len() / 10;
            group("the first tenth", &|sample| sample < tenth);
            group("the last tenth", &|sample| sample >= self.drawn.len() - tenth);
            group("even samples", &|sample| sample % 2 == 0);
            if let Some(linear) = linear {
                for class in 0..linear.classes.min(8) {
                    group(&format!("label {class}"), &|sample| sample % linear.classes == class);
                }
            }
        }

        for ((pairs, both), what) in
            self.both.into_iter().zip(["neighbours", "samples a chunk apart", "consecutive steps"])
        {
            tests.test(&of("draws are independent"), pairs, binomial(both, pairs, rate * rate), || {
                format!("{what}: both drawn {both} times of {pairs}, at a rate of {rate:.6}")
            });
        }
    }
}
