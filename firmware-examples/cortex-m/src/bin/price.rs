//! One private step and the privacy cost of a run of such steps. Its image less that of `step` is the cost of the Rényi
//! curve in flash.
#![no_std]
#![no_main]

use core::hint::black_box;
use damper_firmware_cortex_m::exit;
use damper_firmware_program::price;

#[cortex_m_rt::entry]
fn main() -> ! {
    exit(black_box(price::run()))
}
