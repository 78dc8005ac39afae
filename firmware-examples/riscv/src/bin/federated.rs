//! A device of a federation: the bytes of its update.
#![no_std]
#![no_main]

use damper_firmware_program::federated;
use damper_firmware_riscv::run;

#[riscv_rt::entry]
fn main() -> ! {
    run(|say| federated::run(1, say))
}
