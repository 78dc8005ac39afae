//! The core's recorded vectors of long gradients.
#![no_std]
#![no_main]

use damper_firmware_program::replay;
use damper_firmware_riscv::exit;

#[riscv_rt::entry]
fn main() -> ! {
    exit(replay::wide(|line| semihosting::println!("{line}")))
}
