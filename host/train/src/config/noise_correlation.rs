//! Settings of correlated noise.

use damper_accounting::factor::MAX_BANDS;
use damper_core::noise::Lambda;
use std::fmt;
use std::str::FromStr;

/// Correlation of the noise across steps.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum NoiseCorrelation {
    /// None: independent noise.
    #[default]
    None,
    /// Correlation with the previous step.
    Lambda(Lambda),
    /// A buffered linear Toeplitz matrix (BLT) with at most this many buffers, optimised for the run.
    Blt(u32),
    /// A banded matrix with this many bands, optimised for the run.
    Banded(u32),
}

impl FromStr for NoiseCorrelation {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORMS: &str = "give none, lambda:P/Q with Q a power of two up to 65536 and P below it, blt:1 to blt:4, or banded:2 to \
                             banded:256";
        let number = |text: &str, most: u32| text.parse().ok().filter(|number: &u32| *number <= most);
        let found = match text.split_once(':') {
            None => (text == "none").then_some(Self::None),
            Some(("lambda", fraction)) => fraction.split_once('/').and_then(|(p, q)| {
                let (p, q) = (number(p, 1 << 16)?, number(q, 1 << 16).filter(|q| q.is_power_of_two())?);
                Lambda::new(p, q.trailing_zeros()).ok().map(Self::Lambda)
            }),
            Some(("blt", buffers)) => number(buffers, 4).filter(|buffers| *buffers > 0).map(Self::Blt),
            Some(("banded", bands)) => number(bands, MAX_BANDS).filter(|bands| *bands > 1).map(Self::Banded),
            Some(_) => None,
        };
        found.ok_or(FORMS)
    }
}

impl fmt::Display for NoiseCorrelation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Lambda(lambda) => write!(f, "lambda:{}/{}", lambda.fraction().0, lambda.fraction().1),
            Self::Blt(buffers) => write!(f, "blt:{buffers}"),
            Self::Banded(bands) => write!(f, "banded:{bands}"),
        }
    }
}

impl NoiseCorrelation {
    /// Returns true if the noise of steps is independent.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_shown() {
        for text in ["none", "lambda:15/16", "blt:1", "blt:4", "banded:2", "banded:256"] {
            assert_eq!(text.parse::<NoiseCorrelation>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "lambda",
            "lambda:16/16",
            "lambda:0/4",
            "lambda:1/3",
            "lambda:1/131072",
            "blt:0",
            "blt:5",
            "banded:1",
            "banded:257",
            "none:1",
        ] {
            assert!(text.parse::<NoiseCorrelation>().is_err(), "{text}");
        }
    }
}
