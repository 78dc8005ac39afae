//! Neighbouring data sets.

/// The difference between two neighbouring data sets.
///
/// Noise multipliers are in units of the largest contribution of one record: the clip of a sum, or the largest absolute
/// value of a number. A replaced record moves a sum by up to twice as much.
///
/// ```
/// use damper_accounting::{Adjacency, DpEvent};
///
/// let run = DpEvent::gaussian(2.0);
/// // A replaced record moves the sum by up to twice the clip.
/// assert!(run.epsilon(Adjacency::ReplaceOne, 1e-5)? > run.epsilon(Adjacency::ZeroOut, 1e-5)?);
/// assert_eq!(Adjacency::ZeroOut.name(), "zero-out");
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Adjacency {
    /// One record is added or removed.
    #[default]
    AddOrRemove,
    /// One record replaces another. The number of records is public.
    ReplaceOne,
    /// One record is replaced by a null record, which contributes nothing. The number of records is public.
    ZeroOut,
}

impl Adjacency {
    /// The name in errors and in Python.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AddOrRemove => "add-or-remove",
            Self::ReplaceOne => "replace-one",
            Self::ZeroOut => "zero-out",
        }
    }
}
