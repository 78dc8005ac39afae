//! Detection of the delimiter between the fields of a table.

use crate::DataError;
use std::path::Path;

/// Returns an error if a delimiter other than `own` evidently separates the fields of a table's first line.
pub(crate) fn check_delimiter(path: &Path, fields: &[&str], own: u8) -> Result<(), DataError> {
    match other_delimiter(fields, own) {
        Some(other) => Err(DataError::File(format!(
            "{}: its fields are not separated by '{}': give `delimiter` {other}",
            path.display(),
            char::from(own).escape_default()
        ))),
        None => Ok(()),
    }
}

/// Returns the other delimiter that the first line evidently has, in the form of the setting.
fn other_delimiter(fields: &[&str], own: u8) -> Option<&'static str> {
    let others = [(b';', "';'"), (b'\t', "tab"), (b',', "','"), (b'|', "'|'"), (b' ', "' '")];
    let found = others.into_iter().find(|(other, _)| {
        let count = fields.iter().flat_map(|field| field.bytes()).filter(|byte| byte == other).count();
        // Names may have spaces.
        let is_alone = *other != b' ' || fields.len() == 1;
        *other != own && count > 0 && count + 1 >= fields.len() && is_alone
    });
    found.map(|(_, name)| name)
}
