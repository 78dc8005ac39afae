//! `compare.html`: one self-contained page with the table and the plot.

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
    /// SVG of the plot.
    plot: String,
    /// Titles and their items.
    lists: [(&'static str, Vec<String>); 3],
}

/// Returns the page.
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
