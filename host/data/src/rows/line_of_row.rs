//! The line on which each row of a file begins.
//!
//! Most rows take one line. So a line is stored only if it does not directly follow that of the previous row.

/// Line numbers from 1, by row.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineNumbers {
    rows: usize,
    /// Start rows of runs with one line per row, ascending, each with its line.
    jumps: Vec<(usize, u64)>,
}

impl LineNumbers {
    /// Adds the line of the next row.
    pub fn push(&mut self, line: u64) {
        if self.jumps.last().is_none_or(|(row, first)| first + (self.rows - row) as u64 != line) {
            self.jumps.push((self.rows, line));
        }
        self.rows += 1;
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns the line of `row`, if the row exists.
    pub fn get(&self, row: usize) -> Option<u64> {
        let jump = self.jumps.partition_point(|(first, _)| *first <= row).checked_sub(1)?;
        let (first, line) = self.jumps[jump];
        (row < self.rows).then(|| line + (row - first) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_without_gaps_take_no_memory() {
        let mut lines = LineNumbers::default();
        (2..1_000_002).for_each(|line| lines.push(line));
        assert_eq!(
            (lines.len(), lines.jumps.len(), lines.get(999_999), lines.get(1_000_000)),
            (1_000_000, 1, Some(1_000_001), None)
        );
        assert_eq!(LineNumbers::default().get(0), None);
    }

    proptest! {
        #[test]
        fn each_row_has_its_line(all in proptest::collection::vec(0u64..5, 0..50)) {
            let mut lines = LineNumbers::default();
            all.iter().for_each(|line| lines.push(*line));
            for row in 0..all.len() + 2 {
                prop_assert_eq!(lines.get(row), all.get(row).copied());
            }
        }
    }
}
