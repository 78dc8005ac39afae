//! Trains privately on an RV32IMAC, with gradients computed on the device.
#![no_std]
#![no_main]

use damper_firmware_program::train;
use damper_firmware_riscv::run;

#[riscv_rt::entry]
fn main() -> ! {
    run(|say| train::run(say))
}
