//! Adapts the last layer of a pretrained network on the device, within a budget in flash.
#![no_std]
#![no_main]

use damper_firmware_program::personalise;
use damper_firmware_riscv::run;

#[riscv_rt::entry]
fn main() -> ! {
    run(|say| personalise::run(say))
}
