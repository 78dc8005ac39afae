//! Cost of a private step: its stack, and its parts between marks for an emulator that counts instructions.
#![no_std]
#![no_main]

use cortex_m_semihosting::hprintln;
use damper_firmware_cortex_m::exit;
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
