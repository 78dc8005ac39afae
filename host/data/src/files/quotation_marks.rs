//! Checks the quotation marks of fields while a file of records is read.
//!
//! A field that begins with a quotation mark must end with a quotation mark (RFC 4180). CSV readers append any text
//! after it, so `"2"3` is read as 23. A missing mark joins fields and lines up to the next mark. Both are faults here.
//! Spaces may follow the closing mark.

/// A field with wrong quotation marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    /// Byte offset of the field.
    pub start: u64,
    /// Line of the field, counted from 1.
    pub line: u64,
    is_closed: bool,
}

/// The message, which has no content of the field.
impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_closed {
            "a field has text behind its closing quotation mark: put all of it between the marks, and double a mark within"
        } else {
            "a field begins with a quotation mark, and none closes it: close it, or take the mark out"
        })
    }
}

/// The state of the current field.
pub(crate) struct Quotes {
    delimiter: u8,
    state: State,
    /// Byte offset and line of the start of a quoted field.
    began: (u64, u64),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first byte of a field.
    Start,
    /// In a field without quotation marks, or after a fault.
    Plain,
    Quoted,
    /// After a mark in a quoted field. It closes the field, or is the first of an escaped pair.
    Mark,
    /// After the closing mark and spaces.
    Closed,
}

impl Quotes {
    /// Starts before the first field, with this `delimiter`.
    pub fn new(delimiter: u8) -> Self {
        Self { delimiter, state: State::Start, began: (0, 0) }
    }

    /// Processes the byte at offset `at`, on this line. Returns the fault that it reveals.
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

    /// Returns the fault of a field that the end of the file truncates.
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

    /// Returns the first fault of a text with newline line ends: its line, and true if the field is closed.
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
