//! The core's numerics, for gradients that shall have the same bits on every target. (Compile with
//! `-ffp-contract=off`.)

use damper_core::numerics::{CONTRACT, function};

/// `e^x`, the same bits on every target.
#[unsafe(no_mangle)]
pub extern "C" fn damper_exp(x: f32) -> f32 {
    function::exp_f32(x)
}

/// The natural logarithm, the same bits on every target.
#[unsafe(no_mangle)]
pub extern "C" fn damper_ln(x: f32) -> f32 {
    function::ln_f32(x)
}

/// The square root, correctly rounded.
#[unsafe(no_mangle)]
pub extern "C" fn damper_sqrt(x: f32) -> f32 {
    function::sqrt_f32(x)
}

/// The number of the contract of bits: libraries with the same number give the same bits.
#[unsafe(no_mangle)]
pub extern "C" fn damper_contract() -> u32 {
    CONTRACT
}
