//! Conversion of labels to class numbers.

use super::missing_values::is_missing;
use super::name_lists::quoted;
use crate::DataOptions;
use crate::numbers::Number;

/// The names of the classes.
pub(crate) struct Classes {
    pub names: Vec<String>,
    /// True if the user passes the list.
    are_given: bool,
    /// True if a label may also be a class number: the user does not declare names, and no name is a number.
    pub or_numbers: bool,
    /// For each number that the file uses, the class, if the file has its own numbering.
    pub numbers: Option<Vec<usize>>,
}

impl Classes {
    pub fn new(names: &[String], options: &DataOptions) -> Self {
        let or_numbers = options.classes.is_none() && !names.iter().any(|name| Number::parse(name).is_some());
        Self { names: names.to_vec(), are_given: options.classes.is_some(), or_numbers, numbers: None }
    }
}

/// Returns the number of a label. If classes have names, it is the number of its class.
pub(crate) fn label(name: &str, field: &str, classes: Option<&Classes>) -> Result<Number, String> {
    match classes {
        Some(Classes { names, or_numbers, are_given, .. }) => match names.iter().position(|class| class == field) {
            Some(class) => Ok(Number::Int(class as i64)),
            None if *or_numbers && let Some(number) = Number::parse(field) => Ok(number),
            None if !are_given => {
                Err(format!("the label '{field}' is not one of the classes {}: correct the row", quoted(names)))
            }
            None => Err(format!("the label '{field}' is not in `classes`: correct the row or the list")),
        },
        None => Number::parse(field).ok_or_else(|| {
            if is_missing(field) {
                format!("column '{name}', the label, is not a number but missing: correct the row")
            } else {
                format!(
                    "column '{name}', the label, is not a number: list the names of the classes with `classes`, or correct the row"
                )
            }
        }),
    }
}
