//! The core's base set of recorded vectors, in 128 KB of flash and 8 KB of RAM.
#![no_std]
#![no_main]

use cortex_m_semihosting::hprintln;
use damper_firmware_cortex_m::exit;
use damper_firmware_program::replay;

#[cortex_m_rt::entry]
fn main() -> ! {
    exit(replay::base(|line| hprintln!("{}", line)))
}
