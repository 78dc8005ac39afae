//! What a private step costs: its stack, and its parts between marks for an emulator that counts instructions.
#![no_std]
#![no_main]

use damper_firmware_measure::{kernels, step};
use riscv as _;
use semihosting::process::ExitCode;

#[riscv_rt::entry]
fn main() -> ! {
    let stack = step::alone();
    if let Some(bytes) = stack {
        semihosting::println!("stack of a step: {bytes}");
    }
    exit(stack.is_some() && kernels::run().is_some())
}

fn exit(success: bool) -> ! {
    if success { ExitCode::SUCCESS } else { ExitCode::FAILURE }.exit_process()
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(false)
}
