//! What a private step costs: its stack, and its parts between marks for an emulator that counts instructions.
#![no_std]
#![no_main]

use cortex_m_semihosting::{debug, hprintln};
use damper_firmware_measure::{kernels, step};

#[cortex_m_rt::entry]
fn main() -> ! {
    let stacks = [("step", step::alone()), ("journal", step::with_journal())];
    for (what, stack) in stacks {
        if let Some(bytes) = stack {
            hprintln!("stack of a {}: {}", what, bytes);
        }
    }
    exit(stacks.iter().all(|(_, stack)| stack.is_some()) && kernels::run().is_some())
}

fn exit(success: bool) -> ! {
    loop {
        debug::exit(if success { debug::EXIT_SUCCESS } else { debug::EXIT_FAILURE });
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(false)
}
