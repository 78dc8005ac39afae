//! Trains all of the digits CNN on a board.
#![no_std]
#![no_main]

use damper_firmware_compiled::{digits, say};
#[cfg(target_arch = "arm")]
use damper_firmware_cortex_m::run;
#[cfg(target_arch = "riscv32")]
use damper_firmware_riscv::run;

#[cfg_attr(target_arch = "arm", cortex_m_rt::entry)]
#[cfg_attr(target_arch = "riscv32", riscv_rt::entry)]
fn main() -> ! {
    run(|line| say(digits(), line))
}
