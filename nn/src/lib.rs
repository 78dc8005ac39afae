//! The arithmetic of small networks, forward and backward, over slices that the caller owns: the same bits on every target.
//!
//! - **No heap, no `unsafe`, no panic.** A slice of another length than the shape says is an [`Error`].
//! - **One defined order of every sum** ([`sum`]), whatever the target, the vectors of the processor and the threads. No product is fused
//!   with a sum. Functions beyond `+ − · ÷` come from a pinned `libm`.
//! - **Shapes are values**: small `Copy` structs, checked when `new` makes them. A kernel takes the shape, its operands and its output. Their
//!   fields are public, so that a compiled network has them as constants: a wrong one gives wrong numbers or an [`Error`], never a panic.
//!
//! What is the same where: NaN is NaN on every target, but its payload and sign bit are the processor's.
//!
//! Every kernel is `#[inline(always)]` as far as its inner loop: a caller that compiles for wider vectors (`pulp`, `target_feature`) has
//! the loops compiled for them, with the same bits.

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))] // References in tests are plain arithmetic.

#[cfg(test)]
extern crate std;

pub mod convolution;
pub mod elementwise;
pub mod index;
pub mod layout;
pub mod pool;
pub mod product;
pub mod quantized;
pub mod reduce;
pub mod sum;
mod tile;
mod walk;
mod window;

pub use tile::{Lanes, Narrow, Wide};
pub use walk::{MAX_RANK, Walk};
pub use window::{Axis, Window};

/// The arguments of a kernel do not fit together. Any values of the numbers are permitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// A slice has another length than the shape says.
    Length,
    /// An index points outside its axis.
    Index,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Error::Length => "a slice has another length than its shape",
            Error::Index => "an index points outside its axis",
        })
    }
}

impl core::error::Error for Error {}

/// [`Error::Length`] unless `holds`.
#[inline(always)]
fn check(holds: bool) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::Length) }
}
