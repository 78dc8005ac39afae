//! A number of a file, without rounding. Integers stay integers, and a number is rounded once, to the type of the
//! model's input.
//!
//! Constants are applied in float64. The difference of an integer and an integer constant is exact, for any size.

/// A number in the precision of its file.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Number {
    Int(i64),
    /// Above `i64::MAX`.
    Large(u64),
    Float(f64),
    /// A number from a float32 file.
    Single(f32),
}

/// From this value on, float64 cannot represent all integers.
const EXACT_F64: f64 = 9_007_199_254_740_992.0;
/// From this value on, float32 cannot represent all integers.
const EXACT_F32: f32 = 16_777_216.0;

const FRACTION: &str = "takes whole numbers: correct the row";
const FEW_BITS: &str = "takes integers, and a float does not hold each integer of this size: write it as int64";
const RANGE: &str = "takes integers from -2^63 to below 2^63: correct the row";

/// Returns true if the difference of the constant to an integer, or part of it, is computed in integers.
fn is_whole(constant: f64) -> bool {
    constant.fract() == 0.0 && constant.abs() < 1e30
}

impl Number {
    pub const NAN: Self = Self::Float(f64::NAN);

    /// Parses an integer of 64 bits, signed or unsigned, otherwise the nearest float64.
    pub fn parse(text: &str) -> Option<Self> {
        match text.parse() {
            // A zero keeps its sign.
            Ok(0) if text.starts_with('-') => Some(Self::Float(-0.0)),
            Ok(integer) => Some(Self::Int(integer)),
            Err(_) => text.parse().map(Self::Large).or_else(|_| text.parse().map(Self::Float)).ok(),
        }
    }

    pub fn is_finite(self) -> bool {
        match self {
            Self::Int(_) | Self::Large(_) => true,
            Self::Float(value) => value.is_finite(),
            Self::Single(value) => value.is_finite(),
        }
    }

    /// Returns the nearest float64.
    pub fn f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Large(value) => value as f64,
            Self::Float(value) => value,
            Self::Single(value) => f64::from(value),
        }
    }

    /// Returns the nearest float32.
    pub fn f32(self) -> f32 {
        match self {
            Self::Int(value) => value as f32,
            Self::Large(value) => value as f32,
            Self::Float(value) => value as f32,
            Self::Single(value) => value,
        }
    }

    /// Computes `(x − mean) / std`.
    pub fn scaled(self, mean: f64, std: f64) -> f64 {
        let difference = match self.whole() {
            Some(value) if is_whole(mean) => (value - mean as i128) as f64,
            _ => self.f64() - mean,
        };
        difference / std
    }

    /// Computes the integer `(x − mean) / std` without rounding, for an int64 input. Returns the reason if it is not an
    /// integer.
    pub fn scaled_integer(self, mean: f64, std: f64) -> Result<i64, &'static str> {
        match self.whole() {
            Some(value) if is_whole(mean) && is_whole(std) => {
                let (difference, std) = (value - mean as i128, std as i128);
                if difference % std == 0 { i64::try_from(difference / std).map_err(|_| RANGE) } else { Err(FRACTION) }
            }
            Some(value) if value.unsigned_abs() >= EXACT_F64 as u128 => Err(FEW_BITS),
            Some(_) => Self::Float(self.scaled(mean, std)).integer(),
            // Digits that float64 cannot represent are lost before the constants are applied.
            None if self.f64().fract() == 0.0 => {
                self.integer().and_then(|value| Self::Int(value).scaled_integer(mean, std))
            }
            None => Self::Float(self.scaled(mean, std)).integer(),
        }
    }

    fn whole(self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(value.into()),
            Self::Large(value) => Some(value.into()),
            Self::Float(_) | Self::Single(_) => None,
        }
    }

    /// Returns the integer value for an int64 input, or the reason why it is not an integer.
    pub fn integer(self) -> Result<i64, &'static str> {
        match self {
            Self::Int(value) => Ok(value),
            Self::Large(_) => Err(RANGE),
            Self::Float(value) if value.fract() != 0.0 => Err(FRACTION),
            Self::Float(value) if value.abs() >= EXACT_F64 => Err(FEW_BITS),
            Self::Float(value) => Ok(value as i64),
            Self::Single(value) if value.fract() != 0.0 => Err(FRACTION),
            Self::Single(value) if value.abs() >= EXACT_F32 => Err(FEW_BITS),
            Self::Single(value) => Ok(value as i64),
        }
    }
}

