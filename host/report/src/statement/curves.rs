//! Curves of ε over steps, and over δ, of the recorded events.

use crate::evidence::AtEvaluation;
use damper_accounting::{Accountant, AccountingError, Event, Recorded, Sampler};
use serde::Serialize;

/// Number of points of a curve of equal steps. A schedule has fewer, because each ε takes up to a second or two. If
/// sampling rates change, an ε takes many seconds, and the curve is only the claim.
const POINTS: u64 = 24;
const POINTS_OF_SCHEDULE: u64 = 8;
const POINTS_OF_LONG_SCHEDULE: u64 = 4;
const SCHEDULE: usize = 64;
const LONG_SCHEDULE: usize = 2048;

/// Curves of ε.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Curves {
    /// ε of the first steps, at the claimed δ, for a training sample, without releases from held-out samples.
    pub over_steps: Vec<AtSteps>,
    /// ε of the whole run, at other δ.
    pub over_delta: Vec<AtDelta>,
    /// Figures on the held-out samples, of `metrics.csv`.
    pub held_out: Vec<AtEvaluation>,
}

/// ε of the first steps, for a training sample.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[allow(missing_docs)]
pub struct AtSteps {
    pub steps: u64,
    pub epsilon: f64,
}

/// ε at a δ.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[allow(missing_docs)]
pub struct AtDelta {
    pub delta: f64,
    pub epsilon: f64,
}

impl Curves {
    /// Returns the curves of `recorded` at its accountant, without points that have no finite ε.
    pub(super) fn new(recorded: &Recorded, held_out: Vec<AtEvaluation>) -> Self {
        let (accountant, events) = (recorded.accountant, recorded.events());
        let training = recorded.of_training();
        let draws = recorded.parts().draws;
        let rate = |(event, _): &(Event, u64)| event.rate_and_multiplier().map(|(rate, _)| rate);
        let changing = draws.windows(2).any(|two| rate(&two[0]) != rate(&two[1]));
        let points = match draws.len() {
            different if different > LONG_SCHEDULE && changing => 1,
            different if different <= SCHEDULE => POINTS,
            different if different <= LONG_SCHEDULE => POINTS_OF_SCHEDULE,
            _ => POINTS_OF_LONG_SCHEDULE,
        };
        // Steps of an event: one, or those of an epoch.
        let steps = |at: u64| match recorded.sampler {
            Sampler::Poisson => at,
            Sampler::Shuffled | Sampler::CyclicPoisson | Sampler::MinSeparation => {
                (u128::from(at) * u128::from(recorded.steps()) / u128::from(events.max(1))) as u64
            }
        };
        let mut at: Vec<u64> =
            (1..=points).map(|point| (u128::from(events) * u128::from(point) / u128::from(points)) as u64).collect();
        if points > 1 {
            at.insert(0, 1);
        }
        // With few events, several points coincide.
        at.retain(|at| *at > 0);
        at.dedup();
        let over_steps = at.into_iter().filter_map(|at| {
            let epsilon = price(&training.first(at, 0), accountant, recorded.delta).ok()?;
            Some(AtSteps { steps: steps(at), epsilon })
        });
        let every = if points == POINTS { 1 } else { 2 };
        let powers = if points > 1 { 2..11 } else { 0..0 };
        let mut deltas: Vec<f64> =
            powers.step_by(every).filter_map(|power| format!("1e-{power}").parse().ok()).collect();
        deltas.retain(|delta| (delta / recorded.delta - 1.0).abs() > 1e-9);
        deltas.push(recorded.delta);
        deltas.sort_by(|a, b| b.total_cmp(a));
        let over_delta = deltas.into_iter().filter_map(|delta| {
            let epsilon = price(recorded, accountant, delta).ok()?;
            Some(AtDelta { delta, epsilon })
        });
        Self { over_steps: over_steps.collect(), over_delta: over_delta.collect(), held_out }
    }
}

fn price(recorded: &Recorded, accountant: Accountant, delta: f64) -> Result<f64, AccountingError> {
    recorded.epsilon(accountant, delta).map(|priced| priced.epsilon)
}
