//! What a private step costs: its stack, and its parts between marks for an emulator that counts instructions.
#![no_std]
#![no_main]

use damper_firmware_measure::{kernels, step};
use riscv as _;
use semihosting::process::ExitCode;

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

fn exit(success: bool) -> ! {
    if success { ExitCode::SUCCESS } else { ExitCode::FAILURE }.exit_process()
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(false)
}
