//! The table as plain text and as Markdown.

use super::{Cell, Comparison, Mark, Metric};
use damper_accounting::upward;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Formats a mean with its deviation.
pub(super) fn figure(cell: &Cell, metric: Metric) -> String {
    let Some(mean) = cell.mean else { return "refused".into() };
    let (mean, std) = match metric {
        Metric::TestAccuracy => (format!("{:.2}", 100.0 * mean), cell.std.map(|std| format!("{:.2}", 100.0 * std))),
        Metric::TestLoss => (format!("{mean:.4}"), cell.std.map(|std| format!("{std:.4}"))),
    };
    match std {
        Some(std) => format!("{mean} ± {std} ({})", cell.n),
        None => format!("{mean} ({})", cell.n),
    }
}

/// Returns the heading of the figures.
pub(super) fn heading(comparison: &Comparison) -> String {
    match comparison.metric {
        Metric::TestAccuracy => "test accuracy in %, mean ± standard deviation (runs)".into(),
        Metric::TestLoss => "test loss (less is better), mean ± standard deviation (runs)".into(),
    }
}

/// Legend of the marks.
pub(super) const MARKS: &str = "* the best mean; = within one standard deviation of it (the best's)";

pub(super) fn seconds(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "–".into(), |seconds| format!("{seconds:.1}"))
}

/// Returns the rejected methods, with their budgets and reasons, a line each.
fn refusals(comparison: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &comparison.methods {
        // Reasons in the order of the runs, each with its budgets.
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for cell in &row.cells {
            for refusal in &cell.refused {
                let budget = cell.budget.to_string();
                match reasons.iter_mut().find(|(reason, _)| *reason == refusal.reason) {
                    Some((_, budgets)) if budgets.contains(&budget) => {}
                    Some((_, budgets)) => budgets.push(budget),
                    None => reasons.push((&refusal.reason, vec![budget])),
                }
            }
        }
        for (reason, budgets) in reasons {
            let at = format!("{} at {} {}", row.label, comparison.budget, budgets.join(", "));
            lines.push(format!("refused: {at}: {reason}"));
        }
    }
    lines
}

/// Returns the settings chosen by tuning, a line for each method.
fn choices(comparison: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &comparison.methods {
        let mut chosen: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for cell in &row.cells {
            if let Some(choice) = &cell.chosen {
                chosen.entry(choice.settings.join(", ")).or_default().push(cell.budget.to_string());
            }
        }
        let found = comparison.runs.iter().filter(|run| run.task.label == row.label);
        for run in found {
            let Some(search) = &run.figures.search else { continue };
            let (at, settings) = (format!("{} {}", comparison.budget, run.task.budget), search.settings.join(", "));
            lines.push(format!(
                "found: {} at {at}, {}: {settings} (score {:.4}, epsilon of a candidate {}; model in {})",
                row.label,
                run.task.seed.map_or_else(|| format!("repeat {}", run.task.repeat), |seed| format!("seed {seed}")),
                search.score,
                upward(search.candidate_epsilon),
                search.folder,
            ));
        }
        if !chosen.is_empty() {
            let parts = chosen
                .iter()
                .map(|(settings, budgets)| format!("{settings} at {} {}", comparison.budget, budgets.join(", ")));
            lines.push(format!("chosen: {}: {}", row.label, parts.collect::<Vec<_>>().join("; ")));
        }
    }
    lines
}

/// Returns the values that tuning could not try, with budgets and reasons, a line each.
fn untried(comparison: &Comparison) -> Vec<String> {
    let mut lines: Vec<(String, String, Vec<String>)> = Vec::new();
    for row in &comparison.methods {
        for cell in &row.cells {
            for untried in cell.chosen.iter().flat_map(|chosen| &chosen.refused) {
                let what = format!("{}, {}", row.label, untried.settings.join(", "));
                let budget = cell.budget.to_string();
                match lines.iter_mut().find(|(known, reason, _)| *known == what && *reason == untried.reason) {
                    Some((.., budgets)) => budgets.push(budget),
                    None => lines.push((what, untried.reason.clone(), vec![budget])),
                }
            }
        }
    }
    let line = |(what, reason, budgets): (String, String, Vec<String>)| {
        format!("refused while tuning: {what} at {} {}: {reason}", comparison.budget, budgets.join(", "))
    };
    lines.into_iter().map(line).collect()
}

/// Returns the privacy cost of each method at equal noise. Methods that release counts cost more.
fn prices(comparison: &Comparison) -> Vec<String> {
    if comparison.budget == "epsilon" {
        return Vec::new();
    }
    let price = |row: &super::Row| {
        let cells = row.cells.iter().filter_map(|cell| Some((cell.budget, cell.epsilon?)));
        let parts = cells.map(|(budget, epsilon)| format!("{} at {} {budget}", upward(epsilon), comparison.budget));
        let parts = parts.collect::<Vec<_>>().join("; ");
        (!parts.is_empty()).then(|| format!("epsilon: {}: {parts}", row.label))
    };
    comparison.methods.iter().filter_map(price).collect()
}

