//! Settings that thresholds share.

use super::bounds::Bounds;
use crate::described::{Flag, Kind, Setting, Values};
use crate::error::ConfigError;

/// The clip of the first step.
pub(super) const CLIP: Setting = Setting::new("clip", Kind::F32, Flag { name: "clip", value: "C", help: "" }, "clip");

/// The share of gradients to leave unclipped.
pub(super) const fn fraction(parameter: &'static str) -> Setting {
    Setting::new("fraction", Kind::F64, PERCENTILE, parameter)
}

const PERCENTILE: Flag = Flag {
    name: "percentile",
    value: "P",
    help: "percentile, quantile: share of gradients to leave unclipped [default: 0.5]",
};

/// The multiplier of the noise on each count; unset where that of the whole event is to set it.
pub(super) const COUNT_NOISE: Setting =
    Setting::new("count_noise", Kind::F64, COUNT_NOISE_MULTIPLIER, "count noise multiplier");

const COUNT_NOISE_MULTIPLIER: Flag = Flag {
    name: "count_noise_multiplier",
    value: "S",
    help: "percentile, expected-error, quantile: standard deviation of the noise on each released count, which one sample moves by \
           1 [default: 5; 8 where sigma is from 2; 12 where it is above 3; quantile: batch size / 10, twice the paper's sigma_b]",
};

/// The range of the first histogram.
pub(super) const fn range(parameter: &'static str) -> Setting {
    Setting::new("range", Kind::F32, HISTOGRAM_RANGE, parameter)
}

const HISTOGRAM_RANGE: Flag = Flag {
    name: "histogram_range",
    value: "R",
    help: "percentile, expected-error: range of the first histogram of norms [default: percentile 1, expected-error 20]",
};

/// Between which values the clip stays.
pub(super) const MIN: Setting = Setting::new("min", Kind::F32, CLIP_BOUNDS, "least clip");
pub(super) const MAX: Setting = Setting::new("max", Kind::F32, CLIP_BOUNDS, "largest clip");

const CLIP_BOUNDS: Flag =
    Flag { name: "clip_bounds", value: "MIN,MAX", help: "Bounds of a learned clipping threshold [default: 1e-8,1e8]" };

/// The bounds that are next.
pub(super) fn bounds<V: Values>(values: &mut V) -> Result<Bounds, ConfigError> {
    Bounds::new(values.f32(), values.f32())
}
