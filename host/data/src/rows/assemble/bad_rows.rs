//! Rows that are not valid samples. The first is an error, or they are dropped and counted.

use crate::numbers::{Number, not_finite};
use crate::options::DROP;
use crate::rows::line_of_row::LineNumbers;
use crate::{DataError, OnBadRow};
use damper_onnx::SettingError;

/// Collects bad rows, or returns an error for the first.
pub(super) struct BadRows {
    pub(super) policy: OnBadRow,
    pub(super) file: String,
    pub(super) origin: String,
    pub(super) lines: Option<LineNumbers>,
    pub(super) rows: usize,
    pub(super) null: Vec<bool>,
    /// The first bad row, for the error about too many.
    pub(super) first: Option<String>,
}

impl BadRows {
    pub(super) fn found(&mut self, row: usize, fault: impl FnOnce() -> String) -> Result<(), DataError> {
        if self.policy == OnBadRow::Error {
            return Err(DataError::File(self.describe(row, &fault())));
        }
        if self.first.is_none() {
            self.first = Some(self.describe(row, &fault()));
        }
        self.null.resize(self.rows, false);
        self.null[row] = true;
        Ok(())
    }

    pub(super) fn describe(&self, row: usize, fault: &str) -> String {
        let place = match self.lines.as_ref().and_then(|lines| lines.get(row)) {
            Some(line) => format!("line {line}"),
            None => format!("row {row} (counted from 0)"),
        };
        format!("{}: {place}: {fault}", self.origin)
    }

    /// Returns an error if more than one percent of the rows are bad, which is a fault of the file or of the settings.
    /// The number of bad rows stays private.
    pub(super) fn refuse_many(&self) -> Result<(), DataError> {
        let bad = self.null.iter().filter(|null| **null).count();
        match &self.first {
            Some(first) if bad * 100 > self.rows => {
                let first = first.trim_end_matches(DROP);
                let problem = format!("more than 1 % of the rows of {} are bad; the first is {first}", self.file);
                Err(SettingError::new("on_bad_row", "drop", problem).into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        self.null.get(row).copied().unwrap_or(false)
    }

    /// Finds the rows with a value that is not `good`, starting at row `first`.
    pub(super) fn check<T>(
        &mut self,
        first: usize,
        width: usize,
        values: &[T],
        good: impl Fn(&T) -> bool,
        fault: impl Fn(&T) -> String,
    ) -> Result<(), DataError> {
        for (row, values) in (first..).zip(values.chunks(width.max(1))) {
            if self.is_null(row) {
                continue;
            }
            if let Some(value) = values.iter().find(|value| !good(value)) {
                self.found(row, || fault(value))?;
            }
        }
        Ok(())
    }

    /// Finds the rows with a feature that is not finite as float32. `values` are the float32 values of `numbers`.
    pub(super) fn check_floats(
        &mut self,
        first: usize,
        width: usize,
        numbers: impl Iterator<Item = Number>,
        values: &[f32],
    ) -> Result<(), DataError> {
        let width = width.max(1);
        let wrong = numbers.zip(values).enumerate().filter(|(_, (_, value))| !value.is_finite());
        for (at, (number, _)) in wrong {
            if !self.is_null(first + at / width) {
                self.found(first + at / width, || {
                    not_finite(number, &self::place("a feature", at % width, width), DROP)
                })?;
            }
        }
        Ok(())
    }

    pub(super) fn at(&mut self, origin: &str) {
        if self.lines.is_none() {
            self.origin = origin.into();
        }
    }
}

/// Returns the name of value `at` among a sample's `width` values.
pub(super) fn place(what: &str, at: usize, width: usize) -> String {
    if width > 1 { format!("{what}, value {at} of the sample (counted from 0),") } else { what.into() }
}
