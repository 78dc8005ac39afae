//! The columns of a table: the label, numbers, and categories by public lists.

use super::number::Number;
use super::options::DROP;
use super::{DataError, DataOptions, LabelKind};
use damper_onnx::SettingError;
use damper_onnx::graph::DType;
use std::path::Path;

/// The words for a missing value: those that pandas reads as such, and `?`.
const MISSING: [&str; 24] = [
    "", "?", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
    "NA", "NULL", "NaN", "Nan", "None", "n/a", "na", "nan", "none", "nil", "null",
];

/// Returns true if a field of a CSV file is a number, or says that one is missing.
pub(super) fn is_value(field: &str) -> bool {
    MISSING.contains(&field) || Number::parse(field).is_some()
}

/// The use of the columns of a table.
pub(super) struct Columns<'a> {
    roles: Vec<Role<'a>>,
    names: Vec<String>,
    /// True for each column of text, of a file that has types.
    are_text: Vec<bool>,
    classes: Option<Classes>,
    /// The model's input takes integers.
    integers: bool,
    label_scale: Option<(f64, f64)>,
}

/// The names of the classes.
pub(super) struct Classes {
    names: Vec<String>,
    /// True if the user gives the list.
    are_given: bool,
    /// True if a label may be the number of a class as well: where the user does not say that labels are names, and no name is a number.
    or_numbers: bool,
    /// The number of each class that the file numbers otherwise.
    #[cfg(feature = "parquet")]
    numbers: Option<Vec<usize>>,
}

impl Classes {
    pub fn new(names: &[String], options: &DataOptions) -> Self {
        let or_numbers = options.classes.is_none() && !names.iter().any(|name| Number::parse(name).is_some());
        Self {
            names: names.to_vec(),
            are_given: options.classes.is_some(),
            or_numbers,
            #[cfg(feature = "parquet")]
            numbers: None,
        }
    }
}

enum Role<'a> {
    Label,
    Number { scale: Option<(f64, f64)> },
    Category { list: &'a [String], one_hot: bool },
}

