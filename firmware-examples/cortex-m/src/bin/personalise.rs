//! The last layer of a pretrained network adapts on the device, under a budget in flash.
#![no_std]
#![no_main]

use damper_firmware_cortex_m::run;
use damper_firmware_program::personalise;

#[cortex_m_rt::entry]
fn main() -> ! {
    run(|say| personalise::run(say))
}
