//! ε of one pair of distributions, with the grid chosen for it.
//!
//! Step and length depend on the query. The tilted moments give the excess that a step costs before anything is
//! transformed. An upper bound is never above the bound of the moments alone (Chernoff's), which is also the result if
//! a transform would be too long.

pub(super) mod at_epsilon;
#[cfg(test)]
mod tests;

use super::bound::Bound;
use super::compose::{Composed, Composer, Window};
use super::draw::{self, Direction, Losses};
use super::knots::{self, Knots};
use super::shape::Part;
use super::{gaussian, grid, group, replace};
use damper_core::accounting::event::{Rate, SampledGaussian};
use libm::{exp, expm1, log, log1p, sqrt};

/// The longest transform. Its product and its parts need far less than a gibibyte.
const LONGEST: usize = 1 << 20;
const SHORTEST: usize = 1 << 10;
/// The largest total number of values in the transformed parts of a schedule.
const PARTS: usize = 1 << 24;
/// The relative error of ε, and the least absolute error, that the grid's step may cause.
const SHARE: f64 = 1e-3;
const LEAST: f64 = 1.5e-5;
/// Refinement stops if a finer grid gains at most this share of ε.
const SETTLED: f64 = 1.5e-3;
/// Spacing of nodes in units of σ, for few events and for many.
const FINE: f64 = 1.0 / 128.0;
const MEDIUM: f64 = 1.0 / 64.0;
const MANY: usize = 32;
/// The mass beyond the nodes, over all events, relative to δ.
const BEYOND: f64 = 1e-7;
/// Largest logarithm of the inverse of that share, for any number of events.
const FARTHEST: f64 = 1000.0;
/// Losses above this multiple of ε are cut if few large losses determine δ.
const CUT: f64 = 2.0;
/// The share of δ that the cut losses may take in an upper bound.
const LOST: f64 = 2e-4;
/// The width of a window, in standard deviations of the tilted distribution, and the loss of a lower bound to folding.
const REACH: f64 = 9.0;
const FOLDED: f64 = 1e-11;
/// The logarithm of the largest tilt.
const STEEPEST: f64 = 13.0;
/// The least deviation of a tilted distribution, relative to its mean.
const NARROW: f64 = 1e-9;
/// Larger multipliers are accounted as this multiplier.
const LARGEST: f64 = 1e9;

/// The pair of neighbouring distributions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Pair {
    /// With one sample, and without it.
    Sampled(Direction),
    /// With one sample, and with another instead. `apart` is the largest distance of the two releases, relative to the
    /// largest distance of either from the release without the sample.
    Replaced { apart: f64 },
    /// With all samples of a group, and with none of them.
    Group { size: u32, direction: Direction },
}

impl Pair {
    /// The distance of the two releases, if mixtures of two knots dominate events between them.
    fn spread(self) -> Option<f64> {
        match self {
            Self::Sampled(_) => Some(1.0),
            Self::Replaced { apart } => Some(if apart == 2.0 { 2.0 } else { 1.0 }),
            Self::Group { .. } => None,
        }
    }

    /// The direction of the draws.
    fn direction(self) -> Direction {
        match self {
            Self::Sampled(direction) | Self::Group { direction, .. } => direction,
            // Its parts are their own mirror images.
            Self::Replaced { .. } => Direction::Remove,
        }
    }

    /// The largest shift, relative to that of one sample.
    fn size(self) -> f64 {
        match self {
            Self::Group { size, .. } => f64::from(size),
            Self::Sampled(_) | Self::Replaced { .. } => 1.0,
        }
    }
}

/// ε of one pair.
pub(super) struct Question {
    events: Knots,
    /// Other parts, whose losses follow those of the knots.
    parts: Vec<Part>,
    pair: Pair,
    delta: f64,
    bound: Bound,
    /// Range of the nodes, in standard deviations.
    reach: f64,
    /// A sufficient upper bound: ε or δ of the other pair. This bound need not be smaller.
    pub(super) least: f64,
    /// True if a lower bound moves each loss down to a multiple, which suits a few points.
    pub(super) floors: bool,
    /// The logarithm of the largest tilt.
    pub(super) steepest: f64,
}

/// An ε. `heavy` is true if few large losses make up δ.
#[derive(Clone, Copy, Debug)]
struct Found {
    epsilon: f64,
    heavy: bool,
}

