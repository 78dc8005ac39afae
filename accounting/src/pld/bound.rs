//! The side on which figures err.

/// The direction in which figures err.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bound {
    /// δ is at most this.
    Upper,
    /// δ is at least this.
    Lower,
}
