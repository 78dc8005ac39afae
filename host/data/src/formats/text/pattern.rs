//! Patterns of a tokenizer file, rewritten for another engine with the same matches.
//!
//! The Python package `tokenizers` matches patterns with Oniguruma. This build uses `fancy-regex`, in which `\w`, `\b`,
//! `.`, `^` and `[[:punct:]]` are different sets. [`rewrite`] writes each class as the Unicode properties that form
//! Oniguruma's class (both use Unicode 16). It returns an error for parts without an equivalent.
//!
//! Oniguruma 6.9 counts `²³¹¼½¾` as word characters in `\w`, `\W` and `\b`, but not in `[\w]` and `[^\w]`.

use std::fmt::Write as _;

/// Members of `[[:word:]]`.
const WORD: &str = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}";
/// Additional members of `\w`.
const LATIN: &str = r"\x{B2}\x{B3}\x{B9}\x{BC}\x{BD}\x{BE}";
/// POSIX classes as Unicode properties.
const POSIX: &[(&str, &str)] = &[
    ("alnum", r"\p{Alphabetic}\p{Nd}"),
    ("alpha", r"\p{Alphabetic}"),
    ("blank", r"\p{Zs}\x{9}"),
    ("cntrl", r"\p{Cc}"),
    ("digit", r"\p{Nd}"),
    ("graph", r"[^\p{White_Space}\p{Cc}\p{Cn}]"),
    ("lower", r"\p{Lowercase}"),
    ("print", r"[^\p{White_Space}\p{Cc}\p{Cn}]\p{Zs}"),
    ("punct", r"\p{P}\p{S}"),
    ("space", r"\p{White_Space}"),
    ("upper", r"\p{Uppercase}"),
    ("word", WORD),
    ("xdigit", "0-9A-Fa-f"),
];
/// Properties that are the same sets in both engines.
const PROPERTIES: &[&str] = &[
    "L",
    "Lu",
    "Ll",
    "Lt",
    "Lm",
    "Lo",
    "M",
    "Mn",
    "Mc",
    "Me",
    "N",
    "Nd",
    "Nl",
    "No",
    "P",
    "Pc",
    "Pd",
    "Ps",
    "Pe",
    "Pi",
    "Pf",
    "Po",
    "S",
    "Sm",
    "Sc",
    "Sk",
    "So",
    "Z",
    "Zs",
    "Zl",
    "Zp",
    "C",
    "Cc",
    "Cf",
    "Cn",
    "Letter",
    "Number",
    "Punctuation",
    "Alphabetic",
    "White_Space",
    "Han",
    "Hiragana",
    "Katakana",
    "Hangul",
    "Arabic",
    "Cyrillic",
    "Latin",
    "Thai",
    "Lao",
    "Emoji",
];
/// Pairs of letters that case-insensitive Oniguruma also matches in a single letter, such as ß.
const FOLDED: &[&str] = &["ss", "ff", "fi", "fl", "st"];

/// Returns a pattern with the same matches in `fancy-regex`.
///
/// # Errors
///
/// The part without an equivalent.
pub(super) fn rewrite(pattern: &str) -> Result<String, String> {
    let mut rewriter =
        Rewriter { rest: pattern.chars().collect(), at: 0, out: String::new(), depth: vec![], ignore_case: false };
    rewriter.run()?;
    Ok(rewriter.out)
}

struct Rewriter {
    rest: Vec<char>,
    at: usize,
    out: String,
    /// The case setting of the enclosing groups.
    depth: Vec<bool>,
    ignore_case: bool,
}

/// An item of a bracketed class.
enum Item {
    Char(char),
    Set(String),
}

impl Rewriter {
    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    fn starts(&self, text: &str) -> bool {
        self.rest[self.at..].iter().copied().zip(text.chars()).filter(|(a, b)| a == b).count() == text.chars().count()
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.starts(text);
        self.at += if found { text.chars().count() } else { 0 };
        found
    }

