//! Tests the Bernoulli trials of samples against the noise. A random word that both use shows in the noise of the steps
//! that draw a sample.
//!
//! The first digits of a trial come from every second word of its stream. One word gives the sign of a noise value and
//! its cell, an eighth of a deviation. The next word gives its place in the cell. So a shared word shows in the sign,
//! or in the half of the cell.

use super::super::chance::{TailSlack, binomial_between};
use super::super::power::Power;
use super::super::tests_of::Tests;

/// Number of samples and coordinates that are paired.
const PAIRED: usize = 4;
/// Cells of a deviation.
const CELLS: f64 = 8.0;
/// `P[frac 8|z| < 1/2]` of a normal.
const LOWER: f64 = 0.512_471_009;

/// For each sample and coordinate: the steps that drew the sample, and how many of them had noise below 0, and in the
/// lower half of a cell.
#[derive(Default)]
pub(super) struct CoinsAndNoise([[[u64; 3]; PAIRED]; PAIRED]);

impl CoinsAndNoise {
    /// Adds the batch of a step, in ascending order, and its noise in deviations.
    pub(super) fn add(&mut self, samples: &[u32], noise: &[f64]) {
        for (sample, row) in self.0.iter_mut().enumerate() {
            if samples.binary_search(&(sample as u32)).is_ok() {
                for (cell, z) in row.iter_mut().zip(noise) {
                    cell[0] += 1;
                    cell[1] += u64::from(*z < 0.0);
                    cell[2] += u64::from((CELLS * z.abs()).fract() < 0.5);
                }
            }
        }
    }

    /// Adds the tests of the first samples of `samples`.
    pub(super) fn conclude(&self, name: &str, samples: usize, slack: TailSlack, tests: &mut Tests) {
        let what = format!("{name}: coins say nothing of noise");
        // Noise with an error of `shift` may cross either end of each lower half.
        let near = slack.shift + slack.chance + 1e-5;
        let nearer = near + 2.0 * CELLS * slack.shift;
        for (sample, row) in self.0.iter().enumerate().take(samples) {
            for (at, [drawn, negative, low]) in row.iter().enumerate() {
                let signs = binomial_between(*negative, *drawn, 0.5 - near, 0.5 + near);
                let halves = binomial_between(*low, *drawn, LOWER - nearer, LOWER + nearer);
                tests.test(&what, *drawn, (signs.min(halves) * 2.0).min(1.0), || {
                    let halves = format!("{low} in the lower half of an eighth");
                    format!("sample {sample}, coordinate {at}: {negative} of {drawn} draws below 0, {halves}")
                });
                if *drawn > 0 {
                    let power = Power::Rate { what: "how often noise is negative", trials: *drawn, rate: 0.5, of: 2 };
                    tests.finds(&what, power);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_core::accounting::Rate;
    use damper_core::grid::Grid;
    use damper_core::noise::{Address, ChaCha20, DiscreteGaussian, Generator, Purpose};
    use rand_core::Rng;

    /// Returns true if the tests pass with Bernoulli trials from the stream of `purpose`.
    fn holds(purpose: Purpose) -> bool {
        let generator: ChaCha20 = ChaCha20::simulation(1);
        let sigma = 1 << 20;
        let gaussian = DiscreteGaussian::<i64>::new(Grid::new(20).unwrap(), sigma).unwrap();
        let rate = Rate::of(1, 10).unwrap();
        let mut seen = CoinsAndNoise::default();
        for step in 0..1000 {
            let mut coins = generator.stream(Address { purpose, step, chunk: 0 });
            let drawn: Vec<u32> = (0..4).filter(|_| coins.next_u64() >> 11 < rate.numerator()).collect();
            let mut words = generator.stream(Address { purpose: Purpose::GradientNoise, step, chunk: 0 });
            let noise: Vec<f64> = (0..4).map(|_| gaussian.sample(&mut words) as f64 / f64::from(sigma)).collect();
            seen.add(&drawn, &noise);
        }
        let mut tests = Tests::default();
        seen.conclude("run", 4, TailSlack { shift: 1e-6, chance: 0.0 }, &mut tests);
        let (_, findings) = tests.judged();
        assert_eq!((findings.len(), findings[0].tests), (1, 16));
        findings[0].holds
    }

    #[test]
    fn shared_words_are_found() {
        assert!(holds(Purpose::Sampling));
        assert!(!holds(Purpose::GradientNoise));
    }
}
