//! Values of a distribution that depend only on seed, name and index, with the same bits on every machine.
//!
//! The first eight bytes of SHA-256(`seed`, eight bytes, then the name) seed the core's simulation generator
//! (ChaCha20). So a parameter's values do not depend on its position in the file or on other parameters. Chunk `i` of
//! 1024 values is drawn from the words at (initialisation, step 0, chunk `i`):
//!
//! - uniform: a value from each word `w`, low + (high − low) (2 ⌊w / 2⁸⌋ + 1) / 2²⁵ in f64, then rounded to f32
//! - normal: two values from two words by Box and Muller, like the core's continuous Gaussian, in f32 with the core's
//!   functions. Then mean + std z in f64, rounded to f32. The maximum of |z| is 6.67.
//! - truncated normal: the same, without the z beyond ±2

use super::spec::Distribution;
use damper_core::noise::{Address, CHUNK, ChaCha20, Generator, Purpose};
use damper_core::numerics::function::{ln_f32, sin_cos_f32, sqrt_f32};
use rand_core::Rng as _;
use sha2::{Digest, Sha256};

/// Draws `length` values.
pub(super) fn draw(distribution: Distribution, seed: u64, name: &str, length: usize) -> Vec<f32> {
    if let Distribution::Constant(value) = distribution {
        return vec![value as f32; length];
    }
    let hash = Sha256::new().chain_update(seed.to_le_bytes()).chain_update(name.as_bytes()).finalize();
    let seed = hash.iter().take(8).rev().fold(0, |seed, &byte| seed << 8 | u64::from(byte));
    let generator = ChaCha20::<8>::simulation(seed);
    let mut values = vec![0.0; length];
    for (values, chunk) in values.chunks_mut(CHUNK).zip(0..) {
        let address = Address { purpose: Purpose::Initialisation, step: 0, chunk };
        let mut words = generator.stream(address);
        let mut word = || words.next_u32();
        match distribution {
            Distribution::Constant(_) => {}
            Distribution::Uniform { low, high } => {
                for value in values {
                    let unit = f64::from(2 * (word() >> 8) + 1) / f64::from(1 << 25);
                    *value = (low + (high - low) * unit) as f32;
                }
            }
            Distribution::Normal { mean, std } => gaussians(values, mean, std, f32::INFINITY, word),
            Distribution::TruncatedNormal { mean, std } => gaussians(values, mean, std, 2.0, word),
        }
    }
    values
}

fn gaussians(values: &mut [f32], mean: f64, std: f64, most: f32, mut word: impl FnMut() -> u32) {
    let pairs = std::iter::repeat_with(|| pair(word(), word()));
    let kept = pairs.flatten().filter(|z| z.abs() <= most);
    for (value, z) in values.iter_mut().zip(kept) {
        *value = (mean + std * f64::from(z)) as f32;
    }
}

