//! Every method of the papers in fixed memory, and nothing else: it says by its exit whether each ended with the digest that the
//! host ends with, and it must link without a single panic.
#![no_std]
#![no_main]

use core::hint::black_box;
use damper_firmware_cortex_m::exit;
use damper_firmware_program::methods::METHODS;

#[cortex_m_rt::entry]
fn main() -> ! {
    exit(black_box(&METHODS).iter().all(|method| method.run() == Some(method.digest)))
}
