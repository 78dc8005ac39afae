//! Discrete Gaussian noise on the grid: `P(Z = z) ∝ exp(−z²/2σ²)` over the integers, with an integer σ. The default
//! mechanism.
//!
//! Rejection sampling by C. Karney ("Sampling exactly from the normal distribution", ACM TOMS 42 (2016), Algorithm D),
//! with cells of an eighth of his width. Most proposals are accepted, and the deciding Bernoulli trial usually fails at
//! once. A draw is `z = ±(iσ + a)/8`:
//!
//! 1. Draw a cell `i ≥ 0` with `P(i) ∝ exp(−(i/8)²/2)`, and a sign.
//! 2. Compute `a = 8j + (−iσ mod 8)`, `j` uniform in `[0, ⌈σ/8⌉)`. Start again unless `a < σ`. `iσ + a` is a multiple
//!    of 8.
//! 3. Let `ξ = a/σ`. Accept with probability `exp(−ξ(2i+ξ)/128)`, else start again. A negative zero also starts again.
//!
//! Step 3 is one trial of `exp(−y)`, `y = ξ(2i+ξ)/128 < 1`, by von Neumann's alternating series. Run Bernoulli trials
//! of probability `y/1, y/2, y/3, …` until the first failure. Accept if the number of successes is even.
//!
//! A trial of `y/n` draws a uniform integer below `128n`. If it is less than `2i`, the trial succeeds if a trial of `ξ`
//! succeeds. If it equals `2i`, two trials of `ξ` must succeed. Otherwise the trial fails. From cell 64 on
//! (`|z| ≥ 8σ`), step 3 is `T = 1 + ⌊i/64⌋` trials of `exp(−y/T)`.
//!
//! The first word of an attempt has 1 bit for the sign, 24 bits for the cell and 7 bits for the first trial. The second
//! word gives `j`. Nine of ten attempts need no more, and a draw takes 2.27 words on average. A trial of `ξ` compares
//! random digits with the digits of a ratio of integers, and computes only as many as needed. Nothing is rounded.
//!
//! # Exactness
//!
//! Each `z ≠ 0` of a sign comes from one `(i, a)`: `i = ⌊8|z|/σ⌋`, `a = 8|z| − iσ`, so `0 ≤ a < σ` and
//! `a ≡ −iσ (mod 8)`. Step 2 proposes each such `a` with the same probability in every cell, `1/⌈σ/8⌉`. Since
//! `8|z|/σ = i + ξ`, the weight of step 1 times that of step 3 is
//! `exp(−(i/8)²/2)·exp(−ξ(2i+ξ)/128) = exp(−(i+ξ)²/128) = exp(−z²/2σ²)`.
//!
//! Steps 2 and 3 are exact. Step 1 compares 24 random bits with those of `P(I < i)`. If they are equal, as in one of
//! 350,000 draws, a number of 288 bits decides, from cumulative weights in fixed point. Each weight is off by less than
//! 2⁹ units of 2⁻²⁸⁸, and all of them with their sum by less than 2¹⁷. The cells after the last have a total
//! probability below 2⁻²⁶². The distribution of the cell is therefore off by less than 2⁻²⁵⁶. That is the smallest
//! probability that words from a 256-bit key can express.
//!
//! # Memory
//!
//! No state, and a table of 328 bytes. If all digits are needed, 240 bytes of stack and about 450,000 instructions
//! (Cortex-M4F).
//!
//! # Timing
//!
//! A draw takes as many words and instructions for `z` as for `−z`, and finds every cell without a branch. Rejected
//! attempts reveal nothing about the value. The accepted attempt takes longer if its first trial succeeds, which is
//! more likely for large `|z|`. `docs/threat-model.md` has measurements. A constant-time draw would have to process as
//! many words as the longest draw.
//!
//! # Privacy
//!
//! σ on the grid is an integer, rounded up. The accounting uses [`DiscreteGaussian::multiplier`] (`σ / 2^bits`).
//! [`crate::accounting::renyi`] proves that the Rényi bound of the continuous Gaussian holds for it.