/// Two standard normal values from two words.
fn pair(u: u32, v: u32) -> [f32; 2] {
    const TWO_TO_MINUS_32: f32 = 1.0 / 4_294_967_296.0;
    const TAU_OVER_2_TO_24: f32 = std::f32::consts::TAU / 16_777_216.0;
    let r = sqrt_f32(-2.0 * ln_f32((u as f32 + 1.0) * TWO_TO_MINUS_32));
    let (sin, cos) = sin_cos_f32((v >> 8) as f32 * TAU_OVER_2_TO_24);
    [r * cos, r * sin]
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: usize = 200_000;
    const UNIFORM: Distribution = Distribution::Uniform { low: -2.0, high: 1.0 };
    const NORMAL: Distribution = Distribution::Normal { mean: 1.0, std: 0.5 };
    const TRUNCATED: Distribution = Distribution::TruncatedNormal { mean: 1.0, std: 0.5 };

    /// Mean, variance and mean fourth power about `centre`.
    fn moments(values: &[f32], centre: f64) -> [f64; 3] {
        let mean = |power: i32| values.iter().map(|&x| (f64::from(x) - centre).powi(power)).sum::<f64>() / N as f64;
        [mean(1) + centre, mean(2), mean(4)]
    }

    /// Returns true if mean and variance match the arguments within six standard errors (total error rate 4e-9 at a
    /// fixed seed).
    fn agrees(values: &[f32], mean: f64, variance: f64, fourth: f64) -> bool {
        let [got_mean, got_variance, _] = moments(values, mean);
        let n = N as f64;
        (got_mean - mean).abs() < 6.0 * (variance / n).sqrt()
            && (got_variance - variance).abs() < 6.0 * ((fourth - variance * variance) / n).sqrt()
    }

    #[test]
    fn moments_are_those_of_the_distribution() {
        // Fourth central moments: (b - a)^4 / 80 (uniform), 3 s^4 (normal). For a normal truncated at two: 0.773741 s^2
        // and 1.416080 s^4.
        for (distribution, mean, variance, fourth) in [
            (UNIFORM, -0.5, 0.75, 81.0 / 80.0),
            (NORMAL, 1.0, 0.25, 3.0 / 16.0),
            (TRUNCATED, 1.0, 0.773741 * 0.25, 1.416080 / 16.0),
        ] {
            let values = draw(distribution, 3, "w", N);
            assert!(agrees(&values, mean, variance, fourth), "{distribution:?}: {:?}", moments(&values, mean));
            // Negative controls: a variance that is off by 4 %, and a mean that is off by 2 % of the deviation.
            assert!(!agrees(&values, mean, variance * 1.04, fourth), "{distribution:?}");
            assert!(!agrees(&values, mean + 0.02 * variance.sqrt(), variance, fourth), "{distribution:?}");
            // Tails: a normal with another truncation, or a uniform instead of a normal, differs here.
            assert!((moments(&values, mean)[2] / fourth - 1.0).abs() < 0.03, "{distribution:?}");
        }
    }

    #[test]
    fn draws_keep_their_bounds() {
        assert!(draw(UNIFORM, 1, "w", N).iter().all(|x| (-2.0..=1.0).contains(x)));
        assert!(draw(TRUNCATED, 1, "w", N).iter().all(|x| (0.0..=2.0).contains(x)));
        let wide = draw(NORMAL, 1, "w", N);
        assert!(wide.iter().any(|x| !(0.0..=2.0).contains(x)) && wide.iter().all(|x| (x - 1.0).abs() < 3.34));
        assert_eq!(draw(Distribution::Constant(0.1), 1, "w", 2), [0.1, 0.1]);
    }

    // A longer tensor starts with the values of a shorter tensor.
    #[test]
    fn longer_tensor_starts_with_shorter_one() {
        for distribution in [UNIFORM, NORMAL, TRUNCATED] {
            let long = draw(distribution, 5, "w", 3000);
            for length in [0, 1, 2, 1023, 1024, 1025, 2999] {
                assert_eq!(draw(distribution, 5, "w", length), long[..length]);
            }
        }
    }

    // Another name or seed has other values, without correlation.
    #[test]
    fn other_names_and_seeds_are_uncorrelated() {
        let one = draw(NORMAL, 1, "fc.weight", N);
        for other in [draw(NORMAL, 2, "fc.weight", N), draw(NORMAL, 1, "fc.bias", N)] {
            let product = |(a, b): (&f32, &f32)| (f64::from(*a) - 1.0) * (f64::from(*b) - 1.0) / 0.25;
            let correlation = one.iter().zip(&other).map(product).sum::<f64>() / N as f64;
            // Six standard errors: error rate 2e-9.
            assert!(correlation.abs() < 6.0 / (N as f64).sqrt(), "{correlation}");
        }
        let itself = one.iter().map(|x| (f64::from(*x) - 1.0).powi(2) / 0.25).sum::<f64>() / N as f64;
        assert!(itself > 0.9);
    }
}
