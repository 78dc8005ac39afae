//! The kernels of `damper-nn` against their recorded vectors.
#![no_std]
#![no_main]

use damper_firmware_cortex_m::exit;

#[cortex_m_rt::entry]
fn main() -> ! {
    exit(damper_firmware_vectors::run())
}