    fn run(&mut self) -> Result<(), String> {
        if self.take("(?i)") {
            self.ignore_case = true;
            self.out.push_str("(?i)");
        }
        // True if a quantifier may follow.
        let mut atom = false;
        let mut last = None;
        while let Some(c) = self.peek() {
            let before = last.take();
            match c {
                '(' => {
                    self.open()?;
                    atom = false;
                    continue;
                }
                ')' => {
                    self.at += 1;
                    self.ignore_case = self.depth.pop().ok_or("an unmatched ')'")?;
                    self.out.push(')');
                    atom = true;
                }
                '|' => {
                    self.at += 1;
                    self.out.push('|');
                    atom = false;
                }
                '?' | '*' | '+' | '{' if c != '{' || self.interval().is_some() => {
                    if !atom {
                        return Err(format!("'{c}' after nothing to repeat or after another quantifier"));
                    }
                    self.quantifier()?;
                    if before.is_some() && self.ignore_case {
                        // A repeated letter is a pair of letters.
                        last = None;
                    }
                    atom = false;
                }
                '.' => {
                    self.at += 1;
                    self.out.push_str(r"[^\x{A}]");
                    atom = true;
                }
                '^' | '$' => {
                    self.at += 1;
                    self.out.push_str(if c == '^' { r"(?:\A|(?<=\x{A})(?!\z))" } else { r"(?=\x{A}|\z)" });
                    atom = false;
                }
                '[' => {
                    let set = self.class()?;
                    self.check_case(&set)?;
                    self.out.push_str(&set);
                    atom = true;
                }
                '\\' => {
                    let (text, repeats, literal) = self.escape()?;
                    if let Some(literal) = literal {
                        self.check_literal(before, literal)?;
                        last = Some(literal);
                    } else {
                        self.check_case(&text)?;
                    }
                    self.out.push_str(&text);
                    atom = repeats;
                }
                _ => {
                    self.at += 1;
                    self.check_literal(before, c)?;
                    last = Some(c);
                    literal(&mut self.out, c);
                    atom = true;
                }
            }
        }
        if self.depth.is_empty() { Ok(()) } else { Err("an unmatched '('".into()) }
    }

    fn open(&mut self) -> Result<(), String> {
        self.depth.push(self.ignore_case);
        for group in ["(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"] {
            if self.take(group) {
                self.ignore_case |= group == "(?i:";
                self.out.push_str(group);
                return Ok(());
            }
        }
        if self.starts("(?") {
            return Err(format!("the group '{}'", self.rest[self.at..].iter().take(5).collect::<String>()));
        }
        self.at += 1;
        self.out.push('(');
        Ok(())
    }

    /// Returns minimum and maximum of `{n,m}`, and its end.
    fn interval(&self) -> Option<(String, Option<String>, usize)> {
        let inside: String = self.rest[self.at..].iter().skip(1).take_while(|c| **c != '}').collect();
        let end = self.at + inside.chars().count() + 2;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if end > self.rest.len() {
            return None;
        }
        match inside.split_once(',') {
            None if is_number(&inside) => Some((inside.clone(), None, end)),
            Some((from, to)) if (is_number(from) || from.is_empty()) && (is_number(to) || to.is_empty()) => {
                if from.is_empty() && to.is_empty() {
                    return None;
                }
                Some((if from.is_empty() { "0".into() } else { from.into() }, Some(to.into()), end))
            }
            _ => None,
        }
    }

    fn quantifier(&mut self) -> Result<(), String> {
        let interval = self.interval();
        match interval {
            Some((from, to, end)) if self.peek() == Some('{') => {
                self.at = end;
                let exact = to.is_none();
                let _ = write!(self.out, "{{{from}{}{}}}", if exact { "" } else { "," }, to.unwrap_or_default());
                match self.peek() {
                    Some('+') => return Err("'+' after an interval".into()),
                    Some('?') if exact => return Err("'?' after '{n}'".into()),
                    _ => {}
                }
            }
            _ => {
                self.out.extend(self.peek());
                self.at += 1;
                if self.take("+") {
                    self.out.push('+');
                    return Ok(());
                }
            }
        }
        if self.take("?") {
            self.out.push('?');
        }
        Ok(())
    }

