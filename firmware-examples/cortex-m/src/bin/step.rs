//! Only one private step. Its image shows the cost of the step in flash, and must link without a single panic.
#![no_std]
#![no_main]

use core::hint::black_box;
use damper_firmware_cortex_m::exit;
use damper_firmware_program::step;

#[cortex_m_rt::entry]
fn main() -> ! {
    exit(black_box(step::run().is_some()))
}
