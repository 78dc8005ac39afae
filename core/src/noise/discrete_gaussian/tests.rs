use super::*;
use crate::noise::{Address, ChaCha20, Generator, Purpose};

extern crate std;
use std::vec;
use std::vec::Vec;

fn draws(sigma: u32, n: usize, seed: u64) -> Vec<i64> {
    let generator = ChaCha20::<8>::simulation(seed);
    let mut stream = generator.stream(Address { purpose: Purpose::GradientNoise, step: 0, chunk: 0 });
    (0..n).map(|_| sample(sigma, &mut stream)).collect()
}

#[test]
fn a_draw_is_the_noise_of_a_sum_of_zeros() {
    let mechanism = DiscreteGaussian::<i64>::new(Grid::new(8).unwrap(), 100).unwrap();
    let generator = ChaCha20::<8>::simulation(3);
    let address = Address { purpose: Purpose::GradientNoise, step: 0, chunk: 0 };
    let (mut words, mut same) = (generator.stream(address), generator.stream(address));
    for _ in 0..50 {
        assert_eq!(mechanism.sample(&mut words), mechanism.noised(&mut SumWord(0), &mut same));
    }
}

/// Chi-square of the counts of −limit..=limit and of the two tails, against the discrete Gaussian of `sigma`.
fn chi_square(draws: &[i64], sigma: f64, limit: i64) -> f64 {
    let density = |z: i64| (-((z * z) as f64) / (2.0 * sigma * sigma)).exp();
    let total: f64 = (-40 * limit..=40 * limit).map(density).sum();
    let mut counts = vec![0f64; (2 * limit + 1) as usize];
    let mut tail = 0f64;
    for z in draws {
        match usize::try_from(z + limit).ok().filter(|i| *i < counts.len()) {
            Some(i) => counts[i] += 1.0,
            None => tail += 1.0,
        }
    }
    let n = draws.len() as f64;
    let mut rest = 1.0;
    let mut chi = 0.0;
    for (i, count) in counts.iter().enumerate() {
        let p = density(i as i64 - limit) / total;
        rest -= p;
        chi += (count - n * p).powi(2) / (n * p);
    }
    chi + (tail - n * rest).powi(2) / (n * rest)
}

/// Fixed seeds make the test deterministic. Under the distribution, the statistic has 2·limit + 1 degrees of freedom.
/// The bound is its quantile at 1 − 1e-6. The control, with σ off by 5 %, must exceed it.
#[test]
fn values_fit_discrete_gaussian() {
    for (sigma, limit, bound) in [(1, 3, 43.2), (2, 6, 58.2), (7, 18, 107.4)] {
        let draws = draws(sigma, 400_000, 11);
        let chi = chi_square(&draws, f64::from(sigma), limit);
        assert!(chi < bound, "sigma {sigma}: {chi}");
        let control = chi_square(&draws, f64::from(sigma) * 1.05, limit);
        assert!(control > bound, "sigma {sigma}, control: {control}");
    }
}

// If a head equals an entry, the later digits decide. Zeros give the previous cell, and the largest digits the cell
// itself.
#[test]
fn digits_decide_at_edges_of_cells() {
    struct Constant(u32);
    impl rand_core::TryRng for Constant {
        type Error = core::convert::Infallible;
        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            Ok(self.0)
        }
        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            Ok(0)
        }
        fn try_fill_bytes(&mut self, _: &mut [u8]) -> Result<(), Self::Error> {
            Ok(())
        }
    }
    let distinct = HEAD.partition_point(|head| *head < 0xff_ffff);
    for (i, head) in HEAD.iter().enumerate().take(distinct).skip(1) {
        assert_eq!(cell(*head, &mut Constant(0)), i as u32 - 1);
        assert_eq!(cell(*head, &mut Constant(u32::MAX)), i as u32);
    }
    assert_eq!(cell(0, &mut Constant(0)), 0);
    assert_eq!(cell(0xff_ffff, &mut Constant(0)), distinct as u32 - 1);
    assert_eq!(cell(0xff_ffff, &mut Constant(u32::MAX)), LAST_CELL);
}

// Without a tie, the cell is the last cell that begins at or below the head.
#[test]
fn cells_without_ties_need_no_more_words() {
    for head in (0..1 << 24).step_by(97).chain((0xff_ff00..=0xff_ffff).chain(HEAD.map(|head| head.saturating_sub(1)))) {
        if !HEAD.contains(&head) {
            let expected = HEAD.iter().filter(|first| **first < head).count() - 1;
            assert_eq!(replay_cell(head), (expected as u32, 0), "{head:x}");
        }
    }
}