/// A tilt and the moments at it, before any transform.
#[derive(Clone, Copy, Debug)]
struct Aim {
    tilt: f64,
    /// The bound that is minimised.
    value: f64,
    /// ε by Chernoff's bound.
    epsilon: f64,
    mean: f64,
    deviation: f64,
    /// The least distance from the mean to the end of the window.
    reach: f64,
}

impl Question {
    pub(super) fn new(events: &[(SampledGaussian, u64)], pair: Pair, delta: f64, bound: Bound) -> Self {
        Self::with_parts(events, &[], pair, delta, bound)
    }

    /// A question about `events` with other parts.
    pub(super) fn with_parts(
        events: &[(SampledGaussian, u64)],
        parts: &[(Part, u64)],
        pair: Pair,
        delta: f64,
        bound: Bound,
    ) -> Self {
        let capped = |(event, times): &(SampledGaussian, u64)| {
            let event =
                if event.multiplier() > LARGEST { SampledGaussian::new(event.rate(), LARGEST) } else { Ok(*event) };
            (event.unwrap_or(events[0].0), *times)
        };
        // Less noise costs more, so a lower bound leaves such events out.
        let is_counted = |(event, _): &&(SampledGaussian, u64)| bound == Bound::Upper || event.multiplier() <= LARGEST;
        let capped: Vec<_> = events.iter().filter(is_counted).map(capped).collect();
        let every = events.iter().map(|(_, times)| *times).chain(parts.iter().map(|(_, times)| *times));
        let times: f64 = every.map(|times| times as f64).sum();
        // For a δ close to the smallest float, the share underflows. No bound is found for it, but the number of nodes
        // stays finite.
        let reach = sqrt(2.0 * log(times / (BEYOND * delta)).min(FARTHEST));
        let mut events = if bound == Bound::Upper { knots::few(&capped, pair.spread()) } else { knots::exact(&capped) };
        let first = events.knots.len();
        let others = parts.iter().enumerate().map(|(at, (_, times))| (vec![(first + at, 1.0)], *times));
        events.mixtures.extend(others);
        let parts = parts.iter().map(|(part, _)| *part).collect();
        Self { events, parts, pair, delta, bound, reach, least: 0.0, floors: false, steepest: STEEPEST }
    }

    fn losses(&self, spacing: f64) -> Vec<Losses> {
        let (bound, reach) = (self.bound, self.reach);
        let one = |event: &SampledGaussian| match (self.pair, bound) {
            // A group that is always drawn is one Gaussian, shifted by all of its samples together.
            (Pair::Group { size, direction }, Bound::Upper) if event.rate() == Rate::ONE => {
                let multiplier = (event.multiplier() / f64::from(size)).next_down();
                draw::upper_pld(&gaussian::nodes(multiplier, spacing, reach), Rate::ONE, direction)
            }
            (Pair::Group { size, direction }, Bound::Lower) if event.rate() == Rate::ONE => {
                let multiplier = (event.multiplier() / f64::from(size)).next_up();
                draw::lower_pld(&gaussian::cells(multiplier, spacing, reach), Rate::ONE, direction)
            }
            (Pair::Group { size, direction }, Bound::Upper) => {
                group::upper_pld(event.multiplier(), size, event.rate(), direction, spacing, reach)
            }
            (Pair::Group { size, direction }, Bound::Lower) => {
                group::lower_pld(event.multiplier(), size, event.rate(), direction, spacing, reach)
            }
            (Pair::Sampled(direction), Bound::Upper) => {
                draw::upper_pld(&gaussian::nodes(event.multiplier(), spacing, reach), event.rate(), direction)
            }
            (Pair::Sampled(direction), Bound::Lower) => {
                draw::lower_pld(&gaussian::cells(event.multiplier(), spacing, reach), event.rate(), direction)
            }
            (Pair::Replaced { apart }, Bound::Upper) => {
                replace::upper_pld(event.multiplier(), apart, event.rate(), spacing, reach)
            }
            (Pair::Replaced { .. }, Bound::Lower) => {
                replace::lower_pld(event.multiplier(), event.rate(), spacing, reach)
            }
        };
        let part = |part: &Part| part.losses(bound, self.pair.direction(), spacing, reach);
        self.events.knots.iter().map(one).chain(self.parts.iter().map(part)).collect()
    }

