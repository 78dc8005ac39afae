//! The allowed δ for N samples.

use super::AccountingError;

/// Fails unless δ is between 0 and 1.
pub(super) fn check_delta(delta: f64) -> Result<(), AccountingError> {
    if delta > 0.0 && delta < 1.0 { Ok(()) } else { Err(AccountingError::Delta(delta)) }
}

/// A remark on δ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeltaVerdict {
    /// At most `N^-1.1`.
    Fine,
    /// Above `N^-1.1`: to be warned about.
    Large {
        /// `N^-1.1`, the δ advised.
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

/// Judges δ against the public number of samples N: above `N^-1.1` it is warned about, and from `1/N` on it is an
/// error, unless `allow_large`.
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

    #[test]
    fn delta_is_between_0_and_1() {
        for delta in [f64::MIN_POSITIVE, 0.5, 1f64.next_down()] {
            assert_eq!(check_delta(delta), Ok(()));
        }
        for delta in [0.0, -0.5, 1.0, 2.0] {
            assert_eq!(check_delta(delta), Err(AccountingError::Delta(delta)));
        }
    }

    // A small delta is accepted, a larger one gives a warning, and a still larger one is an error.
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
