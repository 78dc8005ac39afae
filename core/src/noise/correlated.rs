//! Correlated noise on the grid: noise of successive steps that partly cancels in the sum over steps.
//!
//! Step t releases `x_t + w_t` in integers, with `w = C⁻¹z` up to rounding. The `z_t` are independent discrete
//! Gaussians with one integer σ, each at the address of its step. C is a lower-triangular Toeplitz matrix with
//! `1 = c_0 ≥ c_1 ≥ … ≥ 0`: a [`Correlation`]. The run as a whole is accounted as one Gaussian release
//! ([`CorrelatedGaussian::event`]). Sources: arXiv 2404.16706, 2408.08868 (BLT), 2306.08153 (banded).
//!
//! It needs a fixed order of the samples. No sample takes part in two steps closer than the separation of the
//! [`Participation`]. If all samples take part in every step, independent noise is best. `damper factorize` computes
//! the coefficients.
//!
//! # Numerics
//!
//! `rnd(v, s) = (v + 2^(s−1)) >> s` on exact products. Coefficients are integers over 2³⁰, rounded down. Buffers start
//! at 0.
//!
//! ```text
//! Blt     w_t = z_t − rnd(Σ_i W_i·s_i, 40);            s_i ← rnd(T_i·s_i, 30) + w_t·2¹⁰
//! Banded  w_t = z_t − rnd(Σ_{j=1..p−1} M_j·w_{t−j}, 30)
//! Lambda  w_t = z_t − rnd(P·z_{t−1}, q),  λ = P/2^q    (z_{t−1} is drawn again)
//! ```
//!
//! # Memory
//!
//! The caller's [`NoiseWord`]s, 8 bytes each: D for each coordinate with `Blt<D>`, p − 1 with `Banded<p>`, and none
//! with [`Lambda`], which draws twice.
//!
//! # Privacy
//!
//! Let Δ = 2^bits be the clip, n the steps, m the coordinates. Neighbouring data sets differ in one sample. Its steps
//! satisfy the participation and do not depend on data. Given all outputs before t, `δ_t = z'_t − z_t` is an integer
//! vector. The noise of the two data sets must differ by it to give the same output. On every path `Σ‖δ_t‖² ≤ β²`,
//! `β = S·Δ + R`:
//!
//! - `Blt` and `Banded` compute w from earlier **w**, so `Cw = z + ρ` with `|ρ| ≤ E` in each coordinate. Then
//!   `δ = C(x − x') − (ρ' − ρ)`. `Lambda` computes it from z, so `w = C⁻¹z + e`, `|e| ≤ ½`, and
//!   `δ = C(x − x') − C(e' − e)`.
//! - The entries of C are not negative, so `‖C(x − x')‖ ≤ S·Δ` for every contribution of the sample. It may depend on
//!   earlier outputs.
//! - R is `2E√(nm)`, and `Σ_{j<n} λ^j·√(nm)` with `Lambda`. E is ½ for the rounding of w. With `Blt`, each buffer errs
//!   by half a unit of 2⁻¹⁰ at each step, and the error decays with θ: `E = ½ + 2⁻¹¹ Σ ω_i·min(n, 1/(1 − θ_i))`.
//!
//! The run is therefore an adaptive composition of Gaussians with squared shifts that sum to at most β² on every path.
//! Its privacy cost is that of one release with multiplier σ/β (arXiv 2210.17520, and for the discrete Gaussian
//! `accounting/src/pld/discrete.rs`). S is computed from the integer coefficients, and every rounding goes up.
//!
//! Outputs are integers. Unrounded noise, `z_t − λz_{t−1}` with fractions, would reveal `z_{t−1}` modulo the
//! denominator, and with it `x_{t−1}`.
//!
//! *Restarts and burned steps.* Step t uses the buffers only if step t − 1 of the same mechanism left them. Otherwise
//! they start at zero. This sets entries of C to 0, so by the second point β holds whenever a restart occurs. A
//! released row enters the buffers once. A restart therefore loses accuracy and not privacy.
//!
//! Buffers are never saved, because a stale copy would not be private. A release requests the words from the memory
//! once. Words that the previous step did not leave there count as a restart. A host rebuilds the buffers from the key
//! instead ([`CorrelatedGaussian::rebuild`]). The w of earlier steps do not depend on data, so these are the buffers of
//! an uninterrupted run.
//!
//! *Not covered by the accounting*, and rejected:
//!
//! - Poisson batches, because a sample may take part in neighbouring steps.
//! - Noise that changes over steps.
//! - Counts of a threshold.
//! - A ledger of more steps than n.
//!
//! Buffers are as secret as the key. They have no accessor, and dropping them wipes them.

