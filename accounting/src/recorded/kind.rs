//! Kinds of runs.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A private run, a simulation, or a run without privacy.
///
/// ```
/// use damper_accounting::RunKind;
///
/// assert_eq!(RunKind::NotPrivate.to_string(), "not private");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    /// The operating system generated the key.
    Private,
    /// The seed is known, so anyone can compute the noise, and nothing is private. ε is the value of an equal private
    /// run.
    Simulation,
    /// Trained without clipping and noise, by request. No event is recorded and no ε holds.
    #[serde(rename = "not private")]
    NotPrivate,
}

impl fmt::Display for RunKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Private => "private",
            Self::Simulation => "simulation",
            Self::NotPrivate => "not private",
        })
    }
}
