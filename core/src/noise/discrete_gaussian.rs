//! The discrete Gaussian on the grid: `P(Z = z) ∝ exp(−z²/2σ²)` over the integers, σ an integer. The default mechanism.
//!
//! Source: C. Karney, "Sampling exactly from the normal distribution", ACM TOMS 42 (2016), Algorithm D for the discrete
//! normal with μ = 0 and an integer σ, where a draw is `z = ±(kσ + j)`:
//!
//! 1. `k ≥ 0` with `P(k) ∝ exp(−k²/2)`, from a table of digits; a sign;
//! 2. `j` uniform in `[0, σ)`; write `x = j/σ`;
//! 3. accept with probability `exp(−x(2k+x)/2)`, else start again; a negative zero starts again too.
//!
//! Step 3 is `k + 1` trials of `exp(−y)`, `y = x·(2k+x)/(2k+2) < 1`, each by the alternating series: coins of probability
//! `y/1, y/2, y/3, …` until the first tails, accepted if their number is odd. A coin `y/n` is three coins, `j/σ`,
//! `(2k+x)/(2k+2)` and `1/n`, each decided by comparing random digits with the digits of a ratio of integers, which are
//! worked out only as far as needed. So there is no bignum, no division and no rounding anywhere.
//!
//! # Exactness
//!
//! Steps 2 and 3 are exact. The table of step 1 carries 287 bits: what it cuts off is below 2⁻²⁵⁶, the least probability
//! that words made from a 256-bit key can express at all.
//!
//! # Memory
//!
//! No state; 648 bytes of table.
//!
//! # Timing
//!
//! A draw takes as many words and instructions for `z` as for `−z`. What it takes depends on `|z|`: attempts that were
//! rejected say nothing of the value, but the accepted one has made `⌊|z|/σ⌋ + 1` trials, and of those the longer the greater
//! `j`. A count of instructions therefore tells `⌊|z|/σ⌋` nearly; `docs/threat-model.md` has it measured. To take the same
//! time for every value within a fixed stream of words, a draw would have to work through as many words as the longest:
//! several times the mean.
//!
//! # Privacy
//!
//! σ on the grid is an integer, rounded up, and [`DiscreteGaussian::multiplier`] (`σ / 2^bits`) is what is priced. That
//! the Rényi bound of the continuous Gaussian holds for it is shown in [`crate::accounting::renyi`].

mod table;

use crate::clip::Clip;
use crate::error::ConfigError;
use crate::grid::{Grid, Word};
use crate::mutant::{self, Mutant};
use crate::noise::sealed::{Inside, Sealed};
use crate::numerics::round::{ceil, saturate};
use crate::private::{Mechanism, SumWord};
use core::marker::PhantomData;
use rand_core::Rng;
use table::{HEAD, TAIL};

/// Least σ in grid units that can be priced: below, the accountant's fractional orders would not hold for the discrete Gaussian.
pub const LEAST_SIGMA: u32 = 1 << 10;
/// Largest σ in grid units (exclusive).
pub const MAX_SIGMA: u32 = 1 << 31;

/// The exact mechanism: samples are clipped and rounded onto a [`Grid`], summed in integers `W`, and the noise is a
/// discrete Gaussian on that grid.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DiscreteGaussian<W> {
    grid: Grid,
    sigma: u32,
    word: PhantomData<W>,
}

impl<W: Word> DiscreteGaussian<W> {
    /// Noise of standard deviation `sigma` grid units.
    ///
    /// # Errors
    ///
    /// `sigma` must be in `1..2³¹`.
    pub fn new(grid: Grid, sigma: u32) -> Result<Self, ConfigError> {
        if sigma == 0 || sigma >= MAX_SIGMA {
            return Err(ConfigError::new("sigma in grid units", "from 1 to 2^31 - 1"));
        }
        Ok(Self { grid, sigma, word: PhantomData })
    }

    /// Noise of at least `multiplier` times the clip: `σ = ⌈multiplier · 2^bits⌉`.
    ///
    /// # Errors
    ///
    /// The multiplier must be positive and `multiplier · 2^bits` below 2³¹.
    pub fn with_multiplier(grid: Grid, multiplier: f64) -> Result<Self, ConfigError> {
        if !(multiplier.is_finite() && multiplier > 0.0) {
            return Err(ConfigError::new("noise multiplier", "finite and above 0"));
        }
        let sigma = ceil(multiplier * f64::from(grid.unit()));
        if sigma >= MAX_SIGMA {
            return Err(ConfigError::new("noise multiplier", "below 2^31 in grid units"));
        }
        Self::new(grid, sigma)
    }

    /// σ in grid units.
    #[must_use]
    pub fn sigma(&self) -> u32 {
        self.sigma
    }

    /// The grid.
    #[must_use]
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// The multiplier that runs and is priced: `σ / 2^bits`, exactly.
    #[must_use]
    pub fn multiplier(&self) -> f64 {
        f64::from(self.sigma) / f64::from(self.grid.unit())
    }

