//! The step with its ledger in flash, restarted until the budget is spent. The image shows its cost in flash, and must
//! link without a single panic.
#![no_std]
#![no_main]

use core::hint::black_box;
use damper_firmware_cortex_m::exit;
use damper_firmware_program::journal;

#[cortex_m_rt::entry]
fn main() -> ! {
    exit(damper_core::self_test().is_ok() && black_box(journal::run()))
}
