//! Steps with noise that depends on earlier releases, charged to a Rényi filter. Linked only if called.

use crate::ffi::{self, IdleRef};
use crate::ledger::Record;
use crate::memory::{Mechanism, Phase, Run, Stage, Step};
use crate::run::check_sigma;
use crate::status::{FfiResult, Status, status};
use core::mem::{align_of, size_of};
use damper_core::accounting::{Rate, RenyiFilter, SampledGaussian};
use damper_core::error::ConfigError;
use damper_core::private::Mechanism as _;

/// Bytes that a run needs in addition to `damper_run_size` or `DAMPER_RUN_BYTES` if a Renyi filter is charged.
pub const DAMPER_RENYI_FILTER_BYTES: usize = 40;
const _: () =
    assert!(size_of::<RenyiFilter>() + align_of::<RenyiFilter>() - align_of::<f32>() <= DAMPER_RENYI_FILTER_BYTES);

/// Charges the run's steps to a Rényi filter instead of its ledger. The run stays within (`epsilon`, `delta`) by the
/// divergence of the integer `order` (2 to 1024), whatever noise is chosen from what was released. The configuration's
/// budget must be 0. Takes `DAMPER_RENYI_FILTER_BYTES`. After a restart `record` is the stored record. It is null if
/// nothing was charged. `DAMPER_STATUS_RECORD` if the record belongs to a ledger or has another order.
///
/// The best order follows from the run as planned. A small order cannot prove a small ε (`DAMPER_STATUS_RANGE`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_renyi_filter(
    run: *mut Run,
    order: u32,
    epsilon: f64,
    delta: f64,
    record: *const Record,
) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { choose(run, order, epsilon, delta, record) })
}

unsafe fn choose(run: *mut Run, order: u32, epsilon: f64, delta: f64, record: *const Record) -> FfiResult {
    // SAFETY: the caller's contract.
    let mut idle = unsafe { ffi::idle(run, Phase::Choosing) }?;
    if idle.budget.filter.is_some() {
        return Err(Status::Order);
    }
    // SAFETY: the caller's contract.
    let record = unsafe { ffi::read_optional(idle.head, record) }?;
    if idle.budget.ledger.budget() != 0 {
        return Err(idle.head.refuse(ConfigError { parameter: "budget", must_be: "0 where a Renyi filter pays" }));
    }
    let (paid, spent) = match record {
        None => (0, 0.0),
        Some(record) if record.order == order && record.budget == 0 => (record.paid, record.divergence),
        Some(_) => return Err(Status::Record),
    };
    let filter = RenyiFilter::resume(order, epsilon, delta, paid, spent);
    let filter = filter.map_err(|error| idle.head.refuse(error))?;
    idle.budget.filter = Some(idle.renyi_filter(filter)?);
    Ok(())
}

/// Checks that rate and factor are in range, and returns them.
fn checked(step: &Step, factor: f64, rate: u64) -> Result<(Rate, f64), ConfigError> {
    let slots = step.slots();
    let scaled: Mechanism = slots.mechanism.scaled(factor);
    if !(factor.is_finite() && factor > 0.0) {
        return Err(ConfigError { parameter: "factor of the noise", must_be: "finite and above 0" });
    }
    if slots.mechanism.grid().may_overflow_i32(slots.expected_batch, scaled.sigma()) {
        return Err(ConfigError { parameter: "factor of the noise", must_be: "less, or the grid bits fewer" });
    }
    check_sigma(&scaled)?;
    Ok((Rate::from_numerator(rate)?, factor))
}

/// Writes 1 if the filter's budget covers a step with noise of `factor` times the configuration's at this sampling
/// rate, in units of 2^-53. Otherwise writes 0. Choose both only from released values and constants.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_fits_budget(run: *const Run, factor: f64, rate: u64, admits: *mut u32) -> Status {
    // SAFETY: the contract of the header.
    let answer = unsafe { ffi::settled(run) }.and_then(|IdleRef { head, budget, body }| {
        let filter = budget.filter.as_ref().ok_or(Status::Order)?;
        let Stage::Started(step) = &body.stage else { return Err(Status::Order) };
        let event = checked(step, factor, rate)
            .and_then(|(rate, factor)| -> Result<SampledGaussian, ConfigError> { step.event_adaptive(factor, rate) });
        let event = event.map_err(|error| head.refuse(error))?;
        // SAFETY: the contract of the header.
        unsafe { ffi::write(head, admits, u32::from(filter.fits_budget(&event))) }
    });
    status(answer)
}

/// As `damper_step_open`, for a step with noise of `factor` times the configuration's, drawn at this rate. The step is
/// charged to the filter. If it does not fit, returns `DAMPER_STATUS_BUDGET_SPENT`, and a step with more noise may be
/// tried. The step's number is counted from 2^31. The schedule's noise does not apply. `damper_batch_begin` draws at
/// this rate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_step_open_adaptive(run: *mut Run, factor: f64, rate: u64, number: *mut u32) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { open(run, factor, rate, number) })
}

unsafe fn open(run: *mut Run, factor: f64, rate: u64, number: *mut u32) -> FfiResult {
    // SAFETY: the caller's contract.
    let IdleRef { head, budget, body } = unsafe { ffi::settled(run) }?;
    let Stage::Started(step) = &body.stage else { return Err(Status::Order) };
    if budget.filter.is_none() {
        return Err(Status::Order);
    }
    let (rate, factor) = checked(step, factor, rate).map_err(|error| head.refuse(error))?;
    // SAFETY: the caller's contract. No reference from above is used again.
    unsafe {
        ffi::open(run, number, |step, state, budget| {
            let filter = budget.filter.as_mut().ok_or(ffi::NOT_CHARGED)?;
            step.open_adaptive(state, factor, rate, filter, budget.ledger.store_mut())
        })
    }
}
