//! Rows of a table, or lines of a file, as texts and the numbers of their label column.

use crate::files::{Counted, FETCH_AGAIN, LONGEST, Quotes, check_delimiter, open, read_failed, too_long, without_mark};
use crate::numbers::{Number, Sink, Values};
use crate::options::DROP;
use crate::rows::{Classes, LineNumbers, Naming, USUAL_LABELS, column, label, quoted};
use crate::{DataError, DataOptions, LabelKind, TextTask};
use csv::{ByteRecord, ReaderBuilder};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Usual names of the text column.
const TEXTS: &[&str] = &["text", "sentence", "content"];

/// Number of rows whose texts are read before tokenization.
const BLOCK: usize = 1024;

/// The rows of a file, good and bad, without their texts.
pub(super) struct Rows {
    /// NaN if a row has no number.
    pub labels: Option<Values>,
    /// The line on which each row begins.
    pub lines: LineNumbers,
    /// Rows without a text or a number, ascending, with reasons.
    pub unreadable: Vec<(usize, String)>,
}

/// Receives the texts of a block of rows.
pub(super) type Take<'a> = dyn FnMut(&[String]) -> Result<(), DataError> + 'a;

/// The form of a file, by its extension.
enum TextFile {
    Tsv,
    Csv,
    Lines,
}

/// Reads a file row by row, and passes all texts, in order, to `take`. A row without a text has an empty text.
pub(super) fn read(
    path: &Path,
    options: &DataOptions,
    naming: &mut Naming,
    take: &mut Take<'_>,
) -> Result<Rows, DataError> {
    let form = form(path)?;
    let file = without_mark(open(path)?.reader).map_err(|error| read_failed(path, &error))?;
    let labelled = options.labels != LabelKind::None && options.text.task == TextTask::Classify;
    let rows = Rows { labels: None, lines: LineNumbers::default(), unreadable: vec![] };
    let labels = Sink::new(&options.room());
    let mut reader = Reader { rows, labels, has_labels: false, texts: vec![], take };
    match form {
        TextFile::Lines if labelled => {
            return Err(DataError::File(format!(
                "{}: lines of text have no labels: use `task` language-model, or a .tsv or .csv file",
                path.display()
            )));
        }
        TextFile::Lines => reader.lines(path, file)?,
        TextFile::Tsv => {
            reader.table(path, file, (options.delimiter.unwrap_or(b'\t'), false), labelled, options, naming)?
        }
        TextFile::Csv => {
            reader.table(path, file, (options.delimiter.unwrap_or(b','), true), labelled, options, naming)?
        }
    }
    let rows = reader.finish()?;
    if rows.lines.len() == 0 {
        return Err(DataError::File(format!("{}: holds no samples: use a file that does", path.display())));
    }
    Ok(rows)
}

fn form(path: &Path) -> Result<TextFile, DataError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    match name.rsplit_once('.').map(|(_, end)| end) {
        Some("tsv") => Ok(TextFile::Tsv),
        Some("csv") => Ok(TextFile::Csv),
        Some("txt") => Ok(TextFile::Lines),
        _ => Err(DataError::File(format!(
            "{}: its name does not say how it is written: end it in .tsv, .csv or .txt (and .gz)",
            path.display()
        ))),
    }
}

/// Reads a file into rows.
struct Reader<'a, 'b> {
    rows: Rows,
    labels: Sink<Number>,
    has_labels: bool,
    texts: Vec<String>,
    take: &'a mut Take<'b>,
}

impl Reader<'_, '_> {
    /// Reads one text per line, without its line end. Empty lines are skipped.
    fn lines(&mut self, path: &Path, file: impl Read) -> Result<(), DataError> {
        let (mut file, mut line, mut number) = (BufReader::new(file), Vec::new(), 0);
        while next_line(&mut file, &mut line).map_err(|error| read_failed(path, &error))? {
            number += 1;
            if !line.is_empty() {
                self.push(number, text(&line), Ok(Number::NAN))?;
            }
        }
        Ok(())
    }

