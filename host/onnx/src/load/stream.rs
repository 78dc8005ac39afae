//! File as a protobuf buffer. Its bytes are read during decoding.

use std::io::{self, Read};

use prost::bytes::Buf;

/// Number of bytes per read.
const PIECE: usize = 1 << 16;

/// Buffer over a fixed number of bytes of a reader. After an error of the reader it yields zeros.
pub(super) struct Stream<R> {
    reader: R,
    /// Number of bytes that are not consumed yet.
    left: usize,
    piece: Vec<u8>,
    at: usize,
    error: Option<io::Error>,
}

impl<R: Read> Stream<R> {
    /// Buffer over the next `len` bytes of `reader`.
    pub(super) fn new(reader: R, len: usize) -> Self {
        let mut stream = Stream { reader, left: len, piece: vec![], at: 0, error: None };
        stream.fill();
        stream
    }

    /// Returns the error of the reader, if any. The decoded data is then invalid.
    pub(super) fn end(self) -> io::Result<()> {
        self.error.map_or(Ok(()), Err)
    }

    fn fill(&mut self) {
        self.at = 0;
        self.piece.resize(self.left.min(PIECE), 0);
        if let (None, Err(error)) = (&self.error, self.reader.read_exact(&mut self.piece)) {
            self.error = Some(error);
        }
        if self.error.is_some() {
            self.piece.fill(0);
        }
    }
}

impl<R: Read> Buf for &mut Stream<R> {
    fn remaining(&self) -> usize {
        self.left
    }

    fn chunk(&self) -> &[u8] {
        &self.piece[self.at..]
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.left, "no more than there are");
        while count > 0 {
            let taken = count.min(self.piece.len() - self.at);
            (self.at, self.left, count) = (self.at + taken, self.left - taken, count - taken);
            if self.at == self.piece.len() {
                self.fill();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_reader() {
        let bytes: Vec<u8> = (0..PIECE * 2 + 5).map(|at| (at % 251) as u8).collect();
        for len in [0, 1, PIECE - 1, PIECE, PIECE + 1, bytes.len()] {
            let mut stream = Stream::new(&bytes[..], len);
            let mut taken = (&mut stream).copy_to_bytes(len / 3).to_vec();
            taken.extend((&mut stream).copy_to_bytes(len - len / 3));
            assert_eq!(taken, bytes[..len]);
            stream.end().unwrap();
        }
    }

    #[test]
    fn short_reader_is_error() {
        let mut stream = Stream::new(&[7u8; 3][..], 5);
        assert_eq!((&mut stream).copy_to_bytes(5), &[0; 5][..]);
        assert!(stream.end().is_err());
    }
}
