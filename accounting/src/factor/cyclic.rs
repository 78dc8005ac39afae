//! Banded correlated noise with cyclic Poisson sampling (arXiv 2306.08153).
//!
//! The samples are in G fixed groups, and step t draws from group `t mod G`, each sample with probability q. C has p ≤
//! G bands, and the noise is a function of the **noise** `w` of the last p − 1 steps.
//!
//! # A draw is one Gaussian release
//!
//! Let a sample be drawn at step t. For the same outputs, its noise w differs at t alone, by the integers of the
//! sample. So the noise z differs in rows t to t + p − 1. In row t + j it differs by `c_j` times the sample, up to the
//! rounding of rows t + 1 and later, at most 1 in each of m coordinates. The shift has a norm of at most
//! `β_c = ‖c‖Δ + √((p−1)m)` for every sequence of outputs.
//!
//! The next draw of the sample is at least G ≥ p steps later, so the blocks of a sample do not overlap. Its `⌈n/G⌉`
//! draws are a composition of Poisson-subsampled Gaussians. (A block's pair of distributions is a post-processing of
//! the Gaussian pair, and post-processing preserves mixtures.)

use crate::AccountingError;
use crate::calibration::sampling_rate;
use damper_core::accounting::event::SampledGaussian;
use damper_core::noise::Participation;

/// A run whose steps draw from the groups in turn.
///
/// ```
/// use damper_accounting::factor::CyclicPoisson;
///
/// // Steps draw from 10 groups of 6,000 samples in turn, 60 samples on average.
/// let run = CyclicPoisson { steps: 1000, groups: 10, batch: 60, samples: 60_000 };
/// let (event, times) = run.events(&[1.0, 0.5], 1 << 20, 20, 1000)?;
/// assert_eq!(((event.rate().as_f64() * 1e6).round(), times), (1e4, 100));
/// // Noise of one clip, over ‖(1, 0.5)‖.
/// assert!((event.multiplier() - 0.894).abs() < 0.001);
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CyclicPoisson {
    /// Steps of the run.
    pub steps: u64,
    /// Groups, G.
    pub groups: u64,
    /// The expected batch of a step, B.
    pub batch: u64,
    /// Samples of all groups together, N. This is a declared number, and is not counted from the data if neighbours
    /// differ in size.
    pub samples: u64,
}

impl CyclicPoisson {
    /// The event of each of a sample's draws, and their number. The noise has `sigma` grid units, the clip
    /// `2^grid_bits` units, and the release `dim` coordinates. `column` has the p coefficients of C from `c_0 = 1` on,
    /// of any sign.
    ///
    /// # Errors
    ///
    /// - There are more bands than groups.
    /// - The expected batch is 0, or larger than a group (`q = B·G/N` above 1).
    /// - The number of steps is not from 1 to [`Participation::MAX_STEPS`].
    /// - The multiplier cannot be accounted.
    pub fn events(
        &self,
        column: &[f64],
        sigma: u64,
        grid_bits: u32,
        dim: u64,
    ) -> Result<(SampledGaussian, u64), AccountingError> {
        let Self { steps, groups, batch, samples } = *self;
        if steps == 0 || steps > Participation::MAX_STEPS.into() {
            return Err(AccountingError::FactorizedSteps(steps));
        }
        if groups == 0 || column.len() as u64 > groups {
            return Err(AccountingError::Bands { bands: column.len(), groups });
        }
        let of_group = batch.saturating_mul(groups);
        if batch == 0 || of_group > samples {
            return Err(AccountingError::GroupBatch { batch, groups, samples });
        }
        let rate = sampling_rate(of_group as f64 / samples as f64)?;
        let multiplier = sigma as f64 / block_shift(column, grid_bits, dim) * (1.0 - 2.0 * f64::EPSILON);
        let event = SampledGaussian::new(rate, multiplier).map_err(|_| AccountingError::NoiseMultiplier(multiplier))?;
        Ok((event, steps.div_ceil(groups)))
    }
}

/// `β_c = ‖c‖·2^grid_bits + √((p−1)·dim)`, rounded up.
///
/// ```
/// use damper_accounting::factor::block_shift;
///
/// // ‖(1, 0.5)‖ clips of 2¹⁰ units, and the rounding of 100 coordinates.
/// let shift = block_shift(&[1.0, 0.5], 10, 100);
/// assert!((shift - (1024.0 * 1.25f64.sqrt() + 10.0)).abs() < 1e-6);
/// ```
#[must_use]
pub fn block_shift(column: &[f64], grid_bits: u32, dim: u64) -> f64 {
    let square: f64 = column.iter().map(|entry| entry * entry).sum();
    let rounding = ((column.len().saturating_sub(1)) as f64 * dim as f64).sqrt();
    // A few rounding errors per term. All terms are positive.
    let up = 1.0 + (column.len() + 16) as f64 * f64::EPSILON;
    (square.sqrt() * f64::from(grid_bits).exp2() + rounding) * up
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pld::{self, Neighbours};
    use damper_core::accounting::renyi::least_epsilon;

    const RUN: CyclicPoisson = CyclicPoisson { steps: 2000, groups: 8, batch: 256, samples: 60_000 };

    // ε at σ/β_c, tight and by Rényi divergences, of an independent generator.
    #[test]
    fn draws_have_known_epsilon() {
        for (groups, multiplier, tight, renyi) in
            [(8u64, 1.0, 3.5426, 4.0215), (32, 1.0, 7.7500, 8.6947), (200, 2.0, 6.5125, 7.0471)]
        {
            let run = CyclicPoisson { groups, ..RUN };
            // One band and no rounding: β_c is the clip.
            let (event, times) = run.events(&[1.0], (multiplier * f64::from(1u32 << 20)) as u64, 20, 1).unwrap();
            assert_eq!(times, 2000u64.div_ceil(groups));
            let found = pld::epsilon(&[(event, times)], Neighbours::AddOrRemove, 1e-5).unwrap();
            assert!((found - tight).abs() < 2e-3 * tight, "{groups}: {found}");
            let found = least_epsilon(&[(event, times)], 1e-5).unwrap().epsilon;
            assert!((found - renyi).abs() < 2e-3 * renyi, "{groups}: {found}");
        }
    }

    #[test]
    fn shift_is_that_of_a_block() {
        let column = [1.0, 0.5, -0.25];
        let (event, _) = RUN.events(&column, 5 << 20, 20, 10_000).unwrap();
        let shift = 1.3125f64.sqrt() + 20_000f64.sqrt() / f64::from(1u32 << 20);
        assert!(event.multiplier() <= 5.0 / shift && event.multiplier() > 5.0 / shift * (1.0 - 1e-13));
    }

    #[test]
    fn overlapping_blocks_are_refused() {
        assert_eq!(RUN.events(&[1.0; 9], 1 << 20, 20, 1), Err(AccountingError::Bands { bands: 9, groups: 8 }));
        let large = CyclicPoisson { batch: 7501, ..RUN };
        let refused = AccountingError::GroupBatch { batch: 7501, groups: 8, samples: 60_000 };
        assert_eq!(large.events(&[1.0], 1 << 20, 20, 1), Err(refused));
        let none = CyclicPoisson { steps: 0, ..RUN };
        assert_eq!(none.events(&[1.0], 1 << 20, 20, 1), Err(AccountingError::FactorizedSteps(0)));
    }
}
