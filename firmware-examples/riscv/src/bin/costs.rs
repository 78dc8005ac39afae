//! Cost of a private step: its stack, and its parts between marks for an emulator that counts instructions.
#![no_std]
#![no_main]

use damper_firmware_measure::{kernels, step};
use damper_firmware_riscv::exit;

#[riscv_rt::entry]
fn main() -> ! {
    let stacks = [("step", step::alone()), ("journal", step::with_journal())];
    for (what, stack) in stacks {
        if let Some(bytes) = stack {
            semihosting::println!("stack of a {what}: {bytes}");
        }
    }
    exit(stacks.iter().all(|(_, stack)| stack.is_some()) && kernels::run().is_some())
}
