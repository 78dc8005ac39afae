//! Checks of the markup of pages.

/// Checks that every element is closed, in order.
pub fn assert_balanced(page: &str) {
    let mut open = Vec::new();
    for part in page.split('<').skip(1) {
        let (tag, _) = part.split_once('>').expect("a tag ends");
        let name = tag.split_whitespace().next().unwrap();
        if let Some(name) = name.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') && !name.starts_with('!') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}
