//! Detection of numbers and of words for missing values in text fields.

use crate::numbers::Number;
use crate::options::DROP;

/// Words for a missing value: those that pandas reads as missing, and `?`.
const MISSING: [&str; 24] = [
    "", "?", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
    "NA", "NULL", "NaN", "Nan", "None", "n/a", "na", "nan", "none", "nil", "null",
];

/// Returns true if a field is a word for a missing value.
pub(super) fn is_missing(field: &str) -> bool {
    MISSING.contains(&field)
}

/// Returns true if a field of a CSV file is a number, or a word for a missing value.
pub(crate) fn is_value(field: &str) -> bool {
    is_missing(field) || Number::parse(field).is_some()
}

/// The fault of a field that is not a number.
pub(super) fn not_a_number(name: &str, field: &str) -> String {
    if is_missing(field) {
        format!("column '{name}' is not a number but missing: correct the row{DROP}")
    } else if field.contains(',') && field.replace(',', "").parse::<f64>().is_ok() && has_thousands(field) {
        format!(
            "column '{name}' is not a number: write {field} without separators of thousands, and with a decimal point"
        )
    } else if field.contains(',') && field.replacen(',', ".", 1).parse::<f64>().is_ok() {
        format!("column '{name}' is not a number: write {field} with a decimal point")
    } else {
        format!("column '{name}' is not a number: correct the row, or list the column's values with `categories`")
    }
}

/// Returns true if each comma of a number has three digits after it.
fn has_thousands(field: &str) -> bool {
    field.split(',').skip(1).all(|group| {
        let digits = group.split('.').next().unwrap_or_default();
        digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}
