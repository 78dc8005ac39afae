//! Draw counts of each sample of a run: alone, in blocks and in residues. Also tests if two samples have the same
//! draws.
//!
//! A family of tests, over samples or blocks, counts as one test. Its p-value is the smallest of its members times
//! their number.
//!
//! Two samples with independent trials have the same draws in all of `T` steps, at least `k` of them, with the
//! probability `(q² + (1 − q)²)^T · P[Binomial(T, q²/(q² + (1 − q)²)) ≥ k]`.

use super::chance::{binomial, same, tail};
use super::power::Power;
use super::tests_of::Tests;
use damper_accounting::Sampler;
use damper_train::Run;
use std::collections::BTreeMap;

/// Distances of the samples that are tested as residues.
const RESIDUES: [usize; 12] = [2, 3, 4, 5, 7, 10, 16, 32, 64, 128, 512, 1024];
/// Largest block that belongs to the family of small blocks.
const SMALL_BLOCK: usize = 1024;
/// Distances of a batch size from its mean, in deviations.
const AWAY: [f64; 4] = [0.5, 1.0, 2.0, 3.0];

/// Counts of the draws of a course.
pub(super) struct Rates {
    /// True if draws may be truncated: a sample may be missing, but none may come too often.
    is_cut: bool,
    /// Steps of each group of cyclic draws. Without groups, one entry.
    groups: Vec<u64>,
    /// Number of draws of each sample.
    drawn: Vec<u32>,
    /// 128-bit hash of the steps that drew each sample.
    digests: Vec<u128>,
    /// Sizes of the batches, each with its group.
    sizes: Vec<(u32, u32)>,
    /// Steps of all runs.
    steps: u64,
}

impl Rates {
    pub(super) fn new(run: &Run, samples: usize) -> Self {
        Self {
            is_cut: run.price.terms.truncation.is_some(),
            groups: vec![
                0;
                if run.config.sampler == Sampler::CyclicPoisson { run.config.groups() as usize } else { 1 }
            ],
            drawn: vec![0; samples],
            digests: vec![0; samples],
            sizes: vec![],
            steps: 0,
        }
    }

    /// Number of samples.
    pub(super) fn samples(&self) -> usize {
        self.drawn.len()
    }

    /// Adds the batch of step `step` of its run.
    pub(super) fn add(&mut self, samples: &[u32], step: u32) {
        let group = step as usize % self.groups.len();
        self.groups[group] += 1;
        self.steps += 1;
        let mark = u128::from(mixed(2 * self.steps)) << 64 | u128::from(mixed(2 * self.steps + 1));
        self.sizes.push((u32::try_from(samples.len()).unwrap_or(u32::MAX), group as u32));
        for sample in samples {
            if let Some(drawn) = self.drawn.get_mut(*sample as usize) {
                *drawn += 1;
                let digest = &mut self.digests[*sample as usize];
                *digest = digest.wrapping_add(mark);
            }
        }
    }

    /// Returns the number of trials of sample `sample`.
    fn trials(&self, sample: usize) -> u64 {
        self.groups[sample % self.groups.len()]
    }

    /// Returns the p-value of `drawn` draws in `trials` trials.
    fn p(&self, drawn: u64, trials: u64, rate: f64) -> f64 {
        if self.is_cut { tail(drawn, trials, rate, true) } else { binomial(drawn, trials, rate) }
    }

    /// Adds the tests of a course with trials at this rate.
    pub(super) fn conclude(self, name: &str, rate: f64, tests: &mut Tests) {
        if self.drawn.is_empty() || self.steps == 0 {
            return;
        }
        self.blocks(name, rate, tests);
        self.residues(name, rate, tests);
        self.sizes(name, rate, tests);
        self.sharing(name, rate, tests);
    }

