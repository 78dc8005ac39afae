//! A decimal number as a fraction of integers, for exact Bernoulli trials.

use super::super::AccountingError;
use std::fmt;
use std::str::FromStr;

/// Largest number of decimals.
const DECIMALS: usize = 6;
/// Numbers must be below this.
const LIMIT: i64 = 1_000_000;

/// A number with at most six decimals.
///
/// ```
/// use damper_accounting::selection::Fraction;
///
/// let tenth: Fraction = "0.10".parse()?;
/// assert_eq!((tenth.numerator(), tenth.denominator(), tenth.as_f64()), (1, 10, 0.1));
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fraction {
    numerator: i64,
    denominator: i64,
}

impl Fraction {
    /// The fraction in lowest terms.
    fn new(numerator: i64, denominator: i64) -> Self {
        let divisor = gcd(numerator.unsigned_abs(), denominator.unsigned_abs()).max(1) as i64;
        Self { numerator: numerator / divisor, denominator: denominator / divisor }
    }

    /// The numerator.
    #[must_use]
    pub fn numerator(self) -> i64 {
        self.numerator
    }

    /// The denominator, above 0.
    #[must_use]
    pub fn denominator(self) -> i64 {
        self.denominator
    }

    /// The nearest float.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl FromStr for Fraction {
    type Err = AccountingError;

    fn from_str(text: &str) -> Result<Self, AccountingError> {
        let text = text.trim();
        let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
        let (before, after) = digits.split_once('.').unwrap_or((digits, ""));
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if before.is_empty() || !is_number(before) || !is_number(after) || after.len() > DECIMALS {
            return Err(AccountingError::CandidateNumber);
        }
        let denominator = 10i64.pow(after.len() as u32);
        let whole: i64 = before.parse().map_err(|_| AccountingError::CandidateNumber)?;
        if whole >= LIMIT {
            return Err(AccountingError::CandidateNumber);
        }
        let decimals: i64 =
            if after.is_empty() { 0 } else { after.parse().map_err(|_| AccountingError::CandidateNumber)? };
        Ok(Self::new(sign * (whole * denominator + decimals), denominator))
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The nearest float prints as it was read, for six decimals and up to six digits before the point.
        write!(f, "{}", self.as_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_exactly_and_printed_alike() {
        for (text, numerator, denominator) in [
            ("0.1", 1, 10),
            ("-0.5", -1, 2),
            ("1", 1, 1),
            ("0", 0, 1),
            ("12.000001", 12_000_001, 1_000_000),
            ("0.25", 1, 4),
        ] {
            let found: Fraction = text.parse().unwrap();
            assert_eq!((found.numerator(), found.denominator()), (numerator, denominator), "{text}");
            assert_eq!(found.to_string(), text);
        }
        for bad in ["", ".5", "1e3", "0.1234567", "nan", "--1", "1000000", "1/2", "99999999999999999999"] {
            assert_eq!(bad.parse::<Fraction>(), Err(AccountingError::CandidateNumber), "{bad}");
        }
    }
}
