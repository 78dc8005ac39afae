//! Code shared by the programs of the Cortex-M boards: output, memory use, exit.
#![no_std]

mod copy;
mod ticks;

pub use ticks::Ticks;

use cortex_m_semihosting::debug;
use damper_firmware_measure::memory::MemoryMap;
use damper_firmware_program::line::ReportLine;
#[cfg(feature = "defmt")]
use defmt_semihosting as _;

// Addresses from the linker scripts (`build.rs`, cortex-m-rt's). Only the addresses are meaningful.
unsafe extern "C" {
    static __vector_table: u8;
    static __sidata: u8;
    static __sdata: u8;
    static __edata: u8;
    static __euninit: u8;
    static _stack_end: u8;
    static _stack_start: u8;
}

/// Logs a line with defmt.
#[cfg(feature = "defmt")]
pub fn say(line: ReportLine<'_>) {
    defmt::println!("{}", line);
}

/// Prints a line as plain text.
#[cfg(not(feature = "defmt"))]
pub fn say(line: ReportLine<'_>) {
    cortex_m_semihosting::hprintln!("{}", line);
}

/// Checks the processor's arithmetic, runs a program, prints its use of the board, and ends with its success.
pub fn run(program: impl FnOnce(fn(ReportLine<'_>)) -> bool) -> ! {
    if damper_core::self_test().is_err() {
        exit(false);
    }
    let at = |symbol: *const u8| symbol as usize;
    let variables = at(&raw const __sdata)..at(&raw const __edata);
    let memory = MemoryMap {
        flash: at(&raw const __vector_table)..at(&raw const __sidata) + variables.len(),
        statics: variables.start..at(&raw const __euninit),
        stack: at(&raw const _stack_end)..at(&raw const _stack_start),
    };
    let mut success = false;
    say(memory.taken_by(|| success = program(say)));
    exit(success)
}

/// Ends the run with a status.
pub fn exit(success: bool) -> ! {
    loop {
        debug::exit(if success { debug::EXIT_SUCCESS } else { debug::EXIT_FAILURE });
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(false)
}