mod any;
mod banded;
mod blt;
mod correlation;
mod exact;
mod lambda;
mod participation;
mod state;
#[cfg(test)]
mod tests;
mod word;

pub use any::{AnyCorrelation, Bands};
pub use banded::Banded;
pub use blt::Blt;
pub use correlation::Correlation;
pub use lambda::Lambda;
pub use participation::Participation;
pub use state::{Buffers, CorrelatedState};
pub use word::NoiseWord;

use super::CHUNK;
use super::discrete_gaussian::{DiscreteGaussian, LEAST_SIGMA, sample};
use super::generator::{Address, Generator, Purpose};
use super::sealed::{Inside, Sealed};
use crate::accounting::{Rate, SampledGaussian};
use crate::clip::Clip;
use crate::error::{CallError, ConfigError, check_len};
use crate::grid::{Grid, Word};
use crate::numerics::digest::Digest;
use crate::numerics::round::{ceil, saturate};
use crate::numerics::scalar;
use crate::numerics::up::{add_up, div_up, mul_up, next_down, next_up, sqrt_up};
use crate::private::{Mechanism, SumWord};
use core::marker::PhantomData;
use rand_core::Rng;

/// Discrete Gaussian with correlated noise, on a [`Grid`]. `B` is the memory of the buffers.
///
/// ```
/// use damper_core::accounting::Ledger;
/// use damper_core::clip::FlatL2;
/// use damper_core::filter::Identity;
/// use damper_core::grid::Grid;
/// use damper_core::noise::{Blt, ChaCha20, CorrelatedGaussian, CorrelatedState, NoiseWord, Participation};
/// use damper_core::optimizer::{Sgd, SgdState};
/// use damper_core::private::SumWord;
/// use damper_core::schedule::Constant;
/// use damper_core::step::{PrivateStep, Slots, StepState};
/// use damper_core::threshold::Fixed;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // `damper factorize --steps 1000 --buffers 2 --separation 100 --participations 10`
/// let blt = Blt::new([0.98607187, 0.62314437], [0.23131852, 0.2725381])?;
/// let run = Participation::new(1000, 100, 10)?.of_samples(400)?;
/// let mechanism = CorrelatedGaussian::<i32, _, [NoiseWord; 6]>::new(Grid::new(16)?, 800_000, blt, run, 3)?;
/// // 1.78 instead of 3.86 = σ/(√k·Δ): but the noise of the sum over all steps is 6.7 times smaller.
/// assert!(mechanism.event()?.multiplier() > 1.78);
/// let step = PrivateStep::new(Slots {
///     mechanism,
///     clip: FlatL2,
///     threshold: Fixed(1.0),
///     filter: Identity,
///     optimizer: Sgd::new(0.0, false, 0.0)?,
///     schedule: Constant(0.1),
///     expected_batch: 4,
/// })?;
/// let mut state = StepState::new([SumWord::ZERO; 3], (), SgdState { momentum: [] }, ())
///     .with_noise(CorrelatedState::new([NoiseWord::ZERO; 6]));
/// let (mut ledger, mut params) = (Ledger::volatile(1000), [0.0f32; 3]);
/// let generator: ChaCha20 = ChaCha20::simulation(1);
///
/// let mut open = step.open(&mut state, &mut ledger)?;
/// for _sample in open.fixed_order_batch()? {
///     open.add_combined(&[&[0.5, -0.2, 0.1]])?;
/// }
/// open.finish(&mut params, &generator)?;
/// # Ok(())
/// # }
/// ```
///
/// Poisson batches are not accounted with it, so they do not compile:
///
/// ```compile_fail,E0271
/// use damper_core::{filter::Identity, noise::*, optimizer::*, step::{Open, PrivateStep}};
/// type Step = PrivateStep<Identity, Sgd, CorrelatedGaussian<i32, Lambda, [NoiseWord; 0]>>;
/// fn draw(open: &Open<'_, Step, (), SgdState<[f32; 1]>>, generator: &ChaCha20) {
///     let _ = open.poisson_batch(generator);
/// }
/// ```
#[derive(Debug)]
pub struct CorrelatedGaussian<W, K, B> {
    inner: DiscreteGaussian<W>,
    correlation: K,
    participation: Participation,
    dim: u32,
    /// β, rounded up, and its part R.
    shift: f64,
    rounding: f64,
    memory: PhantomData<fn() -> B>,
}

