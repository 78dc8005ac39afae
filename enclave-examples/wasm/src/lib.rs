//! Private training as a WebAssembly module: the program of the firmware examples, with its state sealed and its ledger
//! bound to the counter. The host only gets released parameters and blobs that it can neither read nor change.
//!
//! ```text
//! abi ─► damper-enclave-run ─► platform: imports of counter, sealing key, entropy; the host's shelf of blobs
//! ```
//!
//! `../../docs/enclaves.md` lists the simulated parts, and what a product must do instead.
#![no_std]
#![deny(unsafe_op_in_unsafe_fn)]

mod abi;
mod platform;

// If panics unwind, an operating system exists and the standard library has the handler.
#[cfg(panic = "unwind")]
extern crate std;

#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
