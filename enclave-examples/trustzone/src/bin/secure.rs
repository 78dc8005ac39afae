//! The secure state. It divides the memory, starts the non-secure image, and trains when it is called.
//!
//! Keys, samples, the open step and the ledger are here. Only released parameters and the number of charged steps leave
//! it.
#![no_std]
#![no_main]

#[path = "secure/divide.rs"]
mod divide;
#[path = "secure/gates.rs"]
mod gates;
#[path = "secure/partition.rs"]
mod partition;

use cortex_m_semihosting::debug;

#[cortex_m_rt::entry]
fn main() -> ! {
    if damper_core::self_test().is_err() {
        exit();
    }
    divide::divide();
    divide::start_non_secure()
}

/// Ends the run as failed, because no secure code may continue.
fn exit() -> ! {
    loop {
        debug::exit(debug::EXIT_FAILURE);
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit()
}
