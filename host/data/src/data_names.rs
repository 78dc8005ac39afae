//! The names of a data set: of columns and of classes. They are public.

use serde::{Deserialize, Serialize};

/// The names of a data set.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataNames {
    /// Of a table's columns; none if the samples are no table, or its columns have no names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<TableNames>,
    /// Of the classes, in the order of their numbers; none if they have numbers alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<Vec<String>>,
}

impl DataNames {
    /// Returns true if nothing has a name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_none() && self.classes.is_none()
    }
}

/// The names of a table's columns.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableNames {
    /// All that are used, the label's among them, in the order of the first table.
    pub columns: Vec<String>,
    /// The label's; none if there is none, or it is not of the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

impl TableNames {
    /// The names of the features, in the order of the model's input.
    pub fn features(&self) -> impl Iterator<Item = &String> {
        self.columns.iter().filter(|name| Some(*name) != self.label.as_ref())
    }
}

/// Names that data must have, and where they come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownNames {
    /// The names.
    pub names: DataNames,
    /// Owner of the names, in the words of a message: `the model`.
    pub origin: String,
    /// True if data may not add names where there are none: other data that this process does not see would be read in another order.
    pub are_all: bool,
}
