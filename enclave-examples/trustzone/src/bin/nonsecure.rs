//! The non-secure state. It has the partition train through its veneers, and prints the output of `train` on every
//! target. Then it makes attacks, and ends with failure if an attack succeeds.
#![no_std]
#![no_main]

use core::arch::asm;
use cortex_m_semihosting::{debug, heprintln, hprintln};
use damper_core::numerics::digest::Digest;
use damper_enclave_trustzone::{FAULTED, PartitionStatus, VENEERS, VeneerCall};
use damper_firmware_program::digits::{self, TRAIN};
use damper_firmware_program::line::ReportLine;
use damper_firmware_program::softmax::{self, DIM};

fn call(call: VeneerCall, first: u32, second: u32) -> u32 {
    let address = (VENEERS + 8 * call as usize) | 1;
    // SAFETY: the veneer is at that address, and the call has C's ABI.
    let veneer = unsafe { core::mem::transmute::<usize, extern "C" fn(u32, u32) -> u32>(address) };
    veneer(first, second)
}

fn says(number: u32, status: PartitionStatus) -> bool {
    number == status as u32
}

/// Reads a word, or returns `FAULTED` if the read was stopped.
fn read(address: u32) -> u32 {
    let word;
    // SAFETY: a load of two bytes, which the secure state's handler may stop.
    unsafe { asm!("ldr r0, [r0]", inout("r0") address => word, options(nostack)) };
    word
}

/// Writes a word. Returns true if the write was stopped.
fn write_is_stopped(address: u32) -> bool {
    let word: u32;
    // SAFETY: a store of two bytes, which the secure state's handler must stop.
    unsafe { asm!("str r1, [r0]", inout("r0") address => word, in("r1") 7, options(nostack)) };
    word == FAULTED
}

/// Calls secure code at an address that is not a veneer. Returns true if the call was stopped.
fn call_is_stopped(address: u32) -> bool {
    // SAFETY: the secure state's handler must stop the call, and returns here.
    let inside = unsafe { core::mem::transmute::<u32, extern "C" fn() -> u32>(address | 1) };
    inside() == FAULTED
}

fn train() -> Option<()> {
    let mut params = [0f32; DIM];
    let to = params.as_mut_ptr() as u32;
    // Before the run every call is refused.
    says(call(VeneerCall::Step, 0, 0), PartitionStatus::Refused).then_some(())?;
    says(call(VeneerCall::Provision, 0, 0), PartitionStatus::Ok).then_some(())?;
    hprintln!(
        "{}",
        ReportLine::Start { model: "softmax", method: "dp-sgd", dim: DIM as u32, samples: TRAIN, private: false }
    );
    let mut said = 0;
    while says(said, PartitionStatus::Ok) {
        said = call(VeneerCall::Step, 0, 0);
    }
    says(said, PartitionStatus::BudgetSpent).then_some(())?;
    says(call(VeneerCall::Params, to, DIM as u32), PartitionStatus::Ok).then_some(())?;
    // The partition wrote it.
    let params = core::hint::black_box(&params);
    let right = digits::held_out().filter(|digit| softmax::is_right(params, *digit)).count() as u32;
    hprintln!("{}", ReportLine::BudgetSpent { steps: call(VeneerCall::Charged, 0, 0) });
    hprintln!("{}", ReportLine::HeldOut { right, samples: digits::held_out().count() as u32 });
    hprintln!("{}", ReportLine::Params(Digest::of(params).value()));
    Some(())
}

fn attack() -> Option<()> {
    let own = 0u32;
    // The controls: a handler that stopped every access would stop these too.
    let mine = &raw const own as u32;
    (read(mine) == 0 && !write_is_stopped(mine)).then_some(())?;
    let tries = [
        ("read the secure stack and statics", read(0x3800_bf00) == FAULTED && read(0x3800_c000) == FAULTED),
        ("read secure code", read(0x1000_0000) == FAULTED),
        ("read a veneer", read(VENEERS as u32) == FAULTED),
        ("read secure memory by its non-secure address", read(0x2800_c000) == FAULTED && read(0) == FAULTED),
        ("write secure memory", write_is_stopped(0x3800_c000)),
        ("write the table of blocks", write_is_stopped(0x5800_701c)),
        ("branch into secure code", call_is_stopped(0x1000_0400)),
        ("branch behind a veneer's sg", call_is_stopped(VENEERS as u32 + 12)),
        (
            "have parameters written to secure memory",
            says(call(VeneerCall::Params, 0x3800_c000, DIM as u32), PartitionStatus::Refused),
        ),
        ("have them written to flash", says(call(VeneerCall::Params, 0, DIM as u32), PartitionStatus::Refused)),
        (
            "have them written over a border",
            says(call(VeneerCall::Params, 0x283f_ff00, DIM as u32), PartitionStatus::Refused),
        ),
        ("a second provisioning", says(call(VeneerCall::Provision, 0, 0), PartitionStatus::Refused)),
        ("a step beyond the budget", says(call(VeneerCall::Step, 0, 0), PartitionStatus::BudgetSpent)),
    ];
    for (what, stopped) in tries {
        heprintln!("{}: {}", what, if stopped { "stopped" } else { "NOT STOPPED" });
    }
    tries.iter().all(|(_, stopped)| *stopped).then_some(())
}

#[cortex_m_rt::entry]
fn main() -> ! {
    exit(train().and_then(|()| attack()).is_some())
}

fn exit(success: bool) -> ! {
    loop {
        debug::exit(if success { debug::EXIT_SUCCESS } else { debug::EXIT_FAILURE });
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(false)
}
