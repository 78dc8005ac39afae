//! The step with its ledger in flash, restarted until the budget is spent: its image is what that costs, and it must link without a
//! single panic.
#![no_std]
#![no_main]

use core::hint::black_box;
use damper_firmware_program::journal;
use riscv as _;
use semihosting::process::ExitCode;

#[riscv_rt::entry]
fn main() -> ! {
    exit(black_box(journal::run()))
}

fn exit(success: bool) -> ! {
    if success { ExitCode::SUCCESS } else { ExitCode::FAILURE }.exit_process()
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(false)
}
