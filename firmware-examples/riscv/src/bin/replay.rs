//! The core's base set of recorded vectors, in 128 KB of flash and 8 KB of RAM.
#![no_std]
#![no_main]

use damper_firmware_program::replay;
use damper_firmware_riscv::exit;

#[riscv_rt::entry]
fn main() -> ! {
    exit(replay::base(|line| semihosting::println!("{line}")))
}
