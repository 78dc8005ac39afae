//! A curve as an SVG element. Its colours are variables of the page.

use super::frame::{Axes, Frame, PlotAxis, Tick};
use super::render::rendered;
use askama::Template;

const FRAME: Frame = Frame { width: 460.0, height: 290.0, left: 54.0, right: 18.0, top: 16.0, bottom: 50.0 };
/// Space above a curve for its second axis.
const ABOVE: f64 = 34.0;

/// Scale of the horizontal axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scale {
    /// Linear, in integers.
    Even,
    /// Logarithmic, by powers of ten.
    Powers,
}

/// A curve.
pub(super) struct Plot {
    /// Anchor on the page.
    pub id: &'static str,
    /// Name of the plot.
    pub title: &'static str,
    /// Description of the plot, for readers who cannot see it.
    pub description: String,
    /// Label under the horizontal axis.
    pub across: &'static str,
    /// Label next to the vertical axis.
    pub up: &'static str,
    pub scale: Scale,
    /// Vertical axis.
    pub axis: PlotAxis,
    /// Finite points, from left to right.
    pub points: Vec<(f64, f64)>,
    /// The claimed point.
    pub mark: Option<(f64, f64)>,
    /// Title and labels of a second horizontal axis, above the curve.
    pub along: Option<(&'static str, Vec<(f64, String)>)>,
}

/// Labels of the second horizontal axis.
struct Along {
    title: &'static str,
    ticks: Vec<Tick>,
}

#[derive(Template)]
#[template(path = "curve.svg")]
struct Curve<'a> {
    axes: Axes,
    id: &'static str,
    title: &'static str,
    description: &'a str,
    /// Points of the curve, and points of the filled area with two at the bottom.
    line: String,
    under: String,
    mark: Option<(f64, f64)>,
    along: Option<Along>,
}

impl Plot {
    /// Returns the vertical axis from zero to the highest of `points`.
    pub fn axis_of(points: &[(f64, f64)]) -> PlotAxis {
        PlotAxis::from_zero(points.iter().map(|(_, y)| *y).fold(0.0, f64::max))
    }

    /// Returns the element, or nothing for fewer than two points.
    pub fn svg(&self) -> String {
        let [first, .., last] = &*self.points else { return String::new() };
        let place = |x: f64| if self.scale == Scale::Powers { x.log10() } else { x };
        let (from, to) = (place(first.0), place(last.0));
        if from == to {
            return String::new();
        }
        let above = if self.along.is_some() { ABOVE } else { 0.0 };
        let frame = Frame { height: FRAME.height + above, top: FRAME.top + above, ..FRAME };
        let x =
            |value: f64| frame.left + (place(value) - from) / (to - from) * (frame.width - frame.left - frame.right);
        let y = |value: f64| frame.y(&self.axis, value);
        let ticks = self.ticks(from, to).into_iter();
        let ticks = ticks.map(|(value, label, power)| Tick { at: x(value), label, power }).collect();
        let line: Vec<String> =
            self.points.iter().map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value))).collect();
        let line = line.join(" ");
        let foot = y(self.axis.low);
        rendered(&Curve {
            axes: Axes::new(frame, &self.axis, ticks, (self.across, self.up)),
            id: self.id,
            title: self.title,
            description: &self.description,
            under: format!("{:.1},{foot:.1} {line} {:.1},{foot:.1}", x(first.0), x(last.0)),
            line,
            mark: self.mark.map(|(at, value)| (x(at), y(value))),
            along: self.along.as_ref().map(|(title, labels)| {
                let inside = labels.iter().filter(|(at, _)| place(*at) >= from && place(*at) <= to);
                let ticks = inside.map(|(at, label)| Tick { at: x(*at), label: label.clone(), power: None });
                Along { title, ticks: ticks.collect() }
            }),
        })
    }

    /// Returns values, texts and powers of the horizontal axis' labels.
    fn ticks(&self, from: f64, to: f64) -> Vec<(f64, String, Option<i32>)> {
        match self.scale {
            Scale::Even => {
                let axis = PlotAxis::new(from, to);
                let inside = axis.ticks().filter(|tick| *tick >= from && *tick <= to && tick.fract() == 0.0);
                inside.map(|tick| (tick, tick.to_string(), None)).collect()
            }
            Scale::Powers => {
                let (low, high) = (from.min(to).ceil() as i32, from.max(to).floor() as i32);
                let every = ((high - low) / 5 + 1).max(1);
                let powers = (low..=high).filter(|power| (power - low) % every == 0);
                powers.map(|power| (10f64.powi(power), "10".into(), Some(power))).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A plot has only finite coordinates. A curve of one point gives no plot.
    #[test]
    fn plot_has_finite_coordinates() {
        let plot = |points: &[(f64, f64)], scale| {
            Plot {
                id: "a",
                title: "b & <c>",
                description: "f < g".into(),
                across: "d",
                up: "e",
                scale,
                axis: Plot::axis_of(points),
                points: points.to_vec(),
                mark: points.last().copied(),
                along: Some(("ε", vec![(points[0].0, "0.5".into()), (1e19, "outside".into())])),
            }
            .svg()
        };
        for points in [&[(1.0, 0.0), (5.0, 0.0)][..], &[(1.0, 1e-9), (1e18, 3.0)], &[(1.0, 1e300), (2.0, 1e300)]] {
            for scale in [Scale::Even, Scale::Powers] {
                let svg = plot(points, scale);
                assert!(svg.contains("b &amp; &lt;c&gt;") && svg.contains("f &lt; g"), "{svg}");
                assert!(svg.contains("polyline") && svg.contains("0.5") && !svg.contains("outside"), "{svg}");
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
        assert_eq!(plot(&[(1.0, 1.0)], Scale::Even), "");
        assert_eq!(plot(&[(1.0, 1.0), (1.0, 2.0)], Scale::Powers), "");
    }
}
