//! Names of columns and of classes: tables are put in one order by them, and classes numbered.
//!
//! The first table of a data set decides the order of the columns, or the names that were known before: of the model, of the run that
//! is resumed, of a federation's plan. Every later table must have the same names, each once, in any order. A number of a column means
//! that place of the first table, and is refused where names that were known before have another order. A table without names is read by
//! place, and a note says so; tables with names and without them in one data set are an error. Classes are numbered by the first list of
//! names in the same way.
//!
//! Names are public: of columns, of classes, of the folders of images.

mod columns;

use super::name_lists::{doubled, quoted_and_more};
use crate::{DataError, DataNames, KnownNames, TableNames};
use damper_onnx::SettingError;
use std::path::Path;

/// The names found so far, while a data set is read.
#[derive(Default)]
pub(crate) struct Naming {
    table: Option<Known<TableNames>>,
    classes: Option<Known<Vec<String>>>,
    /// Owner of the names that were known before.
    all_of: Option<String>,
    /// The first table of this data set whose columns have no names, and how many it has.
    unnamed: Option<(String, usize)>,
    /// Columns of texts by their use, by the first table.
    texts: Vec<(&'static str, String, String)>,
    notes: Vec<String>,
}

/// Names, and what has them.
struct Known<T> {
    names: T,
    origin: String,
    /// True if they are of this data set.
    is_own: bool,
}

/// A table's columns in the order of the first table.
pub(crate) struct Order {
    pub names: Vec<String>,
    /// The place of each in the file.
    pub places: Vec<usize>,
    pub label: Option<usize>,
}

/// Chooses the label's column among the names: by the settings, or as the kind of file usually has it.
pub(crate) type Choose<'a> = &'a dyn Fn(&[String]) -> Result<Option<usize>, DataError>;

impl Naming {
    /// With names that were known before, and the list of classes that the user gives.
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

    /// The names of the classes, if they have names.
    pub fn classes(&self) -> Option<&[String]> {
        self.classes.as_ref().map(|known| &*known.names)
    }

    /// The number of each class of a list that data has of its own, by the classes that are known; they are these if none are.
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

    /// Says something that is public of the data's files.
    pub fn note(&mut self, note: String) {
        // Names come out of files: what would move a terminal's cursor is left out.
        let note = note.replace(char::is_control, " ");
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The names, and what is to be said of the files.
    pub fn finish(self) -> (DataNames, Vec<String>) {
        let names =
            DataNames { table: self.table.map(|known| known.names), classes: self.classes.map(|known| known.names) };
        (names, self.notes)
    }
}
