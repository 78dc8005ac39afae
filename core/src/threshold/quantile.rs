//! Adaptive clipping: the clip follows a quantile of the norms by geometric steps.
//!
//! ```text
//! b̃_t = (1/B)·(Σ_i (1[n_i ≤ C_t] − ½) + N(0, σ_b²)) + ½          C_{t+1} = C_t·exp(−η_C·(b̃_t − γ))
//! ```
//!
//! The `n_i` are the norms of the samples of step `t`, `B` is the declared batch, and `γ` the fraction of samples to
//! leave unclipped. Of `B` samples, `b̃` is the noisy fraction at or below the clip.
//!
//! Source: Andrew, Thakkar, McMahan, Ramaswamy, "Differentially Private Learning with Adaptive Clipping", NeurIPS 2021,
//! Algorithm 1. Its settings: `γ = ½`, `η_C = 0.2`, `σ_b = B/20`.
//!
//! The core counts `s = (samples above C_t) − (samples not above)`. Each sample changes it by ±1, which is −2 times its
//! contribution to the paper's sum. So `Σ_i (1[n_i ≤ C_t] − ½) = −s/2`, and with the noise on `s`:
//!
//! ```text
//! b̃_t = ½ − s̃/(2·B)          noise of s̃: 2σ_b          sensitivity: 1
//! ```
//!
//! # Memory
//!
//! One `f32`, and one count in each open step and shard.
//!
//! # Numerics
//!
//! All arithmetic is in f64, from the f32 `C_t`, clamped to its bounds. Every operation rounds separately, to nearest
//! with ties to even:
//!
//! 1. `b = 0.5 − s̃ / (2 · B)`
//! 2. `C = C_t · exp(η_C · (γ − b))`, with the bits of `libm`'s `exp`, rounded to f32, then clamped.
//!
//! An infinite `exp` becomes the largest clip.
//!
//! # Privacy
//!
//! One sample changes the count by one. A count with noise of standard deviation `2σ_b` therefore has multiplier
//! `2σ_b`. It is accounted with the gradient as one event, `1/σ² = 1/σ_T² + 1/(2σ_b)²` (theorem 1 of the paper, with
//! `σ_T` as `z_Δ`). The fraction is of the declared batch, never of the actual batch, which is private.

use super::base::{StepConstants, Threshold};
use super::bounds::{Bounds, scale};
use crate::count::{CountNoise, Query, ReleasedCounts};
use crate::error::ConfigError;
use crate::numerics::scalar::exp;
use crate::record::{FromRecord, RecordSink, RecordSource, StateVector, ToRecord};
use crate::state::{SaveState, StateField};

/// Configuration of adaptive clipping.
///
/// ```
/// use damper_core::count::Query;
/// use damper_core::threshold::{Bounds, Quantile, QuantileState, Threshold as _};
///
/// // The median of the norms, from 1 on.
/// let rule = Quantile::recommended(100)?.within(Bounds::new(0.01, 10.0)?);
/// let state = QuantileState::new(1.0)?;
/// assert_eq!((rule.clip(&state), rule.query(&state)), (1.0, Query::Above { norm: 1.0 }));
/// assert_eq!(rule.count_noise().map(|noise| noise.multiplier()), Some(10.0));
/// assert_eq!(Quantile::new(0.5, 0.2, 5.0)?, Quantile::recommended(100)?);
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quantile {
    quantile: f64,
    rate: f64,
    noise: CountNoise,
    clips: Bounds,
}

impl Quantile {
    /// Creates the rule for the `quantile` (`γ`) of the norms, with step size `rate` (`η_C`). `sigma_b` is the standard
    /// deviation of the noise on the number of unclipped samples, in the paper's units. The accounted multiplier is
    /// `2·sigma_b`.
    ///
    /// # Errors
    ///
    /// Fails unless the quantile is between 0 and 1, the step size finite and above 0, and `2·sigma_b` from 0.25 to
    /// 2¹⁸.
    pub fn new(quantile: f64, rate: f64, sigma_b: f64) -> Result<Self, ConfigError> {
        if !(quantile > 0.0 && quantile < 1.0) {
            return Err(ConfigError::new("quantile", "between 0 and 1"));
        }
        if !(rate.is_finite() && rate > 0.0) {
            return Err(ConfigError::new("rate of the clip", "finite and above 0"));
        }
        Ok(Self { quantile, rate, noise: CountNoise::new(2.0 * sigma_b)?, clips: Bounds::default() })
    }

    /// Creates the rule with the paper's recommendation for `expected_batch` (`B`): the median, `η_C = 0.2`,
    /// `σ_b = B/20`.
    ///
    /// # Errors
    ///
    /// Fails if the batch is below 3, because the noise would be too small for the accounting.
    pub fn recommended(expected_batch: u32) -> Result<Self, ConfigError> {
        Self::new(0.5, 0.2, f64::from(expected_batch) / 20.0)
    }

    /// Limits clips to `clips`.
    #[must_use]
    pub fn within(self, clips: Bounds) -> Self {
        Self { clips, ..self }
    }
}

/// State of adaptive clipping. It is a function of released counts only.
///
/// ```
/// use damper_core::threshold::QuantileState;
///
/// assert_eq!(QuantileState::new(0.5)?.clip(), 0.5);
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QuantileState {
    clip: f32,
}

impl QuantileState {
    /// Creates the state with the clip of the first step, `C_0`. After a restart, it is that of the next step.
    ///
    /// # Errors
    ///
    /// Fails unless the clip is from `2^-104` to `2^126`.
    pub fn new(clip: f32) -> Result<Self, ConfigError> {
        Ok(Self { clip: scale("clip", clip)? })
    }