mod fraction;
mod table;

use crate::clip::Clip;
use crate::error::{CallError, ConfigError};
use crate::grid::{Grid, Word};
use crate::noise::sealed::{Inside, Sealed};
use crate::numerics::digest::Digest;
use crate::numerics::round::{ceil, saturate};
use crate::private::{Mechanism, SumWord};
use core::marker::PhantomData;
use fraction::{DIGITS, add, multiply};
use rand_core::Rng;
use table::{HEAD, RATIO, TOTAL};

/// Smallest σ in grid units for the accounting. Below it, the accountant's fractional orders would not hold for the
/// discrete Gaussian.
pub const LEAST_SIGMA: u32 = 1 << 10;
/// Upper limit of σ in grid units (exclusive).
pub const MAX_SIGMA: u32 = 1 << 31;

/// Number of cells in one σ.
const CELLS: u32 = 8;
/// Number of values of the first trial's integer: `2·CELLS²`.
const COIN: u32 = 2 * CELLS * CELLS;
/// Last cell. Later cells, `|z| ≥ 19σ`, have a probability below 2⁻²⁶².
const LAST_CELL: u32 = 151;

/// Exact mechanism: clips and rounds samples onto a [`Grid`], sums them in integers `W`, and adds discrete Gaussian
/// noise on that grid.
///
/// ```
/// use damper_core::grid::Grid;
/// use damper_core::noise::{Address, DiscreteGaussian, Generator as _, NoiseRng, Purpose};
///
/// let noise = DiscreteGaussian::<i32>::with_multiplier(Grid::new(16)?, 1.1)?;
/// assert_eq!((noise.sigma(), noise.grid().bits()), (72_090, 16));
/// assert!(noise.multiplier() >= 1.1);
/// let generator = NoiseRng::simulation(1);
/// let mut words = generator.stream(Address { purpose: Purpose::Audit, step: 0, chunk: 0 });
/// let mean = (0..10_000).map(|_| noise.sample(&mut words) as f64).fold(0.0, |sum, z| sum + z) / 1e4;
/// assert!(mean.abs() < 5.0 * 72_090.0 / 100.0);
/// assert_eq!(DiscreteGaussian::<i64>::new(Grid::new(16)?, 1 << 16)?.multiplier(), 1.0);
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DiscreteGaussian<W> {
    grid: Grid,
    sigma: u32,
    word: PhantomData<W>,
}

impl<W: Word> DiscreteGaussian<W> {
    /// Creates noise of standard deviation `sigma` grid units.
    ///
    /// # Errors
    ///
    /// Fails unless `sigma` is in `1..2³¹`.
    pub fn new(grid: Grid, sigma: u32) -> Result<Self, ConfigError> {
        if sigma == 0 || sigma >= MAX_SIGMA {
            return Err(ConfigError::new("sigma in grid units", "from 1 to 2^31 - 1"));
        }
        Ok(Self { grid, sigma, word: PhantomData })
    }

    /// Creates noise of at least `multiplier` times the clip: `σ = ⌈multiplier · 2^bits⌉`.
    ///
    /// # Errors
    ///
    /// Fails unless the multiplier is positive and `multiplier · 2^bits` is below 2³¹.
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

    /// Returns σ in grid units.
    #[must_use]
    pub fn sigma(&self) -> u32 {
        self.sigma
    }

    /// Returns the grid.
    #[must_use]
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Returns the multiplier that runs and is accounted: `σ / 2^bits`, exactly.
    #[must_use]
    pub fn multiplier(&self) -> f64 {
        f64::from(self.sigma) / f64::from(self.grid.unit())
    }

    /// Draws one noise value, in grid units, from the caller's generator.
    pub fn sample<R: Rng>(&self, words: &mut R) -> i64 {
        sample(self.sigma, words)
    }

