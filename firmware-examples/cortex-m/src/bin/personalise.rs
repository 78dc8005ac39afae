//! Adapts the last layer of a pretrained network on the device, within a budget in flash.
#![no_std]
#![no_main]

use damper_firmware_cortex_m::run;
use damper_firmware_program::personalise;

#[cortex_m_rt::entry]
fn main() -> ! {
    run(|say| personalise::run(say))
}
