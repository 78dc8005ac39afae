//! Trains the digits CNN without output. Its image has only the network and the step, and must link without a single
//! panic.
#![no_std]
#![no_main]

use core::hint::black_box;
use damper_firmware_compiled::digits;
#[cfg(target_arch = "arm")]
use damper_firmware_cortex_m::exit;
#[cfg(target_arch = "riscv32")]
use damper_firmware_riscv::exit;

#[cfg_attr(target_arch = "arm", cortex_m_rt::entry)]
#[cfg_attr(target_arch = "riscv32", riscv_rt::entry)]
fn main() -> ! {
    exit(black_box(digits()).is_some())
}