    /// Returns a word of a sum with noise added, and wipes the word.
    #[inline(always)]
    pub(crate) fn noised<R: Rng>(&self, sum: &mut SumWord<W>, words: &mut R) -> W {
        let noisy = sum.0.wrapping_add(W::wrap(sample(self.sigma, words)));
        *sum = SumWord::default();
        noisy
    }
}

impl<W> Sealed for DiscreteGaussian<W> {}

impl<W: Word> Mechanism for DiscreteGaussian<W> {
    type Word = SumWord<W>;
    type NoiseState = ();
    type Lent<'s>
        = ()
    where
        Self: 's;

    fn independent_state<'s>() -> Option<()>
    where
        Self: 's,
    {
        Some(())
    }

    fn lend<'s>(&self, (): &'s mut (), _dim: usize) -> Result<(), CallError>
    where
        Self: 's,
    {
        Ok(())
    }

    fn add_to(&self, digest: &mut Digest) {
        digest.add_word(u64::from(self.sigma) << 32 | u64::from(self.grid.bits()));
    }

    fn multiplier(&self) -> f64 {
        Self::multiplier(self)
    }

    fn check_clip(&self, clip: f32) -> Result<(), ConfigError> {
        self.grid.check_clip(clip)
    }

    /// Checks that σ is at least [`LEAST_SIGMA`], and σ² at least ten times the clip, the longest shift:
    /// `σ² ≥ 10·2^bits`.
    fn check_noise(&self) -> Result<(), ConfigError> {
        // From 2^13 on, the square is large enough for every grid. After `min`, the comparison fits 32 bits.
        let sigma = self.sigma.min(1 << 13);
        if sigma >= LEAST_SIGMA && sigma * sigma >= 10 * self.grid.unit() {
            Ok(())
        } else {
            Err(ConfigError::new("sigma in grid units", "larger, or the grid bits more"))
        }
    }

    fn scaled(&self, factor: f64) -> Self {
        // The product of f64s can round down. The accounting uses the σ that runs.
        Self { sigma: ceil(f64::from(self.sigma) * factor).clamp(1, MAX_SIGMA - 1), ..*self }
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

    #[inline(always)]
    fn add_samples<C: Clip>(
        &self,
        clip: &C,
        threshold: f32,
        samples: &[&[&[f32]]],
        sum: &mut [SumWord<W>],
        each: impl FnMut(Option<f32>),
        _: Inside,
    ) {
        self.grid.add_samples(clip, threshold, samples, sum, each);
    }

    fn merge(&self, sum: &mut [SumWord<W>], other: &[SumWord<W>], _: Inside) {
        for (sum, other) in sum.iter_mut().zip(other) {
            sum.0 = sum.0.wrapping_add(other.0);
        }
    }

    fn release<R: Rng>(
        &self,
        (threshold, expected_batch): (f32, u32),
        sum: &mut [SumWord<W>],
        _: (usize, &mut ()),
        (words, _): (&mut R, Option<&mut R>),
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

/// Draws one value, in grid units. `sigma` is in `1..2³¹`.
pub(crate) fn sample<R: Rng>(sigma: u32, words: &mut R) -> i64 {
    let slots = sigma.div_ceil(CELLS);
    loop {
        let word = words.next_u32();
        let i = cell(word << 1 >> 8, words);
        // Below 8σ/8 + 8, and `a ≡ −iσ (mod 8)`. So `iσ + a` is a multiple of 8.
        let a = CELLS * below(slots, words) + i.wrapping_mul(sigma.wrapping_neg()) % CELLS;
        if a < sigma && accept(i, a, sigma, word % COIN, words) {
            // i ≤ 151 and a < σ < 2³¹, so this does not overflow.
            let z = ((u64::from(i) * u64::from(sigma) + u64::from(a)) / u64::from(CELLS)) as i64;
            let negative = i64::from(word >> 31);
            // Masks apply the sign with as many instructions for either sign. A negative zero starts again.
            if z | (1 - negative) != 0 {
                return (z ^ -negative) + negative;
            }
        }
    }
}

/// Draws `i` with `P(i) ∝ exp(−(i/8)²/2)`. `head` is the first 24 bits of a uniform number. `i` is the last cell with
/// `P(I < i)` not above that number.
#[inline]
fn cell<R: Rng>(head: u32, words: &mut R) -> u32 {
    let digit = |i: u32| HEAD.get(i as usize % HEAD.len()).copied().unwrap_or_default();
    let mut i = 0;
    // Every cell takes six comparisons, without a branch.
    let mut half = HEAD.len() as u32 / 2;
    while half > 0 {
        i += half * u32::from(digit(i + half) <= head);
        half /= 2;
    }
    if digit(i) == head { cell_by_all_digits(head, words) } else { i }
}

/// Draws the cell as [`cell`] does, with all digits of the uniform number. Multiplies it by the sum of all weights. The
/// cell is the number of cells with a cumulative weight, including their own, that does not exceed the product.
#[cold]
#[inline(never)]
fn cell_by_all_digits<R: Rng>(head: u32, words: &mut R) -> u32 {
    let mut number = [0; DIGITS];
    for digit in &mut number {
        *digit = words.next_u32();
    }
    number[0] = head << 8 | number[0] >> 24;
    multiply(&mut number, &TOTAL);
    // Sixteenths, as in the total. The ratio from each weight to the next is exp(−(2i + 1)/128).
    let (mut weight, mut ratio) = ([0; DIGITS], RATIO);
    weight[0] = 1 << 28;
    let (mut i, mut sum) = (0, [0; DIGITS]);
    // Runs over all cells, so that the time does not depend on the cell.
    for _ in 0..LAST_CELL {
        add(&mut sum, &weight);
        i += u32::from(sum <= number);
        multiply(&mut weight, &ratio);
        (0..2).for_each(|_| multiply(&mut ratio, &RATIO));
    }
    i
}

/// Draws a uniform integer in `[0, n)`, exactly (D. Lemire, "Fast random integer generation in an interval", 2019).
#[inline]
fn below<R: Rng>(n: u32, words: &mut R) -> u32 {
    let mut product = u64::from(words.next_u32()) * u64::from(n);
    if (product as u32) < n {
        // 2³² mod n. The division runs once in 2³²/n draws, and n is not zero.
        let reject_below = n.wrapping_neg().checked_rem(n).unwrap_or_default();
        while (product as u32) < reject_below {
            product = u64::from(words.next_u32()) * u64::from(n);
        }
    }
    (product >> 32) as u32
}

/// Returns true with probability `exp(−ξ(2i+ξ)/128)`, `ξ = a/σ`. `coin` is uniform below 128.
#[inline]
fn accept<R: Rng>(i: u32, a: u32, sigma: u32, coin: u32, words: &mut R) -> bool {
    let trials = 1 + i / (COIN / 2);
    let range = COIN * trials;
    let mut first = (trials == 1).then_some(coin);
    (0..trials).all(|_| {
        let (mut last, mut odd) = (range, true);
        loop {
            // Uniform below `last`, a multiple of `range`.
            let coin = first.take().unwrap_or_else(|| below(last, words));
            let ratios = 1 + u32::from(coin == 2 * i);
            if coin > 2 * i || !(0..ratios).all(|_| ratio(a, sigma, words)) {
                return odd;
            }
            (last, odd) = (last.wrapping_add(range), !odd);
        }
    })
}

/// Returns true with probability `numerator/denominator`, for `numerator < denominator < 2³¹`.
///
/// Compares a uniform number with the ratio, digit by digit (base 2³²). With digit `u`, the number is in
/// `[u, u+1)/2³²`. The next digit is needed only if the ratio is in that interval too.
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
mod tests;
