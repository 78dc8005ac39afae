//! Lists of names in messages.

use std::collections::HashMap;
use std::fmt::Display;

/// Maximum number of names in a message.
const SHOWN: usize = 20;

/// Formats the first names.
pub(crate) fn quoted<S: Display>(names: &[S]) -> String {
    names.iter().take(SHOWN).map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

/// Formats the first names, and the number of the others.
pub(crate) fn quoted_and_more<S: Display>(names: &[S]) -> String {
    let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    quoted(names) + &more
}

/// Formats enough columns to recognise a row that is mistaken for names.
pub(crate) fn shortened(columns: &[String]) -> String {
    let is_short = columns.len() <= 6;
    let shown = if is_short { columns } else { &columns[..3] };
    let more = if is_short { String::new() } else { format!(", ... ({} columns)", columns.len()) };
    quoted(shown) + &more
}

/// Returns the indices of the first name that occurs twice.
pub(crate) fn doubled(names: &[String]) -> Option<(usize, usize)> {
    let mut first = HashMap::new();
    names.iter().enumerate().find_map(|(at, name)| first.insert(name, at).map(|before| (before, at)))
}
