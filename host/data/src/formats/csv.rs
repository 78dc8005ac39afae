//! `csv:PATH`: one sample per line, with fields between commas (RFC 4180, as the `csv` crate reads it), plain or
//! gzipped.
//!
//! One column is the label. The others are the features, in file order: numbers, or categories from a public list
//! ([`DataOptions::categories`]). A field that is not a number makes its row a bad row. A line with another number of
//! fields, or with a quotation mark that does not end its field, makes the file unusable.
//!
//! # The first line
//!
//! If [`DataOptions::header`] is given, it determines if the first line names the columns. Otherwise this rule applies.
//! A number is a *value*, and so are words for a missing value (those of pandas, and `?`) and entries of a list of
//! categories or classes. The first line names the columns if none of its fields is a value. The first field may then
//! be empty. It is a row if all fields are values.
//!
//! Two cases are errors until `header` decides, because a row that is mistaken for names would be released with them.
//! The first case is a mix of values and other words. The second is the numbers 0, 1, 2, … in order, which pandas
//! writes as names of unnamed columns.

use crate::dataset::Splits;
use crate::files::{Counted, FETCH_AGAIN, LineStarts, Quotes, check_delimiter, open, read_failed, without_mark};
use crate::numbers::Sink;
use crate::rows::{
    Array, Columns, LineNumbers, Naming, Order, RawSplit, Row, TableSamples, assemble, is_value, label_column,
    of_label, shortened,
};
use crate::{DataError, DataOptions};
use csv::{Reader, ReaderBuilder, StringRecord, Trim};
use std::io::Read;
use std::path::Path;

/// Reads the file. Findings about its form go to the notes of `naming`.
pub(super) fn load(path: &Path, options: &DataOptions, naming: &mut Naming) -> Result<Splits, DataError> {
    let delimiter = delimiter(path, options);
    let file = without_mark(open(path)?.reader).map_err(|error| read_failed(path, &error))?;
    let (file, starts) = Counted::new(file, Some(Quotes::new(delimiter)));
    let mut reader = reader(file, delimiter);
    let mut record = StringRecord::new();
    // Returns the offset after the record, if there is a record.
    let mut next = |record: &mut StringRecord| match reader.read_record(record) {
        Ok(is_there) => Ok(is_there.then(|| reader.position().byte())),
        Err(error) => {
            starts.check_quotes(path, if error.is_io_error() { u64::MAX } else { reader.position().byte() })?;
            Err(failed(path, &starts, error))
        }
    };
    let Some(end) = next(&mut record)? else {
        return Err(DataError::File(format!("{}: holds no lines: {FETCH_AGAIN}", path.display())));
    };
    let fields: Vec<&str> = record.iter().collect();
    check_first(path, &fields, delimiter)?;
    starts.check_quotes(path, end)?;
    let line = starts.line(record.position());
    let (own, Order { names, places, label }) = first_line(path, line, &record, options, naming)?;
    let header = own.is_some();
    naming.note(note(path, own.as_deref(), &names, label));
    let columns = Columns::new(path, names, label, naming.classes(), options)?;
    let mut table = TableSamples::new(&columns, options)?;
    let width = table.width();
    if width == 0 {
        return Err(DataError::File(format!("{}: has no column of features: use a file that does", path.display())));
    }

    let (mut labels, mut lines) = (Sink::new(&options.room()), LineNumbers::default());
    let (mut unreadable, mut row) = (Vec::new(), Row::default());
    let mut end = if header { next(&mut record)? } else { Some(end) };
    while let Some(of_record) = end {
        starts.check_quotes(path, of_record)?;
        let fault = read_fields(&columns, &places, &record, &mut row);
        if let Some(fault) = table.push(&row, fault)? {
            unreadable.push((lines.len(), fault));
        }
        if label.is_some() {
            labels.push(&[row.label])?;
        }
        lines.push(starts.line(record.position()));
        end = next(&mut record)?;
    }

    let origin = path.display().to_string();
    let of_labels = || labels.values().map(|values| Array { origin: origin.clone(), shape: vec![lines.len()], values });
    let labels = label.map(|_| of_labels()).transpose()?;
    let raw = RawSplit {
        features: vec![Array { origin, shape: vec![lines.len(), width], values: table.finish()? }],
        labels,
        unreadable,
        lines: Some(lines),
        is_scaled: true,
        label_scale: columns.label_scale(),
    };
    Ok((assemble(raw, options)?, None))
}