fn replay_cell(head: u32) -> (u32, usize) {
    let mut replay = Replay { words: &[0], used: 0 };
    (cell(head, &mut replay), replay.used)
}

// Draws at an address do not depend on draws at other addresses, or on the number of blocks computed at once.
#[test]
fn draws_follow_their_address_alone() {
    let address = |chunk| Address { purpose: Purpose::GradientNoise, step: 3, chunk };
    let (one, many) = (ChaCha20::<1>::simulation(8), ChaCha20::<16>::simulation(8));
    let of = |chunk: u32, between: u32| {
        let (mut stream, mut other) = (many.stream(address(chunk)), one.stream(address(chunk + 1)));
        (0..100)
            .map(|_| {
                (0..between).for_each(|_| _ = sample(1 << 20, &mut other));
                sample(1 << 20, &mut stream)
            })
            .collect::<Vec<_>>()
    };
    for chunk in 0..20 {
        let mut alone = one.stream(address(chunk));
        let alone: Vec<i64> = (0..100).map(|_| sample(1 << 20, &mut alone)).collect();
        assert_eq!(of(chunk, 0), alone);
        assert_eq!(of(chunk, 3), alone);
    }
}

// The acceptance rate is `exp(−ξ(2i+ξ)/128)`, in near and far cells.
#[test]
fn far_cells_accept_at_their_rate() {
    let generator = ChaCha20::<8>::simulation(6);
    let mut stream = generator.stream(Address { purpose: Purpose::GradientNoise, step: 0, chunk: 0 });
    let sigma = 1 << 20;
    for (i, a) in
        [(0, 1 << 19), (7, sigma - 1), (50, 1 << 18), (63, sigma - 8), (64, 1 << 19), (100, 1 << 18), (150, 1 << 19)]
    {
        let n = 200_000;
        let accepted = (0..n).filter(|_| {
            let coin = stream.next_u32() % COIN;
            accept(i, a, sigma, coin, &mut stream)
        });
        let (rate, xi) = (accepted.count() as f64 / f64::from(n), f64::from(a) / f64::from(sigma));
        let expected = (-xi * (2.0 * f64::from(i) + xi) / 128.0).exp();
        // Six standard errors.
        let allowed = 6.0 * (expected * (1.0 - expected) / f64::from(n)).sqrt();
        assert!((rate - expected).abs() <= allowed, "cell {i}: {rate} for {expected}");
    }
}

/// Recorded words, repeated from the start after the last.
struct Replay<'a> {
    words: &'a [u32],
    used: usize,
}

impl rand_core::TryRng for Replay<'_> {
    type Error = core::convert::Infallible;
    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        self.used += 1;
        Ok(self.words[(self.used - 1) % self.words.len()])
    }
    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        unreachable!("a draw takes words")
    }
    fn try_fill_bytes(&mut self, _: &mut [u8]) -> Result<(), Self::Error> {
        unreachable!("a draw takes words")
    }
}

fn replay(sigma: u32, words: &[u32]) -> (i64, usize) {
    let mut replay = Replay { words, used: 0 };
    (sample(sigma, &mut replay), replay.used)
}

// A value and its opposite use the same number of random words.
#[test]
fn value_and_opposite_use_equal_words() {
    let generator = ChaCha20::<8>::simulation(4);
    let mut opposites = 0;
    for (chunk, sigma) in [1, 7, 1 << 16, MAX_SIGMA - 1].into_iter().cycle().enumerate().take(4000) {
        let mut stream = generator.stream(Address { purpose: Purpose::GradientNoise, step: 0, chunk: chunk as u32 });
        let mut words: Vec<u32> = (0..200).map(|_| stream.next_u32()).collect();
        let (value, used) = replay(sigma, &words);
        // The shortest suffix of the words that gives the value is one attempt. Its first bit is the sign.
        for first in (0..used).rev() {
            if value != 0 && replay(sigma, &words[first..]) == (value, used - first) {
                words[first] ^= 1 << 31;
                assert_eq!(replay(sigma, &words[first..]), (-value, used - first), "sigma {sigma}, chunk {chunk}");
                opposites += 1;
                break;
            }
        }
    }
    assert!(opposites > 3500, "{opposites}");
}

#[test]
fn the_variance_is_sigma_squared() {
    // 200,000 draws: the standard error of the variance is 0.32 %. The limit is six standard errors.
    let sigma = 1 << 20;
    let draws = draws(sigma, 200_000, 3);
    let variance = draws.iter().map(|z| (*z as f64).powi(2)).sum::<f64>() / draws.len() as f64;
    let ratio = variance / f64::from(sigma).powi(2);
    assert!((ratio - 1.0).abs() < 0.019, "{ratio}");
}
