//! The allowed range of δ for N samples, and the search for the δ of an ε.

use super::AccountingError;
use libm::{exp, log, log1p};

/// The smallest δ that [`smallest_delta`] returns.
pub(super) const LEAST_DELTA: f64 = 1e-15;
/// The largest relative excess of a δ, and of `1 − δ`, over the smallest δ that holds.
pub(super) const DELTA_RATIO: f64 = 1e-3;
/// The largest δ that is tried: `1 − MARGIN`.
const MARGIN: f64 = 1e-9;

/// Fails unless δ is between 0 and 1.
pub(super) fn check_delta(delta: f64) -> Result<(), AccountingError> {
    if delta > 0.0 && delta < 1.0 { Ok(()) } else { Err(AccountingError::Delta(delta)) }
}

/// The logit `ln(δ / (1 − δ))`. A step in the logit bounds the relative change of δ and of `1 − δ`.
fn logit(delta: f64) -> f64 {
    log(delta) - log1p(-delta)
}

/// The δ of a [`logit`] (its inverse).
fn of_logit(x: f64) -> f64 {
    if x < 0.0 { exp(x) / (1.0 + exp(x)) } else { 1.0 / (1.0 + exp(-x)) }
}

/// Returns the smallest δ at which `epsilon_at` is at most `epsilon`, rounded up by at most [`DELTA_RATIO`]. The result
/// is at least [`LEAST_DELTA`], and 1 if no smaller δ holds.
///
/// `epsilon_at` falls with δ, and may be infinite or 0 over a whole range. A secant with one end in such a range is
/// useless, so the search bisects if three steps have not halved the bracket.
pub(super) fn smallest_delta(
    epsilon: f64,
    epsilon_at: impl Fn(f64) -> Result<f64, AccountingError>,
) -> Result<f64, AccountingError> {
    let at = |x: f64| epsilon_at(of_logit(x)).map(|found| found - epsilon);
    let start = logit(LEAST_DELTA);
    // low: δ is too small. high: δ holds.
    let (mut low, mut high) = ((start, at(start)?), (logit(1.0 - MARGIN), 0.0));
    if low.1 <= 0.0 {
        return Ok(LEAST_DELTA);
    }
    high.1 = at(high.0)?;
    if high.1 > 0.0 {
        return Ok(1.0);
    }
    let (mut weights, mut width, mut slow) = ((1.0, 1.0), high.0 - low.0, 0);
    while high.0 - low.0 > DELTA_RATIO {
        let (above, below) = (low.1 * weights.0, -high.1 * weights.1);
        let share = above / (above + below);
        // Keep a distance from both ends: otherwise only the other end would move.
        let margin = (0.25 * DELTA_RATIO / (high.0 - low.0)).min(0.5);
        let is_slow = slow >= 3 || !share.is_finite() || below == 0.0;
        let share = if is_slow { 0.5 } else { share.clamp(margin, 1.0 - margin) };
        let middle = low.0 + share * (high.0 - low.0);
        if middle <= low.0 || middle >= high.0 {
            break;
        }
        let value = at(middle)?;
        if value <= 0.0 {
            high = (middle, value);
            weights = (weights.0 / 2.0, 1.0);
        } else {
            low = (middle, value);
            weights = (1.0, weights.1 / 2.0);
        }
        slow += 1;
        if high.0 - low.0 <= width / 2.0 {
            (width, slow) = (high.0 - low.0, 0);
        }
    }
    Ok(of_logit(high.0))
}

/// Assessment of δ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeltaVerdict {
    /// At most `N^-1.1`.
    Fine,
    /// Above `N^-1.1`, which gives a warning.
    Large {
        /// `N^-1.1`, the recommended δ.
        advised: f64,
    },
}

impl DeltaVerdict {
    /// The warning in one line, if there is one.
    pub fn warning(&self, delta: f64, samples: u64) -> Option<String> {
        match self {
            Self::Fine => None,
            Self::Large { advised } => {
                Some(format!("`delta` {delta} is above N^-1.1 = {advised:.1e} for {samples} samples; lower it"))
            }
        }
    }
}

