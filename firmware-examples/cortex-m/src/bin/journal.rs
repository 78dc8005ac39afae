//! The step with its ledger in flash, restarted until the budget is spent: its image is what that costs, and it must link without a
//! single panic.
#![no_std]
#![no_main]

use core::hint::black_box;
use cortex_m_semihosting::debug;
use damper_firmware_program::journal;

#[cortex_m_rt::entry]
fn main() -> ! {
    exit(black_box(journal::run()))
}

fn exit(success: bool) -> ! {
    loop {
        debug::exit(if success { debug::EXIT_SUCCESS } else { debug::EXIT_FAILURE });
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(false)
}
