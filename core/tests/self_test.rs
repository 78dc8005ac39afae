//! The self-test passes, and fails if the processor's mode register has other settings.
#![allow(clippy::disallowed_methods)] // The test looks for the fused operation.

use damper_core::{ArithmeticError, self_test};

#[test]
fn arithmetic_is_as_recorded() {
    assert_eq!(self_test(), Ok(()));
}

/// With fused operations, the self-test's numbers give another result than with separate rounding.
#[test]
fn a_fused_operation_would_be_found() {
    let (h, h_f64) = (1.0f32 / 8192.0, 1.0f64 / 134_217_728.0);
    assert_ne!((1.0 + h).mul_add(1.0 + h, -1.0 - 2.0 * h), 0.0);
    assert_ne!((1.0 + h_f64).mul_add(1.0 + h_f64, -1.0 - 2.0 * h_f64), 0.0);
}

/// Runs the self-test in a separate thread with its own register.
#[cfg(target_arch = "x86_64")]
fn with_mxcsr(bits: u32) -> Result<(), ArithmeticError> {
    use core::arch::asm;
    std::thread::spawn(move || {
        let (mut before, mut during) = (0u32, 0u32);
        // SAFETY: reads and writes MXCSR. Only the self-test runs between the two writes, and the previous value is
        // restored.
        unsafe {
            asm!("stmxcsr [{}]", in(reg) &mut before, options(nostack));
            let set = before | bits;
            asm!("ldmxcsr [{}]", in(reg) &set, options(nostack));
        }
        let found = self_test();
        // SAFETY: as above.
        unsafe {
            asm!("stmxcsr [{}]", in(reg) &mut during, options(nostack));
            asm!("ldmxcsr [{}]", in(reg) &before, options(nostack));
        }
        assert_eq!(during & bits, bits, "the register was set while the test ran");
        found
    })
    .join()
    .unwrap()
}

#[cfg(target_arch = "x86_64")]
#[test]
fn other_modes_of_mxcsr_are_found() {
    const FTZ: u32 = 1 << 15;
    const DAZ: u32 = 1 << 6;
    const ROUNDING: u32 = 1 << 13;
    assert_eq!(with_mxcsr(0), Ok(()));
    for bits in [FTZ, DAZ, FTZ | DAZ] {
        assert_eq!(with_mxcsr(bits), Err(ArithmeticError::FlushToZero), "{bits:#x}");
    }
    // Down, up, toward zero.
    for mode in 1..=3 {
        assert_eq!(with_mxcsr(mode * ROUNDING), Err(ArithmeticError::Rounding), "{mode}");
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[test]
fn other_modes_of_mxcsr_are_found() {
    damper_testing::skip("mxcsr", "this processor has no MXCSR");
}
