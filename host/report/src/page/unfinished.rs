//! `report.html` of a run that was killed or failed.

use super::filters;
use super::render::rendered;
use crate::statement::Unfinished;
use askama::Template;

#[derive(Template)]
#[template(path = "unfinished.html")]
struct Page<'a> {
    statement: &'a Unfinished,
}

impl Unfinished {
    /// Returns the content of `report.html`.
    #[must_use]
    pub fn html(&self) -> String {
        rendered(&Page { statement: self })
    }
}
