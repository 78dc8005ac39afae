//! Common code of the rules that use a histogram of norms.

use crate::error::ConfigError;

/// Returns the midpoint of bin `bin` of `bins` over `[0, range)`: `((bin + ½) · range) / bins`, in this order.
pub(super) fn midpoint(bin: usize, bins: usize, range: f64) -> f64 {
    (bin as f64 + 0.5) * range / bins as f64
}

/// Returns the sum of released counts. They are multiples of `2^-12` far below `2^40`, so it is exact in any order.
// Not inlined on small targets, to save flash.
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub(super) fn total(counts: &[f64]) -> f64 {
    let mut total = 0.0;
    for count in counts {
        total += count;
    }
    total
}

/// Checks that a histogram may have this number of bins.
pub(super) fn check_bins(bins: usize) -> Result<(), ConfigError> {
    if (2..=1024).contains(&bins) { Ok(()) } else { Err(ConfigError::new("number of bins", "from 2 to 1024")) }
}
