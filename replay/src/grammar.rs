//! Constants of the format, for its writers.

/// A pack's first bytes.
pub const MAGIC: [u8; 6] = *b"DAMPER";
/// The version of the format.
pub const VERSION: u16 = 1;
/// The kind of a group with a run.
pub const RUN: u8 = 16;
/// The kind of a group with a run that is charged to a Rényi filter.
pub const FILTERED: u8 = 17;
/// The kind of a group with rounds that emit updates.
pub const UPDATES: u8 = 18;
/// Longest name of a set or a group, in bytes.
pub const LONGEST_NAME: usize = 40;
/// Most steps between checkpoints. The limit bounds the work of a modified pack.
pub const MOST_STEPS: u16 = 1000;
/// Most layers of a run with per-layer clipping.
pub const MOST_LAYERS: usize = 8;
/// Highest order of a recursive filter, and most iterates of per-sample momentum.
pub const MOST: usize = 8;
