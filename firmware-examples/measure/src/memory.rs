//! A whole program's share of a board's memories.

use crate::stack;
use core::ops::Range;
use damper_firmware_program::line::ReportLine;

/// Addresses, by a board's linker script.
#[derive(Clone, Debug)]
pub struct MemoryMap {
    /// What is in flash: vector table, code, constants, initial values of variables.
    pub flash: Range<usize>,
    /// Static variables.
    pub statics: Range<usize>,
    /// All that the stack may have; it grows down.
    pub stack: Range<usize>,
}

impl MemoryMap {
    /// Runs a program: the line that says what it took. The stack is counted from where it begins, the caller's frames included.
    pub fn taken_by(&self, program: impl FnOnce()) -> ReportLine<'static> {
        let lowest = stack::lowest(self.stack.start, program);
        ReportLine::Taken {
            stack: lowest.map_or(0, |lowest| self.stack.end.saturating_sub(lowest)) as u32,
            flash: self.flash.len() as u32,
            statics: self.statics.len() as u32,
        }
    }
}
