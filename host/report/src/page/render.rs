//! Renders templates as text.

use askama::Template;
use std::fmt;

/// Escapes text for a page, including attributes. The result contains no markup, no control over adjacent text, and no
/// non-characters.
#[derive(Clone, Copy, Default)]
pub(crate) struct Escaper;

impl askama::filters::Escaper for Escaper {
    fn write_escaped_str<W: fmt::Write>(&self, mut to: W, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| self.write_escaped_char(&mut to, c))
    }

    fn write_escaped_char<W: fmt::Write>(&self, mut to: W, c: char) -> fmt::Result {
        match c {
            '&' => to.write_str("&amp;"),
            '<' => to.write_str("&lt;"),
            '>' => to.write_str("&gt;"),
            '"' => to.write_str("&quot;"),
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => to.write_char('\u{fffd}'),
            c if c.is_control() => to.write_char(' '),
            c => to.write_char(c),
        }
    }
}

/// Returns the text of a template.
pub(crate) fn rendered(template: &impl Template) -> String {
    template.render().expect("a template that is compiled renders into memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Template)]
    #[template(source = "<p title=\"{{ text }}\">{{ text }}</p>", ext = "html")]
    struct Page {
        text: &'static str,
    }

    // A template escapes by default.
    #[test]
    fn text_is_never_markup() {
        let shown = "&lt;b&gt; &amp;&quot; \u{fffd}a\u{fffd} ";
        let page = rendered(&Page { text: "<b> &\"\u{1b}\u{202e}a\u{2066}\n" });
        assert_eq!(page, format!("<p title=\"{shown}\">{shown}</p>"));
    }
}
