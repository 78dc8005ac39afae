//! The numbers of the format that its writers need.

/// A pack's first bytes.
pub const MAGIC: [u8; 6] = *b"DAMPER";
/// The version of the format.
pub const VERSION: u16 = 1;
/// The kind of a group that is a run.
pub const RUN: u8 = 16;
/// Of a run whose steps a Rényi filter is charged for.
pub const FILTERED: u8 = 17;
/// Of rounds whose updates are emitted.
pub const UPDATES: u8 = 18;
/// Longest name of a set or a group, in bytes.
pub const LONGEST_NAME: usize = 40;
/// Most steps between checkpoints, so that a pack that was changed ends.
pub const MOST_STEPS: u16 = 1000;
/// Most layers that a run clips each on its own.
pub const MOST_LAYERS: usize = 8;
/// Highest order of a recursive filter, and most iterates of per-sample momentum.
pub const MOST: usize = 8;
