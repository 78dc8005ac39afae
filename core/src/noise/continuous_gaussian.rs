//! Continuous Gaussian noise in floats: the alternative to the exact path, for comparison.
//!
//! Formula (Box and Muller): `r = √(−2 ln((u+1)/2³²))` and `θ = 2πv/2³²` (24 bits of `v`), from two words `u, v`. The
//! two draws are `r cos θ` and `r sin θ`.
//!
//! # Numerics
//!
//! All arithmetic is in f32. `ln`, `sin`, `cos` have the bits of `libm`. A draw is at most 6.67 σ.
//!
//! # Timing
//!
//! The functions branch on the random words, so the time of a draw depends on its value.
//!
//! # Privacy
//!
//! **Not exact**: sums and noise are rounded. The guarantee holds for real numbers, but not for the released floats
//! (Mironov 2012). Reports mark this path as not exact.

use crate::clip::{AddLayer, Clip, Layer, Pieces, each_layer};
use crate::error::{CallError, ConfigError};
use crate::noise::sealed::{Inside, Sealed};
use crate::numerics::digest::Digest;
use crate::numerics::function::{ln_f32, sin_cos_f32, sqrt_f32};
use crate::numerics::round::saturate;
use crate::private::{Mechanism, SumWord};
use rand_core::Rng;

/// Float mechanism: clips and sums samples in f32, and adds continuous Gaussian noise.
///
/// ```
/// use damper_core::noise::{Address, ContinuousGaussian, Generator as _, NoiseRng, Purpose};
/// use damper_core::private::Mechanism as _;
///
/// let noise = ContinuousGaussian::new(1.1)?;
/// assert!(noise.multiplier() >= 1.1);
/// let generator = NoiseRng::simulation(1);
/// let draws = noise.sample(&mut generator.stream(Address { purpose: Purpose::Audit, step: 0, chunk: 0 }));
/// assert!(draws.iter().all(|draw| draw.abs() < 6.67 * 1.11));
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ContinuousGaussian {
    multiplier: f32,
}

/// Smallest clip. Below it, underflow of squared f32 could matter, because a layer's clip may be 2⁻²² of it.
const LEAST_CLIP: f32 = 1.0 / (1u64 << 38) as f32;

impl ContinuousGaussian {
    /// Creates noise of `multiplier` times the clip.
    ///
    /// # Errors
    ///
    /// Fails unless the multiplier is positive and finite in f32.
    pub fn new(multiplier: f64) -> Result<Self, ConfigError> {
        if !(multiplier.is_finite() && multiplier > 0.0) {
            return Err(ConfigError::new("noise multiplier", "finite and above 0"));
        }
        // Rounded up to the next float, so that the actual multiplier is not below the given multiplier.
        let multiplier = up_f32(multiplier);
        if !multiplier.is_normal() {
            return Err(ConfigError::new("noise multiplier", "a normal f32"));
        }
        Ok(Self { multiplier })
    }

    /// Draws two noise values, in units of the clip, from two words of the caller's generator.
    pub fn sample<R: Rng>(&self, words: &mut R) -> [f32; 2] {
        pair(words.next_u32(), words.next_u32()).map(|noise| self.multiplier * noise)
    }
}

impl Sealed for ContinuousGaussian {}

impl Mechanism for ContinuousGaussian {
    type Word = SumWord<f32>;
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

    // The low half is 1. Every grid has more bits, so an exact mechanism differs.
    fn add_to(&self, digest: &mut Digest) {
        digest.add_word(u64::from(self.multiplier.to_bits()) << 32 | 1);
    }

    fn multiplier(&self) -> f64 {
        f64::from(self.multiplier)
    }

    fn check_clip(&self, clip: f32) -> Result<(), ConfigError> {
        if clip >= LEAST_CLIP && clip.is_finite() {
            Ok(())
        } else {
            Err(ConfigError::new("clip", "from 2^-38, and finite, with continuous noise"))
        }
    }

