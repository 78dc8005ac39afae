//! A layer of per-layer clipping, as the caller lends it.

/// Consecutive coordinates that are clipped together.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct EachLayer {
    /// Number of coordinates.
    pub len: usize,
    /// The layer's share of the clip in units of 2^-22, rounded down; the squares of all shares are at most 1 together.
    pub share: u32,
}
