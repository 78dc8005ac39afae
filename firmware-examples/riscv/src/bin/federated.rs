//! A device of a federation: the bytes of its update.
#![no_std]
#![no_main]

use damper_firmware_program::federated;
use riscv as _;
use semihosting::process::ExitCode;

#[riscv_rt::entry]
fn main() -> ! {
    exit(federated::run(1, |line| semihosting::println!("{line}")))
}

fn exit(success: bool) -> ! {
    if success { ExitCode::SUCCESS } else { ExitCode::FAILURE }.exit_process()
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(false)
}
