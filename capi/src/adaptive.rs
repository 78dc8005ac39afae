//! Steps whose noise is chosen as the run goes, from what it has released, charged to a Rényi filter. It is linked where it is called.

use crate::ffi::{self, IdleRef};
use crate::ledger::Record;
use crate::memory::{Mechanism, Phase, Run, Stage, Step};
use crate::run::check_sigma;
use crate::status::{FfiResult, Status, status};
use core::mem::{align_of, size_of};
use damper_core::accounting::{Rate, RenyiFilter, SampledGaussian};
use damper_core::error::ConfigError;
use damper_core::private::Mechanism as _;

/// Bytes that a run needs beyond `damper_run_size` or `DAMPER_RUN_BYTES` where a Renyi filter is charged.
pub const DAMPER_RENYI_FILTER_BYTES: usize = 40;
const _: () =
    assert!(size_of::<RenyiFilter>() + align_of::<RenyiFilter>() - align_of::<f32>() <= DAMPER_RENYI_FILTER_BYTES);

/// Lets a Rényi filter pay for the run's steps in the place of its ledger: the run stays within (`epsilon`, `delta`) by the
/// divergence of the whole `order` (2 to 1024), whatever noise is chosen from what was released. The configuration's budget
/// must be 0. Takes `DAMPER_RENYI_FILTER_BYTES`. After a restart `record` is what the store holds; null where nothing was spent. `DAMPER_STATUS_RECORD` where the
/// record is a ledger's, or of another order.
///
/// Which order is best follows from the run as planned; a small one does not show a small ε (`DAMPER_STATUS_RANGE`).
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

/// The rate and the factor, if they are within their ranges.
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

/// Writes 1 where the filter would pay for a step with noise of `factor` times the configuration's at this sampling rate, in units
/// of 2^-53, and 0 where it would not. Choose both from what was released and from constants.
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

/// As `damper_step_open`, of a step with noise of `factor` times the configuration's, that is drawn at this rate: the filter is charged,
/// or answers `DAMPER_STATUS_BUDGET_SPENT`, and a step with more noise may be tried. Its number is counted from 2^31; the schedule's
/// noise has no part in it. `damper_batch_begin` draws at this rate.
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
    // SAFETY: the caller's contract; nothing from above is used again.
    unsafe {
        ffi::open(run, number, |step, state, budget| {
            let filter = budget.filter.as_mut().ok_or(ffi::NOT_CHARGED)?;
            step.open_adaptive(state, factor, rate, filter, budget.ledger.store_mut())
        })
    }
}
