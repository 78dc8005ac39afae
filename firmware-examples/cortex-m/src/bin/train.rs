//! Trains privately on a Cortex-M, with gradients computed on the device.
#![no_std]
#![no_main]

use damper_firmware_cortex_m::run;
use damper_firmware_program::train;

#[cortex_m_rt::entry]
fn main() -> ! {
    run(|say| train::run(say))
}
