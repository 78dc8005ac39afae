//! What pages have in common: text made safe, and the scale of a plot.

/// Text as HTML and XML take it, in attributes too.
pub(crate) fn escape(text: &str) -> String {
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

/// A scale of round numbers that holds all that is drawn.
pub(crate) struct Axis {
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

    /// Where the rules are.
    pub fn ticks(&self) -> impl Iterator<Item = f64> {
        let count = ((self.high - self.low) / self.step).round() as usize;
        (0..=count).map(|index| self.low + self.step * index as f64)
    }
}