impl<'a> Columns<'a> {
    /// Of a table with columns of these names.
    pub fn new(
        path: &Path,
        names: Vec<String>,
        label: Option<usize>,
        classes: Option<&[String]>,
        options: &'a DataOptions,
    ) -> Result<Self, DataError> {
        let mut roles: Vec<Role<'a>> = names.iter().map(|_| Role::Number { scale: None }).collect();
        if let Some(label) = label {
            roles[label] = Role::Label;
        }
        let integers = options.inputs.iter().any(|input| input.dtype == DType::I64);
        let one_hot = !integers;
        let find = |setting: &'static str, wanted: &str, roles: &[Role<'_>]| {
            let column = column(path, &names, wanted)?;
            match roles[column] {
                Role::Number { scale: None } => Ok(column),
                Role::Label => Err(SettingError::new(setting, wanted, "is the label's column; name a feature").into()),
                _ => {
                    let problem = "this column is a list of categories or is scaled already; name it once";
                    Err(DataError::Setting(SettingError::new(setting, wanted, problem)))
                }
            }
        };
        for (wanted, list) in &options.categories {
            let column = find("categories", wanted, &roles)?;
            roles[column] = Role::Category { list, one_hot };
        }
        let mut label_scale = None;
        for (wanted, mean, std) in &options.scale {
            check_scale(wanted, *mean, *std)?;
            if label.is_some() && label == column(path, &names, wanted).ok() {
                label_scale = labels_scaled(options, wanted, label_scale, (*mean, *std))?;
                continue;
            }
            let column = find("scale", wanted, &roles)?;
            roles[column] = Role::Number { scale: Some((*mean, *std)) };
        }
        let classes = classes.map(|names| Classes::new(names, options));
        Ok(Self { roles, names, are_text: vec![], classes, integers, label_scale })
    }

    /// The public constants of the label's column.
    pub fn label_scale(&self) -> Option<(f64, f64)> {
        self.label_scale
    }

    /// Returns true if the samples are integers.
    pub fn are_integers(&self) -> bool {
        self.integers
    }

    /// The name of the column of each value of a sample.
    pub fn value_names(&self) -> Vec<String> {
        let of = |(role, name): (&Role<'_>, &String)| {
            let count = match role {
                Role::Label => 0,
                Role::Category { list, one_hot: true } => list.len(),
                _ => 1,
            };
            std::iter::repeat_n(name.clone(), count)
        };
        self.roles.iter().zip(&self.names).flat_map(of).collect()
    }

    /// With labels that are numbers by a list of the file's own: the class of each.
    #[cfg(feature = "parquet")]
    pub fn numbered(mut self, numbers: Option<Vec<usize>>) -> Self {
        if let Some(classes) = &mut self.classes {
            classes.numbers = numbers;
        }
        self
    }

    /// Values of a sample.
    #[cfg(feature = "parquet")]
    pub fn width(&self) -> usize {
        let width = |role: &Role<'_>| match role {
            Role::Label => 0,
            Role::Category { list, one_hot: true } => list.len(),
            _ => 1,
        };
        self.roles.iter().map(width).sum()
    }

    /// Adds a number to the features of a row, scaled: for inputs of integers without any rounding.
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

    /// Adds a field of text to a row, or its label. What is no value leaves a NaN, and says why.
    pub fn text(&self, column: usize, field: &str, row: &mut Row) -> Result<(), String> {
        let name = &self.names[column];
        match &self.roles[column] {
            Role::Label => {
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
            Role::Number { scale } => match self.parse(column, field) {
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
            Role::Category { list, one_hot } => {
                let place = list.iter().position(|entry| entry == field);
                if *one_hot {
                    row.features.extend((0..list.len()).map(|entry| Number::Int((Some(entry) == place).into())));
                } else {
                    row.features.push(place.map_or(Number::NAN, |place| Number::Int(place as i64)));
                }
                match place {
                    Some(_) => Ok(()),
                    None if MISSING.contains(&field) => {
                        Err(format!("column '{name}' has no value: correct the row{DROP}"))
                    }
                    None => {
                        Err(format!("column '{name}': '{field}' is not in `categories`: correct the row or the list"))
                    }
                }
            }
        }
    }

    /// With columns that are text or are not, as their file says. Text is no number, whatever it holds.
    #[cfg(feature = "parquet")]
    pub fn of_types(mut self, are_text: Vec<bool>) -> Self {
        let is_text_label = |(role, is_text): (&Role<'_>, &bool)| matches!(role, Role::Label) && *is_text;
        if let Some(classes) = &mut self.classes {
            classes.or_numbers &= !self.roles.iter().zip(&are_text).any(is_text_label);
        }
        self.are_text = are_text;
        self
    }

    /// The number in a field of text; none, and why, if its column is one of text.
    fn parse(&self, column: usize, field: &str) -> Option<Result<Number, String>> {
        let number = Number::parse(field)?;
        if !self.are_text.get(column).copied().unwrap_or(false) {
            return Some(Ok(number));
        }
        let (what, list) = match self.roles[column] {
            Role::Label => (", the label,", "the names of the classes with `classes`"),
            _ => ("", "its values with `categories`"),
        };
        let name = &self.names[column];
        Some(Err(format!(
            "column '{name}'{what} holds text, which is no number: list {list}, or write the column as numbers"
        )))
    }

    /// Adds a truth value to a row, or its label: the number 1 or 0, or the entry of a list that is `true` or `false` in any case.
    #[cfg(feature = "parquet")]
    pub fn truth(&self, column: usize, truth: bool, row: &mut Row) -> Result<(), String> {
        let (word, digit) = if truth { ("true", "1") } else { ("false", "0") };
        let list = match (&self.roles[column], &self.classes) {
            (Role::Number { .. }, _) | (Role::Label, None | Some(Classes { numbers: Some(_), .. })) => &[],
            (Role::Category { list, .. }, _) => *list,
            (Role::Label, Some(classes)) => &classes.names[..],
        };
        let entry = list.iter().find(|entry| entry.eq_ignore_ascii_case(word) || *entry == digit);
        match (entry, &self.roles[column]) {
            (Some(entry), _) => self.text(column, entry, row),
            (None, Role::Category { .. }) => self.text(column, word, row),
            (None, _) => self.number(column, Number::Int(truth.into()), row),
        }
    }

    /// Adds a number to a row, or its label.
    #[cfg(feature = "parquet")]
    pub fn number(&self, column: usize, number: Number, row: &mut Row) -> Result<(), String> {
        match (&self.roles[column], &self.classes) {
            (Role::Number { scale }, _) => return self.feature(column, number, *scale, row),
            (Role::Label, None | Some(Classes { or_numbers: true, numbers: None, .. })) => row.label = number,
            (Role::Label, Some(Classes { names, numbers: Some(numbers), .. })) => {
                let own = number.integer().ok().and_then(|own| usize::try_from(own).ok());
                let Some(class) = own.and_then(|own| numbers.get(own)) else {
                    row.label = Number::NAN;
                    return Err(format!(
                        "the label {number} is none of the file's {} classes ({}): correct the row",
                        numbers.len(),
                        self::names(names)
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

/// Refuses constants that are none.
pub(super) fn check_scale(wanted: &str, mean: f64, std: f64) -> Result<(), DataError> {
    if mean.is_finite() && std.is_normal() && std > 0.0 {
        return Ok(());
    }
    let problem = "give a finite mean and a standard deviation above 0";
    Err(SettingError::new("scale", format!("{wanted}={mean},{std}"), problem).into())
}

/// The public constants of labels: once, and of numbers alone.
pub(super) fn labels_scaled(
    options: &DataOptions,
    wanted: &str,
    before: Option<(f64, f64)>,
    (mean, std): (f64, f64),
) -> Result<Option<(f64, f64)>, DataError> {
    let refuse = |problem: &'static str| Err(SettingError::new("scale", wanted, problem).into());
    match options.labels {
        _ if before.is_some() => refuse("the labels are scaled already; name them once"),
        LabelKind::Values { .. } => Ok(Some((mean, std))),
        LabelKind::None => refuse("this loss takes no labels; leave it out"),
        _ => refuse("the labels are classes or from 0 to 1, which are not scaled; leave it out, or use `loss` mse"),
    }
}

/// Returns true if each comma of a number has three digits after it.
fn has_thousands(field: &str) -> bool {
    field.split(',').skip(1).all(|group| {
        let digits = group.split('.').next().unwrap_or_default();
        digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// A row on its way to a sample.
pub(super) struct Row {
    pub features: Vec<Number>,
    pub label: Number,
}

impl Default for Row {
    fn default() -> Self {
        Self { features: Vec::new(), label: Number::NAN }
    }
}

fn not_a_number(name: &str, field: &str) -> String {
    if MISSING.contains(&field) {
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

/// The number of a label: of its class, if classes have names.
pub(super) fn label(name: &str, field: &str, classes: Option<&Classes>) -> Result<Number, String> {
    match classes {
        Some(Classes { names, or_numbers, are_given, .. }) => match names.iter().position(|class| class == field) {
            Some(class) => Ok(Number::Int(class as i64)),
            None if *or_numbers && let Some(number) = Number::parse(field) => Ok(number),
            None if !are_given => {
                Err(format!("the label '{field}' is not one of the classes {}: correct the row", self::names(names)))
            }
            None => Err(format!("the label '{field}' is not in `classes`: correct the row or the list")),
        },
        None => Number::parse(field).ok_or_else(|| {
            if MISSING.contains(&field) {
                format!("column '{name}', the label, is not a number but missing: correct the row")
            } else {
                format!(
                    "column '{name}', the label, is not a number: list the names of the classes with `classes`, or correct the row"
                )
            }
        }),
    }
}

/// The names of the classes must be those of a model that tells so many apart.
pub(super) fn check_classes(options: &DataOptions) -> Result<(), DataError> {
    let Some(names) = &options.classes else { return Ok(()) };
    let refuse = |problem: String| Err(SettingError::new("classes", names.join(","), problem).into());
    if let Some((at, name)) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        return refuse(format!("'{name}' is named twice (entry {}); name each class once", at + 1));
    }
    match &options.labels {
        LabelKind::Classes { classes: Some(classes), .. } if names.len() > *classes => refuse(format!(
            "{} classes, and the model has {classes}; list its classes, or train a model with more outputs",
            names.len()
        )),
        LabelKind::None => refuse("this loss takes no labels; leave it out".into()),
        _ => Ok(()),
    }
}

/// The label's column: by name, by number, or the last.
pub(super) fn label_column(path: &Path, columns: &[String], options: &DataOptions) -> Result<Option<usize>, DataError> {
    match (&options.labels, &options.label_column) {
        (LabelKind::None, _) => Ok(None),
        (_, None) => Ok(Some(columns.len() - 1)),
        (_, Some(wanted)) => column(path, columns, wanted).map(Some),
    }
}

/// A column by name, or by number. A number that is the name of another column than the one at its place could mean either.
pub(super) fn column(path: &Path, columns: &[String], wanted: &str) -> Result<usize, DataError> {
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
                names(columns),
                columns.len() - 1
            ))
        }),
    }
}

/// The first columns, as messages list them.
pub(super) fn names<S: std::fmt::Display>(columns: &[S]) -> String {
    columns.iter().take(20).map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

/// Enough of the columns to see a row that is taken for names.
pub(super) fn shortened(columns: &[String]) -> String {
    let is_short = columns.len() <= 6;
    let shown = if is_short { columns } else { &columns[..3] };
    let more = if is_short { String::new() } else { format!(", ... ({} columns)", columns.len()) };
    names(shown) + &more
}

/// The label's column, as notes give it.
pub(super) fn of_label(columns: &[String], label: Option<usize>) -> String {
    label.map_or("no label".into(), |label| format!("label '{}'", columns[label]))
}

/// The columns of a table whose file names them.
#[cfg(feature = "parquet")]
pub(super) fn summary(columns: &[String], label: Option<usize>) -> String {
    format!("columns {}; {}", shortened(columns), of_label(columns, label))
}
