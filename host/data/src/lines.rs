//! Lines of a file of records, counted as it is read.

use csv::Position;
use std::cell::RefCell;
use std::io::{self, Read};
use std::rc::Rc;

/// Runs of blank lines: where each begins, and how many there are.
#[derive(Clone, Default)]
pub(super) struct BlankLines(Rc<RefCell<Vec<(u64, u64)>>>);

impl BlankLines {
    /// The line, counted from 1, on which the record at `position` stands. The reader's own number is that of the first of
    /// the blank lines before it.
    pub fn line(&self, position: Option<&Position>) -> u64 {
        let Some(position) = position else { return 0 };
        let runs = self.0.borrow();
        let run = runs.binary_search_by_key(&position.byte(), |(start, _)| *start);
        position.line() + run.map_or(0, |run| runs[run].1)
    }
}

/// Reads on, and takes note of blank lines.
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
        let read = self.inner.read(bytes)?;
        for byte in &bytes[..read] {
            self.at += 1;
            match (byte, &mut self.line) {
                (b'\n', Some((_, blank))) => *blank += 1,
                (b'\n', None) => self.line = Some((self.at, 0)),
                (b'\r', Some(_)) => {}
                (_, Some((start, blank))) => {
                    if *blank > 0 {
                        self.blank.0.borrow_mut().push((*start, *blank));
                    }
                    self.line = None;
                }
                (_, None) => {}
            }
        }
        Ok(read)
    }
}
