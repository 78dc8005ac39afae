//! The command that continues a stopped run.

use std::path::Path;

/// Returns the command that continues the run in `out`.
pub(in crate::cli) fn command(out: &Path) -> String {
    format!("damper train --resume {}", out.display())
}
