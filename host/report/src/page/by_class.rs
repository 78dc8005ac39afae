//! Figures by class on the held-out samples, in a line and as tables of a page.

use super::HeldOut;
use crate::page;
use damper_train::{ClassFigures, ClassMetrics};
use std::fmt::{self, Write};

/// A matrix of more classes is in `report.json` alone.
const SHOWN: usize = 32;

/// The line for people: means over the classes, and the class that is answered worst.
pub(super) fn line(f: &mut fmt::Formatter<'_>, held_out: Option<&HeldOut>) -> fmt::Result {
    let Some(found) = held_out.and_then(|held_out| held_out.by_class.as_ref()) else { return Ok(()) };
    let number = |name: &str, figure: Option<f64>| figure.map(|figure| format!("{name} {figure:.4}"));
    let known = found.classes.iter().filter_map(|class| Some((class, class.accuracy?)));
    let worst = known.min_by(|a, b| a.1.total_cmp(&b.1));
    let worst = worst.map(|(class, accuracy)| format!("least right: class {}, {:.2} %", name(class), 100.0 * accuracy));
    let parts = [number("macro F1", found.macro_f1), number("AUC", found.macro_auc), worst];
    writeln!(f, "classes   {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// A class by its number, and its name if it has one.
fn name(class: &ClassFigures) -> String {
    match &class.name {
        // A name comes out of a file: what would move a terminal's cursor is left out.
        Some(name) => {
            let name: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            format!("{} ({name})", class.class)
        }
        None => class.class.to_string(),
    }
}

/// The tables of a page.
pub(super) fn tables(out: &mut String, held_out: Option<&HeldOut>) {
    match held_out.map(|held_out| (&held_out.by_class, &held_out.by_class_missing)) {
        Some((Some(found), _)) => {
            figures(out, found);
            confusion(out, found);
        }
        Some((None, Some(reason))) => {
            let _ = writeln!(out, "<p class=\"soft small\">Figures by class: {}.</p>", page::escape(reason));
        }
        _ => {}
    }
}

fn figures(out: &mut String, found: &ClassMetrics) {
    let several = found.confusion.is_empty();
    let _ = write!(
        out,
        "<h3>By {}</h3>\n<table>\n<thead><tr><th scope=\"col\">{}</th>",
        if several { "output" } else { "class" },
        if several { "output" } else { "class" }
    );
    for name in ["labels", "accuracy", "precision", "F1", "AUC"] {
        let _ = write!(out, "<th scope=\"col\" class=\"number\">{name}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let number = |figure: Option<f64>| figure.map_or("–".into(), |figure| format!("{figure:.4}"));
    let mut row = |name: &str, labels: u64, figures: [Option<f64>; 4]| {
        let _ = write!(
            out,
            "<tr><th scope=\"row\">{name}</th><td class=\"number\">{}</td>",
            page::grouped(labels, '\u{202f}')
        );
        for figure in figures {
            let _ = write!(out, "<td class=\"number\">{}</td>", number(figure));
        }
        out.push_str("</tr>\n");
    };
    for class in &found.classes {
        row(&page::escape(&name(class)), class.labels, [class.accuracy, class.precision, class.f1, class.auc]);
    }
    row("macro mean", found.labels, [None, None, found.macro_f1, found.macro_auc]);
    out.push_str(
        "</tbody>\n</table>\n<p class=\"soft small\">Accuracy: the share of a class's labels that were answered so (recall). AUC: against the rest. \
         –: there is none, for labels or answers are absent.</p>\n",
    );
}

/// The matrix as a heat map: each row's shares.
fn confusion(out: &mut String, found: &ClassMetrics) {
    let classes = found.confusion.len();
    if classes == 0 {
        return;
    }
    if classes > SHOWN {
        let _ = writeln!(out, "<p>The confusion matrix of {classes} classes is in report.json.</p>");
        return;
    }
    out.push_str(
        "<h3>Confusion matrix</h3>\n<table class=\"heat\">\n<thead><tr><th scope=\"col\">label, answered as</th>",
    );
    let names: Vec<String> = found.classes.iter().map(|class| page::escape(&name(class))).collect();
    for name in &names {
        let _ = write!(out, "<th scope=\"col\" class=\"number\">{name}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for (label, row) in found.confusion.iter().enumerate() {
        let all = row.iter().sum::<u64>().max(1);
        let shown = names.get(label).cloned().unwrap_or_else(|| label.to_string());
        let _ = write!(out, "<tr><th scope=\"row\">{shown}</th>");
        for (answer, count) in row.iter().enumerate() {
            let color = if label == answer { "good" } else { "bad" };
            let share = (100 * count).div_ceil(all);
            let _ = write!(
                out,
                "<td class=\"number\" style=\"background:color-mix(in srgb,var(--{color}) {}%,transparent)\">{count}</td>",
                share * 6 / 10
            );
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n");
}
