//! Rates, and what a number of steps costs: the Rényi curve in `double`, rounded up. It is linked where it is called.

use crate::border::{self, Settled};
use crate::run::{Run, Stage};
use crate::status::{Answer, Status, status};
use damper_core::accounting::Rate;
use damper_core::accounting::renyi::RenyiCurve;
use damper_core::error::ConfigError;

/// A sampling rate of 1.
pub const DAMPER_RATE_ONE: u64 = 9_007_199_254_740_992;

/// Writes the largest sampling rate that is at most `expected_batch / dataset_size`, in units of 2^-53: the draw uses
/// exactly this rate, and it is what is priced. `DAMPER_STATUS_RANGE` where the batch is larger than the data set, or
/// that is empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_rate(expected_batch: u64, dataset_size: u64, rate: *mut u64) -> Status {
    let found = Rate::of(expected_batch, dataset_size).map_err(|_| Status::Range);
    // SAFETY: the contract of the header.
    status(found.and_then(|found| unsafe { border::write_alone(rate, found.numerator()) }))
}

/// Writes ε at `delta` of the first `steps` steps of a started run at this sampling rate, gradients and counts
/// together, with the schedule's noise; infinity where nothing can be claimed. An upper bound. Neighbours: one sample
/// replaced by one that contributes nothing. `DAMPER_STATUS_RANGE` unless `0 < delta < 1` and `rate <=
/// DAMPER_RATE_ONE`.
///
/// Needs 4 KB of stack. Steps of equal noise are priced once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_epsilon(run: *mut Run, rate: u64, steps: u32, delta: f64, epsilon: *mut f64) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { write_epsilon(run, rate, steps, delta, epsilon) })
}

unsafe fn write_epsilon(run: *mut Run, rate: u64, steps: u32, delta: f64, epsilon: *mut f64) -> Answer {
    // SAFETY: the caller's contract.
    let Settled { head, books, body } = unsafe { border::settled(run) }?;
    border::writable(head, epsilon)?;
    let curve = Rate::from_numerator(rate).and_then(|rate| match (books.stepper.event, &body.stage) {
        (None, Stage::Constant(step)) => {
            let mut curve = RenyiCurve::EMPTY;
            curve.add(&step.event_at(0, rate)?, u64::from(steps));
            Ok(curve)
        }
        (Some(event), stage @ Stage::Declared(_)) => {
            let mut curve = RenyiCurve::EMPTY;
            let mut step = 0;
            while step < steps {
                let first = event(stage, step, rate)?;
                let mut times = 1;
                while step + times < steps && event(stage, step + times, rate)? == first {
                    times += 1;
                }
                curve.compose(&RenyiCurve::of(&first), u64::from(times));
                step += times;
            }
            Ok(curve)
        }
        _ => Err(ConfigError { parameter: "run", must_be: "started" }),
    });
    let value = curve.and_then(|curve| curve.epsilon(delta)).map_err(|error| head.refuse(error))?;
    // SAFETY: the caller's contract.
    unsafe { border::write(head, epsilon, value.epsilon) }
}