// Written by hand, to put no bound on `B`.
impl<W: Copy, K: Copy, B> Clone for CorrelatedGaussian<W, K, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Copy, K: Copy, B> Copy for CorrelatedGaussian<W, K, B> {}

impl<W: PartialEq, K: PartialEq, B> PartialEq for CorrelatedGaussian<W, K, B> {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
            && self.correlation == other.correlation
            && self.participation == other.participation
            && self.dim == other.dim
    }
}

impl<W: Word, K: Correlation, B> CorrelatedGaussian<W, K, B> {
    /// Creates noise z of standard deviation `sigma` grid units, for a run with this participation on `dim` parameters.
    ///
    /// # Errors
    ///
    /// Fails if σ is outside 2¹⁰ to 2³¹ − 1, or too small relative to β for the accounting. Also fails if `dim` is 0,
    /// or buffers might overflow.
    pub fn new(
        grid: Grid,
        sigma: u32,
        correlation: K,
        participation: Participation,
        dim: u32,
    ) -> Result<Self, ConfigError> {
        let inner = DiscreteGaussian::new(grid, sigma)?;
        if sigma < LEAST_SIGMA {
            return Err(ConfigError::new("sigma in grid units", "from 2^10 to 2^31 - 1"));
        }
        if dim == 0 {
            return Err(ConfigError::new("number of parameters", "above 0"));
        }
        if !correlation.fits(participation.steps(), largest(&correlation, participation, sigma)) {
            return Err(ConfigError::new(
                "sigma in grid units",
                "smaller, or the correlation shorter: buffers could overflow",
            ));
        }
        let (shift, rounding) = shift(grid, &correlation, participation, dim);
        // The condition of independent noise, with β instead of the clip as the longest shift.
        if mul_up(10.0, shift) > f64::from(sigma) * f64::from(sigma) {
            return Err(ConfigError::new("sigma in grid units", "larger, or the grid bits more"));
        }
        Ok(Self { inner, correlation, participation, dim, shift, rounding, memory: PhantomData })
    }

    /// Creates noise of at least `multiplier` times β, `σ = ⌈multiplier·β⌉`. The privacy cost of the run is at most
    /// that of one release with this multiplier.
    ///
    /// # Errors
    ///
    /// Fails unless the multiplier is positive, or as [`CorrelatedGaussian::new`] does.
    pub fn with_multiplier(
        grid: Grid,
        multiplier: f64,
        correlation: K,
        participation: Participation,
        dim: u32,
    ) -> Result<Self, ConfigError> {
        if !(multiplier.is_finite() && multiplier > 0.0) {
            return Err(ConfigError::new("noise multiplier", "finite and above 0"));
        }
        let (shift, _) = shift(grid, &correlation, participation, dim);
        // One more unit, because σ/β is rounded down.
        let sigma = ceil(next_up(mul_up(multiplier, shift))).saturating_add(1);
        Self::new(grid, sigma, correlation, participation, dim)
    }

    /// Returns the accounting event of the whole run: one release of multiplier σ/β without sampling. Its steps are not
    /// accounted separately.
    ///
    /// # Errors
    ///
    /// Fails if the multiplier cannot be accounted.
    pub fn event(&self) -> Result<SampledGaussian, ConfigError> {
        SampledGaussian::new(Rate::ONE, self.run_multiplier())
    }

    /// Returns σ/β, rounded down.
    fn run_multiplier(&self) -> f64 {
        next_down(f64::from(self.inner.sigma()) / self.shift)
    }