    /// Returns the clip that follows from the counts so far. Released.
    #[must_use]
    pub fn clip(&self) -> f32 {
        self.clip
    }
}

impl SaveState for QuantileState {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        take(StateField::Owner("quantile"));
        take(StateField::Floats(core::slice::from_mut(&mut self.clip)));
    }
}

impl ToRecord<QuantileState> for Quantile {
    fn kind(&self, _state: &QuantileState) -> Option<u8> {
        Some(4)
    }

    // Writes `σ_b`, as the constructor takes it.
    fn write(&self, state: &QuantileState, sink: &mut dyn RecordSink) {
        sink.f64(self.quantile);
        sink.f64(self.rate);
        sink.f64(self.noise.multiplier() / 2.0);
        sink.f32(state.clip);
        self.clips.write(sink);
    }
}

impl FromRecord for Quantile {
    type State<B: StateVector> = QuantileState;

    const KINDS: &'static [u8] = &[4];

    fn read<R: RecordSource>(_kind: u8, source: &mut R) -> Result<(Self, QuantileState), R::Error> {
        let rule = Self::new(source.f64(), source.f64(), source.f64())?;
        let state = QuantileState::new(source.f32())?;
        Ok((rule.within(Bounds::read(source)?), state))
    }
}

impl Threshold for Quantile {
    type State = QuantileState;
    type Counts = [i32; 1];

    fn clip(&self, state: &QuantileState) -> f32 {
        self.clips.clamp(state.clip)
    }

    fn query(&self, state: &QuantileState) -> Query {
        Query::Above { norm: self.clip(state) }
    }

    fn count_noise(&self) -> Option<CountNoise> {
        Some(self.noise)
    }

    fn update(&self, state: &mut QuantileState, released: &ReleasedCounts<'_>, constants: StepConstants) {
        let &[above] = released.counts() else { return };
        let unclipped = 0.5 - above / (2.0 * f64::from(constants.expected_batch));
        let step = self.rate * (self.quantile - unclipped);
        state.clip = self.clips.clamp((f64::from(self.clip(state)) * exp(step)) as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn next(rule: &Quantile, clip: f32, above: f64, expected_batch: u32) -> f32 {
        let mut state = QuantileState::new(clip).unwrap();
        let constants = StepConstants { multiplier: 1.0, dim: 1, expected_batch };
        rule.update(&mut state, &ReleasedCounts::new(&[above]), constants);
        state.clip()
    }

    proptest! {
        /// The paper's sum of halves, and its step, in their simplest form.
        #[test]
        fn a_step_is_the_papers(
            norms in prop::collection::vec(0f32..2.0, 0..100), clip in 0.01f32..2.0, quantile in 0.01f64..0.99,
            rate in 0.01f64..1.0, batch in 1u32..1000,
        ) {
            let mut counted = [0];
            norms.iter().for_each(|norm| Query::Above { norm: clip }.count(*norm, &mut counted));
            let rule = Quantile::new(quantile, rate, 5.0).unwrap();
            let halves: f64 = norms.iter().map(|n| if *n <= clip { 0.5 } else { -0.5 }).sum();
            let unclipped = halves / f64::from(batch) + 0.5;
            let expected = f64::from(clip) * (-rate * (unclipped - quantile)).exp();
            let got = f64::from(next(&rule, clip, f64::from(counted[0]), batch));
            prop_assert!((got / expected.clamp(1e-8, 1e8) - 1.0).abs() < 1e-7, "{got} {expected}");
        }

        #[test]
        fn any_count_keeps_clip_in_bounds(
            clip in 1e-8f32..1e8, above in prop::num::f64::ANY, batch in 1u32..1000, rate in 0.01f64..1e9,
        ) {
            let rule = Quantile::new(0.5, rate, 5.0).unwrap();
            prop_assert!((1e-8..=1e8).contains(&next(&rule, clip, above, batch)));
        }
    }

    // The clip rises if too many samples are clipped, and falls if too few are.
    #[test]
    fn clip_follows_clipped_fraction() {
        let rule = Quantile::recommended(100).unwrap();
        assert!(next(&rule, 1.0, 100.0, 100) > 1.1 && next(&rule, 1.0, -100.0, 100) < 0.91);
        assert_eq!(next(&rule, 1.0, 0.0, 100), 1.0);
        let frozen = rule.within(Bounds::new(0.7, 0.7).unwrap());
        assert_eq!(next(&frozen, 1.0, 100.0, 100), 0.7);
    }

    // The noise is in the units of the paper, and the charge is for counts of one.
    #[test]
    fn noise_units_match_paper() {
        assert_eq!(Quantile::new(0.5, 0.2, 5.0).unwrap().count_noise().unwrap().multiplier(), 10.0);
        assert_eq!(Quantile::recommended(256).unwrap().count_noise().unwrap().multiplier(), 25.600_097_656_25);
    }

    #[test]
    fn configurations_out_of_range_are_refused() {
        for (quantile, rate, sigma_b) in [
            (0.0, 0.2, 5.0),
            (1.0, 0.2, 5.0),
            (f64::MIN, 0.2, 5.0),
            (0.5, 0.0, 5.0),
            (0.5, f64::INFINITY, 5.0),
            (0.5, 0.2, 0.1),
            (0.5, 0.2, f64::MIN),
        ] {
            assert!(Quantile::new(quantile, rate, sigma_b).is_err(), "{quantile} {rate} {sigma_b}");
        }
        assert!(Quantile::recommended(2).is_err() && Quantile::recommended(3).is_ok());
        assert!(QuantileState::new(0.0).is_err() && QuantileState::new(f32::NAN).is_err());
    }
}
