//! Reorders the columns of each table to those of the first.

use super::super::name_lists::{doubled, quoted_and_more};
use super::{Choose, Known, Naming, Order};
use crate::{DataError, TableNames};
use damper_onnx::SettingError;
use std::path::Path;

impl Naming {
    /// Returns the columns of a table with the names `own`. If `own` is `None`, the table has `width` columns without
    /// names.
    pub fn table(
        &mut self,
        path: &Path,
        own: Option<Vec<String>>,
        width: usize,
        choose: Choose<'_>,
        wanted: Option<&str>,
    ) -> Result<Order, DataError> {
        let refuse = |problem: String| Err(DataError::File(format!("{}: {problem}", path.display())));
        let Some(own) = own else { return self.unnamed(path, width, choose, wanted) };
        check_names(path, &own)?;
        if let Some((unnamed, _)) = &self.unnamed {
            return refuse(format!(
                "its columns have names, and those of {unnamed} have none: write the names into the first line of both, or of neither"
            ));
        }
        let Some(known) = &self.table else {
            if let Some(origin) = &self.all_of {
                return refuse(format!(
                    "its columns have names, and {origin} names none, so that others may have another order: name the columns there, or use \
                     data without names"
                ));
            }
            let label = choose(&own)?;
            let names = TableNames { columns: own.clone(), label: label.map(|label| own[label].clone()) };
            self.table = Some(Known { names, origin: path.display().to_string(), is_own: true });
            return Ok(Order { places: (0..own.len()).collect(), names: own, label });
        };
        let (names, label) = self.expected(known, &own, choose, wanted)?;
        let missing: Vec<&String> = names.iter().filter(|name| !own.contains(name)).collect();
        let extra: Vec<&String> = own.iter().filter(|name| !names.contains(name)).collect();
        if !(missing.is_empty() && extra.is_empty()) {
            return refuse(other_names("column", &known.origin, &missing, &extra));
        }
        let places = names.iter().filter_map(|name| own.iter().position(|own| own == name)).collect();
        Ok(Order { names, places, label })
    }

