//! A curve as an SVG element; its colours are variables of the page.

use crate::page::{Axis, escape};
use std::fmt::Write;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 290.0;
const LEFT: f64 = 54.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 50.0;

/// How the horizontal axis grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scale {
    /// Evenly, in whole numbers.
    Even,
    /// By powers of ten.
    Powers,
}

/// A curve.
pub(super) struct Plot<'a> {
    /// Its anchor on the page.
    pub id: &'a str,
    /// What it shows, for who does not see it.
    pub title: &'a str,
    /// Under the horizontal axis.
    pub across: &'a str,
    /// Beside the vertical one.
    pub up: &'a str,
    pub scale: Scale,
    /// From left to right, finite.
    pub points: &'a [(f64, f64)],
    /// The point that is claimed.
    pub mark: Option<(f64, f64)>,
}

impl Plot<'_> {
    /// The element; of fewer than two points nothing.
    pub fn svg(&self) -> String {
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else { return String::new() };
        if self.points.len() < 2 {
            return String::new();
        }
        let place = |x: f64| if self.scale == Scale::Powers { x.log10() } else { x };
        let (from, to) = (place(first.0), place(last.0));
        let highest = self.points.iter().map(|(_, y)| *y).fold(0.0, f64::max);
        let axis = Axis::new(0.0, highest);
        let (low, high) = (0.0, axis.high);
        let x = |value: f64| LEFT + (place(value) - from) / (to - from) * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM);
        let (id, title) = (self.id, escape(self.title));
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-labelledby=\"{id}-title\"><title id=\"{id}-title\">{title}</title>\n"
        );
        for tick in axis.ticks().filter(|tick| *tick >= -1e-12) {
            let at = y(tick);
            let _ = writeln!(
                out,
                "<line class=\"rule\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text class=\"soft\" x=\"{}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{:.*}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                at + 4.5,
                axis.decimals,
                tick.abs(),
            );
        }
        for (value, label) in self.ticks(from, to) {
            let at = x(value);
            let _ = writeln!(
                out,
                "<text class=\"soft\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
                HEIGHT - BOTTOM + 20.0
            );
        }
        let line: Vec<String> =
            self.points.iter().map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value))).collect();
        let line = line.join(" ");
        let foot = y(0.0);
        let _ = writeln!(
            out,
            "<polygon class=\"under\" points=\"{:.1},{foot:.1} {line} {:.1},{foot:.1}\"/>\n<polyline class=\"curve\" points=\"{line}\"/>",
            x(first.0),
            x(last.0)
        );
        if let Some((at, value)) = self.mark {
            let _ = writeln!(out, "<circle class=\"mark\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\"/>", x(at), y(value));
        }
        let middle = (TOP + HEIGHT - BOTTOM) / 2.0;
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n<text x=\"14\" y=\"{middle}\" text-anchor=\"middle\" \
             transform=\"rotate(-90 14 {middle})\">{}</text>\n</svg>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 8.0,
            escape(self.across),
            escape(self.up)
        );
        out
    }

    /// Where the horizontal axis has labels.
    fn ticks(&self, from: f64, to: f64) -> Vec<(f64, String)> {
        match self.scale {
            Scale::Even => {
                let axis = Axis::new(from, to);
                let inside = axis.ticks().filter(|tick| *tick >= from && *tick <= to && tick.fract() == 0.0);
                inside.map(|tick| (tick, format!("{tick}"))).collect()
            }
            Scale::Powers => {
                let (low, high) = (from.min(to).ceil() as i32, from.max(to).floor() as i32);
                let every = ((high - low) / 5 + 1).max(1);
                let powers = (low..=high).filter(|power| (power - low) % every == 0);
                powers
                    .map(|power| (10f64.powi(power), format!("10<tspan class=\"power\" dy=\"-5\">{power}</tspan>")))
                    .collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_only_finite_places_and_a_curve_of_one_point_is_none() {
        let plot = |points: &[(f64, f64)], scale| {
            Plot { id: "a", title: "b & <c>", across: "d", up: "e", scale, points, mark: points.last().copied() }.svg()
        };
        for points in [&[(1.0, 0.0), (5.0, 0.0)][..], &[(1.0, 1e-9), (1e18, 3.0)], &[(1.0, 1e300), (2.0, 1e300)]] {
            for scale in [Scale::Even, Scale::Powers] {
                let svg = plot(points, scale);
                assert!(svg.contains("b &amp; &lt;c&gt;") && svg.contains("polyline"), "{svg}");
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
        assert_eq!(plot(&[(1.0, 1.0)], Scale::Even), "");
        assert_eq!(plot(&[], Scale::Powers), "");
    }
}
