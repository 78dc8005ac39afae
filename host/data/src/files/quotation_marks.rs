//! Quotation marks of fields, checked as a file of records is read.
//!
//! A field that begins with a quotation mark ends with one (RFC 4180). Readers of CSV join what stands after it, so `"2"3` is read as 23,
//! and a mark that is missing joins fields and lines up to the next one. Both are faults here. Spaces may follow the closing mark.

/// A field whose quotation marks are wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    /// The byte at which the field begins.
    pub start: u64,
    /// Its line, counted from 1.
    pub line: u64,
    is_closed: bool,
}

/// Without any of the field.
impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_closed {
            "a field has text behind its closing quotation mark: put all of it between the marks, and double a mark within"
        } else {
            "a field begins with a quotation mark, and none closes it: close it, or take the mark out"
        })
    }
}

/// The state of the field that is read.
pub(crate) struct Quotes {
    delimiter: u8,
    state: State,
    /// Byte and line at which a quoted field began.
    began: (u64, u64),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first byte of a field.
    Start,
    /// In a field without quotation marks, or with a fault.
    Plain,
    Quoted,
    /// After a mark within a quoted field: it closes the field, or is the first of two.
    Mark,
    /// After the closing mark and spaces.
    Closed,
}

impl Quotes {
    /// Of fields between `delimiter`s.
    pub fn new(delimiter: u8) -> Self {
        Self { delimiter, state: State::Start, began: (0, 0) }
    }

    /// Takes the byte at place `at`, on this line. Returns the fault that it shows.
    pub fn next(&mut self, byte: u8, at: u64, line: u64) -> Option<Fault> {
        let ends = byte == self.delimiter || matches!(byte, b'\n' | b'\r');
        self.state = match (self.state, byte) {
            (State::Start, b'"') => {
                self.began = (at, line);
                State::Quoted
            }
            (State::Quoted, b'"') => State::Mark,
            (State::Mark, b'"') | (State::Quoted, _) => State::Quoted,
            _ if ends => State::Start,
            (State::Mark | State::Closed, b' ' | b'\t') => State::Closed,
            (State::Mark | State::Closed, _) => {
                self.state = State::Plain;
                return Some(self.fault(true));
            }
            (State::Start | State::Plain, _) => State::Plain,
        };
        None
    }

    /// The fault of a field that the end of the file cuts off.
    pub fn unclosed(&self) -> Option<Fault> {
        (self.state == State::Quoted).then(|| self.fault(false))
    }

    fn fault(&self, is_closed: bool) -> Fault {
        Fault { start: self.began.0, line: self.began.1, is_closed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first fault of a text whose lines end in newlines: its line, and whether the field is closed.
    fn fault(text: &str, delimiter: u8) -> Option<(u64, bool)> {
        let (mut quotes, mut line) = (Quotes::new(delimiter), 1);
        for (at, byte) in (0..).zip(text.bytes()) {
            if let Some(fault) = quotes.next(byte, at, line) {
                return Some((fault.line, fault.is_closed));
            }
            line += u64::from(byte == b'\n');
        }
        quotes.unclosed().map(|fault| (fault.line, fault.is_closed))
    }

    #[test]
    fn marks_are_as_rfc_4180_has_them() {
        for text in [
            "",
            "a,b\n1,2",
            "\"a\",\"b\"\r\n\"1\",2",
            "\"\",\"\"",
            "\"a\"\"b\",\"\"\"\"",
            "\"a\nb,c\",1",
            "\"a\" ,2",
            "5\" pipe,1",
            " \"a\" b,1",
        ] {
            assert_eq!(fault(text, b','), None, "{text}");
        }
        for (text, found) in [
            ("1\n\"2\"3", (2, true)),
            ("\"2\" 3", (1, true)),
            ("\"a\"b\"\n", (1, true)),
            ("1,\"2\n3,4\n", (1, false)),
            ("1\n2,\"\n\n", (2, false)),
            // The next mark closes the field.
            ("1,\"2\n3,\"4\"\n", (1, true)),
            ("\"a\";1", (1, true)),
        ] {
            assert_eq!(fault(text, b','), Some(found), "{text}");
        }
        assert_eq!(fault("\"a\";1", b';'), None);
        assert_eq!(fault("\"a\"\t1", b'\t'), None);
    }
}
