//! Names of columns and classes in a data set. They are public.

use serde::{Deserialize, Serialize};

/// The names of a data set.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataNames {
    /// Names of a table's columns. `None` if the samples are not a table, or its columns have no names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<TableNames>,
    /// Names of the classes, in the order of their numbers. `None` if classes have only numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<Vec<String>>,
}

impl DataNames {
    /// Returns true if both lists of names are absent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_none() && self.classes.is_none()
    }
}

/// The names of a table's columns.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableNames {
    /// All used columns, including the label, in the order of the first table.
    pub columns: Vec<String>,
    /// The label column. `None` without a label, or if it is not in the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

impl TableNames {
    /// Returns the names of the features, in the order of the model's input.
    pub fn features(&self) -> impl Iterator<Item = &String> {
        self.columns.iter().filter(|name| Some(*name) != self.label.as_ref())
    }
}

/// Names that data must have, with their origin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownNames {
    /// The names.
    pub names: DataNames,
    /// The owner of the names, for messages, such as `the model`.
    pub origin: String,
    /// True if data must not add names to a part without names. Otherwise data that this process does not see could be
    /// read in another order.
    pub are_all: bool,
}
