//! The digest that identifies a data set.

use crate::state::files::hex;
use damper_data::{DataError, Dataset, Split};
use sha2::{Digest, Sha256};

/// Returns the SHA-256 of all rows and labels, with their shapes.
pub(crate) fn data_digest(data: &Dataset) -> Result<String, DataError> {
    let mut digest = Sha256::new();
    let splits: [Option<&Split>; 2] = [Some(&data.train), data.test.as_ref()];
    for split in splits {
        match split {
            Some(split) => split.digest(&mut |bytes| digest.update(bytes))?,
            None => digest.update([0]),
        }
    }
    Ok(hex(digest.finalize()))
}
