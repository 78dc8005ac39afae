//! Training without privacy, the baseline of a private run. It has the same draws, optimizer, schedule and evaluations,
//! but neither clipping nor noise.
//!
//! ```text
//! g = (1/B) Σ_i ∇ℓ_i      θ ← the optimizer's step with g
//! ```
//!
//! `B` is the expected batch, as in a private run. The sum is in f64.
//!
//! # Privacy
//!
//! This training is not private. It has a separate loop (`steps`) without mechanism, ledger and privacy cost, and the
//! private loop cannot run with [`Budget::NotPrivate`](crate::Budget::NotPrivate). The plan, the events and the model
//! are marked `not private`. The plan has no events, and ε of such a record is an error.

mod steps;

pub(crate) use steps::train;

use crate::{Clipping, FilterChoice, NoiseChoice, NoiseKind, TestMetrics, TrainConfig, TrainError};
use damper_accounting::{EpsilonBound, TruncationBound};
use damper_grad::Readout;
use damper_onnx::SettingError;

/// The warning of a run without privacy.
pub(crate) const WARNING: &str = "`not_private`: no gradient is clipped and no noise is added, so whoever has the model may learn any \
                                  training sample; no epsilon holds";

/// The privacy cost, which is infinite.
pub(crate) const PRICE: TruncationBound =
    TruncationBound { price: EpsilonBound { epsilon: f64::INFINITY, order: None }, delta: 0.0 };

/// Returns an error that names the setting, for settings of clipping, noise and filters, which such a run does not
/// have.
pub(crate) fn check(config: &TrainConfig) -> Result<(), TrainError> {
    let method = &config.method;
    let noise = "shapes noise, and a run that is not private has none; leave one of them out";
    let clip = "shapes clipping, and a run that is not private does not clip; leave one of them out";
    let filter = "filters noise out of gradients, and a run that is not private has none; use `method` dp-sgd, or leave out \
                  `not_private`";
    let (setting, value, problem) = match () {
        () if method.filter != FilterChoice::None => ("method", method.name.as_str(), filter),
        () if !method.threshold.is_fixed() => ("clip_rule", "", clip),
        () if method.clipping != Clipping::default() => ("clipping", "", clip),
        () if method.count_non_finite => ("count_non_finite", "", clip),
        () if method.noise_schedule != NoiseChoice::Constant => ("noise_schedule", "", noise),
        () if config.noise != NoiseKind::Discrete => ("noise", "continuous", noise),
        () if config.readout != Readout::PerSample => ("readout", "clipped-sum", clip),
        () if config.truncate.is_some() => (
            "truncate",
            "",
            "is charged out of delta, which a run that is not private has none of; leave one of them out",
        ),
        () if matches!(config.test_metrics, TestMetrics::Private { .. }) => {
            let problem = "the model is not private, so noise on its metrics protects no row; use exact, or none";
            ("test_metrics", "private", problem)
        }
        () if config.normalize_private.is_some() => {
            let problem = "is charged to epsilon, which a run that is not private has none of; use `normalize`";
            ("normalize_private", "", problem)
        }
        () if config.release_non_finite.is_some() => {
            let problem = "is charged to epsilon, which a run that is not private has none of; leave one of them out";
            ("release_non_finite", "", problem)
        }
        () if config.record.is_some() => {
            ("record", "", "a recording plays a private step, and this run has none; leave one of them out")
        }
        () => return Ok(()),
    };
    Err(SettingError::new(setting, value, problem).into())
}
