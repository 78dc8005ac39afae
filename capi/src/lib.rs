//! `damper-core` for C: one private training step, in memory that the caller owns.
//!
//! The header `include/damper.h` is made from this crate; `README.md` has a complete program.
//!
//! ```text
//! run (init, configure, choose slots, start, close) ─► step (open, draw, add, finish)  shard
//!  └─► slots (clip, threshold, filter, optimizer, schedule)   ledger  journal ─► flash  chosen  snapshot  key  accountant  numerics  version
//!  segments ◄─ nn                                          all ─► ffi ─► memory ─► status
//! ```
//!
//! A method is linked where it is chosen: what fills a slot is an object in the run whose type only its `damper_choose_…` names,
//! so a program with DP-SGD has no filter in it.
//!
//! # Unsafe
//!
//! All of the project's `unsafe` is here, and what makes references of pointers is in `ffi`. A run is one struct
//! (in `memory`) at the start of the caller's memory; an open step borrows other parts of it, so no reference to the whole exists
//! while one is open. A run knows its address: one that was moved, copied or closed is refused. Memory is not read before it was
//! written here.
#![no_std]
#![deny(unsafe_op_in_unsafe_fn)]
// One contract for all functions, at the top of the header.
#![allow(clippy::missing_safety_doc)]

mod ffi;
mod flash;
mod memory;
mod store;

// In the order of the header.
pub mod version;

pub mod status;

pub mod run;

pub mod slots;

pub mod key;

pub mod ledger;

pub mod journal;

pub mod step;

pub mod segments;

pub mod shard;

pub mod adaptive;

pub mod snapshot;

pub mod accountant;

pub mod numerics;

pub mod nn;

// Where panics unwind there is an operating system, and tests: the standard library has the handler.
#[cfg(panic = "unwind")]
extern crate std;

/// Never reached: no image linked with this library has a call of it.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
