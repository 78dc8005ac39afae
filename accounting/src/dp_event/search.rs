//! Calibration of one value of a mechanism.

use super::DpEvent;
use super::adjacency::Adjacency;
use crate::AccountingError;

/// Relative distance of the ends at which a search stops.
const CLOSE: f64 = 1e-5;
const ROUNDS: u32 = 100;

/// Returns the value between `low` and `high` whose mechanism costs ε of at most `epsilon` at `delta`, and as much as
/// possible, to a hundred-thousandth of the value. ε must rise or fall with the value.
///
/// # Errors
///
/// Both ends cost at most `epsilon`, or both cost more. Errors of `make` are returned. A value without a finite ε costs
/// too much.
pub fn calibrate_event<E: From<AccountingError>>(
    adjacency: Adjacency,
    epsilon: f64,
    delta: f64,
    low: f64,
    high: f64,
    mut make: impl FnMut(f64) -> Result<DpEvent, E>,
) -> Result<f64, E> {
    check_ends(low, high)?;
    let mut fits = |value: f64| fits(&make(value)?, adjacency, epsilon, delta).map_err(E::from);
    let (mut good, mut bad) = ends(low, high, epsilon, &mut fits)?;
    for _ in 0..ROUNDS {
        if (good - bad).abs() <= CLOSE * good.abs().min(bad.abs()) {
            break;
        }
        // Bisects the logarithm if both ends are above 0.
        let middle = if good > 0.0 && bad > 0.0 { (good * bad).sqrt() } else { good + (bad - good) / 2.0 };
        if middle == good || middle == bad {
            break;
        }
        if fits(middle)? { good = middle } else { bad = middle }
    }
    Ok(good)
}

/// [`calibrate_event`] of an integer, such as a number of steps. The result is exact.
///
/// # Errors
///
/// As [`calibrate_event`].
///
/// ```
/// use damper_accounting::{AccountingError, Adjacency, DpEvent, calibrate_count};
///
/// let steps = |steps| Ok::<_, AccountingError>(DpEvent::gaussian(1.1).poisson(0.01).times(steps));
/// let most = calibrate_count(Adjacency::AddOrRemove, 1.52, 1e-5, 1, 10_000, steps)?;
/// assert!((990..1020).contains(&most));
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
pub fn calibrate_count<E: From<AccountingError>>(
    adjacency: Adjacency,
    epsilon: f64,
    delta: f64,
    low: u64,
    high: u64,
    mut make: impl FnMut(u64) -> Result<DpEvent, E>,
) -> Result<u64, E> {
    check_ends(low as f64, high as f64)?;
    let mut fits = |value: u64| fits(&make(value)?, adjacency, epsilon, delta).map_err(E::from);
    let (mut good, mut bad) = ends(low, high, epsilon, &mut fits)?;
    while good.abs_diff(bad) > 1 {
        let middle = good.min(bad) + good.abs_diff(bad) / 2;
        if fits(middle)? { good = middle } else { bad = middle }
    }
    Ok(good)
}

fn check_ends(low: f64, high: f64) -> Result<(), AccountingError> {
    if low < high && low.is_finite() && high.is_finite() { Ok(()) } else { Err(AccountingError::Bracket { low, high }) }
}

/// The end that fits, and the other end.
fn ends<T: Copy, E: From<AccountingError>>(
    low: T,
    high: T,
    epsilon: f64,
    fits: &mut impl FnMut(T) -> Result<bool, E>,
) -> Result<(T, T), E> {
    match (fits(low)?, fits(high)?) {
        (true, false) => Ok((low, high)),
        (false, true) => Ok((high, low)),
        (both, _) => Err(AccountingError::NoRoot { epsilon, both }.into()),
    }
}

fn fits(mechanism: &DpEvent, adjacency: Adjacency, epsilon: f64, delta: f64) -> Result<bool, AccountingError> {
    if !(epsilon > 0.0 && epsilon.is_finite()) {
        return Err(AccountingError::Epsilon(epsilon));
    }
    match mechanism.upper(adjacency, delta) {
        Ok((_, found)) => Ok(found <= epsilon),
        Err(AccountingError::NoBound { .. } | AccountingError::Truncation { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
