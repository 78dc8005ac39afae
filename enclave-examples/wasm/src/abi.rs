//! The module's exports: numbers and one buffer. A status is [`EnclaveStatus`], and 0 is success.

use crate::platform::Imports;
use core::cell::RefCell;
use damper_enclave_run::{EnclaveStatus, SEALED_STATE};
use damper_firmware_program::digits::{self, TRAIN};
use damper_firmware_program::softmax::DIM;

type Enclave = damper_enclave_run::Enclave<Imports>;

struct Module {
    enclave: Option<Enclave>,
    buffer: [u8; SEALED_STATE],
}

struct OneThread(RefCell<Module>);

// SAFETY: the module is built without threads.
unsafe impl Sync for OneThread {}

static MODULE: OneThread = OneThread(RefCell::new(Module { enclave: None, buffer: [0; SEALED_STATE] }));

/// Runs a call. A call from within a call, through an import, is refused.
fn call(body: impl FnOnce(&mut Module) -> Result<(), EnclaveStatus>) -> u32 {
    let result = MODULE.0.try_borrow_mut().map_err(|_| EnclaveStatus::Refused).and_then(|mut module| body(&mut module));
    match result {
        Ok(()) => EnclaveStatus::Ok as u32,
        Err(status) => status as u32,
    }
}

fn number(body: impl FnOnce(&Enclave) -> u32) -> u32 {
    MODULE.0.try_borrow().ok().and_then(|module| module.enclave.as_ref().map(body)).unwrap_or_default()
}

/// Returns the address of the buffer for sealed states, [`state_len`] bytes.
#[unsafe(no_mangle)]
pub extern "C" fn buffer() -> *mut u8 {
    // SAFETY: only the address is taken.
    unsafe { (&raw mut (*MODULE.0.as_ptr()).buffer).cast() }
}

/// Returns the bytes of a sealed state.
#[unsafe(no_mangle)]
pub extern "C" fn state_len() -> usize {
    SEALED_STATE
}

/// Starts the run, with nothing charged.
#[unsafe(no_mangle)]
pub extern "C" fn provision() -> u32 {
    call(|module| {
        module.enclave = None;
        module.enclave = Some(Enclave::provision(Imports)?);
        Ok(())
    })
}

/// Continues from the sealed state in the buffer. A state older than the ledger is accepted only if `burn` is 1.
#[unsafe(no_mangle)]
pub extern "C" fn resume(burn: u32) -> u32 {
    call(|module| {
        module.enclave = None;
        let enclave = Enclave::resume(Imports, &mut module.buffer, burn == 1);
        // The opened state must not stay in memory that the host reads.
        module.buffer = [0; SEALED_STATE];
        module.enclave = Some(enclave?);
        Ok(())
    })
}

/// Takes one private step.
#[unsafe(no_mangle)]
pub extern "C" fn step() -> u32 {
    call(|module| module.enclave.as_mut().ok_or(EnclaveStatus::Refused)?.step())
}

/// Seals the state into the buffer.
#[unsafe(no_mangle)]
pub extern "C" fn seal() -> u32 {
    call(|module| module.enclave.as_mut().ok_or(EnclaveStatus::Refused)?.seal(&mut module.buffer))
}

/// Returns the address of the released parameters, [`dim`] f32, or null without a run.
#[unsafe(no_mangle)]
pub extern "C" fn params() -> *const f32 {
    let module = MODULE.0.try_borrow().ok();
    module.and_then(|m| m.enclave.as_ref().map(|e| e.params().as_ptr())).unwrap_or(core::ptr::null())
}

/// Returns the number of parameters.
#[unsafe(no_mangle)]
pub extern "C" fn dim() -> u32 {
    DIM as u32
}

/// Returns the number of training samples.
#[unsafe(no_mangle)]
pub extern "C" fn samples() -> u32 {
    TRAIN
}

/// Returns the number of charged steps.
#[unsafe(no_mangle)]
pub extern "C" fn paid() -> u32 {
    number(Enclave::paid)
}

/// Returns the number of held-out samples, which are public.
#[unsafe(no_mangle)]
pub extern "C" fn held_out() -> u32 {
    digits::held_out().count() as u32
}

/// Returns the number of held-out samples that the released parameters classify correctly.
#[unsafe(no_mangle)]
pub extern "C" fn held_out_right() -> u32 {
    number(Enclave::held_out_right)
}
