//! Errors by remedy: fix the configuration ([`ConfigError`]), fix the call ([`CallError`]), or stop ([`OpenError`]).

use core::fmt;

/// Invalid configuration: the parameter and its allowed range.
///
/// ```
/// use damper_core::accounting::Rate;
///
/// let error = Rate::at_most(1.5).unwrap_err();
/// assert_eq!(error.parameter, "sampling rate");
/// assert_eq!(error.to_string(), "sampling rate must be a number from 0 to 1");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ConfigError {
    /// Name of the parameter: `sampling rate`, `noise multiplier`.
    pub parameter: &'static str,
    /// Allowed range.
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

/// A call that does not fit the configuration. It released nothing and, except with [`CallError::Broken`], added
/// nothing.
///
/// ```
/// use damper_core::prelude::*;
///
/// let config = DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(1).build()?;
/// let (mut state, mut ledger) = (config.state::<4>(), Ledger::volatile(1));
/// let mut step = config.open(&mut state, &mut ledger)?;
/// assert!(matches!(step.add(&[0.1; 3]), Err(CallError::Length { expected: 4, got: 3, .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum CallError {
    /// A slice has the wrong number of elements.
    Length {
        /// Name of the slice.
        what: &'static str,
        /// Required number of elements.
        expected: usize,
        /// Actual number of elements.
        got: usize,
    },
    /// The mechanism cannot represent the threshold of this step.
    Clip,
    /// The call is not allowed now or with this configuration, such as a shard of another step or a missing evaluation
    /// point.
    Order(&'static str),
    /// A producer yielded two gradients for one sample, or did not finish. The step cannot be released.
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
///
/// ```
/// use damper_core::prelude::*;
///
/// let mut ledger = Ledger::volatile(0);
/// let error = ledger.charge().unwrap_err();
/// assert_eq!(error, OpenError::BudgetSpent);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum OpenError<E> {
    /// The privacy budget is spent. Stop training.
    BudgetSpent,
    /// The ledger could not be persisted. The step is not released, but it may have been charged.
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
