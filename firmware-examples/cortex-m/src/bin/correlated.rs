//! Noise of the sum over all steps: independent, lambda and BLT at the same privacy cost.
#![no_std]
#![no_main]

use damper_firmware_cortex_m::run;
use damper_firmware_program::correlated;

#[cortex_m_rt::entry]
fn main() -> ! {
    run(|say| correlated::run(say))
}
