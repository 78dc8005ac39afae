//! A device of a federation: the bytes of its update.
#![no_std]
#![no_main]

use damper_firmware_cortex_m::run;
use damper_firmware_program::federated;

#[cortex_m_rt::entry]
fn main() -> ! {
    run(|say| federated::run(1, say))
}
