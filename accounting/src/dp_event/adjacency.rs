//! Neighbouring data sets.

/// The difference between two neighbouring data sets.
///
/// Noise multipliers are in units of the largest contribution of one record: the clip of a sum, or the largest absolute
/// value of a number. A replaced record moves a sum by up to twice as much.
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
