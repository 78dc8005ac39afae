//! Division of the memory: the implementation's attribution (IDAU: address bit 28 is secure), the SAU, and the
//! memories' controllers (MPC). This file is specific to the chip.

use cortex_m::peripheral::sau::{SauRegion, SauRegionAttribute};
use damper_enclave_trustzone::{NON_SECURE, VENEERS};

/// Memory that the SAU gives to non-secure code: flash, of which the controller keeps the first half, and RAM.
const GIVEN: [(u32, u32); 2] = [(0, 0x0040_0000), (0x2820_0000, 0x2840_0000)];
/// The SAU's number of the RAM region.
pub const RAM: u8 = 1;
/// Controllers of the three memories, each with the half (of two) from which on its blocks are non-secure.
const CONTROLLERS: [(usize, u32); 3] = [(0x5800_7000, 1), (0x5800_8000, 2), (0x5800_9000, 0)];
/// Register that makes the secure half of the code region callable as the SAU defines.
const NSCCFG: *mut u32 = 0x5008_0014_u32 as _;
/// Coprocessors that non-secure code may use.
const NSACR: *mut u32 = 0xe000_ed8c_u32 as _;
/// Address of the non-secure vector table.
const VTOR_NS: *mut u32 = 0xe002_ed08_u32 as _;
/// Register that enables separate fault handlers.
const SHCSR: *mut u32 = 0xe000_ed24_u32 as _;

/// Gives the non-secure state its memory, its coprocessor and the veneers, and keeps the rest secure.
pub fn divide() {
    let Some(mut core) = cortex_m::Peripherals::take() else { crate::exit() };
    let veneers = (VENEERS as u32, VENEERS as u32 + 32, SauRegionAttribute::NonSecureCallable);
    let given = GIVEN.map(|(from, to)| (from, to, SauRegionAttribute::NonSecure));
    for (number, (from, to, attribute)) in given.into_iter().chain([veneers]).enumerate() {
        let region = SauRegion { base_address: from, limit_address: to - 1, attribute };
        if core.SAU.set_region(number as u8, region).is_err() {
            crate::exit();
        }
    }
    core.SAU.enable();
    for (controller, from) in CONTROLLERS {
        let register = |offset: usize| (controller + offset) as *mut u32;
        // SAFETY: registers of the memory controllers: control (errors for refused accesses), and the table of blocks.
        unsafe {
            register(0x00).write_volatile(1 << 4);
            let words = register(0x10).read_volatile() + 1;
            for word in words * from / 2..words {
                register(0x18).write_volatile(word);
                register(0x1c).write_volatile(u32::MAX);
            }
        }
    }
    // SAFETY: the registers that the constants name. Floating point is on for both states, so its registers are cleared
    // on return.
    unsafe {
        NSCCFG.write_volatile(1);
        NSACR.write_volatile(3 << 10);
        SHCSR.write_volatile(SHCSR.read_volatile() | 1 << 19 | 1 << 17);
    }
    cortex_m::asm::dsb();
    cortex_m::asm::isb();
}

/// Jumps to the non-secure image's entry, in the non-secure state.
pub fn start_non_secure() -> ! {
    let vectors = NON_SECURE as *const u32;
    // SAFETY: the image is at that address. Its first words are its stack and its entry.
    unsafe {
        VTOR_NS.write_volatile(NON_SECURE);
        cortex_m::register::msp::write_ns(vectors.read_volatile());
        // An address without its lowest bit changes the state.
        cortex_m::asm::bx_ns(vectors.add(1).read_volatile() & !1);
    }
    crate::exit()
}
