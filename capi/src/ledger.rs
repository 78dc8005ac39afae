//! The ledger: persist, resume, read.

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

/// Sets the store: `persist` gets `context` and persists the ledger before each step that is not reserved.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_set_store(run: *mut Run, persist: Persist, context: *mut c_void) -> Status {
    // SAFETY: the contract of the header.
    status(persist.ok_or(Status::Null).and_then(|persist| unsafe { set(run, Callback::Call(persist, context)) }))
}

/// Persists nothing.
unsafe extern "C" fn forget(_context: *mut c_void, _record: *const Record) -> c_int {
    0
}

/// Sets a store that loses the ledger at a restart. A restart then releases the same steps again, so use it only in
/// simulations and tests.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_set_volatile_store(run: *mut Run) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { set(run, Callback::Call(forget, core::ptr::null_mut())) })
}

/// Resumes after a restart from the stored record. Steps that were charged and not released are lost. Reserve steps
/// after this call. `damper_run_start` returns `DAMPER_STATUS_CONFIGURATION` if the record's fingerprint belongs to
/// another configuration. `DAMPER_STATUS_RECORD` if the record's budget is not the configuration's. The same status if
/// the record is a Renyi filter's: pass that record when you choose the filter.
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

/// Charges `steps` (at least 1) at a time, to write less often. A restart loses the reserved steps. Call it after
/// `damper_resume`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_reserve_steps(run: *mut Run, steps: u32) -> Status {
    // SAFETY: the contract of the header.
    let answer = unsafe { ffi::idle(run, Phase::Choosing) };
    status(answer.map(|idle| {
        let ledger = core::mem::replace(&mut idle.budget.ledger, Ledger::resume(Callback::NONE, 0, 0));
        idle.budget.ledger = ledger.with_reserve(steps);
    }))
}

/// Writes the budget and the steps charged and taken so far, which is the number of the next step. For a Renyi filter
/// also writes its divergence.
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
