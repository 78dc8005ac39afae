//! The last layer of a pretrained network adapts on the device, under a budget in flash.
#![no_std]
#![no_main]

use cortex_m_semihosting::debug;
use damper_firmware_program::{line::Line, personalise};
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
    exit(personalise::run(say))
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
