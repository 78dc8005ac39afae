//! `compare.html`: one page with the table and the plot, and nothing loaded from elsewhere.

use super::plot::svg;
use super::text::{below, figure, heading, seconds, settings};
use super::{Comparison, Mark};
use crate::page::escape;
use std::fmt::Write;

/// Colours are those of the plot's methods too. The page follows the reader's choice of light or dark.
const STYLE: &str = "
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --soft: #59636e; --line: #d4dae0; --best: #e3f0fb;
  --m0: #0060a8; --m1: #c24400; --m2: #00795c; --m3: #98337f; --m4: #8a6200; --m5: #4a3fb5; --m6: #006f86; --m7: #a3122f; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14181d; --ink: #e4e8ec; --soft: #a0aab4; --line: #363e47; --best: #15324c;
    --m0: #64b5f6; --m1: #ff9a66; --m2: #4fd1a5; --m3: #e89bd2; --m4: #e5bd4f; --m5: #aaa2ff; --m6: #58cfe4; --m7: #ff8f9f; }
}
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; max-width: 56rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0.25rem; }
h2 { font-size: 1.1rem; margin: 1.75rem 0 0.5rem; }
.soft { color: var(--soft); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 0.4rem 0.7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child { text-align: left; white-space: normal; }
tbody th { font-weight: 400; }
.best { background: var(--best); font-weight: 700; }
.tied { background: var(--best); }
svg { width: 100%; min-width: 38rem; height: auto; display: block; margin: 1.25rem 0; }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .soft { fill: var(--soft); }
svg .rule { stroke: var(--line); }
li { margin: 0.3rem 0; overflow-wrap: anywhere; }
.notice { border-left: 4px solid var(--m1); padding: 0.4rem 0.9rem; }
";

/// The page.
pub fn html(comparison: &Comparison) -> String {
    let title = format!("damper compare: {} methods", comparison.methods.len());
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"/>\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n<p class=\"soft\">{}</p>\n",
        escape(&heading(comparison))
    );
    let mut notes = comparison.notes.iter();
    if let Some(first) = notes.next() {
        let _ = writeln!(out, "<p class=\"notice\">{}</p>", escape(first));
    }
    let _ = writeln!(out, "<div class=\"wide\">\n{}</div>", svg(comparison));
    table(&mut out, comparison);
    let mut list = |title: &str, items: &mut dyn Iterator<Item = String>| {
        let mut items = items.peekable();
        if items.peek().is_some() {
            let _ = writeln!(out, "<h2>{title}</h2>\n<ul>");
            for item in items {
                let _ = writeln!(out, "<li>{}</li>", escape(&item));
            }
            out.push_str("</ul>\n");
        }
    };
    list("On single rows", &mut below(comparison).into_iter());
    list("Settings", &mut settings(comparison).into_iter());
    list("Notes", &mut notes.cloned());
    out.push_str("</body>\n</html>\n");
    out
}

fn table(out: &mut String, comparison: &Comparison) {
    out.push_str("<div class=\"wide\">\n<table>\n<thead><tr><th scope=\"col\">method</th>");
    for budget in &comparison.budgets {
        let _ = write!(out, "<th scope=\"col\">{} {budget}</th>", comparison.budget);
    }
    out.push_str("<th scope=\"col\">seconds a run</th></tr></thead>\n<tbody>\n");
    for row in &comparison.methods {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(&row.label));
        for cell in &row.cells {
            let marked = match cell.mark {
                Mark::Best => " class=\"best\" title=\"the best mean\"",
                Mark::Tied => " class=\"tied\" title=\"within one standard deviation of the best\"",
                Mark::None => "",
            };
            let figure = figure(cell, comparison.metric);
            let _ = write!(out, "<td{marked}>{figure}</td>");
        }
        let _ = writeln!(out, "<td>{}</td></tr>", seconds(row.seconds));
    }
    out.push_str(
        "</tbody>\n</table>\n</div>\n<p class=\"soft\">Bold: the best mean of its column. Shaded: within one standard \
         deviation of it (the best's).</p>\n",
    );
}
