//! The BLT of least loss for a number of buffers.
//!
//! The search minimises `ln S + ½ ln error` over the decays. It writes the decays as products of logistics,
//! `θ_1 = ℓ(u_1)`, `θ̂_1 = θ_1 ℓ(u_2)`, …, so that any values interlace. The loss has local minima, so buffers are
//! added one at a time. Each new buffer starts at several positions between the previous decays, with almost no effect
//! on the loss. Distant starts are spread evenly in `ln(1 − θ)`.

use super::blt::BltMatrix;
use super::minimize::minimize;
use super::objective::Objective;
use crate::error::AccountingError;
use crate::limits::MAX_BUFFERS;
use damper_core::noise::Participation;

/// A buffer with a relative gain of at most this is left out.
const GAIN: f64 = 1e-9;
/// θ_1 is at most 1 − 2⁻³⁰.
const FARTHEST: f64 = 1.0 / (1u64 << 30) as f64;

/// Returns the BLT with at most `buffers` buffers and the least root loss found. It has fewer buffers if another buffer
/// gains nothing, and none if independent noise is best.
///
/// # Errors
///
/// `buffers` is outside of 1 to [`MAX_BUFFERS`].
///
/// ```
/// use damper_accounting::factor::{Objective, Participation, optimize};
///
/// // If each sample takes part in every step, independent noise is best.
/// let blt = optimize(Participation::new(50, 1, 50)?, 2, Objective::Max)?;
/// assert!(blt.theta().is_empty());
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
pub fn optimize(
    participation: Participation,
    buffers: u32,
    objective: Objective,
) -> Result<BltMatrix, AccountingError> {
    if buffers == 0 || buffers > MAX_BUFFERS {
        return Err(AccountingError::Buffers(buffers));
    }
    let identity = BltMatrix::of_decays(&[]).ok_or(AccountingError::Buffers(buffers))?;
    // If every sample takes part in every step, correlated noise gains nothing.
    if participation.separation() == 1 && participation.participations() == participation.steps() {
        return Ok(identity);
    }
    let loss = |u: &[f64]| {
        blt(u).map_or(f64::NAN, |blt| {
            blt.sensitivity(participation).ln() + 0.5 * blt.error(participation.steps() as usize, objective).ln()
        })
    };
    let (mut best, mut least): (Vec<f64>, f64) = (Vec::new(), identity.root_loss(participation, objective).ln());
    for count in 1..=buffers as usize {
        let mut grown = (best.clone(), least);
        for start in starts(&best, count, participation.separation() as usize) {
            let found = minimize(loss, &start);
            if found.1 < grown.1 {
                grown = found;
            }
        }
        if grown.1 > least - GAIN {
            break;
        }
        (best, least) = grown;
    }
    Ok(blt(&best).unwrap_or(identity))
}

/// The BLT of these unconstrained values.
pub(super) fn blt(u: &[f64]) -> Option<BltMatrix> {
    let mut decay = 1.0;
    let decays: Vec<f64> = u
        .iter()
        .enumerate()
        .map(|(i, u)| {
            decay *= 1.0 / (1.0 + (-u).exp());
            if i == 0 {
                decay = decay.min(1.0 - FARTHEST);
            }
            decay
        })
        .collect();
    BltMatrix::of_decays(&decays)
}

/// The unconstrained values of these decays.
fn numbers(decays: &[f64]) -> Vec<f64> {
    let mut before = 1.0;
    decays
        .iter()
        .map(|decay| {
            let (share, rest) = (decay / before, (before - decay) / before);
            before = *decay;
            (share / rest).ln().clamp(-30.0, 40.0)
        })
        .collect()
}

