//! Counts of how often samples are drawn, alone and together.

use super::super::chance::binomial;
use super::super::made::Linear;
use super::super::tests_of::Tests;

/// The draws of a course.
pub(super) struct BatchSampler {
    /// How often each sample was drawn.
    drawn: Vec<u64>,
    /// Pairs of draws that should be independent, and how often both came up: of neighbours, of samples a chunk apart, and of one sample
    /// at consecutive steps.
    both: [(u64, u64); 3],
    /// The draw of the step before.
    before: Vec<u32>,
}

impl BatchSampler {
    /// Of so many samples.
    pub(super) fn new(samples: usize) -> Self {
        Self { drawn: vec![0; samples], both: [(0, 0); 3], before: vec![] }
    }

    /// The draw of a step, after `steps` of the same run.
    pub(super) fn add(&mut self, samples: &[u32], steps: u32) {
        for sample in samples {
            if let Some(drawn) = self.drawn.get_mut(*sample as usize) {
                *drawn += 1;
            }
        }
        self.pair(samples, steps);
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
    }

    /// The tests of `steps` steps at `rate`.
    pub(super) fn conclude(self, name: &str, linear: Option<Linear>, rate: f64, steps: u64, tests: &mut Tests) {
        let of = |what: &str| format!("{name}: {what}");
        for (sample, drawn) in self.drawn.iter().enumerate() {
            tests.test(&of("draws of each sample, at the priced rate"), steps, binomial(*drawn, steps, rate), || {
                format!("sample {sample}: drawn {drawn} times in {steps} steps, at a rate of {rate:.6}")
            });
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