    /// Rebuilds the buffers as the first `steps` steps of a run leave them, from the generator only. Draws the noise of
    /// each step again.
    ///
    /// The continued run then has the bits of an uninterrupted run. Takes `O(steps · m)` time. A correlation without
    /// buffers draws nothing again.
    ///
    /// A run must do this after every restart, or after none. The accounting does not cover a mix of rows from zero
    /// buffers and rows from rebuilt buffers.
    ///
    /// # Errors
    ///
    /// Fails if the memory does not fit the mechanism.
    ///
    /// ```
    /// use damper_core::grid::Grid;
    /// use damper_core::noise::{Banded, CorrelatedGaussian, CorrelatedState, NoiseRng, NoiseWord, Participation};
    ///
    /// let (bands, run) = (Banded::new([1.0, 0.5])?, Participation::new(100, 10, 10)?.of_samples(40)?);
    /// let mechanism = CorrelatedGaussian::<i32, _, [NoiseWord; 3]>::new(Grid::new(16)?, 800_000, bands, run, 3)?;
    /// assert_eq!((mechanism.sigma(), mechanism.grid().bits(), mechanism.participation()), (800_000, 16, run));
    /// assert_eq!(mechanism.correlation().column(), [1.0, 0.5]);
    /// assert!(mechanism.rounding_share() < 1e-3 && mechanism.largest_noise() < 2f64.powi(31));
    /// let whole = CorrelatedGaussian::<i32, _, [NoiseWord; 3]>::with_multiplier(Grid::new(16)?, 2.0, bands, run, 3)?;
    /// assert!(whole.event()?.multiplier() >= 2.0);
    /// let mut state = CorrelatedState::new([NoiseWord::ZERO; 3]);
    /// mechanism.rebuild(&mut state, &NoiseRng::simulation(1), 7)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rebuild<G: Generator>(
        &self,
        state: &mut CorrelatedState<K, B>,
        generator: &G,
        steps: u32,
    ) -> Result<(), CallError>
    where
        B: AsMut<[NoiseWord]>,
    {
        let mut state = self.lend(state, self.dim as usize)?;
        state.restart(self.run_multiplier());
        let count = self.correlation.words();
        for (chunk, buffers) in state.words.chunks_mut((CHUNK * count).max(1)).enumerate() {
            for step in 0..steps {
                let address = Address { purpose: Purpose::GradientNoise, step, chunk: chunk as u32 };
                let mut words = generator.stream(address);
                for own in buffers.chunks_mut(count.max(1)) {
                    let z = sample(self.inner.sigma(), &mut words);
                    self.correlation.correlate(z, 0, step, own);
                }
            }
        }
        for step in 0..steps {
            state.grow(&self.correlation);
            state.finished(step);
        }
        Ok(())
    }

    /// Returns the part of β that is due to rounding, `R/β`, rounded up. More grid bits make it smaller.
    #[must_use]
    pub fn rounding_share(&self) -> f64 {
        div_up(self.rounding, self.shift)
    }

    /// Returns a bound on the noise of a coordinate in any step, in grid units. Takes `O(n)` time.
    #[must_use]
    pub fn largest_noise(&self) -> f64 {
        largest(&self.correlation, self.participation, self.sigma())
    }

    /// Returns σ in grid units.
    #[must_use]
    pub fn sigma(&self) -> u32 {
        self.inner.sigma()
    }

    /// Returns the grid.
    #[must_use]
    pub fn grid(&self) -> Grid {
        self.inner.grid()
    }

    /// Returns the correlation.
    #[must_use]
    pub fn correlation(&self) -> &K {
        &self.correlation
    }

    /// Returns the participation pattern of the samples.
    #[must_use]
    pub fn participation(&self) -> Participation {
        self.participation
    }
}

/// Returns a bound on `|w| ≤ Σ|a_j|·(|z| + |ρ|)`, from `|z| < 19σ`.
fn largest<K: Correlation>(correlation: &K, participation: Participation, sigma: u32) -> f64 {
    let (mut line, mut growth) = (K::START, 0.0);
    for t in 0..participation.steps() {
        growth += correlation.backward(&mut line, f64::from(u8::from(t == 0))).abs();
    }
    1.01 * growth * (19.0 * f64::from(sigma) + correlation.rounding(participation.steps()))
}

/// Returns β and R, rounded up.
fn shift<K: Correlation>(grid: Grid, correlation: &K, participation: Participation, dim: u32) -> (f64, f64) {
    let steps = participation.steps();
    let rounding = mul_up(correlation.rounding(steps), sqrt_up(mul_up(f64::from(steps), f64::from(dim))));
    let clip = mul_up(correlation.sensitivity(participation), f64::from(grid.unit()));
    (add_up(clip, rounding), rounding)
}

impl<W, K, B> Sealed for CorrelatedGaussian<W, K, B> {}