/// Starts for `count` buffers, from the best result with one buffer less.
pub(super) fn starts(best: &[f64], count: usize, reach: usize) -> Vec<Vec<f64>> {
    let decays: Vec<f64> = blt(best).map_or_else(Vec::new, |blt| {
        blt.theta().iter().zip(blt.theta_hat()).flat_map(|(theta, hat)| [*theta, *hat]).collect()
    });
    let mut starts = Vec::new();
    // A pair of almost equal decays in each gap below a θ̂, and above θ_1.
    if decays.len() == 2 * (count - 1) {
        for gap in 0..count {
            let above = if gap == 0 { 1.0 } else { decays[2 * gap - 1] };
            let below = decays.get(2 * gap).copied().unwrap_or(0.0);
            let (top, bottom) = (above - 0.4 * (above - below), above - 0.6 * (above - below));
            let mut grown = decays.clone();
            grown.splice(2 * gap..2 * gap, [top, bottom]);
            starts.push(numbers(&grown));
        }
    }
    // Distances from 1 in a geometric sequence, from one over the reach up to a half, like those of the square root.
    for from in [1.0, 0.1] {
        let (near, far) = ((from / (reach as f64 + 1.0)).min(0.2), 0.7f64);
        let ratio = (far / near).powf(1.0 / (2 * count) as f64);
        let spread: Vec<f64> = (0..2 * count).map(|i| 1.0 - near * ratio.powi(i as i32)).collect();
        starts.push(numbers(&spread));
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(steps: u32, separation: u32, times: u32, buffers: u32, objective: Objective) -> f64 {
        let participation = Participation::new(steps, separation, times).unwrap();
        optimize(participation, buffers, objective).unwrap().root_loss(participation, objective)
    }

    // The best known losses, from an independent optimiser: to 1e-6 relative, or better.
    #[test]
    fn losses_reach_best_known() {
        use Objective::{Max, Mean};
        let known = [
            (100, 100, 1, 1, Max, 2.66507274),
            (100, 100, 1, 2, Max, 2.53652289),
            (1000, 1000, 1, 1, Max, 3.85020499),
            (1000, 1000, 1, 2, Max, 3.32126174),
            (1000, 1000, 1, 3, Max, 3.26991781),
            (10_000, 10_000, 1, 2, Max, 4.21584811),
            (10_000, 10_000, 1, 4, Max, 4.00311687),
            (100_000, 100_000, 1, 2, Max, 5.29674715),
            (1000, 100, 10, 2, Max, 14.952975),
            (1000, 100, 10, 3, Max, 14.884258),
            (500, 50, 10, 2, Mean, 11.498183),
            (500, 500, 1, 2, Mean, 2.841878),
        ];
        for (steps, separation, times, buffers, objective, least) in known {
            let found = loss(steps, separation, times, buffers, objective);
            assert!(
                found < least * (1.0 + 1e-6),
                "{steps} {separation} {times} {buffers} {objective:?}: {found} {least}"
            );
            assert!(
                found > least * (1.0 - 1e-4),
                "{steps} {separation} {times} {buffers} {objective:?}: {found} {least}"
            );
        }
    }

    // No BLT is better than the best Toeplitz matrix. More buffers approach its loss.
    #[test]
    fn more_buffers_approach_best_toeplitz() {
        let losses: Vec<f64> = [1, 2, 3, 4, 8].map(|buffers| loss(1000, 1000, 1, buffers, Objective::Max)).to_vec();
        assert!(losses.windows(2).all(|pair| pair[1] <= pair[0]), "{losses:?}");
        assert!(losses[4] > 3.26500308 && losses[4] < 3.2651, "{losses:?}");
    }

    #[test]
    fn identity_is_best_for_all_in_all() {
        let all = Participation::new(30, 1, 30).unwrap();
        assert!(optimize(all, 3, Objective::Max).unwrap().theta().is_empty());
        assert_eq!(optimize(all, 0, Objective::Max), Err(AccountingError::Buffers(0)));
        assert_eq!(optimize(all, 9, Objective::Max), Err(AccountingError::Buffers(9)));
        // One or two steps leave little to gain. The search must not fail on them.
        for steps in 1..5 {
            let single = Participation::single(steps).unwrap();
            let blt = optimize(single, 8, Objective::Mean).unwrap();
            assert!(blt.root_loss(single, Objective::Mean) <= (f64::from(steps + 1) / 2.0).sqrt() * (1.0 + 1e-12));
        }
    }
}
