//! The columns of a table: the label, numbers, and categories from public lists.

use super::class_labels::{Classes, label};
use super::find_column::column;
use super::missing_values::{is_missing, not_a_number};
use super::name_lists::quoted;
use crate::numbers::Number;
use crate::options::{DROP, check};
use crate::{DataError, DataOptions};
use damper_onnx::SettingError;
use damper_onnx::graph::DType;
use std::path::Path;

/// The use of the columns of a table.
pub(crate) struct Columns<'a> {
    roles: Vec<ColumnRole<'a>>,
    names: Vec<String>,
    /// For each column of a typed file, true if it is text.
    are_text: Vec<bool>,
    classes: Option<Classes>,
    /// True if the model's input takes integers.
    integers: bool,
    label_scale: Option<(f64, f64)>,
}

enum ColumnRole<'a> {
    Label,
    Number { scale: Option<(f64, f64)> },
    Category { list: &'a [String], one_hot: bool },
}

impl ColumnRole<'_> {
    /// Returns the number of values that the column adds to a sample.
    fn width(&self) -> usize {
        match self {
            ColumnRole::Label => 0,
            ColumnRole::Category { list, one_hot: true } => list.len(),
            _ => 1,
        }
    }
}

impl<'a> Columns<'a> {
    /// Creates the roles for a table with these column names.
    pub fn new(
        path: &Path,
        names: Vec<String>,
        label: Option<usize>,
        classes: Option<&[String]>,
        options: &'a DataOptions,
    ) -> Result<Self, DataError> {
        let mut roles: Vec<ColumnRole<'a>> = names.iter().map(|_| ColumnRole::Number { scale: None }).collect();
        if let Some(label) = label {
            roles[label] = ColumnRole::Label;
        }
        let integers = options.inputs.iter().any(|input| input.dtype == DType::I64);
        let one_hot = !integers;
        let find = |setting: &'static str, wanted: &str, roles: &[ColumnRole<'_>]| {
            let column = column(path, &names, wanted)?;
            match roles[column] {
                ColumnRole::Number { scale: None } => Ok(column),
                ColumnRole::Label => {
                    Err(SettingError::new(setting, wanted, "is the label's column; name a feature").into())
                }
                _ => {
                    let problem = "this column is a list of categories or is scaled already; name it once";
                    Err(DataError::Setting(SettingError::new(setting, wanted, problem)))
                }
            }
        };
        for (wanted, list) in &options.categories {
            let column = find("categories", wanted, &roles)?;
            roles[column] = ColumnRole::Category { list, one_hot };
        }
        let mut label_scale = None;
        for (wanted, mean, std) in &options.scale {
            check::scale(wanted, *mean, *std)?;
            if label.is_some() && label == column(path, &names, wanted).ok() {
                label_scale = Some(check::label_scale(options, wanted, label_scale, (*mean, *std))?);
                continue;
            }
            let column = find("scale", wanted, &roles)?;
            roles[column] = ColumnRole::Number { scale: Some((*mean, *std)) };
        }
        let classes = classes.map(|names| Classes::new(names, options));
        Ok(Self { roles, names, are_text: vec![], classes, integers, label_scale })
    }

    /// Returns the public constants of the label column.
    pub fn label_scale(&self) -> Option<(f64, f64)> {
        self.label_scale
    }

    /// Returns true if the samples are integers.
    pub fn are_integers(&self) -> bool {
        self.integers
    }

    /// Returns the column name of each value of a sample.
    pub fn value_names(&self) -> Vec<String> {
        let of = |(role, name): (&ColumnRole<'_>, &String)| std::iter::repeat_n(name.clone(), role.width());
        self.roles.iter().zip(&self.names).flat_map(of).collect()
    }

    /// Sets the class of each number, for labels with the file's own numbering.
    pub fn numbered(mut self, numbers: Option<Vec<usize>>) -> Self {
        if let Some(classes) = &mut self.classes {
            classes.numbers = numbers;
        }
        self
    }

    /// Returns the number of values in a sample.
    pub fn width(&self) -> usize {
        self.roles.iter().map(ColumnRole::width).sum()
    }

    /// Adds a scaled number to the features of a row. For integer inputs, nothing is rounded.
    fn feature(&self, column: usize, number: Number, scale: Option<(f64, f64)>, row: &mut Row) -> Result<(), String> {
        let scaled = match scale {
            Some((mean, std)) if self.integers => number.scaled_integer(mean, std).map(Number::Int),
            Some((mean, std)) => Ok(Number::Float(number.scaled(mean, std))),
            None => Ok(number),
        };
        row.features.push(scaled.unwrap_or(Number::NAN));
        scaled.map(drop).map_err(|problem| {
            let name = &self.names[column];
            format!("column '{name}' is {number} before `scale`, where the model's input {problem}")
        })
    }

    /// Adds a text field to a row, or sets its label. A field without a value leaves a NaN. Returns the fault, if any.
    pub fn text(&self, column: usize, field: &str, row: &mut Row) -> Result<(), String> {
        let name = &self.names[column];
        match &self.roles[column] {
            ColumnRole::Label => {
                row.label = Number::NAN;
                if self.classes.is_none()
                    && let Some(number) = self.parse(column, field)
                {
                    row.label = number?;
                    return Ok(());
                }
                row.label = label(name, field, self.classes.as_ref())?;
                Ok(())
            }
            ColumnRole::Number { scale } => match self.parse(column, field) {
                Some(Ok(number)) => self.feature(column, number, *scale, row),
                Some(Err(fault)) => {
                    row.features.push(Number::NAN);
                    Err(fault)
                }
                None => {
                    row.features.push(Number::NAN);
                    Err(not_a_number(name, field))
                }
            },
            ColumnRole::Category { list, one_hot } => {
                let place = list.iter().position(|entry| entry == field);
                if *one_hot {
                    row.features.extend((0..list.len()).map(|entry| Number::Int((Some(entry) == place).into())));
                } else {
                    row.features.push(place.map_or(Number::NAN, |place| Number::Int(place as i64)));
                }
                match place {
                    Some(_) => Ok(()),
                    None if is_missing(field) => Err(format!("column '{name}' has no value: correct the row{DROP}")),
                    None => {
                        Err(format!("column '{name}': '{field}' is not in `categories`: correct the row or the list"))
                    }
                }
            }
        }
    }

    /// Sets the columns that are text in a typed file. Text is never a number, whatever its content.
    pub fn of_types(mut self, are_text: Vec<bool>) -> Self {
        let is_text_label = |(role, is_text): (&ColumnRole<'_>, &bool)| matches!(role, ColumnRole::Label) && *is_text;
        if let Some(classes) = &mut self.classes {
            classes.or_numbers &= !self.roles.iter().zip(&are_text).any(is_text_label);
        }
        self.are_text = are_text;
        self
    }

    /// Parses the number in a text field. Returns `None` if it does not parse, and an error if its column is text.
    fn parse(&self, column: usize, field: &str) -> Option<Result<Number, String>> {
        let number = Number::parse(field)?;
        if !self.are_text.get(column).copied().unwrap_or(false) {
            return Some(Ok(number));
        }
        let (what, list) = match self.roles[column] {
            ColumnRole::Label => (", the label,", "the names of the classes with `classes`"),
            _ => ("", "its values with `categories`"),
        };
        let name = &self.names[column];
        Some(Err(format!(
            "column '{name}'{what} holds text, which is no number: list {list}, or write the column as numbers"
        )))
    }

    /// Adds a boolean to a row, or sets its label. It is the number 1 or 0, or the list entry `true` or `false` in any
    /// case.
    pub fn truth(&self, column: usize, truth: bool, row: &mut Row) -> Result<(), String> {
        let (word, digit) = if truth { ("true", "1") } else { ("false", "0") };
        let list = match (&self.roles[column], &self.classes) {
            (ColumnRole::Number { .. }, _) | (ColumnRole::Label, None | Some(Classes { numbers: Some(_), .. })) => &[],
            (ColumnRole::Category { list, .. }, _) => *list,
            (ColumnRole::Label, Some(classes)) => &classes.names[..],
        };
        let entry = list.iter().find(|entry| entry.eq_ignore_ascii_case(word) || *entry == digit);
        match (entry, &self.roles[column]) {
            (Some(entry), _) => self.text(column, entry, row),
            (None, ColumnRole::Category { .. }) => self.text(column, word, row),
            (None, _) => self.number(column, Number::Int(truth.into()), row),
        }
    }

    /// Adds a number to a row, or sets its label.
    pub fn number(&self, column: usize, number: Number, row: &mut Row) -> Result<(), String> {
        match (&self.roles[column], &self.classes) {
            (ColumnRole::Number { scale }, _) => return self.feature(column, number, *scale, row),
            (ColumnRole::Label, None | Some(Classes { or_numbers: true, numbers: None, .. })) => row.label = number,
            (ColumnRole::Label, Some(Classes { names, numbers: Some(numbers), .. })) => {
                let own = number.integer().ok().and_then(|own| usize::try_from(own).ok());
                let Some(class) = own.and_then(|own| numbers.get(own)) else {
                    row.label = Number::NAN;
                    return Err(format!(
                        "the label {number} is none of the file's {} classes ({}): correct the row",
                        numbers.len(),
                        quoted(names)
                    ));
                };
                row.label = Number::Int(*class as i64);
            }
            // A list may name numbers.
            _ => return self.text(column, &number.to_string(), row),
        }
        Ok(())
    }
}

/// A row before its conversion to a sample.
pub(crate) struct Row {
    pub features: Vec<Number>,
    pub label: Number,
}

impl Default for Row {
    fn default() -> Self {
        Self { features: Vec::new(), label: Number::NAN }
    }
}
