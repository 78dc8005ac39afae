//! Common parts of pages: escaped text, numbers in groups, the scale and the frame of a plot.

use std::fmt::{Display, Write};

/// Text as HTML and XML take it, in attributes too.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(c),
        }
    }
    out
}

/// A number with its digits in groups of three.
pub fn grouped(number: u64, separator: char) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(separator);
        }
        text.push(digit);
    }
    text
}

/// A scale of round numbers that holds all that is drawn.
pub struct Axis {
    /// The least that is shown.
    pub low: f64,
    /// The most that is shown.
    pub high: f64,
    step: f64,
    /// Decimals of a tick's label.
    pub decimals: usize,
}

impl Axis {
    /// The scale for what lies from `low` to `high`, both finite.
    pub fn new(low: f64, high: f64) -> Self {
        // All at one height still get a scale.
        let span = (high - low).max(1e-3 * high.abs()).max(1e-6);
        let rough = span / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * power);
        let (low, high) = ((low / step - 0.2).floor() * step, (high / step + 0.2).ceil() * step);
        Self { low, high, step, decimals: (-step.log10().floor()).max(0.0) as usize }
    }

    /// The scale for what lies from 0 to `high`, which begins at 0.
    pub fn from_zero(high: f64) -> Self {
        Self { low: 0.0, ..Self::new(0.0, high) }
    }

    /// Positions of the rules.
    pub fn ticks(&self) -> impl Iterator<Item = f64> {
        let count = ((self.high - self.low) / self.step).round() as usize;
        (0..=count).map(|index| self.low + self.step * index as f64)
    }
}

/// The place of a plot in its SVG element.
pub struct Frame {
    /// The element's.
    pub width: f64,
    /// The element's.
    pub height: f64,
    /// Margin for the labels of the vertical axis.
    pub left: f64,
    /// Margin.
    pub right: f64,
    /// Margin.
    pub top: f64,
    /// Margin for the labels of the horizontal axis.
    pub bottom: f64,
}

impl Frame {
    /// Position of `value` on the vertical axis.
    pub fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.top + (axis.high - value) / (axis.high - axis.low) * (self.height - self.top - self.bottom)
    }

    /// The rules of the vertical axis, with their labels.
    pub fn rules(&self, out: &mut String, axis: &Axis) {
        for tick in axis.ticks() {
            let at = self.y(axis, tick);
            let _ = writeln!(
                out,
                "<line class=\"rule\" x1=\"{}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text class=\"soft\" x=\"{}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{tick:.*}</text>",
                self.left,
                self.width - self.right,
                self.left - 8.0,
                at + 4.5,
                axis.decimals,
            );
        }
    }

    /// A label under the horizontal axis; markup.
    pub fn tick(&self, out: &mut String, x: f64, label: impl Display) {
        let y = self.height - self.bottom + 20.0;
        let _ = writeln!(out, "<text class=\"soft\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{label}</text>");
    }

    /// Draws the axes' titles: `across` under the horizontal one, `up` beside the vertical one.
    pub fn names(&self, out: &mut String, across: &str, up: &str) {
        let middle = (self.top + self.height - self.bottom) / 2.0;
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n<text x=\"14\" y=\"{middle}\" text-anchor=\"middle\" \
             transform=\"rotate(-90 14 {middle})\">{}</text>",
            (self.left + self.width - self.right) / 2.0,
            self.height - self.bottom + 42.0,
            escape(across),
            escape(up)
        );
    }
}
