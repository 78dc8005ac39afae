//! Common parts of pages: number formatting, and the scale and the frame of a plot.

/// Formats a number with its digits in groups of three.
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

/// A scale of round numbers that covers all drawn values.
pub struct PlotAxis {
    /// Smallest shown value.
    pub low: f64,
    /// Largest shown value.
    pub high: f64,
    step: f64,
    /// Number of decimals of a tick's label.
    pub decimals: usize,
}

impl PlotAxis {
    /// Returns the scale for values from `low` to `high`, both finite.
    pub fn new(low: f64, high: f64) -> Self {
        // Equal values still get a scale.
        let span = (high - low).max(1e-3 * high.abs()).max(1e-6);
        let rough = span / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * power);
        let (low, high) = ((low / step - 0.2).floor() * step, (high / step + 0.2).ceil() * step);
        Self { low, high, step, decimals: (-step.log10().floor()).max(0.0) as usize }
    }

    /// Returns the scale for values from 0 to `high`, which starts at 0.
    pub fn from_zero(high: f64) -> Self {
        Self { low: 0.0, ..Self::new(0.0, high) }
    }

    /// Returns the positions of the rules.
    pub fn ticks(&self) -> impl Iterator<Item = f64> {
        let count = ((self.high - self.low) / self.step).round() as usize;
        (0..=count).map(|index| self.low + self.step * index as f64)
    }
}

/// Position of a plot in its SVG element.
#[derive(Clone, Copy)]
pub struct Frame {
    /// Width of the element.
    pub width: f64,
    /// Height of the element.
    pub height: f64,
    /// Margin for the labels of the vertical axis.
    pub left: f64,
    /// Right margin.
    pub right: f64,
    /// Top margin.
    pub top: f64,
    /// Margin for the labels of the horizontal axis.
    pub bottom: f64,
}

impl Frame {
    /// Returns the position of `value` on the vertical axis.
    pub fn y(&self, axis: &PlotAxis, value: f64) -> f64 {
        self.top + (axis.high - value) / (axis.high - axis.low) * (self.height - self.top - self.bottom)
    }

    /// Returns the position of the horizontal axis.
    pub fn foot(&self) -> f64 {
        self.height - self.bottom
    }

    /// Returns the position of the middle of the vertical axis.
    pub fn middle(&self) -> f64 {
        (self.top + self.height - self.bottom) / 2.0
    }
}

/// Axes of a plot.
pub(crate) struct Axes {
    pub(crate) frame: Frame,
    /// Rules of the vertical axis. Their labels have no power.
    pub(crate) rules: Vec<Tick>,
    /// Labels of the horizontal axis.
    pub(crate) ticks: Vec<Tick>,
    /// Title of the horizontal axis.
    pub(crate) across: &'static str,
    /// Title of the vertical axis.
    pub(crate) up: &'static str,
}

/// A position on an axis.
pub(crate) struct Tick {
    pub(crate) at: f64,
    pub(crate) label: String,
    /// Exponent above the label, if any.
    pub(crate) power: Option<i32>,
}

impl Axes {
    /// Creates the axes from the vertical `axis`, the `ticks` of the horizontal axis, and the titles `across` and `up`.
    pub(crate) fn new(
        frame: Frame,
        axis: &PlotAxis,
        ticks: Vec<Tick>,
        (across, up): (&'static str, &'static str),
    ) -> Self {
        let rule =
            |value: f64| Tick { at: frame.y(axis, value), label: format!("{value:.*}", axis.decimals), power: None };
        let rules = axis.ticks().map(rule).collect();
        Self { frame, rules, ticks, across, up }
    }
}
