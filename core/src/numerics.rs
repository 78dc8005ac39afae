//! Numerics: the arithmetic rules that determine every bit.
//!
//! The contract, numbered by [`CONTRACT`]: the input is the bits of the combined per-sample gradients, the
//! configuration, the key and the state. After any number of steps, the state has the same bits on every target.
//!
//! 1. `+ − × ÷` and the correctly rounded square root may be used anywhere. Fused multiply-add is never used.
//! 2. Float sums use [`reduce`]: blocks of [`reduce::BLOCK`] elements in [`reduce::LANES`] interleaved accumulators,
//!    one fixed fold, and block totals in two f32s. Sums of [`basis`] run in index order.
//! 3. Transcendental functions are those of [`scalar`] and [`function`], never of `std`. Headers state the origin.
//! 4. Arithmetic per coordinate uses only `f32` and integers. `f64` is for scalars of a step, on all targets.
//! 5. No NaN reaches a comparison that decides, or a digest. Subnormal numbers are kept.
//! 6. Floats become integers by truncation toward zero. Integers become floats by rounding to nearest, ties to even.
//!
//! The sections on numerics write `F(x)` for `x` rounded to the nearest f32, ties to even. Arithmetic in f64 is marked.
//! There each operation rounds once, from left to right by default.

pub mod basis;
pub mod digest;
pub mod function;
pub mod order;
pub mod reduce;
pub mod round;
pub mod scalar;
pub(crate) mod self_test;
mod single;
pub mod up;

/// Version of the contract. It increases when a recorded vector changes its bits. The changelog states the reason.
pub const CONTRACT: u32 = 3;

#[cfg(all(target_arch = "x86", not(target_feature = "sse2")))]
compile_error!("x87 arithmetic rounds twice: build for a target with SSE2 (i686, not i586)");
