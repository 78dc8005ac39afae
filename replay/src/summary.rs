//! The counts of a played pack.

/// The counts of a played pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Groups.
    pub groups: u32,
    /// Number of groups that differ from the recording.
    pub differ: u32,
}
