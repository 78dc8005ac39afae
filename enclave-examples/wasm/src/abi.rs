//! The module's exports: numbers and one buffer. A status is [`EnclaveStatus`]; 0 is success.

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

/// A call from within a call, by an import, is refused.
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

/// Where a sealed state goes in and out, [`state_len`] bytes.
#[unsafe(no_mangle)]
pub extern "C" fn buffer() -> *mut u8 {
    // SAFETY: only the address is taken.
    unsafe { (&raw mut (*MODULE.0.as_ptr()).buffer).cast() }
}

/// Bytes of a sealed state.
#[unsafe(no_mangle)]
pub extern "C" fn state_len() -> usize {
    SEALED_STATE
}

/// Begins the run, with nothing paid.
#[unsafe(no_mangle)]
pub extern "C" fn provision() -> u32 {
    call(|module| {
        module.enclave = None;
        module.enclave = Some(Enclave::provision(Imports)?);
        Ok(())
    })
}

/// Goes on from the sealed state in the buffer; an older one than the ledger's is taken only if `burn` is 1.
#[unsafe(no_mangle)]
pub extern "C" fn resume(burn: u32) -> u32 {
    call(|module| {
        module.enclave = None;
        let enclave = Enclave::resume(Imports, &mut module.buffer, burn == 1);
        // What was opened must not stay where the host reads.
        module.buffer = [0; SEALED_STATE];
        module.enclave = Some(enclave?);
        Ok(())
    })
}

/// One private step.
#[unsafe(no_mangle)]
pub extern "C" fn step() -> u32 {
    call(|module| module.enclave.as_mut().ok_or(EnclaveStatus::Refused)?.step())
}

/// Seals the state into the buffer.
#[unsafe(no_mangle)]
pub extern "C" fn seal() -> u32 {
    call(|module| module.enclave.as_mut().ok_or(EnclaveStatus::Refused)?.seal(&mut module.buffer))
}

/// Where the released parameters are, [`dim`] f32; null without a run.
#[unsafe(no_mangle)]
pub extern "C" fn params() -> *const f32 {
    let module = MODULE.0.try_borrow().ok();
    module.and_then(|m| m.enclave.as_ref().map(|e| e.params().as_ptr())).unwrap_or(core::ptr::null())
}

/// Parameters.
#[unsafe(no_mangle)]
pub extern "C" fn dim() -> u32 {
    DIM as u32
}

/// Samples to train on.
#[unsafe(no_mangle)]
pub extern "C" fn samples() -> u32 {
    TRAIN
}

/// Steps charged so far.
#[unsafe(no_mangle)]
pub extern "C" fn paid() -> u32 {
    number(Enclave::paid)
}

/// Held-out samples, which are public.
#[unsafe(no_mangle)]
pub extern "C" fn held_out() -> u32 {
    digits::held_out().count() as u32
}

/// Held-out samples that the released parameters name rightly.
#[unsafe(no_mangle)]
pub extern "C" fn held_out_right() -> u32 {
    number(Enclave::held_out_right)
}
