//! Functions beyond `+ − × ÷`: the only door to `libm`.
//!
//! # Numerics
//!
//! Square roots are correctly rounded, so mathematics defines their bits. The others have the bits of the `libm` release
//! in the lock file; vectors pin them, and a release that changes one shows as a failed vector.
#![allow(clippy::disallowed_methods)] // The door itself.

/// Square root, correctly rounded.
#[must_use]
pub fn sqrt_f32(x: f32) -> f32 {
    libm::sqrtf(x)
}

/// Natural logarithm, in f32.
#[must_use]
pub fn ln_f32(x: f32) -> f32 {
    libm::logf(x)
}

/// `(sin x, cos x)`, in f32.
#[must_use]
pub fn sin_cos_f32(x: f32) -> (f32, f32) {
    libm::sincosf(x)
}

/// `eˣ`, in f32.
#[must_use]
pub fn exp_f32(x: f32) -> f32 {
    libm::expf(x)
}

/// Square root, correctly rounded.
#[must_use]
pub fn sqrt_f64(x: f64) -> f64 {
    libm::sqrt(x)
}

/// Cosine, in f64.
#[must_use]
pub fn cos_f64(x: f64) -> f64 {
    libm::cos(x)
}

/// `eˣ`, in f64.
#[must_use]
pub fn exp_f64(x: f64) -> f64 {
    libm::exp(x)
}

/// `xʸ`, in f64.
#[must_use]
pub fn pow_f64(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}
