//! One private step and the price of a run of them: its image less that of `step` is what the Rényi curve costs in flash.
#![no_std]
#![no_main]

use core::hint::black_box;
use damper_firmware_cortex_m::exit;
use damper_firmware_program::price;

#[cortex_m_rt::entry]
fn main() -> ! {
    exit(black_box(price::run()))
}
