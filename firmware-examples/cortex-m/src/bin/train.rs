//! Private training on a Cortex-M, with gradients computed on the device.
#![no_std]
#![no_main]

use cortex_m_semihosting::debug;
use damper_firmware_program::{line::Line, train};
#[cfg(feature = "defmt")]
use defmt_semihosting as _;

#[cfg(feature = "defmt")]
fn say(line: Line<'_>) {
    defmt::println!("{}", line);
}

#[cfg(not(feature = "defmt"))]
fn say(line: Line<'_>) {
    cortex_m_semihosting::hprintln!("{}", line);
}

#[cortex_m_rt::entry]
fn main() -> ! {
    exit(train::run(say))
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