    /// Returns an error for settings with an ambiguous column number. It is ambiguous if the table at `path` orders its
    /// columns differently from a model, a run or a plan.
    pub fn check_numbers(&self, path: &Path, wanted: &[(&'static str, &str)], order: &Order) -> Result<(), DataError> {
        let Some(known) = self.table.as_ref().filter(|known| !known.is_own && !order.places.is_sorted()) else {
            return Ok(());
        };
        let is_name = |wanted: &str| order.names.iter().any(|name| name == wanted);
        let mut numbered = wanted.iter().filter(|(_, wanted)| !is_name(wanted));
        match numbered.find(|(_, wanted)| wanted.parse::<usize>().is_ok()) {
            None => Ok(()),
            Some((setting, wanted)) => {
                let problem = format!(
                    "{} has its columns in another order than {}: give the column's name",
                    path.display(),
                    known.origin
                );
                Err(SettingError::new(setting, wanted, problem).into())
            }
        }
    }

    /// Returns the names that a table with columns `own` must have, in order, and the label's index among them.
    fn expected(
        &self,
        known: &Known<TableNames>,
        own: &[String],
        choose: Choose<'_>,
        wanted: Option<&str>,
    ) -> Result<(Vec<String>, Option<usize>), DataError> {
        let TableNames { columns, label } = &known.names;
        match label {
            Some(label) => {
                let at = columns.iter().position(|name| name == label);
                if wanted.is_some()
                    && let Some(chosen) = choose(columns)?
                    && Some(chosen) != at
                {
                    let problem = format!("{} has the label '{label}'; leave it out", known.origin);
                    return Err(SettingError::new("label_column", &columns[chosen], problem).into());
                }
                Ok((columns.clone(), at))
            }
            // Only the features have names so far, so the label is that of the file.
            None => {
                let label = choose(own)?.map(|label| own[label].clone());
                let names: Vec<String> = columns.iter().chain(&label).cloned().collect();
                let at = label.map(|_| columns.len());
                Ok((names, at))
            }
        }
    }

    /// Returns the label column next to an image column. It is that of the first file, at any position in this file.
    pub fn label(
        &mut self,
        path: &Path,
        own: &[String],
        choose: Choose<'_>,
        wanted: Option<&str>,
    ) -> Result<Option<usize>, DataError> {
        let chosen = choose(own)?;
        let known = self.table.as_ref().and_then(|known| Some((known.names.label.as_ref()?, &known.origin)));
        let (Some(at), Some((label, origin))) = (chosen, known) else {
            if let (Some(at), None) = (chosen, &self.table) {
                let names = TableNames { columns: vec![own[at].clone()], label: Some(own[at].clone()) };
                self.table = Some(Known { names, origin: path.display().to_string(), is_own: true });
            }
            return Ok(chosen);
        };
        if wanted.is_some_and(|wanted| own[at] == wanted && wanted != label) {
            let problem = format!("{origin} has the label '{label}'; leave it out");
            return Err(SettingError::new("label_column", &own[at], problem).into());
        }
        let found = own.iter().position(|name| name == label).map(Some);
        found.ok_or_else(|| {
            let problem = other_names("column", origin, &[label], &[]);
            DataError::File(format!("{}: {problem}", path.display()))
        })
    }

    fn unnamed(
        &mut self,
        path: &Path,
        width: usize,
        choose: Choose<'_>,
        wanted: Option<&str>,
    ) -> Result<Order, DataError> {
        let file = path.display();
        if let Some((first, before)) = self.unnamed.as_ref().filter(|(_, before)| *before != width) {
            return Err(DataError::File(format!(
                "{file}: has {width} columns without names, and {first} has {before}: use data of the same columns"
            )));
        }
        let places = || (0..width).collect::<Vec<_>>();
        match &self.table {
            Some(known) if known.is_own => Err(DataError::File(format!(
                "{file}: its first line names no columns, and {} names them: write the names into the first line of both, or of neither",
                known.origin
            ))),
            Some(known) => {
                let names = match (choose(&known.names.columns), &known.names.label) {
                    // The label is the file's own.
                    (_, None) => (0..width).map(|column| column.to_string()).collect(),
                    _ => known.names.columns.clone(),
                };
                if names.len() != width {
                    return Err(DataError::File(format!(
                        "{file}: has {width} columns without names, and {} has {}: {}: use data of the same columns",
                        known.origin,
                        names.len(),
                        quoted_and_more(&names)
                    )));
                }
                let label = match &known.names.label {
                    Some(_) => self.expected(known, &[], choose, wanted)?.1,
                    None => choose(&names)?,
                };
                let note = format!(
                    "{file}: its columns have no names, so they are taken for those of {} by place",
                    known.origin
                );
                self.note(note);
                self.unnamed.get_or_insert((file.to_string(), width));
                Ok(Order { names, places: places(), label })
            }
            None => {
                let names: Vec<String> = (0..width).map(|column| column.to_string()).collect();
                let label = choose(&names)?;
                self.note(format!("{file}: its columns have no names, so they are matched by place"));
                self.unnamed.get_or_insert((file.to_string(), width));
                Ok(Order { names, places: places(), label })
            }
        }
    }

    /// Returns the positions of an array's columns (features only) in the order of the known names. Returns `None` if
    /// they already have that order.
    pub fn array(
        &mut self,
        origin: &str,
        own: Option<&[String]>,
        width: usize,
    ) -> Result<Option<Vec<usize>>, DataError> {
        let Some(own) = own else {
            if let Some(known) = &self.table {
                let note = format!(
                    "{origin}: its columns have no names, so they are taken for those of {} by place",
                    known.origin
                );
                self.note(note);
            }
            return Ok(None);
        };
        if own.len() != width {
            let counted = own.len();
            return Err(DataError::File(format!(
                "{origin}: has {width} columns and {counted} names: give one name for each"
            )));
        }
        let features = |known: &Known<TableNames>| known.names.features().cloned().collect::<Vec<_>>();
        let before = self.table.as_ref().map(features);
        let order = match (before, &mut self.table) {
            (Some(features), Some(known)) => {
                // Handles it like a table with only features.
                let label = known.names.label.take();
                let columns = std::mem::replace(&mut known.names.columns, features);
                let order = self.table(Path::new(origin), Some(own.into()), width, &|_| Ok(None), None);
                if let Some(known) = &mut self.table {
                    known.names = TableNames { columns, label };
                }
                order?
            }
            _ => self.table(Path::new(origin), Some(own.into()), width, &|_| Ok(None), None)?,
        };
        Ok((!order.places.is_sorted()).then_some(order.places))
    }

    /// Returns the column with this use in a table of texts: that of the first table, which `find` locates in the first
    /// table.
    pub fn text(
        &mut self,
        path: &Path,
        setting: &'static str,
        names: Option<&[String]>,
        is_asked_for: bool,
        find: impl FnOnce() -> Result<usize, DataError>,
    ) -> Result<usize, DataError> {
        let Some(names) = names else { return find() };
        if let Some((_, first, name)) = self.texts.iter().find(|(known, ..)| *known == setting) {
            let found = names.iter().position(|own| own == name);
            if found.is_none() && is_asked_for {
                return Err(DataError::File(format!(
                    "{}: has no column '{name}', which {first} has for {setting}: rename its column, or use files that belong together",
                    path.display()
                )));
            }
            // Each file has one of the usual names.
            let Some(found) = found else {
                let found = find()?;
                let note =
                    format!("{}: its column '{}' is taken for '{name}' of {first}", path.display(), names[found]);
                self.note(note);
                return Ok(found);
            };
            return Ok(found);
        }
        let found = find()?;
        if let Some(second) = (0..names.len()).find(|other| *other != found && names[*other] == names[found]) {
            return Err(twice(path, &names[found], found.min(second), found.max(second)));
        }
        self.texts.push((setting, path.display().to_string(), names[found].clone()));
        Ok(found)
    }
}

/// Checks that each column has a unique name, also without case, and that no column numbers the rows.
fn check_names(path: &Path, names: &[String]) -> Result<(), DataError> {
    if let Some((number, name)) = names.iter().enumerate().find(|(_, name)| is_row_number(name)) {
        return Err(DataError::File(format!(
            "{}: column {number} (counted from 0) {}: take it out (in pandas write with index=False), or name it",
            path.display(),
            if name.is_empty() { "has no name".into() } else { format!("is '{name}', numbers of rows") }
        )));
    }
    if let Some((first, second)) = doubled(names) {
        return Err(twice(path, &names[first], first, second));
    }
    let lower: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    match doubled(&lower) {
        Some((first, second)) => Err(DataError::File(format!(
            "{}: columns '{}' and '{}', {first} and {second} (counted from 0), differ by case alone: rename one",
            path.display(),
            names[first],
            names[second]
        ))),
        None => Ok(()),
    }
}

fn twice(path: &Path, name: &str, first: usize, second: usize) -> DataError {
    DataError::File(format!(
        "{}: has two columns '{name}', {first} and {second} (counted from 0): rename or take out one of them",
        path.display()
    ))
}

/// Returns true if a column with this name numbers the rows, as pandas writes it. Row numbers are not a feature.
fn is_row_number(name: &str) -> bool {
    name.is_empty() || name.starts_with("Unnamed: ") || name.starts_with("__index_level_")
}

/// Returns the error for a different set of names.
fn other_names(what: &str, origin: &str, missing: &[&String], extra: &[&String]) -> String {
    let part = |names: &[&String], word: &str| match names {
        [] => None,
        names => Some(format!("{word} {}", quoted_and_more(names))),
    };
    let parts =
        [part(missing, "lacks"), part(extra, "has besides")].into_iter().flatten().collect::<Vec<_>>().join(", and ");
    let lower = |names: &[&String]| {
        let mut lower: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
        lower.sort();
        lower
    };
    let case = if lower(missing) == lower(extra) { " (names that differ by case are other names)" } else { "" };
    format!("has other {what}s than {origin}: it {parts}{case}: rename them, or use files that belong together")
}
