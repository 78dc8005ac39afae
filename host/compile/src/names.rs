//! Conversion of model names to identifiers, literals and comments of Rust and C.

use std::collections::HashSet;

/// Keywords, and names that the generated functions use.
#[rustfmt::skip]
const TAKEN: &[&str] = &[
    "params", "memory", "grad", "open", "sink", "kernels", "constants", "shapes", "f32s", "i64s", "bools", "out", "part", "write",
    "outer", "kernel", "segments", "buffer", "as", "async", "await", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move", "mut", "pub",
    "ref", "return", "self", "static", "struct", "super", "trait", "try", "type", "unsafe", "use", "where", "while", "yield", "true",
    "false", "run", "loss", "answer", "copy", "context", "sample", "stored", "streamed", "recorded", "same", "step", "main", "run_memory",
    "time", "at", "number", "config", "produce", "factors", "auto", "case", "char", "default", "double", "float", "goto", "inline", "int",
    "long", "register", "restrict", "short", "signed", "sizeof", "switch", "typedef", "union", "unsigned", "void", "volatile", "t",
    "span",
];

/// Generator of unique identifiers in lower case.
#[derive(Default, Debug)]
pub(crate) struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// Returns a new identifier for `name`.
    pub(crate) fn of(&mut self, name: &str) -> String {
        let mut word: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
        word = word.trim_matches('_').to_owned();
        if word.is_empty() || word.starts_with(|c: char| c.is_ascii_digit()) || is_operand(&word) {
            word = format!("input_{word}").trim_end_matches('_').to_owned();
        }
        // C types end in `_t`. Functions and types of damper begin with `damper_`.
        let is_taken = |word: &str| TAKEN.contains(&word) || word.ends_with("_t") || word.starts_with("damper_");
        if is_taken(&word) {
            word = format!("input_{word}_");
        }
        while !self.taken.insert(word.clone()) {
            word.push('_');
        }
        word
    }
}

/// Returns true for `r0`, `r1`, …, the names of operands in memory.
fn is_operand(word: &str) -> bool {
    word.strip_prefix('r').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns a crate name: letters, digits and single `-`, beginning with a letter.
pub(crate) fn crate_name(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let word = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
    match word.chars().next() {
        Some(first) if first.is_ascii_alphabetic() => word,
        Some(_) => format!("network-{word}"),
        None => "network".into(),
    }
}

/// Formats text as a Rust string literal.
pub(crate) fn literal(text: &str) -> String {
    let escaped: String = text.chars().flat_map(char::escape_default).collect();
    format!("\"{escaped}\"")
}

/// Replaces control characters and line separators, for a comment on one line.
pub(crate) fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { ' ' } else { c }).collect()
}

/// Formats text as a C string literal. Bytes that are not plain text become octal escapes.
pub(crate) fn c_literal(text: &str) -> String {
    let escaped: String = text
        .bytes()
        .map(|byte| match byte {
            b'"' | b'\\' | b'?' => format!("\\{byte:03o}"),
            b' '..=b'~' => char::from(byte).to_string(),
            _ => format!("\\{byte:03o}"),
        })
        .collect();
    format!("\"{escaped}\"")
}

/// Formats text of a model for a comment in C, as [`comment`] does for Rust.
pub(crate) fn c_comment(text: &str) -> String {
    comment(text).replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers() {
        let mut names = Names::default();
        let read = ["input.1", "input/1", "params", "3", "", "Ä", "r1", "x"].map(|name| names.of(name));
        assert_eq!(read, ["input_1", "input_1_", "input_params_", "input_3", "input", "input_", "input_r1", "x"]);
        assert_eq!(["a_B..c", "3d", "é"].map(crate_name), ["a-b-c", "network-3d", "network"]);
        assert_eq!(literal("a\"\n"), "\"a\\\"\\n\"");
        assert_eq!(comment("a\nb"), "a b");
        assert_eq!((c_literal("ä?\"a"), c_comment("*/*")), ("\"\\303\\244\\077\\042a\"".into(), "* / *".into()));
    }
}
