//! The time of a draw of discrete Gaussian noise in random words, and its dependence on the value.
//! `docs/threat-model.md` states this limit.
//!
//! The sampler is implemented again here and counts its words. A chunk's draws share one stream, so a value agrees only
//! if every earlier draw took the same number of words. So the counts are those of the released noise.

use crate::draws::{Steps, exact};
use damper_core::noise::{Address, CHUNK, ChaCha20, Generator, Purpose};
use rand_core::Rng;

/// A stream with the number of consumed words.
struct Words<R> {
    stream: R,
    taken: u32,
}

impl<R: Rng> Words<R> {
    fn next(&mut self) -> u64 {
        self.taken += 1;
        u64::from(self.stream.next_u32())
    }

    /// A uniform integer below `n`.
    fn below(&mut self, n: u64) -> u64 {
        loop {
            let product = self.next() * n;
            if product % (1 << 32) >= (1 << 32) % n {
                return product >> 32;
            }
        }
    }

    /// True with probability `a/b`.
    fn ratio(&mut self, mut a: u64, b: u64) -> bool {
        loop {
            let low = self.next() * b;
            if low >= a << 32 {
                return false;
            }
            a = (a << 32) - low;
            if a >= b {
                return true;
            }
        }
    }

    /// True with probability `exp(−ξ(2i+ξ)/128)`, `ξ = a/σ`, for a cell below the 64th. `coin` is uniform below 128.
    fn accepts(&mut self, i: u64, a: u64, sigma: u64, mut coin: u64) -> bool {
        assert!(i < 64, "eight deviations away");
        for n in 2.. {
            let tails = coin > 2 * i || coin == 2 * i && !self.ratio(a, sigma) || !self.ratio(a, sigma);
            if tails {
                return n % 2 == 0;
            }
            coin = self.below(128 * n);
        }
        unreachable!()
    }

    /// One draw. No head of these streams equals an entry of `heads`, which would take nine more words.
    fn draw(&mut self, heads: &[u64], sigma: u64) -> i64 {
        loop {
            let word = self.next();
            let head = word >> 7 & 0xff_ffff;
            assert!(!heads.contains(&head), "decided by more digits");
            let i = heads.iter().filter(|digit| head > **digit).count() as u64 - 1;
            let a = 8 * self.below(sigma.div_ceil(8)) + (8 - i * sigma % 8) % 8;
            let negative = word >> 31 == 1;
            if a < sigma && self.accepts(i, a, sigma, word & 127) && !(negative && i == 0 && a == 0) {
                let z = ((i * sigma + a) / 8) as i64;
                return if negative { -z } else { z };
            }
        }
    }
}

/// The first 24 bits of `P(I < i)`, `P(i) ∝ exp(−i²/128)`.
fn heads() -> Vec<u64> {
    let weights: Vec<f64> = (0..160).map(|i| f64::exp(-f64::from(i * i) / 128.0)).collect();
    let sum: f64 = weights.iter().rev().sum();
    let from = |i: usize| weights[i..].iter().rev().sum::<f64>() / sum;
    (0..64).map(|i| ((1.0 - from(i)) * 2f64.powi(24)) as u64).collect()
}

/// Each released value, with its number of words.
fn counted(sigma: u32) -> Vec<(i64, u32)> {
    let (generator, heads) = (ChaCha20::<8>::simulation(15), heads());
    let of = Steps::from_the_first(64, 2 * CHUNK);
    let released = exact::<i64, _>(sigma, &generator, of);
    let mut counted = Vec::with_capacity(released.len());
    for (at, values) in released.chunks(CHUNK).enumerate() {
        let address = Address { purpose: Purpose::GradientNoise, step: at as u32 / 2, chunk: at as u32 % 2 };
        let mut words = Words { stream: generator.stream(address), taken: 0 };
        for value in values {
            let before = words.taken;
            assert_eq!(words.draw(&heads, u64::from(sigma)), i64::from(*value), "sigma {sigma}, {address:?}");
            counted.push((i64::from(*value), words.taken - before));
        }
    }
    counted
}

fn mean(of: impl Iterator<Item = f64> + Clone) -> f64 {
    of.clone().sum::<f64>() / of.count() as f64
}

/// The fraction of the words' variance that `group` explains.
fn explained(counted: &[(i64, u32)], group: impl Fn(i64) -> usize) -> f64 {
    let words = |of: &[(i64, u32)]| mean(of.iter().map(|(_, words)| f64::from(*words)));
    let average = words(counted);
    let mut groups = vec![vec![]; 64];
    counted.iter().for_each(|draw| groups[group(draw.0)].push(*draw));
    let between: f64 = groups
        .iter()
        .filter(|group| !group.is_empty())
        .map(|group| group.len() as f64 * (words(group) - average).powi(2))
        .sum();
    between / counted.iter().map(|(_, words)| (f64::from(*words) - average).powi(2)).sum::<f64>()
}

/// The limit: a draw takes at least two words, for any value. The sign explains none of the words' variance, and the
/// size, in quarters of σ, explains between 0.3 and 0.5 %. The test uses 131,072 draws of a fixed seed. A zero fraction
/// appears as 1/131,072 for each group, and almost never as ten times that.
#[test]
fn words_of_a_draw_tell_size_not_sign() {
    for sigma in [1000, 1 << 16] {
        let counted = counted(sigma);
        for k in 0..4 {
            let of_k = counted.iter().filter(|(z, _)| z.unsigned_abs() / u64::from(sigma) == k);
            assert_eq!(of_k.map(|(_, words)| u64::from(*words)).min(), Some(2), "sigma {sigma}");
        }
        let one = 1.0 / counted.len() as f64;
        let sign = explained(&counted, |z| usize::from(z < 0));
        let size = explained(&counted, |z| (4 * z.unsigned_abs() / u64::from(sigma)) as usize);
        let words = mean(counted.iter().map(|(_, words)| f64::from(*words)));
        println!("sigma {sigma}: {words:.3} words; of their variance the sign explains {sign:.6}, the size {size:.5}");
        assert!(sign < 10.0 * one, "sigma {sigma}: {sign}");
        assert!((0.003..0.005).contains(&size), "sigma {sigma}: {size}");
    }
}
