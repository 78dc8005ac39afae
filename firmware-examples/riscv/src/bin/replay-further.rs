//! The core's recorded vectors outside the base set.
#![no_std]
#![no_main]

use damper_firmware_program::replay;
use damper_firmware_riscv::exit;

#[riscv_rt::entry]
fn main() -> ! {
    exit(replay::further(|line| semihosting::println!("{line}")))
}
