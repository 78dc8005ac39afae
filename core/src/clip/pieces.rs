//! Iterator over consecutive coordinates of a vector in parts.

use core::slice::Iter;

/// The coordinates `at..at + len` of a vector in consecutive parts, as slices.
#[derive(Clone)]
pub(crate) struct Pieces<'a> {
    parts: Iter<'a, &'a [f32]>,
    /// Number of coordinates to skip, from the start of the next part.
    skip: usize,
    /// Number of coordinates left to yield.
    len: usize,
}

impl<'a> Pieces<'a> {
    pub(crate) fn new(parts: &'a [&'a [f32]], at: usize, len: usize) -> Self {
        Self { parts: parts.iter(), skip: at, len }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [f32];

    #[inline(always)]
    fn next(&mut self) -> Option<&'a [f32]> {
        while self.len > 0 {
            let part = *self.parts.next()?;
            let (_, wanted) = part.split_at(self.skip.min(part.len()));
            self.skip = self.skip.saturating_sub(part.len());
            let (piece, _) = wanted.split_at(self.len.min(wanted.len()));
            self.len = self.len.saturating_sub(piece.len());
            if !piece.is_empty() {
                return Some(piece);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    extern crate std;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn pieces_are_the_coordinates_asked_for(
            lengths in prop::collection::vec(0usize..7, 0..6), at in 0usize..40, len in 0usize..40,
        ) {
            let mut next = 0f32;
            let vectors: Vec<Vec<f32>> = lengths.iter().map(|n| (0..*n).map(|_| { next += 1.0; next }).collect()).collect();
            let parts: Vec<&[f32]> = vectors.iter().map(Vec::as_slice).collect();
            let whole = vectors.concat();
            let wanted = &whole[at.min(whole.len())..(at + len).min(whole.len())];
            let pieces: Vec<&[f32]> = Pieces::new(&parts, at, len).collect();
            prop_assert!(pieces.iter().all(|piece| !piece.is_empty()));
            prop_assert_eq!(pieces.concat(), wanted);
        }
    }
}
