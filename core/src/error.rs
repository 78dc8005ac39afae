//! Errors by remedy: fix the configuration ([`ConfigError`]), fix the call ([`CallError`]), or stop
//! ([`OpenError`]).

use core::fmt;

/// A configuration was refused: which parameter, and what it must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ConfigError {
    /// The parameter, in words: `sampling rate`, `noise multiplier`.
    pub parameter: &'static str,
    /// The allowed range.
    pub must_be: &'static str,
}

impl ConfigError {
    pub(crate) const fn new(parameter: &'static str, must_be: &'static str) -> Self {
        Self { parameter, must_be }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.parameter)?;
        f.write_str(" must be ")?;
        f.write_str(self.must_be)
    }
}

impl core::error::Error for ConfigError {}

/// A call did not fit the configuration. Nothing was released by it, and, but for [`CallError::Broken`], nothing added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum CallError {
    /// A slice has the wrong number of elements.
    Length {
        /// The slice.
        what: &'static str,
        /// Elements it must have.
        expected: usize,
        /// Elements it has.
        got: usize,
    },
    /// The threshold of this step cannot be represented by the mechanism.
    Clip,
    /// A shard of another step was merged, or one point of a sample was given twice, left out, or out of order.
    Order(&'static str),
    /// A producer yielded one sample's gradient in another way when it was asked again, or did not come to its end. The step
    /// cannot be released.
    Broken,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { what, expected, got } => {
                write!(f, "{what} has {got} elements where {expected} are needed")
            }
            Self::Clip => f.write_str("the clip of this step is out of the mechanism's range"),
            Self::Order(what) => write!(f, "out of order: {what}"),
            Self::Broken => f.write_str("a producer yielded two gradients for one sample: the step is over"),
        }
    }
}

impl core::error::Error for CallError {}

/// Fails unless `got == expected`.
pub(crate) fn check_len(what: &'static str, expected: usize, got: usize) -> Result<(), CallError> {
    if got == expected { Ok(()) } else { Err(CallError::Length { what, expected, got }) }
}

/// A step did not open. Nothing was released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum OpenError<E> {
    /// The privacy budget is spent: stop.
    BudgetSpent,
    /// The ledger could not be persisted. The step is not released; it may or may not have been charged.
    Store(E),
    /// The state does not fit the configuration.
    Call(CallError),
}

impl<E: fmt::Display> fmt::Display for OpenError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BudgetSpent => f.write_str("the privacy budget is spent"),
            Self::Store(e) => write!(f, "the ledger could not be persisted: {e}"),
            Self::Call(e) => e.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for OpenError<E> {}
