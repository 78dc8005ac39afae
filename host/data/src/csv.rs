//! `csv:PATH`: one sample a line, fields between commas (RFC 4180, as the `csv` crate reads it), plain or gzipped.
//!
//! One column is the label, the others are the features, in the order of the file: numbers, or categories by a public list
//! ([`DataOptions::categories`]). The first line names the columns if [`DataOptions::header`] says so or, where it does not say, if one
//! of its fields is not a number. A field that is not a number makes its row a bad row; a line with another number of fields makes the
//! file unusable.

use super::array::{Array, FETCH_AGAIN, open, read_failed};
use super::assemble::{Raw, assemble};
use super::columns::{Columns, Row, label_column};
use super::lines::{BlankLines, Counted, without_mark};
use super::names::{Naming, Order};
use super::values::{Sink, Values};
use super::{DataError, DataOptions, Split};
use csv::{ReaderBuilder, StringRecord, Trim};
use std::path::Path;

pub(super) fn load(
    path: &Path,
    options: &DataOptions,
    naming: &mut Naming,
) -> Result<(Split, Option<Split>), DataError> {
    let delimiter = options.delimiter.unwrap_or(b',');
    let file = without_mark(open(path)?.reader).map_err(|error| read_failed(path, &error))?;
    let (file, blank) = Counted::new(file);
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .trim(Trim::All)
        .delimiter(delimiter)
        .buffer_capacity(1 << 16)
        .from_reader(file);
    let mut record = StringRecord::new();
    let mut next = |record: &mut StringRecord| reader.read_record(record).map_err(|error| failed(path, &blank, error));
    if !next(&mut record)? {
        return Err(DataError::File(format!("{}: holds no lines: {FETCH_AGAIN}", path.display())));
    }
    if record.len() == 1 && record[0].starts_with('#') {
        return Err(DataError::File(format!("{}: line 1: is a comment: take it out", path.display())));
    }
    if let Some(other) = other_delimiter(&record.iter().collect::<Vec<_>>(), delimiter) {
        return Err(DataError::File(format!(
            "{}: its fields are not separated by '{}': give `delimiter` {other}",
            path.display(),
            char::from(delimiter).escape_default()
        )));
    }
    // A first line of categories is no header.
    let is_number = |field: &str| field.is_empty() || field.parse::<f64>().is_ok();
    let is_listed = |field: &str| {
        let mut lists = options.categories.iter().map(|(_, list)| &**list).chain(naming.classes());
        lists.any(|list| list.iter().any(|entry| entry == field))
    };
    let header = options.header.unwrap_or_else(|| record.iter().any(|field| !is_number(field) && !is_listed(field)));
    let names = header.then(|| record.iter().map(String::from).collect());
    let choose = |names: &[String]| label_column(path, names, options);
    let Order { names, places, label } =
        naming.table(path, names, record.len(), &choose, options.label_column.as_deref())?;
    let columns = Columns::new(path, names, label, naming.classes(), options)?;
    let width = columns.width();
    if width == 0 {
        return Err(DataError::File(format!("{}: has no column of features: use a file that does", path.display())));
    }

    let (mut features, mut labels) = (Sink::new(&options.room()), Vec::new());
    let (mut lines, mut unreadable, mut row) = (Vec::new(), Vec::new(), Row::default());
    let mut more = !header || next(&mut record)?;
    while more {
        row.features.clear();
        let mut fault = None;
        for (column, place) in places.iter().enumerate() {
            if let Err(problem) = columns.text(column, &record[*place], &mut row) {
                fault.get_or_insert(problem);
            }
        }
        if let Some(fault) = fault {
            unreadable.push((lines.len(), fault));
        }
        features.push(&row.features)?;
        if label.is_some() {
            labels.push(row.label);
        }
        lines.push(blank.line(record.position()));
        more = next(&mut record)?;
    }

    let origin = path.display().to_string();
    let raw = Raw {
        features: vec![Array { origin: origin.clone(), shape: vec![lines.len(), width], values: features.finish()? }],
        labels: label.map(|_| Array { origin, shape: vec![lines.len()], values: Values::f64s(labels) }),
        unreadable,
        lines: Some(lines),
    };
    Ok((assemble(raw, options)?, None))
}

/// The delimiter that the fields of the first line evidently have instead, as the setting takes it.
pub(super) fn other_delimiter(fields: &[&str], own: u8) -> Option<&'static str> {
    let others = [(b';', "';'"), (b'\t', "tab"), (b',', "','"), (b'|', "'|'"), (b' ', "' '")];
    let found = others.into_iter().find(|(other, _)| {
        let count = fields.iter().flat_map(|field| field.bytes()).filter(|byte| byte == other).count();
        // Names may have spaces.
        let is_alone = *other != b' ' || fields.len() == 1;
        *other != own && count > 0 && count + 1 >= fields.len() && is_alone
    });
    found.map(|(_, name)| name)
}

fn failed(path: &Path, blank: &BlankLines, error: csv::Error) -> DataError {
    let line = blank.line(error.position());
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => DataError::File(format!(
            "{}: line {line}: has {len} fields where the first line has {expected_len}: correct the line",
            path.display()
        )),
        csv::ErrorKind::Utf8 { .. } => {
            DataError::File(format!("{}: line {line}: is not UTF-8 text: save the file as UTF-8", path.display()))
        }
        _ => match error.into_kind() {
            csv::ErrorKind::Io(error) => read_failed(path, &error),
            other => DataError::File(format!("{}: line {line}: {other:?}: {FETCH_AGAIN}", path.display())),
        },
    }
}
