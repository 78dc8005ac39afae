//! Matching by names of columns and classes. It reorders tables to one column order, and numbers classes.
//!
//! Names may be known in advance from the model, the resumed run, or a federation's plan. These determine the order of
//! the columns. Without such names, the first table of a data set determines it. Every later table must have the same
//! names, each once, in any order. A column number refers to that position of the first table. It is an error if names
//! known in advance have another order. A table without names is read by position, with a note. A data set with both
//! kinds of tables is an error. Classes are numbered by the first list of names in the same way.
//!
//! Names of columns, of classes and of the folders of images are public.

mod columns;

use super::name_lists::{doubled, quoted_and_more};
use crate::{DataError, DataNames, KnownNames, TableNames};
use damper_onnx::SettingError;
use std::path::Path;

/// The names found so far while a data set is read.
#[derive(Default)]
pub(crate) struct Naming {
    table: Option<Known<TableNames>>,
    classes: Option<Known<Vec<String>>>,
    /// Owner of the names known in advance.
    all_of: Option<String>,
    /// The first table of this data set without column names, and its number of columns.
    unnamed: Option<(String, usize)>,
    /// Text columns by their use, from the first table.
    texts: Vec<(&'static str, String, String)>,
    notes: Vec<String>,
}

/// Names with their origin.
struct Known<T> {
    names: T,
    origin: String,
    /// True if they are from this data set.
    is_own: bool,
}

/// A table's columns in the order of the first table.
pub(crate) struct Order {
    pub names: Vec<String>,
    /// The position of each column in the file.
    pub places: Vec<usize>,
    pub label: Option<usize>,
}

/// Selects the label column among the names, by the settings or by the convention of the file type.
pub(crate) type Choose<'a> = &'a dyn Fn(&[String]) -> Result<Option<usize>, DataError>;

impl Naming {
    /// Starts with names known in advance, and with the user's list of classes.
    pub fn new(known: Option<&KnownNames>, given: Option<&[String]>) -> Result<Self, DataError> {
        let mut naming = Self::default();
        if let Some(KnownNames { names, origin, are_all }) = known {
            let is_own = false;
            naming.table = names.table.clone().map(|names| Known { names, origin: origin.clone(), is_own });
            naming.classes = names.classes.clone().map(|names| Known { names, origin: origin.clone(), is_own });
            naming.all_of = are_all.then(|| origin.clone());
        }
        let Some(given) = given else { return Ok(naming) };
        match (&naming.classes, &naming.all_of) {
            (Some(known), _) if known.names != given => {
                let problem =
                    format!("{} has the classes {}; leave it out", known.origin, quoted_and_more(&known.names));
                Err(SettingError::new("classes", given.join(","), problem).into())
            }
            (None, Some(origin)) => {
                let problem =
                    format!("{origin} names no classes, and all who take part must number them alike; name them there");
                Err(SettingError::new("classes", given.join(","), problem).into())
            }
            (Some(_), _) => Ok(naming),
            (None, None) => {
                naming.classes = Some(Known { names: given.into(), origin: "`classes`".into(), is_own: true });
                Ok(naming)
            }
        }
    }

    /// Returns the names of the classes, if they have names.
    pub fn classes(&self) -> Option<&[String]> {
        self.classes.as_ref().map(|known| &*known.names)
    }

    /// Returns the number of each class in the data's own list, by the known classes. If no classes are known, this
    /// list becomes known.
    pub fn numbers(&mut self, path: &Path, own: &[String]) -> Result<Vec<usize>, DataError> {
        if let Some((first, second)) = doubled(own) {
            return Err(DataError::File(format!(
                "{}: classes {first} and {second} are named '{}': name each class once",
                path.display(),
                own[first]
            )));
        }
        if let (None, Some(origin)) = (&self.classes, &self.all_of) {
            return Err(DataError::File(format!(
                "{}: its classes have names, and {origin} names none, so that others may number them otherwise: name the classes there",
                path.display()
            )));
        }
        let known = self.classes.get_or_insert_with(|| Known {
            names: own.to_vec(),
            origin: path.display().to_string(),
            is_own: true,
        });
        let number = |name: &String| {
            known.names.iter().position(|class| class == name).ok_or_else(|| {
                let (origin, known) = (&known.origin, quoted_and_more(&known.names));
                DataError::File(format!(
                    "{}: the class '{name}' is not one of those of {origin}, {known}: rename it, take it away, or train with it",
                    path.display()
                ))
            })
        };
        own.iter().map(number).collect()
    }

    /// Adds a public note about the data's files.
    pub fn note(&mut self, note: String) {
        // Names come from files, so control characters, which could move a terminal's cursor, are replaced.
        let note = note.replace(char::is_control, " ");
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Returns the names, and the notes on the files.
    pub fn finish(self) -> (DataNames, Vec<String>) {
        let names =
            DataNames { table: self.table.map(|known| known.names), classes: self.classes.map(|known| known.names) };
        (names, self.notes)
    }
}
