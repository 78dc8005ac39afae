//! Trains the last two layers of the MNIST CNN on a board, over frozen weights of 8 bits.
#![no_std]
#![no_main]

use damper_firmware_compiled::{images_int8, say};
#[cfg(target_arch = "arm")]
use damper_firmware_cortex_m::run;
#[cfg(target_arch = "riscv32")]
use damper_firmware_riscv::run;

#[cfg_attr(target_arch = "arm", cortex_m_rt::entry)]
#[cfg_attr(target_arch = "riscv32", riscv_rt::entry)]
fn main() -> ! {
    run(|line| say(images_int8(), line))
}
