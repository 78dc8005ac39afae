//! The secret that determines all of a run's noise and draws.

use crate::ffi::{self, IdleRef};
use crate::memory::{Head, Phase, Run};
use crate::status::{FfiResult, Status, status};
use core::ffi::{c_int, c_void};
use damper_core::noise::{ChaCha20, FreshKeyError, Generator, Key};

/// Fills `bytes`, `len` of them, with true randomness. Returns 0 only when every byte is written. The function must not
/// jump or throw out of the call.
pub type Fill = Option<unsafe extern "C" fn(context: *mut c_void, bytes: *mut u8, len: u32) -> c_int>;

unsafe fn set(run: *mut Run, make: impl FnOnce(&Head) -> FfiResult<ChaCha20>) -> FfiResult {
    // SAFETY: the caller's contract.
    let idle = unsafe { ffi::idle(run, Phase::Choosing) }?;
    idle.body.generator = Some(make(idle.head)?);
    Ok(())
}

/// Copies the key of a private run, the 32 bytes at `key`: true randomness for this run only. Use the same key after a
/// restart, because the ledger's numbers record which of its noise was used. The key is as secret as the data.
/// `damper_run_close` wipes the run's copy. The bytes at `key` stay unchanged, and the caller must erase them. Eight
/// equal words give `DAMPER_STATUS_DEAD_GENERATOR`. `damper_set_fresh_key` tests a generator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_set_key(run: *mut Run, key: *const u8) -> Status {
    let make = |head: &Head| {
        // SAFETY: the contract of the header.
        let key = unsafe { ffi::lend::<[u8; 32]>(head, key.cast()) }?;
        if key.windows(5).all(|bytes| bytes.first() == bytes.last()) {
            return Err(Status::DeadGenerator);
        }
        Ok(ChaCha20::from_key(Key::from_bytes(&mut { *key })))
    };
    // SAFETY: the contract of the header.
    status(unsafe { set(run, make) })
}

/// Takes a fresh key for a private run from a generator of true randomness: calls `fill` twice, each time for 32 zero
/// bytes, or once if it fails (`DAMPER_STATUS_NO_KEY`). The first draw is the key. The generator is dead if two of the
/// sixteen 32-bit words are equal or one is 0: `DAMPER_STATUS_DEAD_GENERATOR`. Single unwritten bytes, and a generator
/// that gives the same words at each boot, are not noticed. `fill` may call functions of this run. After an error the
/// run has the key that it had before, if any. A run may take another key after each restart, if its ledger survives.
/// The buffers of both draws are wiped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_set_fresh_key(run: *mut Run, fill: Fill, context: *mut c_void) -> Status {
    // Before the run is borrowed, because `fill` may call its functions.
    let key = fill.ok_or(Status::Null).and_then(|fill| {
        // SAFETY: the contract of the type: `fill` writes only the bytes that it is given.
        Key::fresh(|bytes| match unsafe { fill(context, bytes.as_mut_ptr(), 32) } {
            0 => Ok(()),
            _ => Err(Status::NoKey),
        })
        .map_err(|error| match error {
            FreshKeyError::Fill(status) => status,
            FreshKeyError::Dead => Status::DeadGenerator,
        })
    });
    // SAFETY: the contract of the header.
    status(key.and_then(|key| unsafe { set(run, |_| Ok(ChaCha20::from_key(key))) }))
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
