//! The interface between the states: what both sides know.
//!
//! ```text
//! non-secure: caller ─► veneers (sg) ─► secure: partition ─► damper-core, damper-journal
//! ```
#![no_std]

/// Where the veneers are, 8 bytes each: a table of addresses that a release of the secure image keeps.
pub const VENEERS: usize = 0x1003_ffe0;
/// Where the vector table of the non-secure image is.
pub const NON_SECURE: u32 = 0x0020_0000;
/// What a non-secure instruction gets that the secure state's handler of faults has stopped.
pub const FAULTED: u32 = 0xdead_fa17;

/// What a call says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum PartitionStatus {
    /// Done.
    Ok = 0,
    /// The budget is spent: nothing was released.
    BudgetSpent = 1,
    /// Anything else: a call out of order or within another, or memory that is not the caller's.
    Refused = 2,
}

/// The calls of the partition, in the order of the veneers. Every call takes two words and returns one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum VeneerCall {
    /// Begins the run, once: a [`PartitionStatus`].
    Provision,
    /// One private step: a [`PartitionStatus`].
    Step,
    /// Copies the released parameters to (address, number of f32): a [`PartitionStatus`].
    Params,
    /// Steps charged.
    Charged,
}
