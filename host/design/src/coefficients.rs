//! The coefficients of a filter: by name, parsed from a list, as flags, and as used at run time.

use super::poles::{poles, poles_text};
use super::{FilterError, ORDER};
use damper_core::error::ConfigError;
use damper_core::filter::{self, Iir};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Coefficients of a filter `m_t = −Σ a_r·m_{t−r} + Σ b_r·g_{t−r}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Coefficients {
    /// `a_1, a_2, …`, without the leading 1.
    pub a: Vec<f64>,
    /// `b_0, b_1, …`
    pub b: Vec<f64>,
}

impl Coefficients {
    /// Returns a filter from the papers' tables: `momentum`, `d2`, `f6`, `p7`, …
    ///
    /// # Errors
    ///
    /// The name is unknown.
    pub fn named(name: &str) -> Result<Self, FilterError> {
        let set = filter::named(name).ok_or_else(|| FilterError::Unknown(name.into()))?;
        Ok(Self { a: set.a.iter().map(|a| decimal(*a)).collect(), b: set.b.iter().map(|b| decimal(*b)).collect() })
    }

    /// Parses both lists of numbers or quotients (`-9/11`), separated by commas. An empty list has no coefficients.
    ///
    /// # Errors
    ///
    /// An entry is not a number.
    pub fn parse(a: &str, b: &str) -> Result<Self, FilterError> {
        Ok(Self { a: parse_list(a)?, b: parse_list(b)? })
    }

    /// Returns the identity filter.
    #[must_use]
    pub fn identity() -> Self {
        Self { a: vec![], b: vec![1.0] }
    }

    /// Returns true if this is the identity filter.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.a.is_empty() && self.b == [1.0]
    }

    /// Returns the filter order, the larger number of delays.
    #[must_use]
    pub fn order(&self) -> usize {
        self.a.len().max(self.b.len().saturating_sub(1))
    }

    /// Returns the core's filter, with coefficients rounded to f32.
    ///
    /// # Errors
    ///
    /// The filter is unstable, or the core rejects it for another reason.
    pub fn to_core(&self) -> Result<Iir<ORDER>, ConfigError> {
        let narrow = |coefficients: &[f64]| -> Vec<f32> { coefficients.iter().map(|x| *x as f32).collect() };
        Iir::new(&narrow(&self.a), &narrow(&self.b))
    }

    /// Returns the coefficients after rounding to f32, as used at run time.
    #[must_use]
    pub fn as_run(&self) -> Self {
        let rounded = |coefficients: &[f64]| coefficients.iter().map(|x| f64::from(*x as f32)).collect();
        Self { a: rounded(&self.a), b: rounded(&self.b) }
    }

    /// Returns the flags that give this filter. Each coefficient is the shortest decimal with the same f32.
    #[must_use]
    pub fn flags(&self) -> String {
        if self.a.is_empty() {
            format!("--b={}", decimals(&self.b))
        } else {
            format!("--a={} --b={}", decimals(&self.a), decimals(&self.b))
        }
    }

    /// Returns the flag of `damper train` that gives this filter.
    #[must_use]
    pub fn train_flag(&self) -> String {
        format!("--filter=\"{};{}\"", decimals(&self.a), decimals(&self.b))
    }

    /// Does the same as [`Coefficients::to_core`], with an error that names the filter, its poles and the fix.
    ///
    /// # Errors
    ///
    /// As for [`Coefficients::to_core`], or the order exceeds [`ORDER`].
    pub fn checked(&self) -> Result<Iir<ORDER>, FilterError> {
        if self.order() > ORDER {
            return Err(FilterError::Order(self.order()));
        }
        self.to_core().map_err(|reason| {
            let poles = poles(&self.as_run().a);
            let outside = poles.iter().any(|pole| pole.norm() > 1.0 - 1e-9);
            FilterError::Refused {
                filter: self.flags(),
                reason,
                poles: poles_text(&poles),
                remedy: if outside {
                    "move every pole inside the unit circle (for one pole: a_1 between -1 and 1)"
                } else {
                    "change the coefficients; a b_0 that outweighs the negative b's is safe"
                },
            }
        })
    }
}

/// Returns the f64 that prints like the f32: −0.9 instead of −0.8999999761581421.
fn decimal(x: f32) -> f64 {
    x.to_string().parse().unwrap_or(f64::from(x))
}

/// Formats the shortest decimals with the same f32 values.
fn decimals(coefficients: &[f64]) -> String {
    coefficients.iter().map(|x| (*x as f32).to_string()).collect::<Vec<_>>().join(",")
}

fn parse_list(text: &str) -> Result<Vec<f64>, FilterError> {
    let entries = text.split(',').map(str::trim).filter(|_| !text.trim().is_empty());
    entries
        .map(|entry| {
            let number = match entry.split_once('/') {
                None => entry.parse::<f64>().ok(),
                Some((numerator, denominator)) => {
                    let quotient = numerator.trim().parse::<f64>().ok().zip(denominator.trim().parse::<f64>().ok());
                    quotient.map(|(numerator, denominator)| numerator / denominator)
                }
            };
            number.filter(|number| (*number as f32).is_finite()).ok_or_else(|| FilterError::Coefficient(entry.into()))
        })
        .collect()
}
