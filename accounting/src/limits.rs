//! Limits that errors name.

/// The largest group that has a bound.
pub const LARGEST_GROUP: u32 = 1000;
/// The largest ε that counts as a useful bound and is reported.
pub const LARGEST_USEFUL: f64 = 100.0;
/// The largest number of buffers of a BLT.
pub const MAX_BUFFERS: u32 = 8;
