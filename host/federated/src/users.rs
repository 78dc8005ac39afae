//! The users of a device, with their samples.

use super::RoundError;
use damper_onnx::SettingError;
use std::collections::HashMap;
use std::path::Path;

/// The samples of each user, in row order. Users are in the order of their first row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Users(Vec<Vec<u32>>);

impl Users {
    /// Assigns all `rows` samples to one user, for a personal device.
    #[must_use]
    pub fn one(rows: u32) -> Self {
        Self(vec![(0..rows).collect()])
    }

    /// Parses a text with the name of a user per line, one for each of the training `rows`. `file` is for errors.
    ///
    /// # Errors
    ///
    /// A line is empty, or the number of lines is wrong.
    pub fn read(text: &str, rows: usize, file: &Path) -> Result<Self, RoundError> {
        let refuse = |problem: String| SettingError::new("users", file.display(), problem).into();
        let mut users: Vec<Vec<u32>> = vec![];
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut lines = 0usize;
        // A byte order mark must not become part of the first name, which would split its user.
        for (row, line) in text.trim_start_matches('\u{feff}').lines().map(str::trim).enumerate() {
            if line.is_empty() {
                return Err(refuse(format!("line {} is empty; give the user of each training row", row + 1)));
            }
            let place = *places.entry(line).or_insert_with(|| {
                users.push(vec![]);
                users.len() - 1
            });
            users[place].extend(u32::try_from(row));
            lines += 1;
        }
        if lines != rows {
            return Err(refuse(format!("has {lines} lines, and there are {rows} training rows; give one for each")));
        }
        Ok(Self(users))
    }

    /// Returns the number of users.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the list of users is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the samples of a user.
    pub(super) fn samples(&self, user: u32) -> &[u32] {
        self.0.get(user as usize).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_to_their_users() {
        let users = Users::read("ann\nbob\nann \n\tcy\nbob\n", 5, Path::new("u")).unwrap();
        assert_eq!(users, Users(vec![vec![0, 2], vec![1, 4], vec![3]]));
        // A byte order mark would split one user into two.
        assert_eq!(Users::read("\u{feff}ann\nbob\nann \n\tcy\nbob\n", 5, Path::new("u")).unwrap(), users);
        assert_eq!((users.len(), users.samples(2), users.samples(9)), (3, &[3][..], &[][..]));
        assert_eq!(Users::one(3), Users(vec![vec![0, 1, 2]]));
    }

    #[test]
    fn lines_must_be_the_rows() {
        for (text, rows, word) in
            [("a\nb\n", 3, "2 lines"), ("a\nb\nc\n", 2, "3 lines"), ("a\n\nb\n", 3, "line 2 is empty")]
        {
            let error = Users::read(text, rows, Path::new("u.txt")).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("u.txt"), "{error}");
        }
    }
}
