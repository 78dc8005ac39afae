//! A whole program's share of a board's memories.

use crate::stack;
use core::ops::Range;
use damper_firmware_program::line::ReportLine;

/// Addresses, by a board's linker script.
#[derive(Clone, Debug)]
pub struct MemoryMap {
    /// Content of flash: vector table, code, constants, initial values of variables.
    pub flash: Range<usize>,
    /// Static variables.
    pub statics: Range<usize>,
    /// Full range of the stack, which grows down.
    pub stack: Range<usize>,
}

impl MemoryMap {
    /// Runs a program and returns the line with its memory use. The stack is counted from its start, the caller's
    /// frames included.
    pub fn taken_by(&self, program: impl FnOnce()) -> ReportLine<'static> {
        let lowest = stack::lowest(self.stack.start, program);
        ReportLine::Taken {
            stack: lowest.map_or(0, |lowest| self.stack.end.saturating_sub(lowest)) as u32,
            flash: self.flash.len() as u32,
            statics: self.statics.len() as u32,
        }
    }
}