/// Returns the names in the first line, if it names the columns, and the order of the columns.
fn first_line(
    path: &Path,
    line: u64,
    record: &StringRecord,
    options: &DataOptions,
    naming: &mut Naming,
) -> Result<(Option<Vec<String>>, Order), DataError> {
    let fields: Vec<&str> = record.iter().collect();
    let header =
        options.header.map_or_else(|| names_columns(&fields, options, naming.classes()), Ok).map_err(|why| {
            DataError::File(format!("{}: line {line}: has {why}: give `header` yes or no", path.display()))
        })?;
    let own: Option<Vec<String>> = header.then(|| record.iter().map(String::from).collect());
    let choose = |names: &[String]| label_column(path, names, options);
    let order = naming.table(path, own.clone(), record.len(), &choose, options.label_column.as_deref())?;
    naming.check_numbers(path, &options.columns(), &order)?;
    Ok((own, order))
}

/// Returns the number of values in a sample, from the first line.
pub(super) fn width(path: &Path, options: &DataOptions) -> Result<usize, DataError> {
    let file = without_mark(open(path)?.reader).map_err(|error| read_failed(path, &error))?;
    let delimiter = delimiter(path, options);
    let (file, starts) = Counted::new(file, Some(Quotes::new(delimiter)));
    let mut reader = reader(file, delimiter);
    let mut record = StringRecord::new();
    if !reader.read_record(&mut record).map_err(|error| failed(path, &starts, error))? {
        return Err(DataError::File(format!("{}: holds no lines: {FETCH_AGAIN}", path.display())));
    }
    check_first(path, &record.iter().collect::<Vec<_>>(), delimiter)?;
    let mut naming = Naming::new(options.names.as_ref(), options.classes.as_deref())?;
    let line = starts.line(record.position());
    let (_, Order { names, label, .. }) = first_line(path, line, &record, options, &mut naming)?;
    Ok(Columns::new(path, names, label, naming.classes(), options)?.width())
}

/// Returns the given separator, or that of the file's extension.
fn delimiter(path: &Path, options: &DataOptions) -> u8 {
    let name = path.to_string_lossy();
    let is_tabbed = name.strip_suffix(".gz").unwrap_or(&name).ends_with(".tsv");
    options.delimiter.unwrap_or(if is_tabbed { b'\t' } else { b',' })
}

fn reader<R: Read>(file: R, delimiter: u8) -> Reader<R> {
    ReaderBuilder::new()
        .has_headers(false)
        .trim(Trim::All)
        .delimiter(delimiter)
        .buffer_capacity(1 << 16)
        .from_reader(file)
}

/// Returns an error if the first line is a comment, or has one field that another delimiter would split.
fn check_first(path: &Path, fields: &[&str], delimiter: u8) -> Result<(), DataError> {
    if fields.len() == 1 && fields[0].starts_with('#') {
        return Err(DataError::File(format!("{}: line 1: is a comment: take it out", path.display())));
    }
    check_delimiter(path, fields, delimiter)
}

/// Reads the fields at `places` into `row`. Returns the first fault.
fn read_fields(columns: &Columns<'_>, places: &[usize], record: &StringRecord, row: &mut Row) -> Option<String> {
    row.features.clear();
    let mut fault = None;
    for (column, place) in places.iter().enumerate() {
        if let Err(problem) = columns.text(column, &record[*place], row) {
            fault.get_or_insert(problem);
        }
    }
    fault
}

/// Returns true if the first line names the columns. `classes` are possible label names.
///
/// # Errors
///
/// The line is ambiguous. The reason does not contain any field of the line.
fn names_columns(fields: &[&str], options: &DataOptions, classes: Option<&[String]>) -> Result<bool, String> {
    let is_listed = |field: &str| {
        let mut lists = options.categories.iter().map(|(_, list)| &**list).chain(classes);
        lists.any(|list| list.iter().any(|entry| entry == field))
    };
    // The index of pandas has no name.
    let named = if fields.len() > 1 && fields[0].is_empty() { &fields[1..] } else { fields };
    let values = named.iter().filter(|field| is_value(field) || is_listed(field)).count();
    if values == 0 {
        return Ok(true);
    }
    if values < named.len() {
        return Err(
            "numbers or missing values beside other words, so it names the columns or is a row with a fault".into()
        );
    }
    if named.iter().enumerate().all(|(at, field)| *field == at.to_string()) {
        return Err(format!("the numbers 0 to {}, which are names of columns or a row", named.len() - 1));
    }
    Ok(false)
}

/// Returns the note on the first line. `own` are its names, and `names` the names of the columns.
fn note(path: &Path, own: Option<&[String]>, names: &[String], label: Option<usize>) -> String {
    let are_numbers = || names.iter().enumerate().all(|(at, name)| *name == at.to_string());
    let first = match own {
        Some(_) => "names the columns",
        None if are_numbers() => "is a row, and columns are numbered from 0",
        None => "is a row",
    };
    let (header, given) = (if own.is_some() { "yes" } else { "no" }, own.unwrap_or(names));
    let label = of_label(names, label);
    format!("{}: the first line {first} (`header` {header}): {}; {label}", path.display(), shortened(given))
}

fn failed(path: &Path, starts: &LineStarts, error: csv::Error) -> DataError {
    let line = starts.line(error.position());
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
