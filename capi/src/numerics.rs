//! The core's numerics, for gradients with the same bits on every target. (Compile with `-ffp-contract=off`.)

use crate::status::Status;
use damper_core::numerics::{CONTRACT, function};

/// Returns `e^x`, with the same bits on every target.
#[unsafe(no_mangle)]
pub extern "C" fn damper_exp(x: f32) -> f32 {
    function::exp_f32(x)
}

/// Returns the natural logarithm, with the same bits on every target.
#[unsafe(no_mangle)]
pub extern "C" fn damper_ln(x: f32) -> f32 {
    function::ln_f32(x)
}

/// Returns the square root, correctly rounded.
#[unsafe(no_mangle)]
pub extern "C" fn damper_sqrt(x: f32) -> f32 {
    function::sqrt_f32(x)
}

/// Returns the number of the contract of bits: libraries with the same number compute the same bits.
#[unsafe(no_mangle)]
pub extern "C" fn damper_bits_contract() -> u32 {
    CONTRACT
}

/// Checks that this thread's arithmetic follows IEEE 754: round to nearest, with subnormal numbers, and without fused
/// multiply-add. Other modes give other bits. Call it at boot, and after code that may set the floating-point control
/// register (`FPSCR` on Arm, `MXCSR` on x86-64). `DAMPER_STATUS_ARITHMETIC` if it differs: do not train.
#[unsafe(no_mangle)]
pub extern "C" fn damper_self_test() -> Status {
    damper_core::self_test().map_or(Status::Arithmetic, |()| Status::Ok)
}
