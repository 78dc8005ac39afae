//! Entry points: a veneer for each call, and the fault handler for other ways of entry.

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

/// Defines the gate after a veneer. As a C compiler's `cmse_nonsecure_entry` does, it clears the secure state from
/// registers that a call may change. The callee restores the others.
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
    // The address comes from the caller, so the processor's table decides whose memory it is. Flash is refused too,
    // because the memory's controller would stop this state at a part of it.
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
            // SAFETY: within the checked range, aligned, and not used by other code of this state.
            unsafe { to.add(place).write_volatile(*param) };
        }
        PartitionStatus::Ok
    }) as u32
}

extern "C" fn charged(_: u32, _: u32) -> u32 {
    partition::charged()
}

// Handles a fault of the non-secure state. A fault within the secure state ends the run.
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

/// Continues after the stopped instruction. A product would reset instead. `frame`: r0 to r3, r12, lr, pc, xpsr.
extern "C" fn resume(frame: *mut u32) {
    /// Status of the secure fault, and of the other faults. Bits are cleared by writing 1.
    const SFSR: *mut u32 = 0xe000_ede4_u32 as _;
    const CFSR: *mut u32 = 0xe000_ed28_u32 as _;
    /// A branch into secure memory that does not hit a veneer.
    const INVALID_ENTRY: u32 = 1;
    // SAFETY: the processor has just written the frame, and the registers are those of the constants.
    unsafe {
        let status = SFSR.read_volatile();
        frame.write_volatile(FAULTED);
        let to = if status & INVALID_ENTRY != 0 {
            // Returns to the caller.
            frame.add(5).read_volatile() & !1
        } else {
            // Loads and stores of the caller's attacks take two bytes.
            frame.add(6).read_volatile() + 2
        };
        frame.add(6).write_volatile(to);
        SFSR.write_volatile(status);
        CFSR.write_volatile(CFSR.read_volatile());
    }
}
