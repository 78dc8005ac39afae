//! One private step and nothing else: its image is what the step costs in flash, and it must link without a single panic.
#![no_std]
#![no_main]

use core::hint::black_box;
use damper_firmware_program::step;
use damper_firmware_riscv::exit;

#[riscv_rt::entry]
fn main() -> ! {
    exit(black_box(step::run().is_some()))
}
