//! Counts of draws of samples, alone and together.

use super::super::chance::binomial;
use super::super::made::Linear;
use super::super::power::Power;
use super::super::rates::Rates;
use super::super::tests_of::Tests;
use super::laws::Checks;
use damper_accounting::Sampler;
use damper_train::Run;
use damper_train::inside::sampler::epoch_steps;

/// Number of labels with separate tests of their samples' draws, in the small synthetic network.
const CLASSES: usize = 3;

/// The batches of a course.
pub(super) struct BatchSampler {
    sampler: Sampler,
    /// Number of groups of cyclic draws, else 1.
    groups: usize,
    /// Steps of an epoch of shuffled batches. A sample comes once in an epoch.
    epoch: Option<u32>,
    /// True if the accountant assumes a pattern: a least distance of two steps of a sample (`separation`) and a largest
    /// batch (`most`). `last` is the last step of each sample.
    has_pattern: bool,
    separation: u32,
    most: usize,
    last: Vec<Option<u32>>,
    rates: Rates,
    /// Number of draws of the samples with each of the first labels.
    by_class: [u64; CLASSES],
    /// Joint and possible draws of pairs that should be independent: neighbours, samples a chunk apart, and one sample
    /// at consecutive steps.
    both: [(u64, u64); 3],
    /// Batch of the previous step.
    before: Vec<u32>,
}

impl BatchSampler {
    /// Creates the counts for the samples of `run`.
    pub(super) fn new(run: &Run) -> Self {
        let (config, samples) = (&run.config, run.data.train.len());
        Self {
            sampler: config.sampler,
            has_pattern: config.sampler != Sampler::Poisson
                || run.price.terms.correlated.is_some()
                || run.price.terms.truncation.is_some(),
            groups: config.groups() as usize,
            epoch: (config.sampler == Sampler::Shuffled).then(|| epoch_steps(samples as u64, config.batch_size)),
            separation: match (&run.price.terms.correlated, config.sampler) {
                (Some(noise), _) => noise.participation.separation(),
                (None, Sampler::CyclicPoisson) => config.groups(),
                (None, Sampler::MinSeparation) => samples.div_ceil(config.batch_size as usize) as u32,
                (None, _) => 1,
            },
            most: match (config.sampler, run.price.terms.truncation) {
                (Sampler::MinSeparation | Sampler::Shuffled, _) => config.batch_size as usize,
                (_, Some(truncation)) => usize::try_from(truncation.most).unwrap_or(usize::MAX),
                _ => usize::MAX,
            },
            last: vec![None; samples],
            rates: Rates::new(run, samples),
            by_class: [0; CLASSES],
            both: [(0, 0); 3],
            before: vec![],
        }
    }

    /// Adds the batch of a step, after `steps` steps of the same run.
    pub(super) fn add(&mut self, samples: &[u32], steps: u32, laws: &mut Checks) {
        let group = steps as usize % self.groups;
        if self.has_pattern {
            let of_group = samples.iter().all(|sample| *sample as usize % self.groups == group);
            laws.pattern.hold(of_group && samples.len() <= self.most, || {
                format!("step {steps}: {} samples, of which some are of another group, or too many", samples.len())
            });
            for sample in samples {
                let Some(last) = self.last.get_mut(*sample as usize) else { continue };
                let distance = last.map_or(u32::MAX, |last| steps - last);
                let is_twice = self.epoch.is_some_and(|epoch| last.is_some_and(|last| last / epoch == steps / epoch));
                laws.pattern.hold(distance >= self.separation && !is_twice, || match self.epoch {
                    Some(_) => format!("sample {sample}: steps {} and {steps} of one epoch", steps - distance),
                    None => format!(
                        "sample {sample}: steps {} and {steps}, {} apart are priced",
                        steps - distance,
                        self.separation
                    ),
                });
                *last = Some(steps);
            }
        }
        if !self.has_coins() {
            return;
        }
        self.rates.add(samples, steps);
        samples.iter().for_each(|sample| self.by_class[*sample as usize % CLASSES] += 1);
        if self.sampler == Sampler::Poisson {
            self.pair(samples, steps);
        }
    }

    /// Returns true if each sample is drawn by its own Bernoulli trial.
    fn has_coins(&self) -> bool {
        matches!(self.sampler, Sampler::Poisson | Sampler::CyclicPoisson)
    }

    /// Counts the pairs of samples that were both drawn. No sample is in two pairs of a kind.
    fn pair(&mut self, samples: &[u32], steps: u32) {
        let count = self.rates.samples() as u64;
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

    /// Starts the next run.
    pub(super) fn again(&mut self) {
        self.before.clear();
        self.last.fill(None);
    }

    /// Adds the tests of `steps` steps at `rate`.
    pub(super) fn conclude(self, name: &str, linear: Option<Linear>, rate: f64, steps: u64, tests: &mut Tests) {
        let of = |what: &str| format!("{name}: {what}");
        if !self.has_coins() {
            return;
        }
        let (count, is_cut) = (self.rates.samples(), self.most < usize::MAX);
        self.rates.conclude(name, rate, tests);
        if self.sampler != Sampler::Poisson || is_cut {
            return;
        }
        if let Some(linear) = linear.filter(|linear| linear.classes == CLASSES && count >= 64) {
            for (class, drawn) in self.by_class.into_iter().enumerate() {
                let trials = ((count + linear.classes - 1 - class) / linear.classes) as u64 * steps;
                tests.test(
                    &of("draws of each label, at the priced rate"),
                    trials,
                    binomial(drawn, trials, rate),
                    || format!("label {class}: {drawn} draws of {trials} coins, at a rate of {rate:.6}"),
                );
                let what = "the rate of a label";
                tests.finds(&of("draws of each label, at the priced rate"), Power::Rate { what, trials, rate, of: 1 });
            }
        }
        for ((pairs, both), what) in
            self.both.into_iter().zip(["neighbours", "samples a chunk apart", "consecutive steps"])
        {
            tests.test(&of("draws are independent"), pairs, binomial(both, pairs, rate * rate), || {
                format!("{what}: both drawn {both} times of {pairs}, at a rate of {rate:.6}")
            });
            if pairs > 0 {
                let power = Power::Rate {
                    what: "how often two samples come together",
                    trials: pairs,
                    rate: rate * rate,
                    of: 1,
                };
                tests.finds(&of("draws are independent"), power);
            }
        }
    }
}
