//! Limits that errors name.

/// The largest group that has a bound.
pub const LARGEST_GROUP: u32 = 1000;
/// A larger ε is not a useful bound and is not reported.
pub const LARGEST_USEFUL: f64 = 100.0;
/// The most buffers of a BLT.
pub const MAX_BUFFERS: u32 = 8;
