use super::*;
use tokenizers::Normalizer as _;
use tokenizers::normalizers::replace::{Replace, ReplacePattern};

// For each set, the number of members and their sum modulo 2^32, from the Python package over all characters.
#[test]
fn classes_are_those_of_the_python_package() {
    let recorded = include_str!("classes.tsv");
    let all: String = (0..=char::MAX as u32).filter_map(char::from_u32).collect();
    let sum = |text: &str| text.chars().fold(0u32, |sum, c| sum.wrapping_add(c as u32));
    let mut lines = 0;
    for line in recorded.lines() {
        let [pattern, count, code] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let regex = ReplacePattern::Regex(rewrite(pattern).unwrap());
        let mut text = all.as_str().into();
        Replace::new(regex, "").unwrap().normalize(&mut text).unwrap();
        let members = all.chars().count() - text.get().chars().count();
        assert_eq!(members.to_string(), count, "{pattern}");
        assert_eq!(sum(&all).wrapping_sub(sum(text.get())).to_string(), code, "{pattern}");
        lines += 1;
    }
    assert!(lines > 60);
}

// Each replaces its matches by '#', as the Python package does.
#[test]
fn matches_are_those_of_the_python_package() {
    let recorded: Vec<[String; 3]> = serde_json::from_str(include_str!("matches.json")).unwrap();
    for [pattern, text, wanted] in recorded {
        let regex = ReplacePattern::Regex(rewrite(&pattern).unwrap());
        let mut found = text.as_str().into();
        Replace::new(regex, "#").unwrap().normalize(&mut found).unwrap();
        assert_eq!(found.get(), wanted, "{pattern} in {text:?}: {}", rewrite(&pattern).unwrap());
    }
}

#[test]
fn pattern_without_an_equal_is_refused() {
    for (pattern, part) in [
        (r"\R", r"'\R'"),
        (r"(a)\1", r"'\1'"),
        (r"\X+", r"'\X'"),
        (r"\p{Greek}", r"'\p{Greek}'"),
        ("(?m:.)", "'(?m:.'"),
        ("(?<n>a)", "'(?<n>'"),
        ("a(?i)b", "'(?i)b'"),
        ("(?i:ss)", "'ss' without case"),
        (r"(?i:\p{L})", "without case"),
        ("[a&&b]", "'&&'"),
        ("[]a]", "']'"),
        ("a{1,2}+", "'+' after an interval"),
        ("a**", "after another quantifier"),
        ("[[:foo:]]", "'[:foo'"),
        ("(a", "unmatched"),
        ("[a", "without its ']'"),
    ] {
        let fault = rewrite(pattern).unwrap_err();
        assert!(fault.contains(part), "{pattern}: {fault}");
    }
}
