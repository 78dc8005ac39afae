//! The plot: the metric over the budget, a line for each method, with error bars of one standard deviation.

use super::text::figure;
use super::{Comparison, Metric, Row};
use crate::page::{Axes, Frame, PlotAxis, Tick, rendered};
use askama::Template;

const FRAME: Frame = Frame { width: 760.0, height: 400.0, left: 62.0, right: 18.0, top: 14.0, bottom: 48.0 };
/// Distance between the methods of a budget, so that their bars do not overlap.
const APART: f64 = 7.0;
/// Maximum distance between the first and the last method of a budget.
const SPREAD: f64 = 24.0;
const COLOURS: usize = 8;
const LEGEND_LINE: f64 = 22.0;

#[derive(Template)]
#[template(path = "compare/plot.svg")]
struct Plot {
    axes: Axes,
    /// Height including the legend.
    height: f64,
    methods: Vec<Line>,
    legend: Vec<Entry>,
}

/// Line of a method.
struct Line {
    colour: String,
    dash: &'static str,
    /// Path through its points, if there are several.
    line: Option<String>,
    points: Vec<Point>,
}

struct Point {
    /// Path of the error bar.
    bar: Option<String>,
    marker: Marker,
}

/// A marker. Methods differ in shape as well as colour, for colour-blind readers.
struct Marker {
    element: &'static str,
    /// Position, as attributes of the markup.
    place: String,
    title: Option<String>,
}

/// A method in the legend.
struct Entry {
    colour: String,
    marker: Marker,
    x: f64,
    y: f64,
    label: String,
}

/// Returns the plot as an SVG element. Its colours are variables of the page.
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
    let axis = PlotAxis::new(low, high);
    let (legend, legend_height) = legend(comparison);
    let what = match comparison.metric {
        Metric::TestAccuracy => "test accuracy (%)",
        Metric::TestLoss => "test loss",
    };
    let xs = positions(&comparison.budgets);
    let ticks = xs.iter().zip(&comparison.budgets);
    let ticks = ticks.map(|(x, budget)| Tick { at: *x, label: budget.to_string(), power: None }).collect();
    let methods = comparison.methods.iter().enumerate();
    rendered(&Plot {
        axes: Axes::new(FRAME, &axis, ticks, (comparison.budget, what)),
        height: FRAME.height + legend_height,
        methods: methods.map(|(index, row)| line(comparison, &axis, scale, &xs, (index, row))).collect(),
        legend,
    })
}

/// Returns the line of the method `row`.
fn line(comparison: &Comparison, axis: &PlotAxis, scale: f64, xs: &[f64], (index, row): (usize, &Row)) -> Line {
    let y = |value: f64| FRAME.y(axis, value);
    let gaps = comparison.methods.len().saturating_sub(1) as f64;
    let shift = (index as f64 - gaps / 2.0) * APART.min(SPREAD / gaps.max(1.0));
    let points: Vec<_> = row
        .cells
        .iter()
        .zip(xs)
        .filter_map(|(cell, x)| Some((cell, x + shift, scale * cell.mean?, cell.std.map(|std| scale * std))))
        .collect();
    let line: Vec<String> = points.iter().map(|(_, x, mean, _)| format!("{x:.1},{:.1}", y(*mean))).collect();
    let points = points.into_iter().map(|(cell, x, mean, std)| {
        let title =
            format!("{}, {} {}: {}", row.label, comparison.budget, cell.budget, figure(cell, comparison.metric));
        let bar = std.map(|std| {
            let (top, foot) = (y(mean + std), y(mean - std));
            format!("M{x:.1} {top:.1}V{foot:.1}M{left:.1} {top:.1}h6M{left:.1} {foot:.1}h6", left = x - 3.0)
        });
        Point { bar, marker: marker(index, x, y(mean), Some(title)) }
    });
    Line {
        colour: colour(index),
        dash: dash(index),
        line: (line.len() > 1).then(|| line.join(" ")),
        points: points.collect(),
    }
}

/// Returns the positions of the budgets, on a logarithmic scale.
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

/// Returns the dash pattern: lines are dashed when the colours repeat.
fn dash(index: usize) -> &'static str {
    ["", "; stroke-dasharray: 6 3", "; stroke-dasharray: 2 3"][(index / COLOURS).min(2)]
}

fn marker(index: usize, x: f64, y: f64, title: Option<String>) -> Marker {
    let (element, place) = match (index + index / COLOURS) % 4 {
        0 => ("circle", format!("cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"")),
        1 => ("rect", format!("x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\"", x - 4.0, y - 4.0)),
        2 => ("path", format!("d=\"M{x:.1} {:.1}l5 9h-10z\"", y - 5.5)),
        _ => ("path", format!("d=\"M{x:.1} {:.1}l5.5 5.5l-5.5 5.5l-5.5 -5.5z\"", y - 5.5)),
    };
    Marker { element, place, title }
}

/// Returns the legend under the plot: the methods in lines, and the height of these lines.
fn legend(comparison: &Comparison) -> (Vec<Entry>, f64) {
    let mut entries = vec![];
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
        let (colour, marker) = (colour(index), marker(index, x + 6.0, y, None));
        entries.push(Entry { colour, marker, x: x + 18.0, y: y + 4.5, label: row.label.clone() });
        x += width + 12.0;
    }
    (entries, LEGEND_LINE * (line + 1.0) + 4.0)
}
