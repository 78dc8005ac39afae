//! Lines of a file of records, counted as it is read.

use csv::Position;
use std::cell::{Cell, RefCell};
use std::io::{self, Read};
use std::rc::Rc;

/// Bytes of a record, or of a line of text, at most: a small gzipped file may hold one that no memory holds.
pub(super) const LONGEST: u64 = 1 << 28;

/// The error of a longer one.
pub(super) fn too_long() -> io::Error {
    io::Error::other(format!("a row has more than {LONGEST} bytes"))
}

/// `reader` after the byte order mark of UTF-8, if there is one.
pub(super) fn without_mark(mut reader: impl Read) -> io::Result<impl Read> {
    const MARK: [u8; 3] = *b"\xef\xbb\xbf";
    let mut first = Vec::new();
    reader.by_ref().take(MARK.len() as u64).read_to_end(&mut first)?;
    if first == MARK {
        first.clear();
    }
    Ok(io::Cursor::new(first).chain(reader))
}

/// Runs of blank lines: where each begins, and how many there are.
#[derive(Clone, Default)]
pub(super) struct BlankLines {
    runs: Rc<RefCell<Vec<(u64, u64)>>>,
    /// Beginning of the last record that was asked for.
    record: Rc<Cell<u64>>,
}

impl BlankLines {
    /// The line, counted from 1, on which the record at `position` stands. The reader's own number is that of the first of
    /// the blank lines before it.
    pub fn line(&self, position: Option<&Position>) -> u64 {
        let Some(position) = position else { return 0 };
        self.record.set(position.byte());
        let runs = self.runs.borrow();
        let run = runs.binary_search_by_key(&position.byte(), |(start, _)| *start);
        position.line() + run.map_or(0, |run| runs[run].1)
    }
}

/// Reads on, and takes note of blank lines. A record that is too long is an error.
pub(super) struct Counted<R> {
    inner: R,
    blank: BlankLines,
    at: u64,
    /// The start of the line, as long as it is blank; and blank lines before it.
    line: Option<(u64, u64)>,
}

impl<R: Read> Counted<R> {
    pub fn new(inner: R) -> (Self, BlankLines) {
        let blank = BlankLines::default();
        (Self { inner, blank: blank.clone(), at: 0, line: Some((0, 0)) }, blank)
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.at.saturating_sub(self.blank.record.get()) > LONGEST {
            return Err(too_long());
        }
        let read = self.inner.read(bytes)?;
        for byte in &bytes[..read] {
            self.at += 1;
            match (byte, &mut self.line) {
                (b'\n', Some((_, blank))) => *blank += 1,
                (b'\n', None) => self.line = Some((self.at, 0)),
                (b'\r', Some(_)) => {}
                (_, Some((start, blank))) => {
                    if *blank > 0 {
                        self.blank.runs.borrow_mut().push((*start, *blank));
                    }
                    self.line = None;
                }
                (_, None) => {}
            }
        }
        Ok(read)
    }
}