    /// Tests blocks of 1, 2, 4, … consecutive samples, up to all.
    fn blocks(&self, name: &str, rate: f64, tests: &mut Tests) {
        let mut blocks: Vec<(u64, u64)> =
            self.drawn.iter().enumerate().map(|(at, drawn)| (u64::from(*drawn), self.trials(at))).collect();
        let mut width = 1usize;
        loop {
            let (what, one) = match width {
                1 => ("draws of each sample, at the priced rate", "the rate of one sample"),
                2..=SMALL_BLOCK => {
                    ("draws of blocks of 2 to 1,024 samples, at the priced rate", "the rate of two neighbours")
                }
                _ if blocks.len() > 1 => {
                    ("draws of larger blocks of samples, at the priced rate", "the rate of 2,048 samples")
                }
                _ => ("draws of all samples, at the priced rate", "the rate of all samples"),
            };
            // Of blocks with the same number of trials, the extreme blocks have the smallest p-values.
            let mut extremes: BTreeMap<u64, [(u64, usize); 2]> = BTreeMap::new();
            for (at, (drawn, trials)) in blocks.iter().enumerate() {
                let [least, most] = extremes.entry(*trials).or_insert([(*drawn, at); 2]);
                if *drawn < least.0 {
                    *least = (*drawn, at);
                }
                if *drawn > most.0 {
                    *most = (*drawn, at);
                }
            }
            let of = blocks.len() as u64;
            let found = extremes.iter().flat_map(|(trials, extremes)| extremes.iter().map(move |one| (*trials, one)));
            let found = found.map(|(trials, (drawn, at))| (self.p(*drawn, trials, rate), trials, *drawn, *at));
            if let Some((p, trials, drawn, at)) = found.min_by(|a, b| a.0.total_cmp(&b.0)) {
                let what = format!("{name}: {what}");
                let trials_least = blocks.iter().map(|(_, trials)| *trials).min().unwrap_or(0);
                tests.test(&what, trials_least, (p * of as f64).min(1.0), || {
                    let (first, last) = (at * width, ((at + 1) * width).min(self.drawn.len()) - 1);
                    let which = if first == last { format!("sample {first}") } else { format!("samples {first} to {last}") };
                    format!("{which}: {drawn} draws of {trials} coins, at a rate of {rate:.6}; of {of} blocks the farthest off")
                });
                let usual = blocks.first().map_or(0, |(_, trials)| *trials);
                tests.finds(&what, Power::Rate { what: one, trials: usual, rate, of });
            }
            if blocks.len() == 1 {
                return;
            }
            let merged = |pair: &[(u64, u64)]| pair.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            blocks = blocks.chunks(2).map(merged).collect();
            width = width.saturating_mul(2);
        }
    }

    /// Tests every m-th sample, from each start.
    fn residues(&self, name: &str, rate: f64, tests: &mut Tests) {
        let what = format!("{name}: draws of every m-th sample, at the priced rate");
        for by in RESIDUES.into_iter().filter(|by| 2 * by <= self.drawn.len()) {
            let mut sums = vec![(0u64, 0u64); by];
            for (at, drawn) in self.drawn.iter().enumerate() {
                let sum = &mut sums[at % by];
                *sum = (sum.0 + u64::from(*drawn), sum.1 + self.trials(at));
            }
            let found = sums.iter().enumerate().map(|(at, (drawn, trials))| (self.p(*drawn, *trials, rate), at));
            if let Some((p, at)) = found.min_by(|a, b| a.0.total_cmp(&b.0)) {
                let (drawn, trials) = sums[at];
                tests.test(&what, trials, (p * by as f64).min(1.0), || {
                    format!("samples {at} modulo {by}: {drawn} draws of {trials} coins, at a rate of {rate:.6}")
                });
                tests.finds(&what, Power::Rate { what: "the rate of such samples", trials, rate, of: by as u64 });
            }
        }
    }

    /// Tests the sizes of batches: independent trials make them vary.
    fn sizes(&self, name: &str, rate: f64, tests: &mut Tests) {
        let groups = self.groups.len();
        let members = |group: usize| ((self.drawn.len() + groups - 1 - group) / groups) as u64;
        let what = format!("{name}: sizes of draws, as of independent coins");
        for away in AWAY.into_iter().flat_map(|away| [away, -away]) {
            // Each group has the same number of trials, or one more.
            let (mut came, mut low, mut high) = (0u64, 1.0f64, 0.0f64);
            let mut is_tested = true;
            for group in 0..groups {
                let coins = members(group);
                let mean = coins as f64 * rate;
                let edge = mean + away * (mean * (1.0 - rate)).sqrt();
                let edge =
                    if away > 0.0 { edge.ceil().max(mean.floor() + 1.0) } else { edge.floor().min(mean.ceil() - 1.0) };
                is_tested &= edge >= 0.0 && edge <= coins as f64;
                if !is_tested {
                    break;
                }
                let chance = tail(edge as u64, coins, rate, away > 0.0);
                (low, high) = (low.min(chance / (1.0 + 1e-5)), high.max(chance));
                let is_far = |size: u32| if away > 0.0 { f64::from(size) >= edge } else { f64::from(size) <= edge };
                let of_group = self.sizes.iter().filter(|(_, of)| *of as usize == group);
                came += of_group.filter(|(size, _)| is_far(*size)).count() as u64;
            }
            if !is_tested || high >= 1.0 {
                continue;
            }
            let above = tail(came, self.steps, high, true);
            let p = if self.is_cut { above } else { 2.0 * above.min(tail(came, self.steps, low, false)) };
            tests.test(&what, self.steps, p.min(1.0), || {
                format!(
                    "{came} of {} draws {away} deviations or more from the mean, each with a probability of {high:.4}",
                    self.steps
                )
            });
            if away == 1.0 {
                tests.finds(
                    &what,
                    Power::Rate {
                        what: "draws one deviation larger: how often",
                        trials: self.steps,
                        rate: high,
                        of: 1,
                    },
                );
            }
        }
    }

