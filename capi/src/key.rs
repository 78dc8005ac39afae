//! The secret that determines all of a run's noise and draws.

use crate::ffi::{self, IdleRef};
use crate::memory::{Head, Phase, Run};
use crate::status::{FfiResult, Status, status};
use damper_core::noise::{ChaCha20, Generator, Key};

unsafe fn set(run: *mut Run, make: impl FnOnce(&Head) -> FfiResult<ChaCha20>) -> FfiResult {
    // SAFETY: the caller's contract.
    let idle = unsafe { ffi::idle(run, Phase::Choosing) }?;
    idle.body.generator = Some(make(idle.head)?);
    Ok(())
}

/// Copies the key of a private run, the 32 bytes at `key`: true randomness for this run only. Use the same key after a
/// restart, because the ledger's numbers record which of its noise was used. The key is as secret as the data.
/// `damper_run_close` wipes the run's copy. The bytes at `key` stay unchanged, and the caller must erase them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_set_key(run: *mut Run, key: *const u8) -> Status {
    let make = |head: &Head| {
        // SAFETY: the contract of the header.
        let mut key = *unsafe { ffi::lend::<[u8; 32]>(head, key.cast()) }?;
        Ok(ChaCha20::from_key(Key::from_bytes(&mut key)))
    };
    // SAFETY: the contract of the header.
    status(unsafe { set(run, make) })
}

/// Makes the run a simulation. The seed is known, so none of its releases is private.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_set_simulation_seed(run: *mut Run, seed: u64) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { set(run, |_| Ok(ChaCha20::simulation(seed))) })
}

/// Writes 1 if the run has a key, and 0 if it is a simulation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_is_private(run: *const Run, is_private: *mut u32) -> Status {
    // SAFETY: the contract of the header.
    let answer = unsafe { ffi::settled(run) }.and_then(|IdleRef { head, body, .. }| {
        let generator = body.generator.as_ref().ok_or(Status::NoKey)?;
        // SAFETY: the contract of the header.
        unsafe { ffi::write(head, is_private, u32::from(generator.is_private())) }
    });
    status(answer)
}
