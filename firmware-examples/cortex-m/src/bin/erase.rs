//! Scans the memory after a run with a key. It succeeds if it finds no more of the key than one register.
#![no_std]
#![no_main]

use cortex_m_semihosting::hprintln;
use damper_firmware_cortex_m::exit;
use damper_firmware_measure::erase::left;

#[cortex_m_rt::entry]
fn main() -> ! {
    let left = left();
    hprintln!("{:?}", left);
    exit(left.is_some_and(|left| left.is_erased()))
}
