//! The smallest of three upper bounds: the result of [`Accountant::Pld`](crate::Accountant::Pld).
//!
//! Privacy loss distributions give the smaller bound, except for runs with far more steps than usual. There the
//! rounding of a step's points is charged billions of times, but a Rényi divergence is one number, rounded once.
//!
//! For multipliers of at most a few hundredths there are too many points: [`coins`] has the bound for this range.
//!
//! All three bound one mechanism, the continuous Gaussian at the multiplier of [`pld::discrete`]. The discrete Gaussian
//! is its post-processing, up to a factor below every rounding error. So the Rényi bound holds at fractional orders
//! here, without an assumption on the discrete Gaussian.

use super::delta::check_delta;
use super::pld::{self, Neighbours};
use super::{AccountingError, EpsilonBound, coins};
use damper_core::accounting::event::SampledGaussian;
use damper_core::accounting::renyi::least_epsilon;

/// Largest number of different events whose divergences are computed separately. A divergence takes microseconds at
/// each of 100 orders.
const ONE_BY_ONE: usize = 128;

/// Returns ε at `delta` of `events` if a sample is added or removed. Infinite if no bound is found.
///
/// `knots` returns a few events that cost at least as much in Rényi divergences, or `None` if no such list exists. It
/// is called only if there are many events.
pub(super) fn price(
    events: &[(SampledGaussian, u64)],
    knots: impl FnOnce() -> Option<Vec<(SampledGaussian, u64)>>,
    delta: f64,
) -> Result<EpsilonBound, AccountingError> {
    check_delta(delta)?;
    let Some(tightly) = pld::continuous(events) else {
        return Ok(EpsilonBound { epsilon: f64::INFINITY, order: None });
    };
    let epsilon = pld::epsilon(&tightly, Neighbours::AddOrRemove, delta)?.min(coins::epsilon(&tightly, delta));
    let tight = EpsilonBound { epsilon, order: None };
    let few = if events.len() <= ONE_BY_ONE { Some(tightly) } else { knots().and_then(|few| pld::continuous(&few)) };
    let renyi = few.and_then(|few| least_epsilon(&few, delta).ok());
    Ok(match renyi {
        Some(renyi) if renyi.epsilon < tight.epsilon => {
            EpsilonBound { epsilon: renyi.epsilon, order: Some(renyi.order) }
        }
        _ => tight,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Accountant, Plan, Recorded};
    use damper_core::accounting::event::Rate;

    fn at(rate: f64, multiplier: f64, steps: u64, delta: f64) -> (EpsilonBound, EpsilonBound, f64) {
        let event = SampledGaussian::new(Rate::at_least(rate).unwrap(), multiplier).unwrap();
        let plan = Plan::constant(event.rate(), multiplier, None, steps).unwrap();
        let [smaller, renyi] =
            [Accountant::Pld, Accountant::Rdp].map(|accountant| plan.epsilon(accountant, delta).unwrap());
        let recorded = Recorded::new(Accountant::Pld, delta, plan.events());
        assert_eq!(recorded.epsilon(Accountant::Pld, delta).unwrap(), smaller);
        (smaller, renyi, pld::of_discrete(&[(event, steps)], Neighbours::AddOrRemove, delta).unwrap())
    }

    // In the practical range of parameters, PLD gives the smaller bound.
    #[test]
    fn uses_pld_in_practical_range() {
        for (rate, multiplier, steps, delta) in
            [(0.004, 1.1, 14_000, 1e-5), (0.01, 0.6, 500, 1e-6), (1.0, 30.0, 20, 1e-8), (1e-5, 0.3, 100_000, 1e-10)]
        {
            let (smaller, renyi, tight) = at(rate, multiplier, steps, delta);
            assert_eq!(smaller, EpsilonBound { epsilon: tight, order: None });
            assert!(tight < renyi.epsilon);
        }
    }

    // If rounding errors of many steps add up, RDP gives the smaller bound. The result names its order.
    #[test]
    fn uses_rdp_when_tighter() {
        for (rate, multiplier, steps, delta) in
            [(0.004, 10.0, u64::MAX, 1e-5), (1e-9, 10.0, u64::MAX, 1e-5), (1e-7, 10.0, 1 << 40, 1e-5)]
        {
            let (smaller, renyi, tight) = at(rate, multiplier, steps, delta);
            assert!(smaller.epsilon < 0.5 * tight && smaller.order.is_some(), "{smaller:?} {tight}");
            // The multiplier is smaller by four millionths.
            assert!(smaller.epsilon >= renyi.epsilon && smaller.epsilon <= renyi.epsilon * (1.0 + 2e-5), "{renyi:?}");
        }
    }

    // For a schedule too, RDP bounds the cost from its knots if that is smaller.
    #[test]
    fn schedule_uses_rdp_from_knots() {
        let rate = Rate::at_least(1e-7).unwrap();
        let many: Vec<_> =
            (0..200u32).map(|t| (SampledGaussian::new(rate, 10.0 + f64::from(t) / 2000.0).unwrap(), 1 << 33)).collect();
        let knots = vec![(SampledGaussian::new(rate, 10.0).unwrap(), 200 << 33)];
        let alone = price(&many, || None, 1e-5).unwrap();
        let smaller = price(&many, || Some(knots), 1e-5).unwrap();
        assert!(
            alone.order.is_none() && smaller.order.is_some() && smaller.epsilon < alone.epsilon,
            "{smaller:?} {alone:?}"
        );
    }
}