impl<W: Word, K: Correlation, B: AsMut<[NoiseWord]>> Mechanism for CorrelatedGaussian<W, K, B> {
    type Word = SumWord<W>;
    type NoiseState = CorrelatedState<K, B>;
    type Lent<'s>
        = Buffers<'s, K>
    where
        Self: 's;
    const DRAWS_AGAIN: bool = K::DRAWS_AGAIN;

    fn multiplier(&self) -> f64 {
        self.inner.multiplier()
    }

    fn check_clip(&self, clip: f32) -> Result<(), ConfigError> {
        self.inner.check_clip(clip)
    }

    /// Always fails, because a single step is not accounted.
    fn check_noise(&self) -> Result<(), ConfigError> {
        Err(ConfigError::new("correlated noise", "priced as a whole run, by the mechanism's event"))
    }

    fn participation(&self) -> Option<Participation> {
        Some(self.participation)
    }

    // Building a step rejects noise that changes over steps.
    fn scaled(&self, _factor: f64) -> Self {
        *self
    }

    #[inline(always)]
    fn add_sample<C: Clip>(
        &self,
        clip: &C,
        threshold: f32,
        parts: &[&[f32]],
        sum: &mut [SumWord<W>],
        inside: Inside,
    ) -> Option<f32> {
        self.inner.add_sample(clip, threshold, parts, sum, inside)
    }

    #[inline(always)]
    fn add_samples<C: Clip>(
        &self,
        clip: &C,
        threshold: f32,
        samples: &[&[&[f32]]],
        sum: &mut [SumWord<W>],
        each: impl FnMut(Option<f32>),
        inside: Inside,
    ) {
        self.inner.add_samples(clip, threshold, samples, sum, each, inside);
    }

    fn merge(&self, sum: &mut [SumWord<W>], other: &[SumWord<W>], inside: Inside) {
        self.inner.merge(sum, other, inside);
    }

    fn add_to(&self, digest: &mut Digest) {
        digest.add_word(3);
        self.inner.add_to(digest);
        self.correlation.add_to(digest);
        self.participation.add_to(digest);
        digest.add_word(self.dim.into());
    }

    fn lend<'s>(&self, state: &'s mut Self::NoiseState, dim: usize) -> Result<Buffers<'s, K>, CallError>
    where
        Self: 's,
    {
        check_len("the sum", self.dim as usize, dim)?;
        let buffers = state.buffers();
        check_len("the noise buffers", dim.saturating_mul(self.correlation.words()), buffers.words.len())?;
        Ok(buffers)
    }

    fn begin(&self, state: &mut Buffers<'_, K>, step: u32, _: Inside) -> f64 {
        if !state.follows(step, self.run_multiplier()) {
            state.restart(self.run_multiplier());
        }
        state.open();
        state.grow(&self.correlation);
        scalar::sqrt(state.variance())
    }

    fn draws_again(&self, state: &Buffers<'_, K>) -> bool {
        K::DRAWS_AGAIN && self.correlation.draws_again() && state.age() > 0
    }

    fn end(&self, state: &mut Buffers<'_, K>, step: u32, _: Inside) {
        state.finished(step);
    }

    fn release<R: Rng>(
        &self,
        (threshold, expected_batch): (f32, u32),
        sum: &mut [SumWord<W>],
        (at, state): (usize, &mut Buffers<'_, K>),
        (words, mut before): (&mut R, Option<&mut R>),
        out: &mut [f32],
        _: Inside,
    ) {
        let unit = self.inner.grid().mean_unit(threshold, expected_batch);
        let sigma = self.inner.sigma();
        let age = state.age();
        let count = self.correlation.words();
        let mut buffers = state.words.get_mut(at.saturating_mul(count)..).unwrap_or_default();
        for (sum, out) in sum.iter_mut().zip(out) {
            let (own, rest) = buffers.split_at_mut(count.min(buffers.len()));
            buffers = rest;
            let z = sample(sigma, words);
            let before = before.as_mut().map_or(0, |words| sample(sigma, &mut **words));
            let w = self.correlation.correlate(z, before, age, own);
            *out = saturate(sum.0.wrapping_add(W::wrap(w)).to_f32() * unit);
            *sum = SumWord::default();
        }
    }

    fn store_released(released: f32, inside: Inside) -> SumWord<W> {
        DiscreteGaussian::<W>::store_released(released, inside)
    }

    fn load_released(word: SumWord<W>, inside: Inside) -> f32 {
        DiscreteGaussian::<W>::load_released(word, inside)
    }
}
