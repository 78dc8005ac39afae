//! The last layer of a pretrained network adapts on the device, under a budget in flash.
#![no_std]
#![no_main]

use damper_firmware_program::personalise;
use riscv as _;
use semihosting::process::ExitCode;

#[riscv_rt::entry]
fn main() -> ! {
    exit(personalise::run(|line| semihosting::println!("{line}")))
}

fn exit(success: bool) -> ! {
    if success { ExitCode::SUCCESS } else { ExitCode::FAILURE }.exit_process()
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(false)
}
