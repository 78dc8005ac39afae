//! Errors of filters.

use super::ORDER;
use damper_core::error::ConfigError;
use thiserror::Error;

/// The error of a filter, with the wrong setting and the fix.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum FilterError {
    /// No published filter has this name.
    #[error("filter '{0}': unknown; damper filter `list` prints the names")]
    Unknown(String),
    /// A coefficient is not a finite number.
    #[error("'{0}': not a finite f32; give coefficients separated by commas, such as -0.9,0.2 or -9/11")]
    Coefficient(String),
    /// The order of a design is out of range.
    #[error("`order` {0}: must be from 1 to {ORDER}")]
    DesignOrder(usize),
    /// The cut-off of a design is out of range.
    #[error(
        "`cutoff` {0}: must be above 0 and below 1; it is a fraction of the Nyquist frequency, half a cycle a step \
         (0.1 cuts periods below 20 steps)"
    )]
    Cutoff(f64),
    /// The ripple of a Chebyshev design is out of range.
    #[error("`ripple` {0}: must be from 0.001 to 20, in dB; 0.5 is usual")]
    Ripple(f64),
    /// The filter cannot run.
    #[error("{filter}: {reason}; poles: {poles}; {remedy}")]
    Refused {
        /// The filter, as flags.
        filter: String,
        /// The core's reason.
        reason: ConfigError,
        /// The poles with their moduli.
        poles: String,
        /// The fix.
        remedy: &'static str,
    },
    /// The filter has more delays than the host supports.
    #[error("`a` and `b`: a filter of order {0}; at most {ORDER} delays run, give fewer coefficients")]
    Order(usize),
}

impl FilterError {
    /// Returns true if a setting is wrong.
    #[must_use]
    pub fn is_of_setting(&self) -> bool {
        // A rejected filter was given by its coefficients.
        let refused = matches!(self, Self::Refused { .. });
        refused || matches!(self, Self::DesignOrder(_) | Self::Cutoff(_) | Self::Ripple(_) | Self::Order(_))
    }
}
