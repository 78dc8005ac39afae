//! The users of a device: which of its samples are whose.

use super::RoundError;
use damper_onnx::SettingError;
use std::collections::HashMap;
use std::path::Path;

/// The samples of each user, in the order of their rows. Users are in the order of their first row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Users(Vec<Vec<u32>>);

impl Users {
    /// All `rows` samples are one user's: a person's own device.
    #[must_use]
    pub fn one(rows: u32) -> Self {
        Self(vec![(0..rows).collect()])
    }

    /// Reads a text that has the name of a user in each line, of as many lines as there are training `rows`. `file` is named in errors.
    ///
    /// # Errors
    ///
    /// A line is empty, or there are more or fewer.
    pub fn read(text: &str, rows: usize, file: &Path) -> Result<Self, RoundError> {
        let refuse = |problem: String| SettingError::new("users", file.display(), problem).into();
        let mut users: Vec<Vec<u32>> = vec![];
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut lines = 0usize;
        // A byte order mark is no letter of the first name: its user would be two.
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

    /// The number of users.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there is no user.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The samples of a user.
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
        // A byte order mark would make one user two.
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
