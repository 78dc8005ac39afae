//! The plot: the metric over the budget, one line a method, with error bars of one standard deviation.

use super::text::figure;
use super::{Comparison, Metric, Row};
use crate::page::{Axis, Frame, escape};
use std::fmt::Write;

const FRAME: Frame = Frame { width: 760.0, height: 400.0, left: 62.0, right: 18.0, top: 14.0, bottom: 48.0 };
/// Between the methods of one budget, so that their bars do not cover each other.
const APART: f64 = 7.0;
/// Between the first and the last of them, at most.
const SPREAD: f64 = 24.0;
const COLOURS: usize = 8;
const LEGEND_LINE: f64 = 22.0;

/// The plot as an SVG element; its colours are variables of the page.
pub(super) fn svg(comparison: &Comparison) -> String {
    let scale = match comparison.metric {
        Metric::TestAccuracy => 100.0,
        Metric::TestLoss => 1.0,
    };
    let bars = || {
        comparison.methods.iter().flat_map(|row| &row.cells).filter_map(|cell| {
            let mean = scale * cell.mean?;
            Some((mean, scale * cell.std.unwrap_or(0.0)))
        })
    };
    let low = bars().map(|(mean, std)| mean - std).reduce(f64::min);
    let high = bars().map(|(mean, std)| mean + std).reduce(f64::max);
    let (Some(low), Some(high)) = (low, high) else { return "<p>No run finished.</p>\n".into() };
    let axis = Axis::new(low, high);
    let y = |value: f64| FRAME.y(&axis, value);

    let legend = legend(comparison);
    let (width, height) = (FRAME.width, FRAME.height + legend.height);
    let what = match comparison.metric {
        Metric::TestAccuracy => "test accuracy (%)",
        Metric::TestLoss => "test loss",
    };
    let mut out = format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{what} over \
         {}\">\n",
        comparison.budget
    );
    FRAME.rules(&mut out, &axis);
    let xs = positions(&comparison.budgets);
    for (x, budget) in xs.iter().zip(&comparison.budgets) {
        FRAME.tick(&mut out, *x, budget);
    }
    FRAME.names(&mut out, comparison.budget, what);
    let gaps = comparison.methods.len().saturating_sub(1) as f64;
    let apart = APART.min(SPREAD / gaps.max(1.0));
    let shift = |index: usize| (index as f64 - gaps / 2.0) * apart;
    for (index, row) in comparison.methods.iter().enumerate() {
        let _ = writeln!(out, "<g style=\"stroke: {0}; fill: {0}\">", colour(index));
        let points: Vec<_> = row
            .cells
            .iter()
            .zip(&xs)
            .filter_map(|(cell, x)| Some((cell, x + shift(index), scale * cell.mean?, cell.std.map(|std| scale * std))))
            .collect();
        let line: Vec<String> = points.iter().map(|(_, x, mean, _)| format!("{x:.1},{:.1}", y(*mean))).collect();
        if line.len() > 1 {
            let points = line.join(" ");
            let _ =
                writeln!(out, "<polyline points=\"{points}\" style=\"fill: none; stroke-width: 1.8{}\"/>", dash(index));
        }
        for (cell, x, mean, std) in points {
            if let Some(std) = std {
                let (top, foot) = (y(mean + std), y(mean - std));
                let _ = writeln!(
                    out,
                    "<path d=\"M{x:.1} {top:.1}V{foot:.1}M{:.1} {top:.1}h6M{:.1} {foot:.1}h6\" style=\"stroke-width: 1.4\"/>",
                    x - 3.0,
                    x - 3.0
                );
            }
            let title =
                format!("{}, {} {}: {}", row.label, comparison.budget, cell.budget, figure(cell, comparison.metric));
            let _ = writeln!(out, "{}", marker(index, x, y(mean), Some(&title)));
        }
        out.push_str("</g>\n");
    }
    out.push_str(&legend.svg);
    out.push_str("</svg>\n");
    out
}

/// Positions of the budgets, by their logarithms.
fn positions(budgets: &[f64]) -> Vec<f64> {
    let (from, to) = (FRAME.left + 50.0, FRAME.width - FRAME.right - 50.0);
    let logs: Vec<f64> = budgets.iter().map(|budget| budget.ln()).collect();
    let low = logs.iter().copied().fold(f64::INFINITY, f64::min);
    let high = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if high > low {
        logs.iter().map(|log| from + (log - low) / (high - low) * (to - from)).collect()
    } else {
        vec![(from + to) / 2.0; logs.len()]
    }
}

fn colour(index: usize) -> String {
    format!("var(--m{})", index % COLOURS)
}

/// Lines are dashed where the colours begin again.
fn dash(index: usize) -> &'static str {
    ["", "; stroke-dasharray: 6 3", "; stroke-dasharray: 2 3"][(index / COLOURS).min(2)]
}

/// Shapes differ beside colours, for who does not see those.
fn marker(index: usize, x: f64, y: f64, title: Option<&str>) -> String {
    let title = title.map(|title| format!("<title>{}</title>", escape(title))).unwrap_or_default();
    match (index + index / COLOURS) % 4 {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\">{title}</circle>"),
        1 => format!("<rect x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\">{title}</rect>", x - 4.0, y - 4.0),
        2 => format!("<path d=\"M{x:.1} {:.1}l5 9h-10z\">{title}</path>", y - 5.5),
        _ => format!("<path d=\"M{x:.1} {:.1}l5.5 5.5l-5.5 5.5l-5.5 -5.5z\">{title}</path>", y - 5.5),
    }
}

struct Legend {
    svg: String,
    height: f64,
}

/// The methods that are drawn, under the plot, in lines.
fn legend(comparison: &Comparison) -> Legend {
    let mut svg = String::new();
    let Frame { width: end, height, left, right, .. } = FRAME;
    let (mut x, mut line) = (left, 0.0);
    let drawn = |row: &Row| row.cells.iter().any(|cell| cell.mean.is_some());
    for (index, row) in comparison.methods.iter().enumerate().filter(|(_, row)| drawn(row)) {
        let width = 26.0 + 7.5 * row.label.chars().count() as f64;
        if x > left && x + width > end - right {
            x = left;
            line += 1.0;
        }
        let y = height + LEGEND_LINE * (line + 0.5);
        let _ = writeln!(
            svg,
            "<g style=\"stroke: {0}; fill: {0}\">{1}</g><text x=\"{2:.1}\" y=\"{3:.1}\">{4}</text>",
            colour(index),
            marker(index, x + 6.0, y, None),
            x + 18.0,
            y + 4.5,
            escape(&row.label)
        );
        x += width + 12.0;
    }
    Legend { svg, height: LEGEND_LINE * (line + 1.0) + 4.0 }
}
