//! Both accountants on any events. The result is an upper bound or an error, never NaN.

use crate::fuzz_bytes::FuzzBytes;
use damper_accounting::pld::{Neighbours, epsilon, epsilon_lower_bound, of_discrete};
use damper_accounting::{Accountant, CalibrateQuery, EpsilonQuery, Plan, judge_delta, sampling_rate};
use damper_core::accounting::RenyiFilter;
use damper_core::accounting::event::{Rate, SampledGaussian};
use damper_core::accounting::renyi::{RenyiCurve, least_epsilon};

fn rate(source: &mut FuzzBytes<'_>) -> Option<Rate> {
    match source.below(4) {
        0 => Rate::from_numerator(source.u64()).ok(),
        1 => Rate::of(u64::from(source.u32()), u64::from(source.u32())).ok(),
        2 => Rate::at_least(source.f64()).ok(),
        _ => Rate::at_most(source.f64()).ok(),
    }
}

fn event(source: &mut FuzzBytes<'_>) -> Option<SampledGaussian> {
    let rate = rate(source)?;
    let event = SampledGaussian::new(rate, source.f64()).ok()?;
    if source.below(4) == 0 { event.and(source.f64()).ok() } else { Some(event) }
}

fn times(source: &mut FuzzBytes<'_>) -> u64 {
    match source.below(4) {
        0 => u64::from(source.u8()),
        1 => u64::from(source.u32()),
        2 => source.u64(),
        _ => 1,
    }
}

fn is_bound(epsilon: f64) -> bool {
    // Infinity means that no bound holds.
    epsilon >= 0.0
}

/// Runs both accountants.
pub fn accountant(bytes: &[u8]) {
    let source = &mut FuzzBytes(bytes);
    let what = source.below(5);
    let accountant = if source.below(2) == 0 { Accountant::Rdp } else { Accountant::Pld };
    let delta = source.f64();
    match what {
        0 => bounds(source, delta),
        1 => {
            let query = EpsilonQuery {
                accountant,
                noise_multiplier: source.f64(),
                sampling_rate: source.f64(),
                steps: times(source),
                delta,
                neighbours: if source.below(2) == 0 { Neighbours::AddOrRemove } else { Neighbours::Replace },
                count_noise_multiplier: (source.below(2) == 0).then(|| source.f64()),
                group: None,
            };
            if let Ok(answer) = query.answer() {
                assert!(answer.epsilon >= 0.0 && answer.epsilon.is_finite(), "{answer:?}");
            }
        }
        2 => {
            let free = source.below(4);
            let query = CalibrateQuery {
                accountant,
                epsilon: (free != 3).then(|| source.f64()),
                delta,
                noise_multiplier: (free != 0).then(|| source.f64()),
                sampling_rate: (free != 1).then(|| source.f64()),
                samples: None,
                batch_size: None,
                steps: (free != 2).then(|| times(source)),
                grid_bits: (source.below(2) == 0).then(|| u32::from(source.u8())),
            };
            let drawn = |source: &mut FuzzBytes<'_>| CalibrateQuery {
                sampling_rate: None,
                samples: Some(times(source)),
                batch_size: (free != 1).then(|| times(source)),
                ..query
            };
            let query = if source.below(2) == 0 { query } else { drawn(source) };
            if let Ok(answer) = query.answer() {
                assert!(answer.epsilon >= 0.0 && query.epsilon.is_none_or(|most| answer.epsilon <= most), "{answer:?}");
                assert!(answer.noise_multiplier > 0.0 && answer.steps > 0, "{answer:?}");
            }
        }
        3 => {
            let Some(rate) = rate(source) else { return };
            let joint = (source.below(2) == 0).then(|| source.f64());
            let multipliers: Vec<f64> = (0..source.u8()).map(|_| source.f64()).collect();
            if let Ok(plan) = Plan::new(rate, multipliers, joint)
                && let Ok(price) = plan.epsilon(accountant, delta)
            {
                assert!(is_bound(price.epsilon), "{price:?}");
            }
        }
        _ => {
            let filter = RenyiFilter::resume(source.u32(), source.f64(), source.f64(), source.u32(), source.f64());
            if let (Ok(filter), Some(event)) = (filter, event(source)) {
                let _ = filter.fits_budget(&event);
                assert!(filter.spent() >= 0.0 && filter.budget() >= 0.0);
            }
            let verdict = judge_delta(delta, source.u64(), source.below(2) == 0);
            assert!(verdict.is_err() || (delta > 0.0 && delta < 1.0));
            assert!(sampling_rate(delta).is_err() || (delta > 0.0 && delta <= 1.0));
        }
    }
}

fn bounds(source: &mut FuzzBytes<'_>, delta: f64) {
    let neighbours = if source.below(4) == 0 { Neighbours::Replace } else { Neighbours::AddOrRemove };
    let mut events = vec![];
    for _ in 0..source.below(4) + 1 {
        if let Some(event) = event(source) {
            events.push((event, times(source)));
        }
    }
    let mut curve = RenyiCurve::EMPTY;
    events.iter().for_each(|(event, times)| curve.add(event, *times));
    if let (Ok(at_orders), Ok(between)) = (curve.epsilon(delta), least_epsilon(&events, delta)) {
        assert!(is_bound(at_orders.epsilon) && is_bound(between.epsilon), "{at_orders:?} {between:?}");
        assert!(between.epsilon <= at_orders.epsilon, "{at_orders:?} {between:?}");
    }
    let upper = epsilon(&events, neighbours, delta);
    if let Ok(upper) = upper {
        assert!(is_bound(upper), "{upper}");
        let lower = epsilon_lower_bound(&events, neighbours, delta).expect("the same events");
        assert!(lower >= 0.0 && lower <= upper, "{lower} {upper}");
        let discrete = of_discrete(&events, neighbours, delta).expect("the same events");
        assert!(is_bound(discrete), "{discrete}");
    }
}
