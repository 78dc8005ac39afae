//! What the rules that read a histogram of norms share.

use crate::error::ConfigError;

/// The midpoint of bin `bin` of `bins` over `[0, range)`: `((bin + ½) · range) / bins`, in this order.
pub(super) fn midpoint(bin: usize, bins: usize, range: f64) -> f64 {
    (bin as f64 + 0.5) * range / bins as f64
}

/// The sum of released counts. They are multiples of `2^-12` far below `2^40`, so it is exact in any order.
pub(super) fn total(counts: &[f64]) -> f64 {
    let mut total = 0.0;
    for count in counts {
        total += count;
    }
    total
}

/// Fails unless a histogram may have so many bins.
pub(super) fn check_bins(bins: usize) -> Result<(), ConfigError> {
    if (2..=1024).contains(&bins) { Ok(()) } else { Err(ConfigError::new("number of bins", "from 2 to 1024")) }
}

/// Whether `x` is a number above 0. By its bits: a comparison of f64 is a call where flash is short.
pub(super) fn is_above_zero(x: f64) -> bool {
    (1..=f64::INFINITY.to_bits()).contains(&x.to_bits())
}
