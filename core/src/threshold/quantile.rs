//! Adaptive clipping: the clip follows a quantile of the norms by geometric steps.
//!
//! ```text
//! b̃_t = (1/B)·(Σ_i (1[n_i ≤ C_t] − ½) + N(0, σ_b²)) + ½          C_{t+1} = C_t·exp(−η_C·(b̃_t − γ))
//! ```
//!
//! with `n_i` the norms of the samples of step `t`, `B` the declared batch, and `γ` the fraction of samples to leave unclipped.
//! Of `B` samples, `b̃` is the noisy fraction at or below the clip.
//!
//! Source: Andrew, Thakkar, McMahan, Ramaswamy, "Differentially Private Learning with Adaptive Clipping", NeurIPS 2021,
//! Algorithm 1. Its settings: `γ = ½`, `η_C = 0.2`, `σ_b = B/20`.
//!
//! The core counts `s = (samples above C_t) − (samples not above)`: each sample moves it by ±1, which is −2 times what it adds
//! to the paper's sum. So `Σ_i (1[n_i ≤ C_t] − ½) = −s/2`, and with the noise on `s`:
//!
//! ```text
//! b̃_t = ½ − s̃/(2·B)          noise of s̃: 2σ_b          sensitivity: 1
//! ```
//!
//! # Memory
//!
//! One `f32`; one count in each open step and shard.
//!
//! # Numerics
//!
//! f64, from the f32 `C_t`, clamped to its bounds, every operation rounded by itself, to nearest with ties to even:
//!
//! 1. `b = 0.5 − s̃ / (2 · B)`
//! 2. `C = C_t · exp(η_C · (γ − b))`, with the bits of `libm`'s `exp`; rounded to f32, then clamped.
//!
//! An infinite `exp` becomes the largest clip.
//!
//! # Privacy
//!
//! One sample moves the count by one, so a count with noise of standard deviation `2σ_b` has multiplier `2σ_b`: that is what is
//! priced, with the gradient's as one event, `1/σ² = 1/σ_T² + 1/(2σ_b)²` (the paper's theorem 1, where `σ_T` is `z_Δ`). The fraction
//! is of the declared batch, never of the realised one, which is private.

use super::base::{StepConstants, Threshold};
use super::bounds::{Bounds, scale};
use crate::count::{CountNoise, Query, ReleasedCounts};
use crate::error::ConfigError;
use crate::numerics::scalar::exp;
use crate::record::{FromRecord, RecordSink, RecordSource, StateVector, ToRecord};
use crate::state::{SaveState, StateField};

/// Configuration of adaptive clipping.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quantile {
    quantile: f64,
    rate: f64,
    noise: CountNoise,
    clips: Bounds,
}

impl Quantile {
    /// Follows the `quantile` (`γ`) of the norms at rate `rate` (`η_C`), with noise of standard deviation `sigma_b` on the number
    /// of unclipped samples, in the paper's units: the multiplier that is priced is `2·sigma_b`.
    ///
    /// # Errors
    ///
    /// The quantile must lie between 0 and 1, the rate be finite and above 0, and `2·sigma_b` from 0.25 to 2¹⁸.
    pub fn new(quantile: f64, rate: f64, sigma_b: f64) -> Result<Self, ConfigError> {
        if !(quantile > 0.0 && quantile < 1.0) {
            return Err(ConfigError::new("quantile", "between 0 and 1"));
        }
        if !(rate.is_finite() && rate > 0.0) {
            return Err(ConfigError::new("rate of the clip", "finite and above 0"));
        }
        Ok(Self { quantile, rate, noise: CountNoise::new(2.0 * sigma_b)?, clips: Bounds::default() })
    }

    /// As the paper recommends for `expected_batch` (`B`): the median, `η_C = 0.2`, `σ_b = B/20`.
    ///
    /// # Errors
    ///
    /// The batch is below 3, where the noise would be too small to price.
    pub fn recommended(expected_batch: u32) -> Result<Self, ConfigError> {
        Self::new(0.5, 0.2, f64::from(expected_batch) / 20.0)
    }

    /// Keeps clips within `clips`.
    #[must_use]
    pub fn within(self, clips: Bounds) -> Self {
        Self { clips, ..self }
    }
}

/// Memory of adaptive clipping. It follows from released counts alone.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QuantileState {
    clip: f32,
}

impl QuantileState {
    /// The clip of the first step, `C_0`; of the next step after a restart.
    ///
    /// # Errors
    ///
    /// It must be from `2^-104` to `2^126`.
    pub fn new(clip: f32) -> Result<Self, ConfigError> {
        Ok(Self { clip: scale("clip", clip)? })
    }

    /// The clip that follows from the counts so far. Released.
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

    // `σ_b`, as the constructor takes it.
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
        /// The paper's sum of halves, and its step, in the plainest form.
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
