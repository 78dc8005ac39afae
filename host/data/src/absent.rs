//! A kind of data that this build leaves out.

use super::{DataError, Split};

/// Refuses `kind`, which is also the name of the feature that reads it.
pub(super) fn refuse(kind: &str) -> Result<(Split, Option<Split>), DataError> {
    Err(DataError::File(format!("{kind}: this build leaves this kind out: build damper with its feature {kind}")))
}
