//! Public constants as text.

use crate::DataError;

/// Parses a constant, such as a mean, as float64.
///
/// # Errors
///
/// The text is not a number, or is an integer that float64 cannot represent. Rounding it would also round the values
/// that it scales.
pub fn constant(text: &str) -> Result<f64, DataError> {
    let text = text.trim();
    let value: f64 = text.parse().map_err(|_| DataError::File(format!("'{text}': give a number")))?;
    // All digits of the float64 value.
    let exact = format!("{:.0}", value.abs());
    match integer(text) {
        Some(digits) if exact != digits => {
            Err(DataError::File(format!("{text} is no 64-bit float; the nearest is {value:.0}: give one that is")))
        }
        _ => Ok(value),
    }
}

/// Returns the digits of a text that is an integer, without sign and leading zeros.
fn integer(text: &str) -> Option<&str> {
    let digits = text.trim_start_matches(['+', '-']);
    let (digits, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit()) && fraction.bytes().all(|byte| byte == b'0');
    let significant = digits.trim_start_matches('0');
    is_integer.then_some(if significant.is_empty() { "0" } else { significant })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact_or_refused() {
        for (text, value) in [
            ("0", 0.0),
            ("-0.0", 0.0),
            (" 007 ", 7.0),
            ("+5.", 5.0),
            (".5", 0.5),
            ("0.1", 0.1),
            ("1e300", 1e300),
            ("9007199254740993e0", 9_007_199_254_740_992.0),
            ("-9007199254740992", -9_007_199_254_740_992.0),
            ("1700000000000000000", 1.7e18),
            ("18446744073709551616", 18_446_744_073_709_551_616.0),
        ] {
            assert_eq!(constant(text).unwrap(), value, "{text}");
        }
        for text in ["9007199254740993", "-9007199254740993", "+9007199254740993.00", "18446744073709551615"] {
            let message = constant(text).unwrap_err().to_string();
            assert!(message.contains(text) && message.contains("is no 64-bit float"), "{message}");
        }
        assert!(constant("9007199254740993").unwrap_err().to_string().contains("the nearest is 9007199254740992"));
        assert!(constant("x").is_err() && constant("").is_err());
    }
}
