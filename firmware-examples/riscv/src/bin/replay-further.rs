//! The core's recorded vectors of what is beyond the base set.
#![no_std]
#![no_main]

use damper_firmware_program::replay;
use riscv as _;
use semihosting::process::ExitCode;

#[riscv_rt::entry]
fn main() -> ! {
    exit(replay::further(|line| semihosting::println!("{line}")))
}

fn exit(success: bool) -> ! {
    if success { ExitCode::SUCCESS } else { ExitCode::FAILURE }.exit_process()
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(false)
}
