//! The background task of the boards in `boards/`, on a simulated flash, next to another task and over power cuts.
#![no_std]
#![no_main]

use damper_firmware_background::rehearsal::{self, FLASH};
use damper_firmware_cortex_m::exit;

#[cortex_m_rt::entry]
fn main() -> ! {
    exit(rehearsal::run(&mut [0; FLASH]))
}
