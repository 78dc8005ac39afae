//! The last layer of a pretrained network adapts on the device, under a budget in flash.
#![no_std]
#![no_main]

use damper_firmware_program::personalise;
use damper_firmware_riscv::run;

#[riscv_rt::entry]
fn main() -> ! {
    run(|say| personalise::run(say))
}
