//! One private step and the price of a run of them: its image less that of `step` is what the Rényi curve costs in flash.
#![no_std]
#![no_main]

use core::hint::black_box;
use cortex_m_semihosting::debug;
use damper_firmware_program::price;

#[cortex_m_rt::entry]
fn main() -> ! {
    exit(black_box(price::run()))
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
