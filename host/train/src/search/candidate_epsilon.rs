//! The ε of one candidate at which a search reaches its target.

use crate::TrainError;

/// The search costs at least this share of its target.
const CLOSE: f64 = 0.995;
/// Maximum number of evaluations of the privacy cost.
const ROUNDS: u32 = 24;

/// Returns the largest ε of a candidate, to a two-hundredth, at which `price` of the search is at most `target`.
/// `price` must be increasing.
///
/// # Errors
///
/// Those of `price`.
pub fn calibrated(
    target: f64,
    mut price: impl FnMut(f64) -> Result<f64, TrainError>,
) -> Result<Option<f64>, TrainError> {
    let (mut low, mut high) = (0.0, target);
    let mut middle = target / 3.0;
    for _ in 0..ROUNDS {
        let found = price(middle)?;
        if found <= target {
            low = middle;
            if found >= CLOSE * target {
                break;
            }
        } else {
            high = middle;
        }
        middle = (low + high) / 2.0;
    }
    Ok((low > 0.0).then_some(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_is_nearly_met_and_never_exceeded() {
        for target in [0.3, 1.0, 3.0, 8.0] {
            let price = |epsilon: f64| 0.1 + 2.3 * epsilon;
            let found = calibrated(target, |epsilon| Ok(price(epsilon))).unwrap().unwrap();
            assert!(price(found) <= target && price(found) >= CLOSE * target, "{target}: {found}");
        }
        assert_eq!(calibrated(0.3, |_| Ok(0.4)).unwrap(), None);
    }
}
