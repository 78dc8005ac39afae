//! Runs that several ranks cannot share.

use crate::engine::ranks::group::Group;
use crate::{Run, TrainError};
use damper_budget::EXACT;
use damper_onnx::SettingError;

/// Returns an error for runs that would give different bits on several ranks, and for recordings, which need all
/// gradients.
pub(crate) fn check(group: &dyn Group, run: &Run) -> Result<(), TrainError> {
    if group.size() == 1 {
        return Ok(());
    }
    let refused = |setting, value: &str, problem| Err(SettingError::new(setting, value, problem).into());
    if run.config.is_not_private() {
        return refused("not_private", "", "adds floats, whose sum depends on the ranks; run it in one process");
    }
    if run.model.clipped.is_some() {
        return refused("readout", "clipped-sum", "adds floats, whose sum depends on the ranks; leave it out");
    }
    if run.config.path() != EXACT {
        return refused(
            "noise",
            "continuous",
            "adds floats, whose sum depends on the ranks; use discrete, or one process",
        );
    }
    if run.config.record.is_some() {
        return refused(
            "record",
            "",
            "has the gradients of all samples, of which a rank has its own; record it in one process",
        );
    }
    Ok(())
}
