//! Poisson sampling: each sample is taken or not by an independent Bernoulli trial.
//!
//! Sample `i` at step `t` compares a 53-bit integer from the sampling stream at (t, i) with the numerator of the
//! sampling rate. It is taken with probability exactly `k/2⁵³`, the accounted rate. The trial depends only on the
//! sample's index, so adding or removing a sample does not change other trials.
//!
//! # Memory
//!
//! None: samples arrive one at a time, in index order.
//!
//! # Timing
//!
//! Every trial runs, whatever the results. The number of samples depends on the secret batch. So does the number of
//! trials between them.

use crate::accounting::Rate;
use crate::noise::{Address, Generator, Purpose};
use core::ops::Range;
use rand_core::Rng;

/// Number of samples that share one address.
const CHUNK: u32 = 1024;

/// Indices of the Poisson batch of one step, ascending.
///
/// ```
/// use damper_core::accounting::Rate;
/// use damper_core::noise::NoiseRng;
/// use damper_core::sampling::{PoissonBatch, poisson};
///
/// let generator = NoiseRng::simulation(1);
/// let batch: PoissonBatch<'_, _> = poisson(&generator, 0, Rate::at_most(0.5)?, 1000);
/// assert!((400..600).contains(&batch.count()));
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
pub struct PoissonBatch<'a, G: Generator> {
    generator: &'a G,
    stream: G::Stream<'a>,
    step: u32,
    rate: Rate,
    next: u32,
    samples: u32,
}

/// Samples from `0..samples`, each with probability `rate`. Use one batch for each step.
///
/// ```
/// use damper_core::{accounting::Rate, noise::NoiseRng, sampling::poisson};
///
/// let (generator, rate) = (NoiseRng::simulation(1), Rate::of(10, 1000)?);
/// let batch: Vec<u32> = poisson(&generator, 3, rate, 1000).collect();
/// // The trials of a sample do not depend on the other samples.
/// let fewer: Vec<u32> = poisson(&generator, 3, rate, 500).collect();
/// assert!(batch.starts_with(&fewer));
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[must_use]
pub fn poisson<G: Generator>(generator: &G, step: u32, rate: Rate, samples: u32) -> PoissonBatch<'_, G> {
    poisson_part(generator, step, rate, 0..samples)
}

/// Samples the part of that batch in `samples`, for callers that sample it in parts.
///
/// ```
/// use damper_core::{accounting::Rate, noise::NoiseRng, sampling::{poisson, poisson_part}};
///
/// let (generator, rate) = (NoiseRng::simulation(1), Rate::of(10, 1000)?);
/// let parts = [0..300, 300..1000].into_iter().flat_map(|part| poisson_part(&generator, 3, rate, part));
/// assert!(parts.eq(poisson(&generator, 3, rate, 1000)));
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[must_use]
pub fn poisson_part<G: Generator>(generator: &G, step: u32, rate: Rate, samples: Range<u32>) -> PoissonBatch<'_, G> {
    let Range { start, end } = samples;
    let mut stream = coins(generator, step, start / CHUNK);
    for _ in 0..start % CHUNK {
        stream.next_u64();
    }
    PoissonBatch { generator, stream, step, rate, next: start, samples: end }
}

/// Returns the random words for the trials of a chunk.
fn coins<G: Generator>(generator: &G, step: u32, chunk: u32) -> G::Stream<'_> {
    generator.stream(Address { purpose: Purpose::Sampling, step, chunk })
}