/// Compares δ with the public number of samples N. Above `N^-1.1` the verdict is a warning. From `1/N` on it is an
/// error, unless `allow_large`.
///
/// ```
/// use damper_accounting::{DeltaVerdict, judge_delta};
///
/// assert_eq!(judge_delta(1e-6, 60_000, false)?, DeltaVerdict::Fine);
/// // Above 1/N, δ would allow to release samples.
/// assert!(judge_delta(1e-4, 60_000, false).is_err());
/// let large = judge_delta(1e-4, 60_000, true)?;
/// assert!(large.warning(1e-4, 60_000).is_some());
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
pub fn judge_delta(delta: f64, samples: u64, allow_large: bool) -> Result<DeltaVerdict, AccountingError> {
    check_delta(delta)?;
    let size = samples.max(1) as f64;
    let advised = size.powf(-1.1);
    if delta * size >= 1.0 && !allow_large {
        return Err(AccountingError::LargeDelta { delta, samples, one_over: 1.0 / size, advised });
    }
    Ok(if delta > advised { DeltaVerdict::Large { advised } } else { DeltaVerdict::Fine })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Curves with a flat part at either end, and a jump. The search finds their intersection with ε.
    #[test]
    fn search_finds_smallest_delta_of_any_curve() {
        type Curve = fn(f64) -> f64;
        let curves: [(&str, Curve); 5] = [
            ("0 from 0.3 on", |delta| (-(delta / 0.3).ln()).max(0.0)),
            ("0 from 1 - 1e-6 on", |delta| (-(delta / (1.0 - 1e-6)).ln()).max(0.0)),
            ("0 from 2e-15 on", |delta| (-(delta / 2e-15).ln()).max(0.0)),
            ("infinite below 0.01", |delta| if delta < 0.01 { f64::INFINITY } else { 2.0 * (1.0 - delta) }),
            ("a step at 1e-7", |delta| if delta < 1e-7 { 50.0 } else { 0.0 }),
        ];
        for (name, curve) in curves {
            for epsilon in [0.0, 1e-9, 0.1, 1.0, 20.0] {
                let found = smallest_delta(epsilon, |delta| Ok(curve(delta))).unwrap();
                assert!(found == 1.0 || curve(found) <= epsilon, "{name}, {epsilon}: {found}");
                let less = of_logit(logit(found) - 1.01 * DELTA_RATIO);
                assert!(found == LEAST_DELTA || found == 1.0 || curve(less) > epsilon, "{name}, {epsilon}: {found}");
            }
        }
        assert_eq!(smallest_delta(1.0, |_| Ok(f64::INFINITY)), Ok(1.0));
        assert_eq!(smallest_delta(0.0, |_| Ok(0.0)), Ok(LEAST_DELTA));
        let found = smallest_delta(0.0, |delta| Ok(f64::from(u8::from(delta < 0.999_999)))).unwrap();
        assert!((found - 0.999_999).abs() < 2e-9, "{found}");
    }

    #[test]
    fn delta_is_between_0_and_1() {
        for delta in [f64::MIN_POSITIVE, 0.5, 1f64.next_down()] {
            assert_eq!(check_delta(delta), Ok(()));
        }
        for delta in [0.0, -0.5, 1.0, 2.0] {
            assert_eq!(check_delta(delta), Err(AccountingError::Delta(delta)));
        }
    }

    // A small δ is accepted, a larger δ gives a warning, and an even larger δ is an error.
    #[test]
    fn delta_verdict_worsens_with_delta() {
        assert_eq!(judge_delta(5e-6, 60_000, false), Ok(DeltaVerdict::Fine));
        let large = judge_delta(1e-5, 60_000, false).unwrap();
        assert!(large.warning(1e-5, 60_000).unwrap().contains("`delta` 0.00001"));
        assert!(matches!(judge_delta(1e-4, 60_000, false), Err(AccountingError::LargeDelta { .. })));
        assert!(judge_delta(1e-3, 1000, false).is_err());
        assert!(matches!(judge_delta(1e-4, 60_000, true), Ok(DeltaVerdict::Large { .. })));
        assert_eq!(judge_delta(f64::NAN, 10, true).map_err(|e| e.to_string().contains("`delta`")), Err(true));
    }
}
