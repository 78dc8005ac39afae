//! DP-SGD in the fifteen lines of the core's first page. Its exit status shows whether it ended with the parameters of
//! `train`.
#![no_std]
#![no_main]

use damper_firmware_cortex_m::exit;

#[cortex_m_rt::entry]
fn main() -> ! {
    exit(damper_firmware_program::dp_sgd::run())
}
