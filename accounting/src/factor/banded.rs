//! Banded Toeplitz matrices of small loss: the first p coefficients of a BLT, `1 ≥ c_1 ≥ … > 0`, optimised for p bands.
//!
//! If the steps of a sample are at least p apart, its rows do not overlap, and `S² = k‖c‖²`. The loss is minimised over
//! the decays of the BLT, a few values for any p. For p = 2 and 4 the result is the least loss over all coefficients to
//! 1e-5.

use super::blt::BltMatrix;
use super::minimize::minimize;
use super::objective::Objective;
use super::optimize::{blt, starts};
use super::toeplitz::{error, sensitivity};
use crate::AccountingError;
use damper_core::noise::Participation;

/// The largest number of bands.
pub const MAX_BANDS: u32 = 256;
/// Buffers of the truncated BLT. More buffers gain less than a thousandth.
const BUFFERS: usize = 2;

/// The coefficients `c_0 = 1, c_1, …` of `bands` bands.
///
/// # Errors
///
/// `bands` is outside of 2 to [`MAX_BANDS`], or above the separation.
///
/// ```
/// use damper_accounting::factor::{Objective, Participation, error, optimize_banded, sensitivity};
///
/// let run = Participation::new(200, 20, 10)?;
/// let column = optimize_banded(run, 4, Objective::Max)?;
/// assert_eq!((column.len(), column[0]), (4, 1.0));
/// let loss = |column: &[f64]| sensitivity(column, run) * error(column, 200, Objective::Max).sqrt();
/// assert!(loss(&column) < loss(&[1.0]));
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
pub fn optimize_banded(
    participation: Participation,
    bands: u32,
    objective: Objective,
) -> Result<Vec<f64>, AccountingError> {
    let separation = participation.separation();
    if !(2..=MAX_BANDS).contains(&bands) || bands > separation {
        return Err(AccountingError::Bands { bands: bands as usize, groups: separation.into() });
    }
    let column = |blt: &BltMatrix| blt.column(bands as usize);
    let loss = |u: &[f64]| {
        blt(u).map_or(f64::NAN, |blt| {
            let column = column(&blt);
            sensitivity(&column, participation).ln()
                + 0.5 * error(&column, participation.steps() as usize, objective).ln()
        })
    };
    let mut best: (Vec<f64>, f64) = (Vec::new(), f64::INFINITY);
    for count in 1..=BUFFERS.min(bands as usize - 1) {
        for start in starts(&best.0, count, bands as usize) {
            let found = minimize(loss, &start);
            if found.1 < best.1 {
                best = found;
            }
        }
    }
    let found = blt(&best.0).map(|blt| column(&blt)).filter(|column| column.iter().all(|entry| *entry > 1e-6));
    found.ok_or(AccountingError::Bands { bands: bands as usize, groups: separation.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    // The least losses over all coefficients, of an independent optimiser.
    #[test]
    fn losses_reach_best_known() {
        let single = Participation::single(200).unwrap();
        for (bands, objective, least) in
            [(2, Objective::Mean, 7.22574345), (4, Objective::Mean, 5.33586778), (4, Objective::Max, 7.35926752)]
        {
            let column = optimize_banded(single, bands, objective).unwrap();
            let found = sensitivity(&column, single) * error(&column, 200, objective).sqrt();
            assert!((found / least - 1.0).abs() < 1e-5, "{bands} {objective:?}: {found} {least}");
        }
    }

    #[test]
    fn more_bands_lose_less() {
        let cyclic = Participation::new(640, 64, 10).unwrap();
        let loss = |bands| {
            let column = optimize_banded(cyclic, bands, Objective::Mean).unwrap();
            assert!(column.len() == bands as usize && column.windows(2).all(|pair| pair[0] >= pair[1]));
            sensitivity(&column, cyclic) * error(&column, 640, Objective::Mean).sqrt()
        };
        let losses = [2, 4, 8, 32, 64].map(loss);
        assert!(losses.windows(2).all(|pair| pair[1] < pair[0]), "{losses:?}");
    }

    #[test]
    fn overlapping_bands_are_refused() {
        let run = Participation::new(100, 10, 10).unwrap();
        for bands in [0, 1, 11, 257] {
            assert!(optimize_banded(run, bands, Objective::Mean).is_err(), "{bands}");
        }
    }
}
