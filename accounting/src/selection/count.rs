//! Distributions of the number of candidates.

use super::super::AccountingError;
use super::curve::Curve;
use super::fraction::Fraction;
use super::{negative_binomial, poisson};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The distribution of the number of candidates. Its text form is `geometric:G`, `logarithmic:G`,
/// `negative-binomial:SHAPE,G` or `poisson:MEAN`.
///
/// ```
/// use damper_accounting::{CandidateCount, Event};
///
/// let count: CandidateCount = "geometric:0.1".parse()?;
/// assert!((10.0..10.001).contains(&count.mean()));
/// // The best of some candidates costs more than a candidate.
/// let one = Event::gaussian(4.0)?.divergences()?;
/// assert!(count.best(&one).iter().zip(&one).all(|(best, one)| best >= one));
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum CandidateCount {
    /// Truncated negative binomial: at least one candidate.
    NegativeBinomial {
        /// η, above −1 and at most 1. 1 is the geometric distribution, 0 the logarithmic distribution.
        shape: Fraction,
        /// γ, above 0 and below 1.
        success: Fraction,
    },
    /// Poisson, which may draw no candidate.
    Poisson {
        /// The mean, at least 1.
        mean: Fraction,
    },
}

impl CandidateCount {
    fn checked(self) -> Result<Self, AccountingError> {
        let is_allowed = match self {
            Self::NegativeBinomial { shape, success } => {
                let (shape, success) = (shape.as_f64(), success.as_f64());
                shape > -1.0 && shape <= 1.0 && success > 0.0 && success < 1.0
            }
            Self::Poisson { mean } => (1.0..=1e4).contains(&mean.as_f64()),
        };
        if is_allowed { Ok(self) } else { Err(AccountingError::CandidateNumber) }
    }

    /// The expected number, rounded up.
    #[must_use]
    pub fn mean(self) -> f64 {
        match self {
            Self::NegativeBinomial { shape, success } => negative_binomial::mean(shape.as_f64(), success.as_f64()),
            Self::Poisson { mean } => mean.as_f64(),
        }
    }

    /// Returns the divergences of the best candidate, from the largest divergence of a candidate at each order. They
    /// hold in both directions.
    #[must_use]
    pub fn best(self, curve: &Curve) -> Curve {
        match self {
            Self::NegativeBinomial { shape, success } => {
                negative_binomial::best(curve, shape.as_f64(), success.as_f64())
            }
            Self::Poisson { mean } => poisson::best(curve, mean.as_f64()),
        }
    }
}

impl FromStr for CandidateCount {
    type Err = AccountingError;

    fn from_str(text: &str) -> Result<Self, AccountingError> {
        let (name, values) = text.split_once(':').ok_or(AccountingError::CandidateNumber)?;
        let of_shape = |shape: &str, success: &str| {
            Ok(Self::NegativeBinomial { shape: shape.parse()?, success: success.parse()? })
        };
        let found = match (name.trim(), values.split_once(',')) {
            ("geometric", None) => of_shape("1", values),
            ("logarithmic", None) => of_shape("0", values),
            ("negative-binomial", Some((shape, success))) => of_shape(shape, success),
            ("poisson", None) => Ok(Self::Poisson { mean: values.parse()? }),
            _ => Err(AccountingError::CandidateNumber),
        };
        found?.checked()
    }
}

impl fmt::Display for CandidateCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NegativeBinomial { shape, success } => match (shape.numerator(), shape.denominator()) {
                (1, 1) => write!(f, "geometric:{success}"),
                (0, _) => write!(f, "logarithmic:{success}"),
                _ => write!(f, "negative-binomial:{shape},{success}"),
            },
            Self::Poisson { mean } => write!(f, "poisson:{mean}"),
        }
    }
}

impl TryFrom<String> for CandidateCount {
    type Error = AccountingError;

    fn try_from(text: String) -> Result<Self, AccountingError> {
        text.parse()
    }
}

impl From<CandidateCount> for String {
    fn from(count: CandidateCount) -> Self {
        count.to_string()
    }
}
