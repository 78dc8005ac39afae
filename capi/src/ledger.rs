//! The ledger: persisted, resumed, read.

use crate::ffi;
use crate::memory::{Phase, Run};
use crate::status::{FfiResult, Status, status};
use crate::store::Callback;
pub use crate::store::{Persist, Record};
use core::ffi::{c_int, c_void};
use damper_core::accounting::Ledger;

unsafe fn set(run: *mut Run, store: Callback) -> FfiResult {
    // SAFETY: the caller's contract.
    let idle = unsafe { ffi::idle(run, Phase::Choosing) }?;
    *idle.budget.ledger.store_mut() = store;
    Ok(())
}

/// Persists the ledger by `persist`, which is given `context`, before each step that is not reserved.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_set_store(run: *mut Run, persist: Persist, context: *mut c_void) -> Status {
    // SAFETY: the contract of the header.
    status(persist.ok_or(Status::Null).and_then(|persist| unsafe { set(run, Callback::Call(persist, context)) }))
}

/// Persists nothing.
unsafe extern "C" fn forget(_context: *mut c_void, _record: *const Record) -> c_int {
    0
}

/// Forgets the ledger at a restart, which then releases the same steps again: for simulations and tests alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_set_volatile_store(run: *mut Run) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { set(run, Callback::Call(forget, core::ptr::null_mut())) })
}

/// Goes on after a restart from the record that the store holds: steps that were charged and not released are burned. What
/// is reserved comes after it. `damper_run_start` answers `DAMPER_STATUS_CONFIGURATION` where the record's fingerprint is of another configuration.
/// `DAMPER_STATUS_RECORD` where the record's budget is not the configuration's, or it is a Renyi
/// filter's: that takes it where it is chosen.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_resume(run: *mut Run, record: *const Record) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { resume(run, record) })
}

unsafe fn resume(run: *mut Run, record: *const Record) -> FfiResult {
    // SAFETY: the caller's contract.
    let idle = unsafe { ffi::idle(run, Phase::Choosing) }?;
    // SAFETY: the caller's contract.
    let record = unsafe { ffi::read(idle.head, record) }?;
    if record.budget != idle.budget.ledger.budget() || record.order != 0 || idle.budget.filter.is_some() {
        return Err(Status::Record);
    }
    idle.budget.ledger =
        Ledger::resume(*idle.budget.ledger.store(), record.budget, record.paid).bound_to(record.fingerprint);
    Ok(())
}

/// Charges `steps` (at least 1) at a time, to write less often; a restart burns what was reserved. After `damper_resume`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_reserve_steps(run: *mut Run, steps: u32) -> Status {
    // SAFETY: the contract of the header.
    let answer = unsafe { ffi::idle(run, Phase::Choosing) };
    status(answer.map(|idle| {
        let ledger = core::mem::replace(&mut idle.budget.ledger, Ledger::resume(Callback::NONE, 0, 0));
        idle.budget.ledger = ledger.with_reserve(steps);
    }))
}

/// Writes the budget and the steps charged and taken so far, which is the number of the next step; of a Renyi filter also what it
/// spent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_charged_steps(run: *const Run, record: *mut Record) -> Status {
    // SAFETY: the contract of the header.
    let answer = unsafe { ffi::budget(run) }.and_then(|(head, budget)| {
        let value = match &budget.filter {
            None => Record {
                budget: budget.ledger.budget(),
                paid: budget.ledger.charged_steps(),
                divergence: 0.0,
                order: 0,
                fingerprint: budget.ledger.fingerprint(),
            },
            Some(filter) => {
                let (paid, divergence, order) = (filter.charged_steps(), filter.spent(), filter.order());
                Record { budget: 0, paid, divergence, order, fingerprint: 0 }
            }
        };
        // SAFETY: the contract of the header.
        unsafe { ffi::write(head, record, value) }
    });
    status(answer)
}
