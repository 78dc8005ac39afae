//! The direction of errors.

/// The direction of the error of a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bound {
    /// An upper bound: δ is at most the value.
    Upper,
    /// A lower bound: δ is at least the value.
    Lower,
}
