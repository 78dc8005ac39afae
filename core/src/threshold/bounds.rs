//! Bounds on the clips of a threshold.
//!
//! # Memory
//!
//! Two `f32`.
//!
//! # Numerics
//!
//! A clip computed in f64 is first rounded to the nearest f32, ties to even, and then clamped. NaN becomes the lower
//! bound.
//!
//! # Privacy
//!
//! The bounds are constants declared before data is read. Clamping is post-processing.

use crate::error::ConfigError;
use crate::record::{RecordSink, RecordSource};

/// Smallest clip: `2^-104`. A unit of the finest grid (`2^-22` of it) is a normal f32.
const LEAST: f32 = f32::MIN_POSITIVE * 4_194_304.0;

/// Largest clip: `2^126`, finite when doubled.
const LARGEST: f32 = 1.0 / f32::MIN_POSITIVE;

/// Wide, but far from the limits of f32.
const DEFAULT: Bounds = Bounds { min: 1e-8, max: 1e8 };

/// A closed interval of clips, or of histogram ranges. Equal ends fix the value.
///
/// ```
/// use damper_core::threshold::Bounds;
///
/// let clips = Bounds::new(0.01, 10.0)?;
/// assert_eq!((clips.min(), clips.max()), (0.01, 10.0));
/// assert!(Bounds::new(10.0, 0.01).is_err());
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounds {
    min: f32,
    max: f32,
}

impl Bounds {
    /// Creates the interval from `min` to `max`.
    ///
    /// # Errors
    ///
    /// Fails unless `2^-104 ≤ min ≤ max ≤ 2^126`, so that `2^-22` of any clip is a normal f32.
    pub fn new(min: f32, max: f32) -> Result<Self, ConfigError> {
        let bounds = Self { min: scale("least clip", min)?, max: scale("largest clip", max)? };
        if min <= max { Ok(bounds) } else { Err(ConfigError::new("least clip", "at most the largest")) }
    }

    /// Returns the lower bound.
    #[must_use]
    pub fn min(self) -> f32 {
        self.min
    }

    /// Returns the upper bound.
    #[must_use]
    pub fn max(self) -> f32 {
        self.max
    }

    /// Writes both ends in the format of recordings.
    pub(super) fn write(self, sink: &mut dyn RecordSink) {
        sink.f32(self.min);
        sink.f32(self.max);
    }

    /// Reads both ends.
    pub(super) fn read<R: RecordSource>(source: &mut R) -> Result<Self, R::Error> {
        Ok(Self::new(source.f32(), source.f32())?)
    }

    /// Returns the nearest value in the interval.
    // Not inlined on small targets, to save flash.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    pub(super) fn clamp(self, x: f32) -> f32 {
        if x >= self.max {
            self.max
        } else if x >= self.min {
            x
        } else {
            self.min
        }
    }
}

/// The interval from `1e-8` to `1e8`.
impl Default for Bounds {
    fn default() -> Self {
        DEFAULT
    }
}

/// Checks that `x` may be a clip or a range.
pub(super) fn scale(parameter: &'static str, x: f32) -> Result<f32, ConfigError> {
    if (LEAST..=LARGEST).contains(&x) { Ok(x) } else { Err(ConfigError::new(parameter, "from 2^-104 to 2^126")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Grid;
    use proptest::prelude::*;

    proptest! {
        // A clamped clip is within its bounds and valid on every grid.
        #[test]
        fn clamped_clip_fits_every_grid(
            x in prop::num::f32::ANY, ends in (LEAST..=LARGEST, LEAST..=LARGEST),
        ) {
            let bounds = Bounds::new(ends.0.min(ends.1), ends.0.max(ends.1)).unwrap();
            let clip = bounds.clamp(x);
            prop_assert!(bounds.min() <= clip && clip <= bounds.max());
            for bits in 8..=22 {
                prop_assert!(Grid::new(bits).unwrap().check_clip(clip).is_ok());
            }
        }

        #[test]
        fn what_is_within_the_bounds_stays(x in 1e-8f32..1e8) {
            prop_assert_eq!(Bounds::default().clamp(x), x);
        }
    }

    // The smallest and largest bounds are those of every grid. Values beyond them are errors.
    #[test]
    fn bound_limits_are_exact() {
        assert_eq!((LEAST, LARGEST), (2f32.powi(-104), 2f32.powi(126)));
        assert!(Bounds::new(LEAST, LARGEST).is_ok());
        for (min, max) in [
            (f32::from_bits(LEAST.to_bits() - 1), 1.0),
            (1.0, f32::from_bits(LARGEST.to_bits() + 1)),
            (2.0, 1.0),
            (0.0, 1.0),
            (-1.0, 1.0),
            (f32::NAN, 1.0),
            (1.0, f32::NAN),
            (1.0, f32::INFINITY),
        ] {
            assert!(Bounds::new(min, max).is_err(), "{min} {max}");
        }
        let frozen = Bounds::new(0.7, 0.7).unwrap();
        assert!([0.0, 0.7, 9.0, f32::NAN, f32::INFINITY].iter().all(|x| frozen.clamp(*x) == 0.7));
    }
}
