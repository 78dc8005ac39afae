//! Noise of the sum over all steps: independent, lambda and BLT of the same price.
#![no_std]
#![no_main]

use damper_firmware_cortex_m::run;
use damper_firmware_program::correlated;

#[cortex_m_rt::entry]
fn main() -> ! {
    run(|say| correlated::run(say))
}