    fn scaled(&self, factor: f64) -> Self {
        Self { multiplier: up_f32(f64::from(self.multiplier) * factor).clamp(f32::MIN_POSITIVE, f32::MAX) }
    }

    #[inline(always)]
    fn add_sample<C: Clip>(
        &self,
        clip: &C,
        threshold: f32,
        parts: &[&[f32]],
        sum: &mut [SumWord<f32>],
        _: Inside,
    ) -> Option<f32> {
        each_layer(clip, parts, sum, &InFloats { clip, threshold })
    }

    fn merge(&self, sum: &mut [SumWord<f32>], other: &[SumWord<f32>], _: Inside) {
        for (sum, other) in sum.iter_mut().zip(other) {
            sum.0 += other.0;
        }
    }

    fn release<R: Rng>(
        &self,
        (threshold, expected_batch): (f32, u32),
        sum: &mut [SumWord<f32>],
        _: (usize, &mut ()),
        (words, _): (&mut R, Option<&mut R>),
        out: &mut [f32],
        _: Inside,
    ) {
        let sigma = self.multiplier * threshold;
        let batch = expected_batch as f32;
        for (sum, out) in sum.chunks_mut(2).zip(out.chunks_mut(2)) {
            let noise = pair(words.next_u32(), words.next_u32());
            for ((sum, out), noise) in sum.iter_mut().zip(out).zip(noise) {
                *out = saturate((sum.0 + sigma * noise) / batch);
                *sum = SumWord::ZERO;
            }
        }
    }

    fn store_released(released: f32, _: Inside) -> SumWord<f32> {
        SumWord(released)
    }

    fn load_released(word: SumWord<f32>, _: Inside) -> f32 {
        word.0
    }
}

/// Clips to a threshold by a rule.
struct InFloats<'a, C> {
    clip: &'a C,
    threshold: f32,
}

impl<C: Clip> AddLayer<SumWord<f32>> for InFloats<'_, C> {
    // Not inlined on small targets, to save flash.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    fn add_layer(&self, layer: Layer, norm: f32, pieces: Pieces<'_>, sum: &mut [SumWord<f32>]) {
        let threshold = self.threshold * layer.share_f32();
        // With any rule, the divisor is not below the norm.
        let factor = threshold / self.clip.divisor(norm, threshold).max(norm);
        if !factor.is_finite() {
            return;
        }
        let mut rest = sum;
        for part in pieces {
            let (here, after) = rest.split_at_mut(part.len().min(rest.len()));
            for (sum, grad) in here.iter_mut().zip(part) {
                sum.0 += grad * factor;
            }
            rest = after;
        }
    }
}

/// Returns the smallest f32 that is not below `x`.
fn up_f32(x: f64) -> f32 {
    let nearest = x as f32;
    if f64::from(nearest) < x { f32::from_bits(nearest.to_bits().wrapping_add(1)) } else { nearest }
}