    /// The total weight of the events that each knot stands for.
    fn counts(&self) -> Vec<f64> {
        let mut counts = vec![0.0; self.events.knots.len() + self.parts.len()];
        for (mixture, times) in &self.events.mixtures {
            for (knot, weight) in mixture {
                counts[*knot] += weight * *times as f64;
            }
        }
        counts
    }

    /// The tilt with the smallest ε by Chernoff's bound.
    fn aim(&self, losses: &[Losses], counts: &[f64], room: f64) -> Aim {
        self.aim_at(losses, counts, |ln_moment, tilt| {
            let epsilon = chernoff(ln_moment, tilt, room);
            (epsilon, epsilon)
        })
    }

    /// The tilt with the smallest value, the first result of `bound` for `ln M` and the tilt. Its second result is ε.
    fn aim_at(&self, losses: &[Losses], counts: &[f64], bound: impl Fn(f64, f64) -> (f64, f64)) -> Aim {
        // The mass at 0 of a replacement is a single point, so it has no density to thin. Nor have other parts.
        let dense = if matches!(self.pair, Pair::Replaced { .. }) { 0 } else { self.events.knots.len() };
        let (dense, others) = losses.split_at(dense);
        let thin: Vec<Losses> = dense.iter().map(Losses::thinned).chain(others.iter().cloned()).collect();
        let at = |ln_tilt: f64| {
            let tilt = exp(ln_tilt);
            let (mut ln_moment, mut mean, mut variance) = (0.0, 0.0, 0.0);
            for (losses, count) in thin.iter().zip(counts) {
                let moments = losses.tilted(tilt);
                ln_moment += count * moments.ln_moment;
                mean += count * moments.mean;
                variance += count * moments.variance;
            }
            let (value, epsilon) = bound(ln_moment, tilt);
            // At a large tilt, one of few points may be left.
            let deviation = sqrt(variance).max(NARROW * (1.0 + mean.abs()));
            Aim { tilt, value, epsilon, mean, deviation, reach: REACH * deviation }
        };
        const FROM: f64 = -7.0;
        const STEP: f64 = 0.5;
        let grid = (0..=((self.steepest - FROM) / STEP) as i32).map(|k| FROM + STEP * f64::from(k));
        let best = |a: (f64, Aim), b: (f64, Aim)| if b.1.value < a.1.value { b } else { a };
        let (mut middle, mut found) = grid.map(|x| (x, at(x))).reduce(best).unwrap_or((0.0, at(0.0)));
        let mut width = STEP / 2.0;
        while width > 0.02 {
            (middle, found) =
                [middle - width, middle + width].map(|x| (x, at(x))).into_iter().fold((middle, found), best);
            width /= 2.0;
        }
        found
    }

    /// Returns ε if it is finite. `None` if no bound is found. A lower bound is searched up to `limit`.
    pub(super) fn answer(&self, limit: f64) -> Option<f64> {
        if self.is_too_small() {
            return None;
        }
        if self.is_empty() {
            return Some(0.0);
        }
        let all = self.losses(self.spacing());
        let counts = self.counts();
        let mut found = match self.bound {
            Bound::Upper => self.settled(&all, &counts, limit, true)?,
            Bound::Lower => Found { epsilon: 0.0, heavy: limit.is_finite() },
        };
        // If few large losses make up δ, losses far above ε only widen the window.
        let mut cut = CUT * if self.bound == Bound::Upper { found.epsilon } else { limit };
        while found.heavy && cut > 0.0 {
            let mut losses = self.cut(&all, cut);
            // The cut mass is subtracted from δ. It is so small that ε hardly changes.
            while self.bound == Bound::Upper
                && self.beyond(&losses, &counts, limit) > LOST * self.delta
                && cut < FARTHEST
            {
                cut *= 1.25;
                losses = self.cut(&all, cut);
            }
            let Some(next) = self.settled(&losses, &counts, limit, false) else { break };
            let gained = (next.epsilon - found.epsilon) * if self.bound == Bound::Upper { -1.0 } else { 1.0 };
            if gained > 0.0 {
                found.epsilon = next.epsilon;
            }
            if self.bound == Bound::Lower || gained <= 0.01 * found.epsilon {
                break;
            }
            cut = CUT * found.epsilon;
        }
        if self.bound == Bound::Lower {
            let whole = self.settled(&all, &counts, limit, false).map_or(0.0, |whole| whole.epsilon);
            found.epsilon = found.epsilon.max(whole);
        }
        Some(found.epsilon)
    }

