//! A layer of per-layer clipping, in the caller's layout.

/// Consecutive coordinates that are clipped together.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct EachLayer {
    /// Number of coordinates.
    pub len: usize,
    /// The layer's share of the clip in units of 2^-22, rounded down. The squares of all shares sum to at most 1.
    pub share: u32,
}
