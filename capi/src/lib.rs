//! `damper-core` for C: one private training step, in memory that the caller owns.
//!
//! The header `include/damper.h` is generated from this crate. `README.md` has a complete program.
//!
//! ```text
//! run (init, configure, choose slots, start, close) ─► step (open, draw, add, finish)  shard
//!  └─► slots (clip, threshold, filter, optimizer, schedule)   ledger  journal ─► flash  chosen  snapshot  key  accountant  numerics  version
//!  segments ◄─ nn                                          all ─► ffi ─► memory ─► status
//! ```
//!
//! A method is linked only if it is chosen. A slot holds an object in the run, and only its `damper_choose_…` function
//! names the object's type. So a program with DP-SGD contains no filter.
//!
//! # Unsafe
//!
//! All of the project's `unsafe` is here, and `ffi` turns pointers into references. A run is one struct (in `memory`)
//! at the start of the caller's memory. An open step borrows other parts of it, so no reference to the whole exists
//! while a step is open. A run stores its address, so calls fail if it was moved, copied or closed. Memory is not read
//! before it was written here.
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

// If panics unwind, there is an operating system, and there are tests. The standard library then has the handler.
#[cfg(panic = "unwind")]
extern crate std;

/// Never reached: no image linked with this library contains a call of it.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
