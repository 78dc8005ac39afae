//! How a run that was stopped goes on.

use std::path::Path;

/// How the run in `out` goes on.
pub(super) fn command(out: &Path) -> String {
    format!("damper train --resume {}", out.display())
}
