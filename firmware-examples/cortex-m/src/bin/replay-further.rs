//! The core's recorded vectors outside the base set.
#![no_std]
#![no_main]

use cortex_m_semihosting::hprintln;
use damper_firmware_cortex_m::exit;
use damper_firmware_program::replay;

#[cortex_m_rt::entry]
fn main() -> ! {
    exit(replay::further(|line| hprintln!("{}", line)))
}
