//! Code shared by the programs of the RISC-V board: output, memory use, exit.
#![no_std]

use damper_firmware_measure::memory::MemoryMap;
use damper_firmware_program::line::ReportLine;
use riscv as _;
use semihosting::process::ExitCode;

// Addresses from the linker scripts (`build.rs`, riscv-rt's). Only the addresses are meaningful.
unsafe extern "C" {
    static _stext: u8;
    static __sidata: u8;
    static __sdata: u8;
    static __edata: u8;
    static __euninit: u8;
    static __estack: u8;
    static __sstack: u8;
}

/// Prints a line.
pub fn say(line: ReportLine<'_>) {
    semihosting::println!("{line}");
}

/// Checks the processor's arithmetic, runs a program, prints its use of the board, and ends with its success.
pub fn run(program: impl FnOnce(fn(ReportLine<'_>)) -> bool) -> ! {
    if damper_core::self_test().is_err() {
        exit(false);
    }
    let at = |symbol: *const u8| symbol as usize;
    let variables = at(&raw const __sdata)..at(&raw const __edata);
    let memory = MemoryMap {
        flash: at(&raw const _stext)..at(&raw const __sidata) + variables.len(),
        statics: variables.start..at(&raw const __euninit),
        stack: at(&raw const __estack)..at(&raw const __sstack),
    };
    let mut success = false;
    say(memory.taken_by(|| success = program(say)));
    exit(success)
}

/// Ends the run with a status.
pub fn exit(success: bool) -> ! {
    if success { ExitCode::SUCCESS } else { ExitCode::FAILURE }.exit_process()
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(false)
}