/// Returns notes on single rows, printed under the table.
pub(super) fn below(comparison: &Comparison) -> Vec<String> {
    [refusals(comparison), choices(comparison), untried(comparison), prices(comparison)].concat()
}

fn mark(mark: Mark) -> &'static str {
    match mark {
        Mark::Best => " *",
        Mark::Tied => " =",
        Mark::None => "",
    }
}

/// Returns the table as plain text, with rejected methods, choices and notes under it.
pub fn text(comparison: &Comparison) -> String {
    let mut lines = vec![
        ["method".to_owned()]
            .into_iter()
            .chain(comparison.budgets.iter().map(|budget| format!("{} {budget}", comparison.budget)))
            .chain(["seconds a run".to_owned()])
            .collect::<Vec<_>>(),
    ];
    for row in &comparison.methods {
        let cells = row.cells.iter().map(|cell| figure(cell, comparison.metric) + mark(cell.mark));
        lines.push([row.label.clone()].into_iter().chain(cells).chain([seconds(row.seconds)]).collect());
    }
    let columns = lines[0].len();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = format!("{}\n{MARKS}\n\n", heading(comparison));
    for line in &lines {
        let padded: Vec<String> = line
            .iter()
            .zip(&widths)
            .map(|(field, width)| format!("{field}{}", " ".repeat(width - field.chars().count())))
            .collect();
        text.push_str(padded.join("  ").trim_end());
        text.push('\n');
    }
    for part in [&below(comparison), &comparison.notes] {
        if !part.is_empty() {
            text.push('\n');
            text.push_str(&part.join("\n"));
            text.push('\n');
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// Returns the table in Markdown, with settings, rejected methods, choices and notes under it.
pub fn markdown(comparison: &Comparison) -> String {
    let mut out = String::new();
    let _ = write!(out, "{}. Bold: the best mean; italic: within one standard deviation of it.\n\n| method |", {
        let heading = heading(comparison);
        heading[..1].to_uppercase() + &heading[1..]
    });
    for budget in &comparison.budgets {
        let name = match comparison.budget {
            "epsilon" => "ε = ",
            "equation 6" => "equation 6, ε̄ = ",
            _ => "σ = ",
        };
        let _ = write!(out, " {name}{budget} |");
    }
    out.push_str(" seconds a run |\n| --- |");
    out.push_str(&" ---: |".repeat(comparison.budgets.len() + 1));
    out.push('\n');
    for row in &comparison.methods {
        let _ = write!(out, "| {} |", escaped(&row.label));
        for cell in &row.cells {
            let figure = figure(cell, comparison.metric);
            let _ = match cell.mark {
                Mark::Best => write!(out, " **{figure}** |"),
                Mark::Tied => write!(out, " *{figure}* |"),
                Mark::None => write!(out, " {figure} |"),
            };
        }
        let _ = writeln!(out, " {} |", seconds(row.seconds));
    }
    let mut list = |title: &str, items: &mut dyn Iterator<Item = String>| {
        let mut items = items.peekable();
        if items.peek().is_some() {
            let _ = write!(out, "\n{title}\n\n");
            for item in items {
                let _ = writeln!(out, "- {}", escaped(&item));
            }
        }
    };
    list("Settings:", &mut settings(comparison).into_iter());
    list("On single rows:", &mut below(comparison).into_iter());
    list("Notes:", &mut comparison.notes.iter().cloned());
    out
}

/// Returns the settings, a line for each group, the shared group first.
pub(super) fn settings(comparison: &Comparison) -> Vec<String> {
    let none = |settings: &[String]| {
        if settings.is_empty() { "nothing of its own".to_owned() } else { settings.join(", ") }
    };
    let mut lines = vec![format!("all: {}", comparison.shared.join(", "))];
    lines.extend(comparison.methods.iter().map(|row| format!("{}: {}", row.label, none(&row.settings))));
    let backends = comparison.runs.iter().map(|run| run.figures.backend.as_str());
    let backends: std::collections::BTreeSet<&str> = backends.collect();
    let backends = backends.into_iter().collect::<Vec<_>>().join(", ");
    lines.push(format!("damper {} on {backends}", comparison.damper));
    lines
}

/// Escapes Markdown markup in text for a table or a list.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '<' | '[' | '\\' => out.extend(['\\', c]),
            '\n' | '\r' => out.push(' '),
            _ => out.push(c),
        }
    }
    out
}