    /// Returns the text of an escape outside a class, true if it may be repeated, and its character if it is a
    /// character.
    fn escape(&mut self) -> Result<(String, bool, Option<char>), String> {
        let zero_width = match self.rest.get(self.at + 1) {
            Some('b') => format!("(?:(?<=[{WORD}{LATIN}])(?![{WORD}{LATIN}])|(?<![{WORD}{LATIN}])(?=[{WORD}{LATIN}]))"),
            Some('B') => format!("(?:(?<=[{WORD}{LATIN}])(?=[{WORD}{LATIN}])|(?<![{WORD}{LATIN}])(?![{WORD}{LATIN}]))"),
            Some('A') => r"\A".into(),
            Some('z') => r"\z".into(),
            Some('Z') => r"(?=\x{A}?\z)".into(),
            Some('w') => return self.skip(format!("[{WORD}{LATIN}]")),
            Some('W') => return self.skip(format!("[^{WORD}{LATIN}]")),
            _ => {
                return Ok(match self.escaped()? {
                    Item::Set(set) => (format!("[{set}]"), true, None),
                    Item::Char(c) => {
                        let mut text = String::new();
                        literal(&mut text, c);
                        (text, true, Some(c))
                    }
                });
            }
        };
        self.at += 2;
        Ok((zero_width, false, None))
    }

    fn skip(&mut self, text: String) -> Result<(String, bool, Option<char>), String> {
        self.at += 2;
        Ok((text, true, None))
    }

    /// Parses an escape that is a character or a set.
    fn escaped(&mut self) -> Result<Item, String> {
        self.at += 1;
        let c = self.peek().ok_or("a '\\' at the end")?;
        self.at += 1;
        let set = |set: &str| Ok(Item::Set(set.into()));
        match c {
            'w' => set(WORD),
            'W' => Ok(Item::Set(format!("[^{WORD}]"))),
            's' => set(r"\p{White_Space}"),
            'S' => set(r"\P{White_Space}"),
            'd' => set(r"\p{Nd}"),
            'D' => set(r"\P{Nd}"),
            'h' => set("0-9A-Fa-f"),
            'H' => set("[^0-9A-Fa-f]"),
            'n' => Ok(Item::Char('\n')),
            'r' => Ok(Item::Char('\r')),
            't' => Ok(Item::Char('\t')),
            'f' => Ok(Item::Char('\x0c')),
            'v' => Ok(Item::Char('\x0b')),
            'a' => Ok(Item::Char('\x07')),
            'e' => Ok(Item::Char('\x1b')),
            'p' | 'P' => self.property(c == 'P'),
            'x' | 'u' => self.code(c),
            _ if c.is_ascii_punctuation() || c == ' ' || !c.is_ascii() => Ok(Item::Char(c)),
            _ => Err(format!("'\\{c}'")),
        }
    }

    fn braced(&mut self) -> Option<String> {
        let inside: String = self.rest[self.at..].iter().skip(1).take_while(|c| **c != '}').collect();
        let is_braced = self.peek() == Some('{') && self.at + inside.chars().count() + 1 < self.rest.len();
        self.at += if is_braced { inside.chars().count() + 2 } else { 0 };
        is_braced.then_some(inside)
    }

    fn property(&mut self, negated: bool) -> Result<Item, String> {
        let name = self.braced().ok_or("'\\p' without a name in braces")?;
        let (bare, negated) = name.strip_prefix('^').map_or((&*name, negated), |bare| (bare, !negated));
        if !PROPERTIES.contains(&bare) {
            return Err(format!("'\\p{{{name}}}'"));
        }
        Ok(Item::Set(format!(r"\{}{{{bare}}}", if negated { 'P' } else { 'p' })))
    }