    /// Returns true if nothing is released.
    fn is_empty(&self) -> bool {
        self.events.knots.is_empty() && self.parts.is_empty()
    }

    /// Returns true if the noise is so small that no bound is computed.
    fn is_too_small(&self) -> bool {
        let least = gaussian::SMALLEST * self.pair.size();
        self.events.knots.iter().any(|event| event.multiplier() < least) || self.parts.iter().any(Part::is_too_small)
    }

    /// The spacing of nodes.
    fn spacing(&self) -> f64 {
        if self.bound == Bound::Upper && self.events.knots.len() > MANY { MEDIUM } else { FINE }
    }

    fn cut(&self, losses: &[Losses], cut: f64) -> Vec<Losses> {
        losses.iter().map(|one| one.cut(cut, self.bound)).collect()
    }

    /// Returns ε on a grid so fine that a finer grid gains little, or on the first grid if `rough` and few losses
    /// determine δ.
    fn settled(&self, losses: &[Losses], counts: &[f64], limit: f64, rough: bool) -> Option<Found> {
        let beyond = self.beyond(losses, counts, limit);
        let room = self.delta - beyond;
        if room <= 0.0 {
            return None;
        }
        let mut aim = self.aim(losses, counts, room);
        if self.bound == Bound::Lower {
            self.widen(losses, counts, &mut aim);
        }
        if self.bound == Bound::Upper {
            let ln_moment = losses.iter().zip(counts).map(|(one, count)| count * one.tilted(aim.tilt).ln_moment);
            let moments = chernoff(ln_moment.sum(), aim.tilt, room) * (1.0 + 1e-6);
            if moments < self.least {
                return Some(Found { epsilon: moments.max(0.0), heavy: false });
            }
        }
        let mut grid = self.step(losses, counts, &aim, allowed(&aim));
        let mut found = self.at(losses, counts, &aim, beyond, limit, grid)?;
        // Chernoff's bound is about right if many losses add up. The cost of a step is then known in advance.
        let heavy = found < 0.75 * aim.epsilon;
        while grid.1 < self.longest() && (self.bound == Bound::Lower || (heavy && !rough)) {
            grid = (grid.0 / 2.0, grid.1 * 2);
            let finer = self.at(losses, counts, &aim, beyond, limit, grid)?;
            let gained = (finer - found).abs();
            found = if self.bound == Bound::Upper { found.min(finer) } else { found.max(finer) };
            if gained <= (SETTLED * found).max(LEAST) {
                break;
            }
        }
        Some(Found { epsilon: found, heavy })
    }

    /// Widens the window until little is folded into it.
    fn widen(&self, losses: &[Losses], counts: &[f64], aim: &mut Aim) {
        while aim.reach < 1e3 * aim.deviation
            && self.folded(losses, counts, aim, aim.mean - aim.reach, aim.mean + aim.reach) > FOLDED
        {
            aim.reach *= 1.5;
        }
    }

    /// The part of δ, for every ε up to `limit`, of the losses that are not on the grid.
    fn beyond(&self, losses: &[Losses], counts: &[f64], limit: f64) -> f64 {
        let some = |mass: fn(&Losses) -> f64| -> f64 {
            -expm1(losses.iter().zip(counts).map(|(one, count)| count * log1p(-mass(one).min(1.0))).sum())
        };
        match self.bound {
            Bound::Upper => some(|one| one.beyond) * (1.0 + 1e-10 + 1e-12 * counts.iter().sum::<f64>()),
            Bound::Lower if limit.is_finite() => {
                (some(|one| one.beyond) * (1.0 - 1e-10) - exp(limit) * some(|one| one.second) * (1.0 + 1e-10)).max(0.0)
            }
            Bound::Lower => 0.0,
        }
    }

    /// The composition of all losses on one grid, given as step and length.
    fn composed(&self, losses: &[Losses], tilt: f64, (step, len): (f64, usize)) -> Composed {
        let mut composer = Composer::new(len);
        for one in losses {
            composer.part(match self.bound {
                Bound::Upper => grid::spread(one, tilt, step, len),
                Bound::Lower if self.floors => grid::floor(one, tilt, step, len),
                Bound::Lower => grid::merge(one, tilt, step, len),
            });
        }
        for (mixture, times) in &self.events.mixtures {
            composer.compose(mixture, *times);
        }
        composer.finish()
    }

