//! Filters of the templates.

use crate::text;
use askama::{Result, Values, filter_fn};
use damper_accounting::upward as rounded_up;
use std::borrow::Borrow;

/// Formats an integer with thin spaces between thousands, from five digits on.
#[filter_fn]
pub(super) fn grouped<N: Borrow<u64>>(number: N, _: &dyn Values) -> Result<String> {
    Ok(super::rows::grouped(*number.borrow()))
}

/// Formats ε, rounded up.
#[filter_fn]
pub(super) fn upward(epsilon: &f64, _: &dyn Values) -> Result<String> {
    Ok(rounded_up(*epsilon))
}

/// Capitalises the first letter.
#[filter_fn]
pub(super) fn capital<T: AsRef<str>>(text: T, _: &dyn Values) -> Result<String> {
    Ok(text::capital(text.as_ref()))
}
