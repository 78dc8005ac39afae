//! Rényi divergences at the orders of [`ORDERS`].

use super::super::{AccountingError, Plan, pld};
use damper_core::accounting::event::SampledGaussian;
use damper_core::accounting::renyi::{ORDER_COUNT, ORDERS, RenyiCurve, epsilon_at};
use damper_core::numerics::up::add_up;

/// A divergence for each of [`ORDERS`], each an upper bound.
pub type Curve = [f64; ORDER_COUNT];

/// Divergences without any event.
pub(crate) const NOTHING: Curve = [0.0; ORDER_COUNT];

/// Largest number of different events whose divergences are computed separately. A divergence takes microseconds at
/// each order.
const ONE_BY_ONE: usize = 128;
/// Largest number of draws that are listed individually for a plan.
const SCHEDULE: u64 = 1 << 24;

/// Returns the divergences of `events`, using the continuous Gaussian that bounds each discrete Gaussian. If there are
/// many events at one rate, the knots of a plan bound them.
pub(crate) fn of_events(events: &[(SampledGaussian, u64)]) -> Result<Curve, AccountingError> {
    let times = events.iter().fold(0u64, |sum, (_, times)| sum.saturating_add(*times));
    let is_alike = events.iter().all(|(event, _)| event.rate() == events[0].0.rate());
    let few = if events.len() > ONE_BY_ONE && is_alike && times <= SCHEDULE {
        let each = events.iter().flat_map(|(event, times)| std::iter::repeat_n(event.multiplier(), *times as usize));
        Plan::new(events[0].0.rate(), each, None)?.knots()
    } else {
        events.to_vec()
    };
    let Some(few) = pld::continuous(&few) else { return Ok([f64::INFINITY; ORDER_COUNT]) };
    let mut curve = RenyiCurve::EMPTY;
    for (event, times) in &few {
        curve.add(event, *times);
    }
    Ok(*curve.divergences())
}

/// The larger divergence at each order.
pub(crate) fn larger(a: &Curve, b: &Curve) -> Curve {
    std::array::from_fn(|at| a[at].max(b[at]))
}

/// Sums the divergences of two composed mechanisms.
pub(crate) fn sum(a: &Curve, b: &Curve) -> Curve {
    std::array::from_fn(|at| add_up(a[at], b[at]))
}

/// The least ε at `delta`, and its order.
pub(crate) fn epsilon(curve: &Curve, delta: f64) -> (f64, f64) {
    let at = |(&divergence, &order): (&f64, &f64)| (epsilon_at(divergence, order, delta), order);
    curve
        .iter()
        .zip(&ORDERS)
        .map(at)
        .fold((f64::INFINITY, ORDERS[0]), |best, one| if one.0 < best.0 { one } else { best })
}
