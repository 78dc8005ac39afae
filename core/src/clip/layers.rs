//! Layers of a gradient, and their shares of the clip.

use crate::error::{CallError, ConfigError, check_len};
use crate::numerics::round::magnitude;
use crate::numerics::scalar::sqrt;

/// Denominator of the shares.
const WHOLE: u32 = 1 << 22;

/// Consecutive coordinates that are clipped together.
///
/// ```
/// use damper_core::clip::Layer;
///
/// // Four layers with equal shares of the clip: 1/√4, in units of 2⁻²².
/// assert_eq!(Layer::equal(10, 4), Layer { len: 10, share: 1 << 21 });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layer {
    /// Number of coordinates.
    pub len: usize,
    /// Share `s_l` in units of 2⁻²².
    pub share: u32,
}

impl Layer {
    /// Creates a layer of all `len` coordinates of a gradient, with the whole clip.
    pub(crate) fn whole(len: usize) -> Self {
        Self { len, share: WHOLE }
    }

    /// Creates a layer of `len` coordinates with share `1/√layers`, rounded down, for `layers` layers with equal
    /// shares.
    #[must_use]
    pub fn equal(len: usize, layers: usize) -> Self {
        Self { len, share: magnitude(f64::from(WHOLE) / sqrt(layers.max(1) as f64)) }
    }

    /// Returns `⌊s_l·2^bits⌋`, for `bits` up to 22.
    pub(crate) fn units(self, bits: u32) -> u32 {
        self.share >> 22u32.saturating_sub(bits)
    }

    /// Returns `s_l` exactly.
    pub(crate) fn share_f32(self) -> f32 {
        self.share as f32 / WHOLE as f32
    }
}

/// Layers with shares that were checked together.
///
/// ```
/// use damper_core::clip::{Layer, Layers};
///
/// let parts = [Layer::equal(640, 2), Layer::equal(10, 2)];
/// assert_eq!(Layers::new(&parts)?.as_slice().len(), 2);
/// // Two layers with the whole clip each would be more than the clip together.
/// assert!(Layers::new(&[Layer::equal(640, 1), Layer::equal(10, 1)]).is_err());
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layers<'a>(&'a [Layer]);

impl<'a> Layers<'a> {
    /// Checks `Σ s_l² ≤ 1`.
    ///
    /// # Errors
    ///
    /// Fails if the sum of squares is too large, or a share is 0.
    pub fn new(layers: &'a [Layer]) -> Result<Self, ConfigError> {
        let square = layers
            .iter()
            .fold(0u64, |sum, layer| sum.saturating_add(u64::from(layer.share).saturating_mul(u64::from(layer.share))));
        if square > 1 << 44 || layers.iter().any(|layer| layer.share == 0) {
            return Err(ConfigError::new("shares of the layers", "above 0, their squares at most 1 together"));
        }
        Ok(Self(layers))
    }

    /// Fails unless the layers have `dim` coordinates together.
    pub(crate) fn check(self, dim: usize) -> Result<(), CallError> {
        check_len("the layers together", dim, self.0.iter().fold(0, |sum, layer| sum.saturating_add(layer.len)))
    }

    /// Returns the layers, in the order of their coordinates.
    #[must_use]
    pub fn as_slice(self) -> &'a [Layer] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    extern crate std;
    use std::vec;

    proptest! {
        #[test]
        fn equal_shares_are_valid_and_nearly_whole(layers in 1usize..3000) {
            let all = vec![Layer::equal(7, layers); layers];
            prop_assert!(Layers::new(&all).is_ok());
            let square: f64 = all.iter().map(|l| (f64::from(l.share) / f64::from(WHOLE)).powi(2)).sum();
            prop_assert!(square > 0.9999);
        }
    }

    #[test]
    fn too_large_and_zero_shares_are_refused() {
        let layer = |share| Layer { len: 1, share };
        assert!(Layers::new(&[layer(WHOLE)]).is_ok());
        assert!(Layers::new(&[layer(WHOLE), layer(1)]).is_err());
        assert!(Layers::new(&[layer(u32::MAX), layer(u32::MAX)]).is_err());
        assert!(Layers::new(&[layer(0)]).is_err());
    }
}
