//! Shell patterns for initializer names: `*` matches any run of characters, `?` matches one.

/// Returns true if one of `patterns` matches all of `name`.
pub fn any(patterns: &[String], name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    patterns.iter().any(|pattern| matches(&pattern.chars().collect::<Vec<_>>(), &name))
}

fn matches(pattern: &[char], name: &[char]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                (p, n) = (at + 1, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_names() {
        let check = |pattern: &str, name: &str| any(&[pattern.to_string()], name);
        assert!(check("fc.weight", "fc.weight"));
        assert!(!check("fc", "fc.weight"));
        assert!(check("fc.*", "fc.weight"));
        assert!(check("*.bias", "block.1.bias"));
        assert!(check("b*.?.bi*s", "block.1.bias"));
        assert!(!check("*.bias", "bias.weight"));
        assert!(check("*", ""));
        assert!(!check("?", ""));
    }
}