    fn code(&mut self, form: char) -> Result<Item, String> {
        let digits = if form == 'x' && self.peek() == Some('{') {
            self.braced().unwrap_or_default()
        } else {
            let most = if form == 'x' { 2 } else { 4 };
            let digits: String = self.rest[self.at..].iter().take(most).collect();
            self.at += digits.chars().count();
            if digits.chars().count() == most { digits } else { String::new() }
        };
        let code = u32::from_str_radix(&digits, 16).ok().filter(|_| !digits.starts_with('+')).and_then(char::from_u32);
        // Without braces these would be bytes.
        code.filter(|code| form == 'u' || code.is_ascii() || digits.len() > 2)
            .map(Item::Char)
            .ok_or_else(|| format!("'\\{form}{digits}'"))
    }

    /// Parses a bracketed class.
    fn class(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut out = String::from("[");
        if self.take("^") {
            out.push('^');
        }
        if self.peek() == Some(']') {
            return Err("']' as the first of a class".into());
        }
        loop {
            let first = match self.item()? {
                None => break,
                Some(Item::Set(set)) => {
                    out.push_str(&set);
                    continue;
                }
                Some(Item::Char(c)) => c,
            };
            let is_range = self.peek() == Some('-') && self.rest.get(self.at + 1).is_some_and(|next| *next != ']');
            literal(&mut out, first);
            // This '-' is itself the start of a range.
            if is_range && first == '-' {
                return Err("a range from '-'".into());
            }
            if is_range {
                self.at += 1;
                let Some(Item::Char(end)) = self.item()? else { return Err("a range to a class".into()) };
                out.push('-');
                literal(&mut out, end);
            }
        }
        out.push(']');
        Ok(out)
    }

    /// Returns the next item of a class, or `None` at its end.
    fn item(&mut self) -> Result<Option<Item>, String> {
        if self.starts("&&") {
            return Err("'&&'".into());
        }
        if self.take("[:") {
            let negated = self.take("^");
            let name: String = self.rest[self.at..].iter().take_while(|c| c.is_ascii_alphabetic()).collect();
            self.at += name.len();
            let found = POSIX.iter().find(|(posix, _)| *posix == name).filter(|_| self.take(":]"));
            let (_, set) = found.ok_or_else(|| format!("'[:{name}'"))?;
            return Ok(Some(Item::Set(if negated { format!("[^{set}]") } else { (*set).into() })));
        }
        match self.peek().ok_or("a class without its ']'")? {
            ']' => {
                self.at += 1;
                Ok(None)
            }
            '[' => Ok(Some(Item::Set(self.class()?))),
            '\\' if self.rest.get(self.at + 1) == Some(&'b') => Err("'\\b' in a class".into()),
            '\\' => self.escaped().map(Some),
            c => {
                self.at += 1;
                Ok(Some(Item::Char(c)))
            }
        }
    }

    /// Returns an error for letters that Oniguruma folds with other letters.
    fn check_literal(&self, before: Option<char>, c: char) -> Result<(), String> {
        if !self.ignore_case {
            return Ok(());
        }
        let pair = format!("{}{c}", before.unwrap_or(' ')).to_lowercase();
        let is_folded = FOLDED.contains(&&*pair);
        if c.is_ascii() && !is_folded { Ok(()) } else { Err(format!("'{pair}' without case")) }
    }

    /// Returns an error for case-insensitive classes beyond ASCII.
    fn check_case(&self, set: &str) -> Result<(), String> {
        let wide = set.contains("[^") || set.contains(r"\p") || set.contains(r"\P");
        if self.ignore_case && wide { Err("a class of Unicode without case".into()) } else { Ok(()) }
    }
}

/// Writes a character literally.
fn literal(out: &mut String, c: char) {
    if c.is_ascii_alphanumeric() {
        out.push(c);
    } else {
        let _ = write!(out, "\\x{{{:X}}}", u32::from(c));
    }
}

#[cfg(test)]
mod tests;
