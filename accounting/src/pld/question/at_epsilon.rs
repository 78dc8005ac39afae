//! δ of one pair at an ε, read from the composition on a grid.

use super::{Aim, Bound, Losses, Question, Window, top};
use libm::{exp, log, log1p};

/// The change of `ln M` that the grid's step may cause, and the relative change of δ at which refinement stops.
const SHARE: f64 = 3e-3;
const SETTLED: f64 = 3e-3;
/// Losses above this multiple of ε, and above this loss, are cut.
const CUT: f64 = 2.0;
const LEAST_CUT: f64 = 1.0;
/// The spacing of nodes for a guess.
const COARSE: f64 = 1.0 / 32.0;
/// For a normal loss, δ is about this share of Chernoff's bound over the tilt times the deviation, up to a factor of
/// `e^ALIKE`.
const NORMAL: f64 = 1.08;
const ALIKE: f64 = 0.35;
/// A bound on the rounding error of a moment's logarithm.
const ROUNDED: f64 = 2e-12;
/// The share of δ that the cut losses may take.
const LOST: f64 = 2e-4;

impl Question {
    /// Returns an approximate `ln δ` at `epsilon`, by Chernoff's bound.
    pub(in super::super) fn ln_delta_guess(&self, epsilon: f64) -> Option<f64> {
        if self.is_too_small() || self.is_empty() {
            return None;
        }
        let losses = self.losses(COARSE);
        Some(self.aim_at_epsilon(&losses, &self.counts(), epsilon).value)
    }

    /// Returns a bound on δ at `epsilon`. It is near if this question's δ is near.
    pub(in super::super) fn delta_at(&self, epsilon: f64) -> f64 {
        let trivial = if self.bound == Bound::Upper { 1.0 } else { 0.0 };
        if self.is_too_small() {
            return trivial;
        }
        if self.is_empty() {
            return 0.0;
        }
        let counts = self.counts();
        let all = self.losses(self.spacing());
        let better = |a: f64, b: f64| if self.bound == Bound::Upper { a.min(b) } else { a.max(b) };
        // If few large losses make up δ, losses far above ε only widen the window.
        let mut cut = (CUT * epsilon).max(epsilon + LEAST_CUT);
        let is_cut = |cut: f64| all.iter().any(|one| one.atoms.last().is_some_and(|atom| atom.loss > cut));
        let (first, is_heavy) = self.refined(&all, &counts, epsilon, is_cut(cut));
        let found = better(trivial, first);
        if !is_heavy {
            return found;
        }
        while is_cut(cut) {
            let losses = self.cut(&all, cut);
            if self.bound == Bound::Lower || self.beyond(&losses, &counts, epsilon) <= LOST * found {
                return better(found, self.refined(&losses, &counts, epsilon, false).0);
            }
            cut *= 1.25;
        }
        better(found, self.refined(&all, &counts, epsilon, false).0)
    }

    /// Returns δ on a grid so fine that a finer grid gains little, and true if few large losses make up δ. If `rough`,
    /// one grid is enough.
    fn refined(&self, losses: &[Losses], counts: &[f64], epsilon: f64, rough: bool) -> (f64, bool) {
        let mut aim = self.aim_at_epsilon(losses, counts, epsilon);
        let beyond = self.beyond(losses, counts, epsilon);
        let moments = self.by_moments(losses, counts, aim.tilt, epsilon);
        match self.bound {
            Bound::Lower => self.widen(losses, counts, &mut aim),
            Bound::Upper if moments + beyond <= self.least => return (moments + beyond, false),
            Bound::Upper => {}
        }
        let mut grid = self.step(losses, counts, &aim, SHARE);
        let mut found = self.delta_on(losses, counts, &aim, epsilon, grid) + beyond;
        // If many losses add up, the loss is about normal near ε. Then δ changes as ln M does.
        let normal = log(NORMAL / (aim.tilt * aim.deviation)).min(0.0) + aim.value;
        let is_normal = (log(found) - normal).abs() <= ALIKE;
        let is_heavy = !is_normal || self.bound == Bound::Lower;
        // A few points between the multiples move by a share of the step, which is cheap to halve.
        let is_heavy = is_heavy || self.events.knots.is_empty();
        while grid.1 < self.longest() && !rough && (is_heavy || self.bound == Bound::Lower) {
            grid = (grid.0 / 2.0, grid.1 * 2);
            let finer = self.delta_on(losses, counts, &aim, epsilon, grid) + beyond;
            let gained = (finer - found).abs();
            found = if self.bound == Bound::Upper { found.min(finer) } else { found.max(finer) };
            if gained <= SETTLED * found {
                break;
            }
        }
        (if self.bound == Bound::Upper { found.min(moments + beyond) } else { found }, is_heavy)
    }

    /// Chernoff's upper bound of δ, from the losses before they are put on a grid.
    fn by_moments(&self, losses: &[Losses], counts: &[f64], tilt: f64, epsilon: f64) -> f64 {
        let each = losses.iter().zip(counts).map(|(one, count)| count * one.tilted(tilt).ln_moment);
        let (ln_moment, total) = (each.sum::<f64>(), counts.iter().sum::<f64>());
        let error = ROUNDED * (1.0 + total + ln_moment.abs() + tilt * epsilon);
        exp(ln_chernoff(ln_moment, tilt, epsilon) + error)
    }

    /// The tilt with the smallest δ by Chernoff's bound. The value is its logarithm.
    fn aim_at_epsilon(&self, losses: &[Losses], counts: &[f64], epsilon: f64) -> Aim {
        self.aim_at(losses, counts, |ln_moment, tilt| (ln_chernoff(ln_moment, tilt, epsilon), epsilon))
    }

    /// A bound on the δ of the losses on one grid, given as step and length.
    fn delta_on(&self, losses: &[Losses], counts: &[f64], aim: &Aim, epsilon: f64, (step, len): (f64, usize)) -> f64 {
        let composed = self.composed(losses, aim.tilt, (step, len));
        let top = top(aim, step, composed.offset);
        let edge = |at: i64| composed.offset + at as f64 * step;
        let folded = match self.bound {
            Bound::Upper => 0.0,
            Bound::Lower => self.folded(losses, counts, aim, edge(top - len as i64), edge(top)),
        };
        let window = Window { tilt: aim.tilt, step, top, folded };
        let ln_delta = composed.ln_delta(&window, self.bound, epsilon);
        match self.bound {
            Bound::Lower => ln_delta.map_or(0.0, exp),
            Bound::Upper => {
                let moments = ln_chernoff(composed.ln_moment + composed.ln_slack, aim.tilt, epsilon) + 1e-12;
                exp(ln_delta.unwrap_or(f64::INFINITY).min(moments)) * (1.0 + 1e-12)
            }
        }
    }
}

/// `ln δ = ln M − λε + ln max κ`.
fn ln_chernoff(ln_moment: f64, tilt: f64, epsilon: f64) -> f64 {
    ln_moment - tilt * epsilon - tilt * log1p(1.0 / tilt) - log1p(tilt)
}

/// The δ whose question is asked for an approximate `ln δ`: a little below it, in the range of floats.
pub(in super::super) fn asked(ln_delta: f64) -> f64 {
    const NEAR: f64 = 0.03;
    exp((ln_delta + log(NEAR)).clamp(-640.0, -0.7))
}
