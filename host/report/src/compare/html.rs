//! `compare.html`: one page with the table and the plot, and nothing loaded from elsewhere.

use super::Comparison;
use super::plot::svg;
use super::text::{below, heading, settings};
use crate::page::rendered;
use askama::Template;

#[derive(Template)]
#[template(path = "compare/page.html")]
struct Page<'a> {
    comparison: &'a Comparison,
    heading: String,
    /// SVG.
    plot: String,
    /// Titles and items.
    lists: [(&'static str, Vec<String>); 3],
}

/// The page.
pub fn html(comparison: &Comparison) -> String {
    let page = Page {
        comparison,
        heading: heading(comparison),
        plot: svg(comparison),
        lists: [
            ("On single rows", below(comparison)),
            ("Settings", settings(comparison)),
            ("Notes", comparison.notes.iter().skip(1).cloned().collect()),
        ],
    };
    rendered(&page)
}
