//! The core's recorded vectors of what is beyond the base set.
#![no_std]
#![no_main]

use cortex_m_semihosting::{debug, hprintln};
use damper_firmware_program::replay;

#[cortex_m_rt::entry]
fn main() -> ! {
    exit(replay::further(|line| hprintln!("{}", line)))
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