/// Returns two standard normal values from two words.
fn pair(u: u32, v: u32) -> [f32; 2] {
    const TWO_TO_MINUS_32: f32 = 1.0 / 4_294_967_296.0;
    const TAU_OVER_2_TO_24: f32 = core::f32::consts::TAU / 16_777_216.0;
    let r = sqrt_f32(-2.0 * ln_f32((u as f32 + 1.0) * TWO_TO_MINUS_32));
    let (sin, cos) = sin_cos_f32((v >> 8) as f32 * TAU_OVER_2_TO_24);
    [r * cos, r * sin]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clip::{FlatL2, Layers, PerLayer};
    use crate::noise::{Address, ChaCha20, Generator, Purpose};

    /// Kolmogorov-Smirnov test against the normal distribution at a fixed seed. The bound has error rate 1e-6, and a
    /// standard deviation that is off by 3 % must exceed it.
    #[test]
    fn draws_are_normal() {
        extern crate std;
        let address = Address { purpose: Purpose::GradientNoise, step: 0, chunk: 0 };
        let generator = ChaCha20::<8>::simulation(1);
        let mut stream = generator.stream(address);
        let mut draws: std::vec::Vec<f64> =
            (0..100_000).flat_map(|_| pair(stream.next_u32(), stream.next_u32())).map(f64::from).collect();
        draws.sort_by(f64::total_cmp);
        let distance = |scale: f64| {
            let n = draws.len() as f64;
            let each = draws.iter().enumerate().map(|(i, x)| {
                let p = 0.5 * libm::erfc(-x / (scale * std::f64::consts::SQRT_2));
                (p - i as f64 / n).abs().max((p - (i + 1) as f64 / n).abs())
            });
            each.fold(0.0, f64::max) * n.sqrt()
        };
        assert!(distance(1.0) < 2.7, "{}", distance(1.0));
        assert!(distance(1.03) > 2.7, "{}", distance(1.03));
    }

    #[test]
    fn a_draw_is_the_noise_of_a_sum_of_zeros() {
        let mechanism = ContinuousGaussian::new(2.5).unwrap();
        let generator = ChaCha20::<8>::simulation(3);
        let address = Address { purpose: Purpose::GradientNoise, step: 0, chunk: 0 };
        let (mut words, mut same) = (generator.stream(address), generator.stream(address));
        for _ in 0..50 {
            let mut released = [0.0; 2];
            let sum = &mut [SumWord::ZERO; 2];
            mechanism.release((1.0, 1), sum, (0, &mut ()), (&mut same, None), &mut released, Inside(()));
            assert_eq!(mechanism.sample(&mut words), released);
        }
    }

    /// Two layers have shares of 3/5 and 4/5 of a clip of 2. A third, tiny layer is already within its share.
    #[test]
    fn layers_are_clipped_to_their_shares() {
        let layer = |len, share: f64| Layer { len, share: (share * f64::from(1u32 << 22)) as u32 };
        let layers = [layer(2, 0.6), layer(3, 0.8 - 1e-6), layer(1, 1e-3)];
        let clip = PerLayer::new(FlatL2, Layers::new(&layers).unwrap()).unwrap();
        let (mechanism, mut sum) = (ContinuousGaussian::new(1.0).unwrap(), [SumWord::ZERO; 6]);
        let grad: [&[f32]; 2] = [&[30.0, -40.0, 0.0], &[-0.5, 1.2, 1e-3]];
        let norm = mechanism.add_sample(&clip, 2.0, &grad, &mut sum, Inside(())).unwrap();
        assert!((norm - 50.017_f32).abs() < 1e-3, "{norm}");
        for (found, exact) in sum.iter().zip([0.72, -0.96, 0.0, -0.5, 1.2, 1e-3]) {
            assert!((found.0 - exact).abs() < 2e-6, "{sum:?}");
        }
        let mut sum = [SumWord::ZERO; 6];
        let _ = mechanism.add_sample(&clip, 2.0, &[&[0.0, 0.0, 6.0, 0.0, 8.0, 5.0]], &mut sum, Inside(()));
        for (found, exact) in sum.iter().zip([0.0, 0.0, 0.96, 0.0, 1.28, 2e-3]) {
            assert!((found.0 - exact).abs() < 4e-6, "{sum:?}");
        }
    }

    #[test]
    fn multipliers_are_rounded_up() {
        for asked in [0.1, 1.0 / 3.0, 1.0, 0.7, 1e-30, 1e30, 1.0 + 1e-12] {
            let runs = ContinuousGaussian::new(asked).unwrap();
            for (runs, asked) in [(runs, asked), (runs.scaled(0.3), 0.3 * runs.multiplier())] {
                let below = f64::from((runs.multiplier() as f32).next_down());
                assert!(runs.multiplier() >= asked && below < asked, "{asked}: {}", runs.multiplier());
            }
        }
    }

    #[test]
    fn the_extreme_words_give_finite_draws() {
        for word in [0, 1, u32::MAX] {
            assert!(pair(word, word).iter().all(|x| x.is_finite() && x.abs() < 6.67));
        }
    }
}
