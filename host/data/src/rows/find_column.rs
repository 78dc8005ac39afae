//! Finds a column by its name or number.

use super::name_lists::{quoted, shortened};
use crate::{DataError, DataOptions, LabelKind};
use std::path::Path;

/// Usual names of the label column.
pub(crate) const USUAL_LABELS: [&str; 3] = ["label", "class", "target"];

/// Returns the label column: by name, by number, or the last column.
pub(crate) fn label_column(path: &Path, columns: &[String], options: &DataOptions) -> Result<Option<usize>, DataError> {
    match (&options.labels, &options.label_column) {
        (LabelKind::None, _) => Ok(None),
        (_, None) => Ok(Some(columns.len() - 1)),
        (_, Some(wanted)) => column(path, columns, wanted).map(Some),
    }
}

/// Finds a column by name, or by number. A number that is the name of a column at another position is ambiguous, which
/// is an error.
pub(crate) fn column(path: &Path, columns: &[String], wanted: &str) -> Result<usize, DataError> {
    let mut of_name = columns.iter().enumerate().filter(|(_, name)| *name == wanted).map(|(number, _)| number);
    if let (Some(first), Some(second)) = (of_name.next(), of_name.next()) {
        return Err(DataError::File(format!(
            "{}: has two columns '{wanted}', {first} and {second} (counted from 0): name one by its number, or correct the file",
            path.display()
        )));
    }
    let place = wanted.parse().ok().filter(|column: &usize| *column < columns.len());
    match (columns.iter().position(|name| name == wanted), place) {
        (Some(named), Some(place)) if named != place => Err(DataError::File(format!(
            "{}: '{wanted}' is the name of column {named} and the place of column '{}' (counted from 0): name that column '{}', or rename \
             column '{wanted}'",
            path.display(),
            columns[place],
            columns[place]
        ))),
        (named, place) => named.or(place).ok_or_else(|| {
            DataError::File(format!(
                "{}: has no column '{wanted}': name one of {}, or a number from 0 to {}",
                path.display(),
                quoted(columns),
                columns.len() - 1
            ))
        }),
    }
}

/// Formats the label column for notes.
pub(crate) fn of_label(columns: &[String], label: Option<usize>) -> String {
    label.map_or("no label".into(), |label| format!("label '{}'", columns[label]))
}

/// Formats the columns of a table with column names.
pub(crate) fn summary(columns: &[String], label: Option<usize>) -> String {
    format!("columns {}; {}", shortened(columns), of_label(columns, label))
}
