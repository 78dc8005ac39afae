//! The state of filter, threshold and optimizer, as bytes: a device that restarts goes on from them. Linked only if called.

use crate::ffi::{self, IdleMut};
use crate::memory::{Phase, Run};
use crate::status::{FfiResult, Status, status};
use damper_core::state::{RestoreError, restore, save, saved_len};

/// Steps that are charged, by ledger or filter.
fn paid(idle: &IdleMut<'_>) -> u32 {
    idle.budget.filter.as_ref().map_or(idle.budget.ledger.charged_steps(), |filter| filter.charged_steps())
}

/// Writes how many bytes `damper_state_save` writes. Between steps of a started run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_state_size(run: *const Run, size: *mut usize) -> Status {
    // SAFETY: the contract of the header. The one way through a state is for saving and restoring: nothing is written here.
    let answer = unsafe { ffi::idle(run.cast_mut(), Phase::Ready) }.and_then(|mut idle| {
        let bytes = saved_len(idle.state()?);
        // SAFETY: the contract of the header.
        unsafe { ffi::write(idle.head, size, bytes) }
    });
    status(answer)
}

/// Writes what filter, threshold and optimizer remember to `bytes`, of which there must be as many as `damper_state_size` says: keep
/// them beside the parameters, as of the same step. All of it was released, so it is no more secret than the parameters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_state_save(run: *const Run, bytes: *mut u8, len: usize) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { write(run.cast_mut(), bytes, len) })
}

/// Writes nothing to the run.
unsafe fn write(run: *mut Run, bytes: *mut u8, len: usize) -> FfiResult {
    // SAFETY: the caller's contract.
    let mut idle = unsafe { ffi::idle(run, Phase::Ready) }?;
    let paid = paid(&idle);
    let size = saved_len(idle.state()?);
    ffi::writable_all(idle.head, bytes, len, size)?;
    let mut at = 0usize;
    save(idle.state()?, paid, |part| {
        if let Some(end) = at.checked_add(part.len()).filter(|end| *end <= size) {
            // SAFETY: within the bytes that were checked, which may be uninitialised and are apart from the run.
            unsafe { part.as_ptr().copy_to_nonoverlapping(bytes.add(at), part.len()) };
            at = end;
        }
    });
    Ok(())
}

/// Takes back what `damper_state_save` wrote, in a run of the same configuration, started, with the record that its store holds.
/// `DAMPER_STATUS_DAMAGED` where the bytes are not those that were written; `DAMPER_STATUS_CONFIGURATION` where they are another
/// method's, or of another number of parameters; `DAMPER_STATUS_RECORD` where they were saved after more steps than are charged: the
/// record was put back. A checksum finds damage and authenticates nothing; what is forged costs accuracy and no privacy.
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
