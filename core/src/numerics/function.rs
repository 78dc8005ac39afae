//! Functions beyond `+ − × ÷`. Only this module and [`up`](super::up) call `libm`.
//!
//! ```
//! use damper_core::numerics::function::*;
//!
//! assert_eq!((sqrt_f32(2.25), sqrt_f64(2.25)), (1.5, 1.5));
//! assert_eq!((exp_f32(0.0), exp_f64(0.0), ln_f32(1.0)), (1.0, 1.0, 0.0));
//! assert_eq!((sin_cos_f32(0.0), cos_f64(0.0), pow_f64(2.0, 10.0)), ((0.0, 1.0), 1.0, 1024.0));
//! ```
//!
//! # Numerics
//!
//! Square roots are correctly rounded, so their bits are unique. The functions of f32 are those of `single`, of angles
//! within ±9π/4, and do not depend on `libm`'s version. A step takes its functions of f64 from
//! [`scalar`](super::scalar). Those here have the bits of the `libm` in the lock file. Recorded vectors fail if a new
//! release changes a bit.
#![allow(clippy::disallowed_methods)] // This module may call `libm`.

use super::single;

/// Returns the square root, correctly rounded.
#[must_use]
pub fn sqrt_f32(x: f32) -> f32 {
    libm::sqrtf(x)
}

/// Returns the natural logarithm, in f32.
#[must_use]
pub fn ln_f32(x: f32) -> f32 {
    single::ln(x)
}

/// Returns `(sin x, cos x)`, in f32.
#[must_use]
pub fn sin_cos_f32(x: f32) -> (f32, f32) {
    single::sin_cos(x).unwrap_or_else(|| libm::sincosf(x))
}

/// Returns `eˣ`, in f32.
#[must_use]
pub fn exp_f32(x: f32) -> f32 {
    single::exp(x)
}

/// Returns the square root, correctly rounded.
#[must_use]
pub fn sqrt_f64(x: f64) -> f64 {
    libm::sqrt(x)
}

/// Returns the cosine, in f64.
#[must_use]
pub fn cos_f64(x: f64) -> f64 {
    libm::cos(x)
}

/// Returns `eˣ`, in f64.
#[must_use]
pub fn exp_f64(x: f64) -> f64 {
    libm::exp(x)
}

/// Returns `xʸ`, in f64.
#[must_use]
pub fn pow_f64(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}
