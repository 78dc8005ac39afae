//! The core's recorded vectors of long gradients.
#![no_std]
#![no_main]

use cortex_m_semihosting::hprintln;
use damper_firmware_cortex_m::exit;
use damper_firmware_program::replay;

#[cortex_m_rt::entry]
fn main() -> ! {
    exit(replay::wide(|line| hprintln!("{}", line)))
}