    /// Reads a table. In a `.tsv` file, quotation marks are ordinary characters.
    fn table(
        &mut self,
        path: &Path,
        file: impl Read,
        (delimiter, quoted): (u8, bool),
        labelled: bool,
        options: &DataOptions,
        naming: &mut Naming,
    ) -> Result<(), DataError> {
        let (bytes, starts) = Counted::new(file, quoted.then(|| Quotes::new(delimiter)));
        let mut reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .quoting(quoted)
            .from_reader(bytes);
        let mut record = ByteRecord::new();
        // Returns the offset after the record, if there is a record.
        let mut next = |record: &mut ByteRecord| match reader.read_byte_record(record) {
            Ok(is_there) => Ok(is_there.then(|| reader.position().byte())),
            Err(error) => {
                starts.check_quotes(path, u64::MAX)?;
                Err(DataError::File(format!(
                    "{}: line {}: {error}: {FETCH_AGAIN}",
                    path.display(),
                    starts.line(error.position())
                )))
            }
        };
        let Some(end) = next(&mut record)? else {
            return Err(DataError::File(format!("{}: holds no lines: {FETCH_AGAIN}", path.display())));
        };
        // A text field may have any characters.
        if record.len() == 1 {
            check_delimiter(path, &[&String::from_utf8_lossy(&record[0])], delimiter)?;
        }
        starts.check_quotes(path, end)?;
        let header = options.header.unwrap_or(true);
        let columns: Vec<String> = if header {
            record.iter().map(|field| String::from_utf8_lossy(field).trim().to_string()).collect()
        } else {
            (0..record.len()).map(|column| column.to_string()).collect()
        };
        let find = |setting: &str, wanted: &Option<String>, usual: &[&str]| match wanted {
            Some(wanted) => column(path, &columns, wanted),
            None => usual_column(path, setting, &columns, usual),
        };
        let named = header.then_some(&columns[..]);
        let text_column = naming.text(path, "`text_column`", named, options.text.text_column.is_some(), || {
            find("`text_column`", &options.text.text_column, TEXTS)
        })?;
        let of_label = || find("`label_column`", &options.label_column, &USUAL_LABELS);
        let is_asked_for = options.label_column.is_some();
        let label_at =
            if labelled { Some(naming.text(path, "`label_column`", named, is_asked_for, of_label)?) } else { None };
        let classes = naming.classes().map(|names| Classes::new(names, options));

        self.has_labels = label_at.is_some();
        let mut end = if header { next(&mut record)? } else { Some(end) };
        while let Some(of_record) = end {
            starts.check_quotes(path, of_record)?;
            let (text, number) = if record.len() != columns.len() {
                let fault = format!("has {} fields where the first line has {}", record.len(), columns.len());
                (Err(format!("{fault}: correct the row{DROP}")), Ok(Number::NAN))
            } else {
                let number = |column: usize| {
                    let field = String::from_utf8_lossy(&record[column]);
                    label(&columns[column], field.trim(), classes.as_ref())
                };
                (text(&record[text_column]), label_at.map_or(Ok(Number::NAN), number))
            };
            self.push(starts.line(record.position()), text, number)?;
            end = next(&mut record)?;
        }
        Ok(())
    }

    /// Adds a row: its text and label, or their fault.
    fn push(
        &mut self,
        line: u64,
        text: Result<String, String>,
        label: Result<Number, String>,
    ) -> Result<(), DataError> {
        if let Err(fault) = text.as_ref().map(drop).and(label.as_ref().map(drop)) {
            self.rows.unreadable.push((self.rows.lines.len(), fault.clone()));
        }
        self.rows.lines.push(line);
        self.texts.push(text.unwrap_or_default());
        if self.has_labels {
            self.labels.push(&[label.unwrap_or(Number::NAN)])?;
        }
        if self.texts.len() == BLOCK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), DataError> {
        (self.take)(&self.texts)?;
        self.texts.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<Rows, DataError> {
        self.flush()?;
        let labels = self.has_labels.then(|| self.labels.values()).transpose()?;
        Ok(Rows { labels, ..self.rows })
    }
}

fn text(bytes: &[u8]) -> Result<String, String> {
    match std::str::from_utf8(bytes) {
        Ok("") => Err(format!("the text is empty: correct the row{DROP}")),
        Ok(text) => Ok(text.into()),
        Err(_) => Err(format!("the text is not UTF-8: correct the row{DROP}")),
    }
}

/// Reads a line without its end into `line`. Returns false at the end of the file.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let read = reader.take(LONGEST + 1).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    } else if read as u64 > LONGEST {
        return Err(too_long());
    }
    Ok(read > 0)
}

/// Returns the column with the first matching name in `usual`.
fn usual_column(path: &Path, setting: &str, columns: &[String], usual: &[&str]) -> Result<usize, DataError> {
    usual.iter().find_map(|name| columns.iter().position(|column| column == name)).ok_or_else(|| {
        DataError::File(format!(
            "{}: the first line names no column {}; it has {}: name one with {setting}, or give `header` false if \
             that line is a row",
            path.display(),
            quoted(usual),
            quoted(columns)
        ))
    })
}
