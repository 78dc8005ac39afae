//! Snapshot: the state of filter, threshold and optimizer as bytes, from which a device continues after a restart.
//! Linked only if called.

use crate::ffi::{self, IdleMut};
use crate::memory::{Phase, Run};
use crate::status::{FfiResult, Status, status};
use damper_core::state::{RestoreError, restore, save, saved_len};

/// Returns the steps charged to the ledger or the filter.
fn paid(idle: &IdleMut<'_>) -> u32 {
    idle.budget.filter.as_ref().map_or(idle.budget.ledger.charged_steps(), |filter| filter.charged_steps())
}

/// Writes the number of bytes that `damper_state_save` writes. Call it between steps of a started run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_state_size(run: *const Run, size: *mut usize) -> Status {
    // SAFETY: the contract of the header. Saving and restoring share one traversal of the state, and nothing is written
    // here.
    let answer = unsafe { ffi::idle(run.cast_mut(), Phase::Ready) }.and_then(|mut idle| {
        let bytes = saved_len(idle.state()?);
        // SAFETY: the contract of the header.
        unsafe { ffi::write(idle.head, size, bytes) }
    });
    status(answer)
}

/// Writes the state of filter, threshold and optimizer to `bytes`, which must be as long as `damper_state_size`
/// returns. Store it with the parameters of the same step. All of it was released, so it is as public as the
/// parameters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_state_save(run: *const Run, bytes: *mut u8, len: usize) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { write(run.cast_mut(), bytes, len) })
}

/// Does not write to the run.
unsafe fn write(run: *mut Run, bytes: *mut u8, len: usize) -> FfiResult {
    // SAFETY: the caller's contract.
    let mut idle = unsafe { ffi::idle(run, Phase::Ready) }?;
    let paid = paid(&idle);
    let size = saved_len(idle.state()?);
    ffi::writable_all(idle.head, bytes, len, size)?;
    let mut at = 0usize;
    save(idle.state()?, paid, |part| {
        if let Some(end) = at.checked_add(part.len()).filter(|end| *end <= size) {
            // SAFETY: within the checked bytes, which may be uninitialised and are separate from the run.
            unsafe { part.as_ptr().copy_to_nonoverlapping(bytes.add(at), part.len()) };
            at = end;
        }
    });
    Ok(())
}

/// Restores the state from `damper_state_save` in a started run of the same configuration, with its stored record.
/// `DAMPER_STATUS_DAMAGED` if the bytes were changed. `DAMPER_STATUS_CONFIGURATION` if they belong to another method or
/// another number of parameters. `DAMPER_STATUS_RECORD` if they were saved after more steps than are charged: an older
/// record was restored. The checksum detects damage but not forgery. Forged bytes cost accuracy and no privacy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_state_restore(run: *mut Run, bytes: *const u8, len: usize) -> Status {
    // SAFETY: the contract of the header.
    let answer = unsafe { ffi::idle(run, Phase::Ready) }.and_then(|mut idle| {
        // SAFETY: the contract of the header.
        let bytes = unsafe { ffi::input(idle.head, bytes, len) }?;
        let paid = paid(&idle);
        restore(idle.state()?, paid, bytes).map_err(|error| match error {
            RestoreError::Damaged => Status::Damaged,
            RestoreError::Shape => Status::Configuration,
            RestoreError::LedgerBehind => Status::Record,
        })
    });
    status(answer)
}