impl<G: Generator> Iterator for PoissonBatch<'_, G> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        while self.next < self.samples {
            let sample = self.next;
            self.next += 1;
            if sample > 0 && sample.is_multiple_of(CHUNK) {
                self.stream = coins(self.generator, self.step, sample / CHUNK);
            }
            let coin = self.stream.next_u64() >> 11;
            if coin < self.rate.numerator() {
                return Some(sample);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::ChaCha20;

    extern crate std;
    use std::vec::Vec;

    fn draw(step: u32, rate: f64, samples: u32) -> Vec<u32> {
        poisson(&ChaCha20::<4>::simulation(9), step, Rate::at_most(rate).unwrap(), samples).collect()
    }

    // A sampling rate of 1 takes all samples, and a sampling rate of 0 takes none.
    #[test]
    fn sampling_rate_one_takes_all_samples() {
        assert_eq!(draw(3, 1.0, 2500), (0..2500).collect::<Vec<_>>());
        assert!(draw(3, 0.0, 2500).is_empty());
    }

    /// Generator with trials at step 7 equal to `k`, except for sample `c` of chunk `c`, which is smaller by one.
    struct Told {
        k: u64,
    }

    struct Words {
        coins: std::vec::IntoIter<u64>,
    }

    impl crate::noise::sealed::Sealed for Told {}

    impl Generator for Told {
        type Stream<'a> = Words;

        fn is_private(&self) -> bool {
            false
        }

        fn stream(&self, address: Address) -> Words {
            assert_eq!((address.purpose, address.step), (Purpose::Sampling, 7));
            let coins: Vec<u64> = (0..CHUNK).map(|at| self.k - u64::from(at == address.chunk)).collect();
            Words { coins: coins.into_iter() }
        }
    }

    impl rand_core::TryRng for Words {
        type Error = core::convert::Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            unimplemented!("a coin is made of 64 bits")
        }

        /// The low 11 bits are not part of the trial.
        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            Ok(self.coins.next().unwrap() << 11 | 0x7ff)
        }

        fn try_fill_bytes(&mut self, _: &mut [u8]) -> Result<(), Self::Error> {
            unimplemented!("a coin is made of 64 bits")
        }
    }

    /// With 53 bits, the probability of a value below `k` is exactly `k/2^53`. Each sample has the trial at its own
    /// index.
    #[test]
    fn coins_below_the_numerator_draw() {
        for k in [1, 5, 1 << 52, Rate::DENOMINATOR - 1] {
            let rate = Rate::from_numerator(k).unwrap();
            let drawn = |samples| poisson(&Told { k }, 7, rate, samples).collect::<Vec<u32>>();
            assert_eq!(drawn(3500), [0, 1025, 2050, 3075]);
            assert_eq!((drawn(0), drawn(1), drawn(2050)), (Vec::new(), Vec::from([0]), Vec::from([0, 1025])));
        }
    }

    #[test]
    fn parts_of_a_draw_are_the_draw() {
        let (generator, rate) = (ChaCha20::<4>::simulation(9), Rate::at_most(0.3).unwrap());
        let whole = draw(5, 0.3, 5000);
        for border in [0, 1, 1023, 1024, 1025, 3000, 5000] {
            let part = |range| poisson_part(&generator, 5, rate, range);
            assert_eq!(part(0..border).chain(part(border..5000)).collect::<Vec<_>>(), whole);
        }
    }

    #[test]
    fn one_sample_more_moves_no_other_coin() {
        for n in [0, 1, 1023, 1024, 1025, 3000] {
            let fewer = draw(5, 0.3, n);
            let more = draw(5, 0.3, n + 1);
            assert_eq!(fewer[..], more[..fewer.len()]);
        }
    }

    /// Fixed seeds. The bounds are 6 standard errors for the mean and for independence of two steps (error rate 2e-9
    /// each).
    #[test]
    fn trials_match_sampling_rate() {
        let (rate, samples, steps) = (0.1, 20_000, 100);
        let draws: Vec<_> = (0..=steps).map(|step| draw(step, rate, samples)).collect();
        let n = f64::from(samples) * f64::from(steps + 1);
        let drawn = draws.iter().map(Vec::len).sum::<usize>() as f64;
        assert!((drawn - n * rate).abs() < 6.0 * (n * rate * (1.0 - rate)).sqrt(), "{drawn}");
        let both: usize =
            draws.windows(2).map(|pair| pair[0].iter().filter(|i| pair[1].binary_search(i).is_ok()).count()).sum();
        let expected = f64::from(samples) * f64::from(steps) * rate * rate;
        assert!((both as f64 - expected).abs() < 6.0 * expected.sqrt() * 1.2, "{both}");
    }
}
