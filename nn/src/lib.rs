//! Kernels of small networks, forward and backward, over slices that the caller owns. Results have the same bits on
//! every target.
//!
//! - **No heap, no `unsafe`, no panic.** A slice whose length does not match its shape gives an [`Error`].
//! - **One defined order of every sum** ([`sum`]). It does not depend on the target, the SIMD width or the number of
//!   threads. No product is fused with a sum. Functions other than `+ − · ÷` come from a pinned `libm`.
//! - **Shapes are values**: small `Copy` structs that `new` checks. A kernel takes the shape, its operands and its
//!   output. The fields are public, so that a compiled network can store shapes as constants. A wrong field gives wrong
//!   values or an [`Error`], never a panic.
//!
//! NaN is NaN on every target, but its payload and sign bit depend on the processor.
//!
//! Every kernel is `#[inline(always)]` down to its inner loop. If the caller is compiled for wider SIMD (`pulp`,
//! `target_feature`), so are the loops, with the same bits.

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

/// Error of a kernel call with inconsistent arguments. The values of the operands never cause an error.
///
/// ```
/// use damper_nn::elementwise::{Unary, unary};
///
/// assert!(unary(Unary::Neg, &[1.0, 2.0], &mut [0.0; 3]).is_err(), "one output too many");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// A slice's length does not match its shape.
    Length,
    /// An index is out of range for its axis.
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

/// Returns [`Error::Length`] unless `holds` is true.
#[inline(always)]
fn check(holds: bool) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::Length) }
}
