//! The interface between the states, for both sides.
//!
//! ```text
//! non-secure: caller ─► veneers (sg) ─► secure: partition ─► damper-core, damper-journal
//! ```
#![no_std]

/// Address of the veneers, 8 bytes each. The table of addresses must not change between releases of the secure image.
pub const VENEERS: usize = 0x1003_ffe0;
/// Address of the vector table of the non-secure image.
pub const NON_SECURE: u32 = 0x0020_0000;
/// Value that a non-secure instruction gets if the secure state's fault handler has stopped it.
pub const FAULTED: u32 = 0xdead_fa17;

/// Result of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum PartitionStatus {
    /// Done.
    Ok = 0,
    /// The budget is spent, and nothing was released.
    BudgetSpent = 1,
    /// Any other error: a call out of order or within another call, or memory that is not the caller's.
    Refused = 2,
}

/// The calls of the partition, in the order of the veneers. Every call takes two words and returns one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum VeneerCall {
    /// Starts the run, once. Returns a [`PartitionStatus`].
    Provision,
    /// Takes one private step. Returns a [`PartitionStatus`].
    Step,
    /// Copies the released parameters to (address, number of f32). Returns a [`PartitionStatus`].
    Params,
    /// Returns the number of charged steps.
    Charged,
}
