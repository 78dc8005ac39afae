//! The discrete Gaussian on the grid: `P(Z = z) ∝ exp(−z²/2σ²)` over the integers, σ an integer. The default mechanism.
//!
//! C. Karney's rejection ("Sampling exactly from the normal distribution", ACM TOMS 42 (2016), Algorithm D), in cells of an eighth
//! of his width: so most proposals are accepted, and the coin that decides is tails at its first toss. A draw is `z = ±(iσ + a)/8`:
//!
//! 1. a cell `i ≥ 0` with `P(i) ∝ exp(−(i/8)²/2)`, and a sign;
//! 2. `a = 8j + (−iσ mod 8)`, `j` uniform in `[0, ⌈σ/8⌉)`; start again unless `a < σ`. `iσ + a` is a multiple of 8;
//! 3. write `ξ = a/σ`: accept with probability `exp(−ξ(2i+ξ)/128)`, else start again; a negative zero starts again too.
//!
//! Step 3 is one trial of `exp(−y)`, `y = ξ(2i+ξ)/128 < 1`, by the alternating series (von Neumann): coins of probability `y/1, y/2,
//! y/3, …` until the first tails, accepted if the number of heads is even. A coin `y/n` is heads if a uniform integer below `128n` is
//! less than `2i`, or is `2i` and a coin `ξ` is heads; and if another coin `ξ` is heads. From the 64th cell on (`|z| ≥ 8σ`) it is
//! `T = 1 + ⌊i/64⌋` trials of `exp(−y/T)`.
//!
//! The first word of an attempt has a bit of the sign, 24 of the cell, 7 of the first coin; the second has `j`. Nine attempts of ten
//! end there, and a draw takes 2.27 words on average. A coin `ξ` compares random digits with those of a ratio of integers, which are worked
//! out only as far as needed. There is no rounding anywhere.
//!
//! # Exactness
//!
//! Each `z ≠ 0` of a sign comes from one `(i, a)`: `i = ⌊8|z|/σ⌋`, `a = 8|z| − iσ`, so `0 ≤ a < σ` and `a ≡ −iσ (mod 8)`. Step 2 proposes each such
//! `a` with the same probability in every cell, `1/⌈σ/8⌉`. Since `8|z|/σ = i + ξ`, the weight of step 1 times that of step 3 is
//! `exp(−(i/8)²/2)·exp(−ξ(2i+ξ)/128) = exp(−(i+ξ)²/128) = exp(−z²/2σ²)`.
//!
//! Steps 2 and 3 are exact. Step 1 compares 24 bits with those of `P(I < i)`. Where they are equal, which one draw in 350,000 has, a
//! number of 288 bits decides: cumulative weights in fixed point. Each weight is less than 2⁹ units of 2⁻²⁸⁸ off, all of them together
//! and the sum 2¹⁷, and what is cut off behind the last cell is below 2⁻²⁶². So the law of the cell is off by less than 2⁻²⁵⁶, the
//! least probability that words made from a 256-bit key can express at all.
//!
//! # Memory
//!
//! No state; 328 bytes of table. Where all digits decide, 240 bytes of stack and some 450,000 instructions (Cortex-M4F).
//!
//! # Timing
//!
//! A draw takes as many words and instructions for `z` as for `−z`, and the cell is found without a branch, whichever it is.
//! Attempts that were rejected say nothing of the value. The accepted one takes longer if its first coin is heads, which is likelier
//! the greater `|z|` is; `docs/threat-model.md` has it measured. To take the same time for every value, a draw would have to work
//! through as many words as the longest.
//!
//! # Privacy
//!
//! σ on the grid is an integer, rounded up, and [`DiscreteGaussian::multiplier`] (`σ / 2^bits`) is what is priced. That
//! the Rényi bound of the continuous Gaussian holds for it is shown in [`crate::accounting::renyi`].

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

/// Least σ in grid units that can be priced: below, the accountant's fractional orders would not hold for the discrete Gaussian.
pub const LEAST_SIGMA: u32 = 1 << 10;
/// Largest σ in grid units (exclusive).
pub const MAX_SIGMA: u32 = 1 << 31;

/// Cells in a σ.
const CELLS: u32 = 8;
/// Values of the first coin: `2·CELLS²`.
const COIN: u32 = 2 * CELLS * CELLS;
/// The last cell: later ones, `|z| ≥ 19σ`, have a probability below 2⁻²⁶².
const LAST_CELL: u32 = 151;

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

/// One draw, in grid units. `sigma` is in `1..2³¹`.
pub(crate) fn sample<R: Rng>(sigma: u32, words: &mut R) -> i64 {
    let slots = sigma.div_ceil(CELLS);
    loop {
        let word = words.next_u32();
        let i = cell(word << 1 >> 8, words);
        // Below 8σ/8 + 8, and `a ≡ −iσ (mod 8)`: so `iσ + a` is a multiple of 8.
        let a = CELLS * below(slots, words) + i.wrapping_mul(sigma.wrapping_neg()) % CELLS;
        if a < sigma && accept(i, a, sigma, word % COIN, words) {
            // i ≤ 151 and a < σ < 2³¹: no overflow.
            let z = ((u64::from(i) * u64::from(sigma) + u64::from(a)) / u64::from(CELLS)) as i64;
            let negative = i64::from(word >> 31);
            // The sign by masks: as many instructions for either. A negative zero starts again.
            if z | (1 - negative) != 0 {
                return (z ^ -negative) + negative;
            }
        }
    }
}

/// `i` with `P(i) ∝ exp(−(i/8)²/2)`: the last whose `P(I < i)` does not exceed the number whose first 24 bits are `head`.
#[inline]
fn cell<R: Rng>(head: u32, words: &mut R) -> u32 {
    let digit = |i: u32| HEAD.get(i as usize % HEAD.len()).copied().unwrap_or_default();
    let mut i = 0;
    // Six comparisons, without a branch, for every cell.
    let mut half = HEAD.len() as u32 / 2;
    while half > 0 {
        i += half * u32::from(digit(i + half) <= head);
        half /= 2;
    }
    if digit(i) == head { cell_by_all_digits(head, words) } else { i }
}

/// As [`cell`], by the digits of the number behind its first: it is multiplied by the sum of all weights, and each cell whose weight
/// and those before it do not exceed the product is passed.
#[cold]
#[inline(never)]
fn cell_by_all_digits<R: Rng>(head: u32, words: &mut R) -> u32 {
    let mut number = [0; DIGITS];
    for digit in &mut number {
        *digit = words.next_u32();
    }
    number[0] = head << 8 | number[0] >> 24;
    multiply(&mut number, &TOTAL);
    // Sixteenths, as of the total. From each weight to the next: exp(−(2i + 1)/128).
    let (mut weight, mut ratio) = ([0; DIGITS], RATIO);
    weight[0] = 1 << 28;
    let (mut i, mut sum) = (0, [0; DIGITS]);
    // All of them, whatever the cell is.
    for _ in 0..LAST_CELL {
        add(&mut sum, &weight);
        i += u32::from(sum <= number);
        multiply(&mut weight, &ratio);
        (0..2).for_each(|_| multiply(&mut ratio, &RATIO));
    }
    i
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

/// True with probability `exp(−ξ(2i+ξ)/128)`, `ξ = a/σ`. `coin` is uniform below 128.
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
mod tests;