    /// Draws one noise value, in grid units, from the caller's generator.
    pub fn sample<R: Rng>(&self, words: &mut R) -> i64 {
        sample(self.sigma, words)
    }

    /// A word of a sum with its noise; the word is wiped.
    #[inline(always)]
    pub(crate) fn noised<R: Rng>(&self, sum: &mut SumWord<W>, words: &mut R) -> W {
        let noisy = sum.0.wrapping_add(W::wrap(mutant::noise(sample(self.sigma, words), self.sigma)));
        if !mutant::is(Mutant::SumNotWiped) {
            *sum = SumWord::default();
        }
        noisy
    }
}

impl<W> Sealed for DiscreteGaussian<W> {}

impl<W: Word> Mechanism for DiscreteGaussian<W> {
    type Word = SumWord<W>;
    type NoiseState = ();

    fn independent_state() -> Option<()> {
        Some(())
    }

    fn multiplier(&self) -> f64 {
        Self::multiplier(self)
    }

    fn check_clip(&self, clip: f32) -> Result<(), ConfigError> {
        self.grid.check_clip(clip)
    }

    /// σ is at least [`LEAST_SIGMA`], and σ² at least ten times the clip, the longest shift: so `σ² ≥ 10·2^bits`.
    fn check_noise(&self) -> Result<(), ConfigError> {
        // From 2^13 on the square is large enough for every grid, so 32 bits hold what is compared.
        let sigma = self.sigma.min(1 << 13);
        if sigma >= LEAST_SIGMA && sigma * sigma >= 10 * self.grid.unit() {
            Ok(())
        } else {
            Err(ConfigError::new("sigma in grid units", "larger, or the grid bits more"))
        }
    }

    fn scaled(&self, factor: f64) -> Self {
        // The product of f64s can round down; the price is that of the σ that runs.
        Self {
            sigma: ceil(f64::from(self.sigma) * if mutant::is(Mutant::ScheduleIgnored) { 1.0 } else { factor })
                .clamp(1, MAX_SIGMA - 1),
            ..*self
        }
    }

    #[inline(always)]
    fn add_sample<C: Clip>(
        &self,
        clip: &C,
        threshold: f32,
        parts: &[&[f32]],
        sum: &mut [SumWord<W>],
        _: Inside,
    ) -> Option<f32> {
        self.grid.add_sample(clip, threshold, parts, sum)
    }

    fn merge(&self, sum: &mut [SumWord<W>], other: &[SumWord<W>], _: Inside) {
        for (sum, other) in sum.iter_mut().zip(other) {
            sum.0 = sum.0.wrapping_add(other.0);
        }
    }

    fn release<R: Rng>(
        &self,
        threshold: f32,
        expected_batch: u32,
        sum: &mut [SumWord<W>],
        _at: usize,
        _state: &mut (),
        words: &mut R,
        _before: Option<&mut R>,
        out: &mut [f32],
        _: Inside,
    ) {
        let unit = self.grid.mean_unit(threshold, expected_batch);
        for (sum, out) in sum.iter_mut().zip(out) {
            *out = saturate(self.noised(sum, words).to_f32() * unit);
        }
    }

    fn store_released(released: f32, _: Inside) -> SumWord<W> {
        SumWord(W::store_released(released))
    }

    fn load_released(word: SumWord<W>, _: Inside) -> f32 {
        word.0.load_released()
    }
}

/// One draw, in grid units. `sigma` is in `1..2³¹`.
pub(crate) fn sample<R: Rng>(sigma: u32, words: &mut R) -> i64 {
    loop {
        let word = words.next_u32();
        let k = magnitude(word & 0x7fff_ffff, words);
        let negative = i64::from(word >> 31);
        let j = below(sigma, words);
        if accept(k, j, sigma, words) {
            // k ≤ 18 and j < σ < 2³¹: no overflow.
            let z = i64::from(k) * i64::from(sigma) + i64::from(j);
            // The sign by masks: as many instructions for either. A negative zero starts again.
            if z | (1 - negative) != 0 {
                return (z ^ -negative) + negative;
            }
        }
    }
}

/// `k` with `P(k) ∝ exp(−k²/2)`: how many cumulative probabilities do not exceed the number whose first 31 bits are `head`.
#[inline]
fn magnitude<R: Rng>(head: u32, words: &mut R) -> u32 {
    // From the seventh on, the first digits are all ones.
    let [a, b, c, d, e, f, g, ..] = HEAD;
    let mut k = 0;
    let mut tie = false;
    for digit in [a, b, c, d, e, f, g] {
        k += u32::from(head > digit);
        tie |= head == digit;
    }
    if tie { magnitude_by_all_digits(head, words) } else { k }
}

