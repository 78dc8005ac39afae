//! The core's self-test on the board. It passes, and fails if FPSCR is set to another rounding or to flush subnormals.
#![no_std]
#![no_main]

use cortex_m_semihosting::hprintln;
use damper_core::self_test;
use damper_firmware_cortex_m::exit;

#[cortex_m_rt::entry]
fn main() -> ! {
    let passes = self_test();
    hprintln!("{:?}", passes);
    exit(passes.is_ok() && other_modes_are_found())
}

/// Returns true if the self-test finds each of FPSCR's modes, on processors that compute f32.
#[cfg(target_abi = "eabihf")]
fn other_modes_are_found() -> bool {
    use core::arch::asm;
    use damper_core::ArithmeticError::{FlushToZero, Rounding};
    const FZ: u32 = 1 << 24;
    const RMODE: u32 = 1 << 22;
    [(FZ, FlushToZero), (RMODE, Rounding), (2 * RMODE, Rounding), (3 * RMODE, Rounding)].into_iter().all(
        |(bits, expected)| {
            let before: u32;
            // SAFETY: reads and writes FPSCR. Between the two writes only the self-test runs, and then the previous
            // value is restored.
            unsafe {
                asm!("vmrs {}, fpscr", out(reg) before);
                asm!("vmsr fpscr, {}", in(reg) before | bits);
            }
            let found = self_test();
            // SAFETY: as above.
            unsafe { asm!("vmsr fpscr, {}", in(reg) before) };
            hprintln!("{:#x}: {:?}", bits, found);
            found == Err(expected)
        },
    )
}

#[cfg(not(target_abi = "eabihf"))]
fn other_modes_are_found() -> bool {
    hprintln!("skipped: this processor has no FPSCR");
    true
}
