//! Line numbers of records, counted while a file is read.

use super::quotation_marks::{Fault, Quotes};
use crate::DataError;
use csv::Position;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;

/// Maximum size of a record or a line of text in bytes. A small gzip file could contain a record that exceeds memory.
pub(crate) const LONGEST: u64 = 1 << 28;

/// Returns the error for a longer record.
pub(crate) fn too_long() -> io::Error {
    io::Error::other(format!("a row has more than {LONGEST} bytes"))
}

/// Skips the byte order mark of UTF-8, if present.
pub(crate) fn without_mark(mut reader: impl Read) -> io::Result<impl Read> {
    const MARK: [u8; 3] = *b"\xef\xbb\xbf";
    let mut first = Vec::new();
    reader.by_ref().take(MARK.len() as u64).read_to_end(&mut first)?;
    if first == MARK {
        first.clear();
    }
    Ok(io::Cursor::new(first).chain(reader))
}

/// The lines that were read but not requested yet.
#[derive(Clone, Default)]
pub(crate) struct LineStarts {
    /// Byte offset and number, from 1, of each line that is not blank.
    starts: Rc<RefCell<VecDeque<(u64, u64)>>>,
    /// Byte offset of the last requested record.
    record: Rc<Cell<u64>>,
    /// The first field with wrong quotation marks.
    fault: Rc<Cell<Option<Fault>>>,
}

impl LineStarts {
    /// Returns an error if quotation marks before byte `end` are wrong.
    pub fn check_quotes(&self, path: &Path, end: u64) -> Result<(), DataError> {
        match self.fault.get().filter(|fault| fault.start < end) {
            Some(fault) => Err(DataError::File(format!("{}: line {}: {fault}", path.display(), fault.line))),
            None => Ok(()),
        }
    }

    /// Returns the line, counted from 1, on which the record at `position` begins. Records must be requested in order.
    /// The reader's position may be that of line ends before the record. Its own line number is that of the line
    /// before.
    pub fn line(&self, position: Option<&Position>) -> u64 {
        let Some(position) = position else { return 0 };
        self.record.set(position.byte());
        let mut starts = self.starts.borrow_mut();
        // Drops lines within the previous record.
        while starts.front().is_some_and(|(start, _)| *start < position.byte()) {
            starts.pop_front();
        }
        starts.front().map_or(position.line(), |(_, line)| *line)
    }
}

/// A reader that tracks lines, which end in `\n`, `\r\n` or `\r`, and wrong quotation marks. A record that is too long
/// is an error.
pub(crate) struct Counted<R> {
    inner: R,
    lines: LineStarts,
    at: u64,
    line: u64,
    is_blank: bool,
    after_return: bool,
    quotes: Option<Quotes>,
}

impl<R: Read> Counted<R> {
    /// Creates the reader. Pass `quotes` if fields may be quoted.
    pub fn new(inner: R, quotes: Option<Quotes>) -> (Self, LineStarts) {
        let lines = LineStarts::default();
        (Self { inner, lines: lines.clone(), at: 0, line: 1, is_blank: true, after_return: false, quotes }, lines)
    }

    fn found(&self, fault: Option<Fault>) {
        if self.lines.fault.get().is_none() {
            self.lines.fault.set(fault);
        }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let is_too_long = self.at.saturating_sub(self.lines.record.get()) > LONGEST;
        let read = if is_too_long { 0 } else { self.inner.read(bytes)? };
        if read == 0 && !bytes.is_empty() {
            self.found(self.quotes.as_ref().and_then(Quotes::unclosed));
        }
        if is_too_long {
            return Err(too_long());
        }
        for byte in &bytes[..read] {
            if let Some(fault) = self.quotes.as_mut().and_then(|quotes| quotes.next(*byte, self.at, self.line)) {
                self.found(Some(fault));
            }
            match byte {
                b'\n' if self.after_return => {}
                b'\n' | b'\r' => {
                    self.line += 1;
                    self.is_blank = true;
                }
                _ if self.is_blank => {
                    self.lines.starts.borrow_mut().push_back((self.at, self.line));
                    self.is_blank = false;
                }
                _ => {}
            }
            self.after_return = *byte == b'\r';
            self.at += 1;
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use csv::{ReaderBuilder, StringRecord};
    use proptest::prelude::*;

    /// Returns the line of each record, as the table reader requests them.
    fn found(text: &str, buffer: usize) -> Vec<u64> {
        let (file, lines) = Counted::new(text.as_bytes(), None);
        let mut reader =
            ReaderBuilder::new().has_headers(false).flexible(true).buffer_capacity(buffer).from_reader(file);
        let (mut record, mut found) = (StringRecord::new(), Vec::new());
        while reader.read_record(&mut record).unwrap() {
            found.push(lines.line(record.position()));
        }
        found
    }

    #[test]
    fn lines_are_those_of_an_editor() {
        for (text, wanted) in [
            ("a\r\nb\r\nc\r\n", &[1, 2, 3][..]),
            ("a\rb\rc", &[1, 2, 3]),
            ("a\n\n\nb\n\n", &[1, 4]),
            ("\r\n\r\na\r\n\r\nb\r\n\r\n", &[3, 5]),
            ("\ra\r\rb", &[2, 4]),
            ("\"a\r\n\r\nx\",1\r\nb,2\r\n\"c\nd\",3\r\ne,4", &[1, 4, 5, 7]),
            ("a\r\n\"\"\r\nb", &[1, 2, 3]),
        ] {
            for buffer in [1, 2, 3, 7, 64] {
                assert_eq!(found(text, buffer), wanted, "{text:?}");
            }
        }
    }

    proptest! {
        /// The lines of the records equal the lines on which they were written.
        #[test]
        fn any_line_end_counts_once(ends in prop::collection::vec(0..3usize, 1..40), blanks in prop::collection::vec(0..3usize, 40), buffer in 1..20usize) {
            let (mut text, mut line, mut wanted) = (String::new(), 1u64, Vec::new());
            for (end, blank) in ends.iter().zip(&blanks) {
                let end = ["\n", "\r\n", "\r"][*end];
                // A lone return followed by the newline of the next line would form one line end.
                let blank = if end == "\n" && text.ends_with('\r') { 0 } else { *blank };
                if !(end == "\n" && text.ends_with('\r')) {
                    text += &end.repeat(blank);
                    line += blank as u64;
                }
                wanted.push(line);
                text += &format!("{line}{end}");
                line += 1;
            }
            prop_assert_eq!(found(&text, buffer), wanted);
        }
    }
}