    /// Returns ε on one grid, given as step and length.
    fn at(
        &self,
        losses: &[Losses],
        counts: &[f64],
        aim: &Aim,
        beyond: f64,
        limit: f64,
        (step, len): (f64, usize),
    ) -> Option<f64> {
        let composed = self.composed(losses, aim.tilt, (step, len));
        let top = top(aim, step, composed.offset);
        if self.bound == Bound::Lower {
            let edge = |at: i64| composed.offset + at as f64 * step;
            let folded = self.folded(losses, counts, aim, edge(top - len as i64), edge(top));
            let window = Window { tilt: aim.tilt, step, top, folded };
            return Some(composed.epsilon(&window, self.bound, self.delta, beyond, 0.0).unwrap_or(0.0).min(limit));
        }
        let moments = chernoff(composed.ln_moment + composed.ln_slack, aim.tilt, self.delta - beyond) * (1.0 + 1e-14);
        let window = Window { tilt: aim.tilt, step, top, folded: 0.0 };
        let found = composed.epsilon(&window, self.bound, self.delta, beyond, 0.0).unwrap_or(f64::INFINITY);
        let least = found.min(moments);
        // `max` would drop a NaN.
        Some(least.max(0.0)).filter(|epsilon| !least.is_nan() && epsilon.is_finite())
    }

    /// The longest transform for this number of parts.
    fn longest(&self) -> usize {
        LONGEST.min((PARTS / (self.events.knots.len() + self.parts.len()).max(1)).next_power_of_two()).max(SHORTEST)
    }

    /// Chooses a step, a power of two, and a length. `ln M` changes by at most `allowed`, and the window covers the
    /// relevant losses.
    fn step(&self, losses: &[Losses], counts: &[f64], aim: &Aim, allowed: f64) -> (f64, usize) {
        let bottom = (aim.mean - aim.reach).min(aim.epsilon - 30.0 / aim.tilt);
        let width = above(aim) - bottom;
        let moments: Vec<f64> = losses.iter().map(|one| one.tilted(aim.tilt).ln_moment).collect();
        let mut len = SHORTEST;
        loop {
            let step = exp2_up(width / len as f64);
            let excess = losses
                .iter()
                .zip(counts)
                .zip(&moments)
                .map(|((one, count), ln_moment)| count * one.excess(aim.tilt, *ln_moment, step));
            if len >= self.longest() || (step * (aim.tilt + 1.0) < 0.5 && excess.sum::<f64>() <= allowed) {
                return (step, len);
            }
            len *= 2;
        }
    }

    /// A bound on the tilted mass outside `[bottom, top)`, times its largest weight.
    fn folded(&self, losses: &[Losses], counts: &[f64], aim: &Aim, bottom: f64, top: f64) -> f64 {
        let ln_moment = |tilt: f64| -> f64 {
            losses.iter().zip(counts).map(|(one, count)| count * one.tilted(tilt).ln_moment).sum()
        };
        let here = ln_moment(aim.tilt);
        let beyond = |edge: f64| {
            let sign = if edge > aim.mean { 1.0 } else { -1.0 };
            let changes = (-8..24).map(|k| sign * exp(0.5 * f64::from(k)) / (9.0 * aim.deviation));
            let bounds = changes.map(|change| exp(ln_moment(aim.tilt + change) - here - change * edge));
            bounds.filter(|bound| bound.is_finite()).fold(1.0, f64::min)
        };
        (beyond(top) + beyond(bottom)) * 1.001
    }
}

/// `ε = (ln M − ln δ + ln max κ)/λ`, with `κ(y) = e^{−λy}(1 − e^{−y})`.
fn chernoff(ln_moment: f64, tilt: f64, delta: f64) -> f64 {
    let ln_most = -tilt * log1p(1.0 / tilt) - log1p(tilt);
    (ln_moment - log(delta) + ln_most) / tilt
}

/// The largest change of `ln M` that the grid may cause.
fn allowed(aim: &Aim) -> f64 {
    (SHARE * aim.epsilon).max(LEAST) * aim.tilt
}

/// The end of the range that is read.
fn above(aim: &Aim) -> f64 {
    (aim.epsilon + 30.0 / aim.tilt).max(aim.mean + aim.reach)
}

fn top(aim: &Aim, step: f64, offset: f64) -> i64 {
    ((above(aim) - offset) / step).ceil() as i64
}

/// The smallest power of two that is at least x.
fn exp2_up(x: f64) -> f64 {
    libm::exp2(libm::log2(x).ceil())
}
