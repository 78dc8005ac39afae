//! The counts of a played pack.

/// The counts of a played pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Groups.
    pub groups: u32,
    /// Those that differ from what was recorded.
    pub differ: u32,
}
