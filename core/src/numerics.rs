//! Every decision about bits.
//!
//! The contract, numbered by [`CONTRACT`]: given the bits of the mixed per-sample gradients, the configuration, the key
//! and the state, the state after any number of steps has the same bits on every target.
//!
//! 1. `+ − × ÷` and the correctly rounded square root may be used anywhere; fused multiply-add never.
//! 2. Float sums go only through [`reduce`]: blocks of [`reduce::BLOCK`] elements in [`reduce::LANES`] interleaved accumulators and one
//!    fixed fold, the blocks' totals in two f32s; those of [`basis`] in index order.
//! 3. Everything transcendental comes from [`function`], which is the `libm` crate and never `std`.
//! 4. Per coordinate there are only `f32` and integers; `f64` is for scalars of a step, on all targets.
//! 5. No NaN reaches a comparison that decides, or a digest. Subnormal numbers are kept.
//! 6. Floats become integers by truncation toward zero, integers floats by rounding to nearest, ties to even.
//!
//! The modules' sections on numerics write `F(x)` for `x` rounded to the nearest f32, ties to even. What is computed in f64
//! says so; there each operation rounds once, from left to right where nothing else is written.

pub mod basis;
pub mod digest;
pub mod function;
pub mod order;
pub mod reduce;
pub mod round;
pub mod scalar;
pub(crate) mod self_test;
pub mod up;

/// Version of the contract. It rises when any recorded vector changes its bits; the changelog says why.
pub const CONTRACT: u32 = 3;

#[cfg(all(target_arch = "x86", not(target_feature = "sse2")))]
compile_error!("x87 arithmetic rounds twice: build for a target with SSE2 (i686, not i586)");
