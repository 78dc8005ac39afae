//! `csv:PATH`: one sample a line, numbers between commas (RFC 4180, as the `csv` crate reads it).
//!
//! One column is the label, the others are the features, in the order of the file. The first line names the columns if
//! [`DataOptions::header`] says so or, where it does not say, if one of its fields is not a number. A field that is not
//! a number makes its row a bad row; a line with another number of fields makes the file unusable.

use super::array::{Array, FETCH_AGAIN, Values, open_plain, read_failed};
use super::assemble::{Raw, assemble};
use super::{DataError, DataOptions, LabelKind, Split};
use csv::{Position, ReaderBuilder, StringRecord, Trim};
use std::io::Read;
use std::path::Path;

pub(super) fn load(path: &Path, options: &DataOptions) -> Result<(Split, Option<Split>), DataError> {
    let (mut file, len) = open_plain(path)?;
    let mut text = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
    file.read_to_end(&mut text).map_err(|error| read_failed(path, &error))?;
    let mut reader = ReaderBuilder::new().has_headers(false).trim(Trim::All).from_reader(&text[..]);
    let mut record = StringRecord::new();
    let mut next = |record: &mut StringRecord| reader.read_record(record).map_err(|error| failed(path, &text, error));
    if !next(&mut record)? {
        return Err(DataError::File(format!("{}: holds no lines: {FETCH_AGAIN}", path.display())));
    }
    if let Some(rest) = record.get(0).and_then(|field| field.strip_prefix('\u{feff}')) {
        let mut clean = StringRecord::from(vec![rest]);
        clean.extend(record.iter().skip(1));
        clean.set_position(record.position().cloned());
        record = clean;
    }
    let header =
        options.header.unwrap_or_else(|| record.iter().any(|field| !field.is_empty() && field.parse::<f64>().is_err()));
    let columns: Vec<String> = if header {
        record.iter().map(String::from).collect()
    } else {
        (0..record.len()).map(|column| column.to_string()).collect()
    };
    let label = label_column(path, &columns, options)?;
    let width = columns.len() - usize::from(label.is_some());
    if width == 0 {
        return Err(DataError::File(format!("{}: has no column of features: use a file that does", path.display())));
    }

    let (mut features, mut labels, mut lines, mut unreadable) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut more = !header || next(&mut record)?;
    while more {
        let row = lines.len();
        lines.push(line(&text, record.position()));
        let mut fault = None;
        for (column, field) in record.iter().enumerate() {
            // A field that is no number leaves a NaN: a bad row, with a better message than the NaN's own.
            if Some(column) == label {
                labels.push(field.parse().unwrap_or(f64::NAN));
            } else {
                features.push(field.parse().unwrap_or(f32::NAN));
            }
            if field.parse::<f64>().is_err() {
                fault.get_or_insert(column);
            }
        }
        if let Some(column) = fault {
            let name = &columns[column];
            unreadable
                .push((row, format!("column '{name}' is not a number: correct the row, or use `on_bad_row` drop")));
        }
        more = next(&mut record)?;
    }

    let origin = path.display().to_string();
    let raw = Raw {
        features: vec![Array {
            origin: origin.clone(),
            shape: vec![lines.len(), width],
            values: Values::F32(features),
        }],
        labels: label.map(|_| Array { origin, shape: vec![lines.len()], values: Values::F64(labels) }),
        unreadable,
        lines: Some(lines),
    };
    Ok((assemble(raw, options)?, None))
}

/// The label's column: by name, by number, or the last.
fn label_column(path: &Path, columns: &[String], options: &DataOptions) -> Result<Option<usize>, DataError> {
    if options.labels == LabelKind::None {
        return Ok(None);
    }
    let Some(wanted) = &options.label_column else {
        return Ok(Some(columns.len() - 1));
    };
    column(path, columns, wanted).map(Some)
}

/// A column by name, or by number.
pub(super) fn column(path: &Path, columns: &[String], wanted: &str) -> Result<usize, DataError> {
    columns
        .iter()
        .position(|name| name == wanted)
        .or_else(|| wanted.parse().ok().filter(|column| *column < columns.len()))
        .ok_or_else(|| {
            DataError::File(format!(
                "{}: has no column '{wanted}': name one of {}, or a number from 0 to {}",
                path.display(),
                names(columns),
                columns.len() - 1
            ))
        })
}

/// The first columns, as messages list them.
pub(super) fn names<S: std::fmt::Display>(columns: &[S]) -> String {
    columns.iter().take(20).map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

/// The line, counted from 1, on which the record at `position` stands. The reader's own number is that of the first of
/// the blank lines before it.
pub(super) fn line(text: &[u8], position: Option<&Position>) -> u64 {
    let Some(position) = position else {
        return 0;
    };
    let rest = usize::try_from(position.byte()).ok().and_then(|byte| text.get(byte..));
    let skipped = rest
        .unwrap_or_default()
        .iter()
        .take_while(|byte| matches!(byte, b'\r' | b'\n'))
        .filter(|byte| **byte == b'\n')
        .count();
    position.line() + skipped as u64
}

fn failed(path: &Path, text: &[u8], error: csv::Error) -> DataError {
    let line = line(text, error.position());
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => DataError::File(format!(
            "{}: line {line}: has {len} fields where the first line has {expected_len}: correct the line",
            path.display()
        )),
        csv::ErrorKind::Utf8 { .. } => {
            DataError::File(format!("{}: line {line}: is not UTF-8 text: {FETCH_AGAIN}", path.display()))
        }
        _ => match error.into_kind() {
            csv::ErrorKind::Io(error) => read_failed(path, &error),
            other => DataError::File(format!("{}: line {line}: {other:?}: {FETCH_AGAIN}", path.display())),
        },
    }
}