    /// Tests for samples with the same draws.
    fn sharing(&self, name: &str, rate: f64, tests: &mut Tests) {
        let samples = self.drawn.len() as f64;
        let pairs = samples * (samples - 1.0) / 2.0;
        if pairs < 1.0 || rate <= 0.0 || rate >= 1.0 {
            return;
        }
        let mut order: Vec<u32> = (0..self.drawn.len() as u32).collect();
        order.sort_unstable_by_key(|sample| self.digests[*sample as usize]);
        let mut least: Option<(f64, [u32; 2])> = None;
        for pair in order.windows(2) {
            let [a, b] = [pair[0] as usize, pair[1] as usize];
            if self.digests[a] == self.digests[b] && self.drawn[a] == self.drawn[b] {
                let p = pairs * same(self.trials(a), u64::from(self.drawn[a]), rate);
                if least.is_none_or(|(least, _)| p < least) {
                    least = Some((p, [pair[0], pair[1]]));
                }
            }
        }
        let what = format!("{name}: no two samples have the same draws");
        let (p, [a, b]) = least.unwrap_or((1.0, [0, 0]));
        let trials = self.trials(0);
        tests.test(&what, trials, p.min(1.0), || {
            if a == b {
                return "no two samples".into();
            }
            format!("samples {a} and {b}: drawn at the same {} of {trials} steps", self.drawn[a as usize])
        });
        tests.finds(&what, Power::Shared { trials, rate, pairs });
    }
}

/// SplitMix64: numbers without a pattern that a faulty draw could have.
pub(super) fn mixed(number: u64) -> u64 {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_testing::Random;

    const SAMPLES: usize = 9000;
    const STEPS: u32 = 700;
    const RATE: f64 = 0.02;

    /// Returns the failed findings. `is_drawn` decides from step, sample and a uniform number from 0 to 1.
    fn failing(mut is_drawn: impl FnMut(u32, u32, f64, &[u32]) -> bool) -> Vec<String> {
        let mut random = Random(5);
        let mut rates = Rates {
            is_cut: false,
            groups: vec![0],
            drawn: vec![0; SAMPLES],
            digests: vec![0; SAMPLES],
            sizes: vec![],
            steps: 0,
        };
        for step in 0..STEPS {
            let mut draw = vec![];
            for sample in 0..SAMPLES as u32 {
                let number = random.unit_f64();
                if is_drawn(step, sample, number, &draw) {
                    draw.push(sample);
                }
            }
            rates.add(&draw, step);
        }
        let mut tests = Tests::default();
        rates.conclude("draws", RATE, &mut tests);
        let (_, findings) = tests.judged();
        assert!(findings.len() >= 6 && findings.iter().all(|finding| finding.finds.is_some()));
        findings.into_iter().filter(|finding| !finding.holds).map(|finding| finding.what).collect()
    }

    #[test]
    fn fair_coins_hold() {
        assert_eq!(failing(|_, _, number, _| number < RATE), Vec::<String>::new());
    }

    // Faults beyond the first 2,100 samples are each detected by the test for that fault.
    #[test]
    fn far_faults_are_found() {
        let finds = |failing: Vec<String>, what: &str| {
            assert!(failing.iter().any(|finding| finding.contains(what)), "{what}: {failing:?}");
        };
        let far = failing(|_, sample, number, _| number < if sample >= 2100 { 4.0 * RATE } else { RATE });
        finds(far, "larger blocks");
        finds(failing(|_, sample, number, _| number < if sample == 7777 { 6.0 * RATE } else { RATE }), "each sample");
        let third = failing(|_, sample, number, _| number < if sample % 3 == 1 { 1.05 * RATE } else { RATE });
        finds(third, "every m-th sample");
        let shared = failing(
            |_, sample, number, draw| {
                if sample == 8999 { draw.binary_search(&3000).is_ok() } else { number < RATE }
            },
        );
        assert_eq!(shared, ["draws: no two samples have the same draws"]);
        // Every step draws the same number of samples.
        let mut random = Random(7);
        let mut chosen: Vec<u32> = vec![];
        let fixed = failing(|_, sample, _, draw| {
            if sample == 0 {
                assert!(draw.is_empty());
                chosen.clear();
                while chosen.len() < 180 {
                    let one = random.below(SAMPLES) as u32;
                    if !chosen.contains(&one) {
                        chosen.push(one);
                    }
                }
                chosen.sort_unstable();
            }
            chosen.binary_search(&sample).is_ok()
        });
        assert_eq!(fixed, ["draws: sizes of draws, as of independent coins"]);
    }
}