#[cold]
#[inline(never)]
fn magnitude_by_all_digits<R: Rng>(head: u32, words: &mut R) -> u32 {
    let mut rest = [0; 8];
    for digit in &mut rest {
        *digit = words.next_u32();
    }
    let mut k = 0;
    for (first, others) in HEAD.iter().zip(&TAIL) {
        k += u32::from((head, &rest) >= (*first, others));
    }
    k
}

/// Uniform in `[0, n)`, exactly (D. Lemire, "Fast random integer generation in an interval", 2019).
#[inline]
fn below<R: Rng>(n: u32, words: &mut R) -> u32 {
    let mut product = u64::from(words.next_u32()) * u64::from(n);
    if (product as u32) < n {
        // 2³² mod n, by a division that is reached once in 2³²/n draws; n is not zero.
        let reject_below = n.wrapping_neg().checked_rem(n).unwrap_or_default();
        while (product as u32) < reject_below {
            product = u64::from(words.next_u32()) * u64::from(n);
        }
    }
    (product >> 32) as u32
}

/// True with probability `exp(−x(2k+x)/2)`, `x = j/σ`.
#[inline]
fn accept<R: Rng>(k: u32, j: u32, sigma: u32, words: &mut R) -> bool {
    (0..=k).all(|_| accept_once(k, j, sigma, words))
}

/// True with probability `exp(−y)`, `y = x·(2k+x)/(2k+2)`.
#[inline]
fn accept_once<R: Rng>(k: u32, j: u32, sigma: u32, words: &mut R) -> bool {
    let mut n = 1;
    while ratio(j, sigma, words) && inner(k, j, sigma, words) && (n == 1 || below(n, words) == 0) {
        n += 1;
    }
    n % 2 == 1
}

/// True with probability `(2k+x)/(2k+2)`.
#[inline]
fn inner<R: Rng>(k: u32, j: u32, sigma: u32, words: &mut R) -> bool {
    match below(2 * k + 2, words) {
        r if r == 2 * k => ratio(j, sigma, words),
        r => r < 2 * k,
    }
}

/// True with probability `numerator/denominator`; `numerator < denominator < 2³¹`.
///
/// A uniform number is compared with the ratio digit by digit (base 2³²): with the digit `u`, it lies in
/// `[u, u+1)/2³²`, and only if the ratio lies there too is the next digit needed.
#[inline]
fn ratio<R: Rng>(numerator: u32, denominator: u32, words: &mut R) -> bool {
    let denominator = u64::from(denominator);
    let mut numerator = u64::from(numerator);
    loop {
        let shifted = numerator << 32;
        let low = u64::from(words.next_u32()) * denominator;
        if low >= shifted {
            return false;
        }
        numerator = shifted - low;
        if numerator >= denominator {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
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

    /// Chi-square of the counts of −limit..=limit and the two tails against the discrete Gaussian of `sigma`.
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

    /// Fixed seeds: the test is deterministic. Under the law the statistic has 2·limit + 1 degrees of freedom; the bound is
    /// its quantile at 1 − 1e-6. The control, σ off by 5 %, must exceed it.
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

    #[test]
    fn the_cold_path_decides_as_the_digits_say() {
        // A head equal to a table entry is decided by the following digits: all zeros lie below, all ones above.
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
        for (i, head) in HEAD.iter().enumerate().take(6) {
            assert_eq!(magnitude(*head, &mut Constant(0)), i as u32);
            assert_eq!(magnitude(*head, &mut Constant(u32::MAX)), i as u32 + 1);
        }
        assert_eq!(magnitude(0x7fff_ffff, &mut Constant(0)), 6);
        assert_eq!(magnitude(0x7fff_ffff, &mut Constant(u32::MAX)), 18);
    }

    /// Words that were recorded, from the first again where they end.
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

    // A value uses as many random words as its opposite.
    #[test]
    fn value_and_opposite_use_equal_words() {
        let generator = ChaCha20::<8>::simulation(4);
        let mut opposites = 0;
        for (chunk, sigma) in [1, 7, 1 << 16, MAX_SIGMA - 1].into_iter().cycle().enumerate().take(4000) {
            let mut stream =
                generator.stream(Address { purpose: Purpose::GradientNoise, step: 0, chunk: chunk as u32 });
            let mut words: Vec<u32> = (0..200).map(|_| stream.next_u32()).collect();
            let (value, used) = replay(sigma, &words);
            // The shortest end of the words that gives the value is one attempt: its first bit is the sign.
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
        // 200,000 draws: the standard error of the variance is 0.32 %; six of them.
        let sigma = 1 << 20;
        let draws = draws(sigma, 200_000, 3);
        let variance = draws.iter().map(|z| (*z as f64).powi(2)).sum::<f64>() / draws.len() as f64;
        let ratio = variance / f64::from(sigma).powi(2);
        assert!((ratio - 1.0).abs() < 0.019, "{ratio}");
    }
}