/// Writes the number as in the file.
impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Large(value) => write!(f, "{value}"),
            Self::Float(value) => shortest(*value, f),
            Self::Single(value) => shortest(f64::from(*value), f),
        }
    }
}

/// Writes the value without hundreds of zeros.
fn shortest(value: f64, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    if value.is_finite() && value.abs() >= 1e16 { write!(f, "{value:e}") } else { write!(f, "{value}") }
}

impl From<u8> for Number {
    fn from(value: u8) -> Self {
        Self::Int(value.into())
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Self::Large(value), Self::Int)
    }
}

impl From<f32> for Number {
    fn from(value: f32) -> Self {
        Self::Single(value)
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

/// Computes `(x − mean) / std` as float32. It is not finite if `value` is not finite or the result is too large.
pub(crate) fn rounded(value: Number, constants: Option<(f64, f64)>) -> f32 {
    constants.map_or_else(|| value.f32(), |(mean, std)| value.scaled(mean, std) as f32)
}

/// Returns the fault of a number that is not finite as float32.
pub(crate) fn not_finite(value: Number, what: &str, remedy: &str) -> String {
    if value.is_finite() {
        format!("{what} is {value}, too large for float32: scale it, or correct the row{remedy}")
    } else {
        format!("{what} is {value}: correct the row{remedy}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the float32 nearest to a decimal integer, by comparing integer distances. Ties go to an even last bit.
    fn nearest(value: i128) -> f32 {
        let at = value as f64 as f32;
        let candidates = [at.next_down(), at, at.next_up()];
        let distance = |x: &f32| (*x as i128 - value).abs();
        let least = candidates.iter().map(distance).min().unwrap();
        let mut found = candidates.into_iter().filter(|x| distance(x) == least);
        found.clone().find(|x| x.to_bits() % 2 == 0).or_else(|| found.next()).unwrap()
    }

    #[test]
    fn ids_beyond_floats_stay_apart() {
        for (text, integer) in [
            ("16777217", 16_777_217),
            ("9007199254740993", 9_007_199_254_740_993),
            ("-9223372036854775808", i64::MIN),
            ("+5", 5),
            ("1e3", 1000),
            ("-0.0", 0),
        ] {
            assert_eq!(Number::parse(text).unwrap().integer(), Ok(integer), "{text}");
        }
        for text in ["18446744073709551615", "9007199254740993.0", "1e300", "0.5", "nan", "inf"] {
            assert!(Number::parse(text).unwrap().integer().is_err(), "{text}");
        }
        assert!(Number::from(16_777_216.0f32).integer().is_err() && Number::from(16_777_215.0f32).integer().is_ok());
        assert!(Number::parse("cat").is_none() && Number::parse("").is_none());
    }

    #[test]
    fn scaled_timestamps_stay_apart() {
        let scaled = |text: &str, mean, std| rounded(Number::parse(text).unwrap(), Some((mean, std)));
        assert_eq!(["1700000000", "1700000001", "1700000002"].map(|x| scaled(x, 1.7e9, 1.0)), [0.0, 1.0, 2.0]);
        // In nanoseconds, beyond 2^53.
        assert_eq!(["1700000000000000001", "1700000000000000003"].map(|x| scaled(x, 1.7e18, 2.0)), [0.5, 1.5]);
        assert_eq!(scaled("18446744073709551615", 18_446_744_073_709_551_616.0, 1.0), -1.0);
    }

    proptest! {
        #[test]
        fn integers_are_rounded_once(value in any::<i64>(), large in any::<u64>(), bits in 0..63u32) {
            let value = value >> bits;
            let parsed = Number::parse(&value.to_string()).unwrap();
            prop_assert_eq!(parsed.integer(), Ok(value));
            prop_assert_eq!(parsed.f32(), nearest(value.into()));
            let parsed = Number::parse(&large.to_string()).unwrap();
            prop_assert_eq!(parsed.integer().ok(), i64::try_from(large).ok());
            prop_assert_eq!(parsed.f32(), nearest(large.into()));
        }

        #[test]
        fn floats_are_rounded_once(value in any::<f64>(), mean in -1e6f64..1e6, std in 1e-3f64..1e3) {
            let parsed = Number::parse(&format!("{value:e}")).unwrap();
            prop_assert_eq!(parsed.f32().to_bits(), (value as f32).to_bits());
            prop_assert_eq!(rounded(parsed, Some((mean, std))).to_bits(), (((value - mean) / std) as f32).to_bits());
        }
    }
}
