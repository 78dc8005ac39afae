//! The ways in: a veneer for each call, and the handler of what tries another way.

use crate::{divide, partition};
use core::arch::global_asm;
use cortex_m::cmse::{AccessType, TestTarget};
use damper_enclave_trustzone::{FAULTED, PartitionStatus};

// The veneers, in the order of `VeneerCall`.
global_asm!(
    ".pushsection .veneers, \"ax\", %progbits",
    ".irp call, provision, step, params, charged",
    ".thumb_func",
    "veneer_\\call: sg",
    "b.w gate_\\call",
    ".endr",
    ".popsection",
);

/// The gate behind a veneer. As a C compiler's `cmse_nonsecure_entry` does, it leaves nothing of the secure state in registers that a
/// call may change: those that it must not are restored by the callee.
macro_rules! gate {
    ($call:literal, $inside:path) => {
        global_asm!(
            concat!(".pushsection .text.gate_", $call, ", \"ax\", %progbits"),
            concat!(".global gate_", $call),
            ".thumb_func",
            concat!("gate_", $call, ":"),
            "push {{r7, lr}}",
            "bl {inside}",
            "pop.w {{r7, lr}}",
            "movs r1, #0",
            "mov r2, r1",
            "mov r3, r1",
            "mov r12, r1",
            "vmov d0, r1, r1",
            "vmov d1, r1, r1",
            "vmov d2, r1, r1",
            "vmov d3, r1, r1",
            "vmov d4, r1, r1",
            "vmov d5, r1, r1",
            "vmov d6, r1, r1",
            "vmov d7, r1, r1",
            "vmsr fpscr, r1",
            "msr apsr_nzcvq, r1",
            "bxns lr",
            ".popsection",
            inside = sym $inside,
        );
    };
}

gate!("provision", provision);
gate!("step", step);
gate!("params", params);
gate!("charged", charged);

extern "C" fn provision(_: u32, _: u32) -> u32 {
    partition::provision() as u32
}

extern "C" fn step(_: u32, _: u32) -> u32 {
    partition::step() as u32
}

extern "C" fn params(to: *mut f32, len: u32) -> u32 {
    // Whose memory it is says the processor's table, for the address is the caller's word. Flash is refused too: of some of it the
    // memory's controller would stop this state.
    let bytes = (len as usize).saturating_mul(4);
    let range = TestTarget::check_range(to.cast(), bytes, AccessType::NonSecure);
    let is_theirs = to.is_aligned()
        && range.is_some_and(|range| range.ns_read_and_writable() && range.sau_region() == Some(divide::RAM));
    if !is_theirs {
        return PartitionStatus::Refused as u32;
    }
    partition::params(|params| {
        if params.len() != len as usize {
            return PartitionStatus::Refused;
        }
        for (place, param) in params.iter().enumerate() {
            // SAFETY: within the range that was checked, aligned, and nobody's in this state.
            unsafe { to.add(place).write_volatile(*param) };
        }
        PartitionStatus::Ok
    }) as u32
}

extern "C" fn charged(_: u32, _: u32) -> u32 {
    partition::charged()
}

// A fault of the non-secure state is handled here. Within the secure state it ends the run.
global_asm!(
    ".global SecureFault",
    ".global BusFault",
    ".thumb_func",
    "SecureFault:",
    ".thumb_func",
    "BusFault:",
    // Bit 6 of EXC_RETURN: the registers are on the secure stack.
    "tst lr, #0x40",
    "bne {exit}",
    "mrs r0, msp_ns",
    "b {resume}",
    exit = sym crate::exit,
    resume = sym resume,
);

/// Goes on behind the instruction that was stopped: a product would reset. `frame`: r0 to r3, r12, lr, pc, xpsr.
extern "C" fn resume(frame: *mut u32) {
    /// The secure fault's status, and that of the others; bits are cleared by writing 1.
    const SFSR: *mut u32 = 0xe000_ede4_u32 as _;
    const CFSR: *mut u32 = 0xe000_ed28_u32 as _;
    /// A branch into secure memory that is no veneer.
    const INVALID_ENTRY: u32 = 1;
    // SAFETY: the processor has just written the frame; the registers are those of the constants.
    unsafe {
        let status = SFSR.read_volatile();
        frame.write_volatile(FAULTED);
        let to = if status & INVALID_ENTRY != 0 {
            // Back to the caller.
            frame.add(5).read_volatile() & !1
        } else {
            // Loads and stores of the caller's tries take two bytes.
            frame.add(6).read_volatile() + 2
        };
        frame.add(6).write_volatile(to);
        SFSR.write_volatile(status);
        CFSR.write_volatile(CFSR.read_volatile());
    }
}
