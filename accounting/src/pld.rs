//! The tight accountant: privacy loss distributions of the Poisson-subsampled Gaussian, composed by a Fourier transform, with
//! bounds on both sides.
//!
//! What is computed for each direction of neighbours, and for any list of events:
//!
//! 1. `gaussian`: the Gaussian and its shift as finitely many points, from above by splitting mass, from below by
//!    merging it;
//! 2. `draw`: the privacy loss of each point under the draw's mixture; what lies beyond the points is a loss of infinity. A replaced sample
//!    has a dominating pair of its own, in `replace`;
//! 3. `knots`: events of many sizes as mixtures of few, from above;
//! 4. `grid`: losses on multiples of a step, split from above and merged from below; tilted, so that the bulk lies where δ is
//!    decided;
//! 5. `compose`: transform, product, inverse; the rounding of all of it bounded, and added to δ or taken from it.
//!
//! [`epsilon`] gives an upper bound of ε, [`epsilon_lower_bound`] a lower one; the truth for the ideal, continuous mechanism lies
//! between. [`discrete`] says why the upper one holds for the discrete mechanism that runs, and at which multiplier.
//!
//! Step and length are chosen for the question: the excess that a step costs is known before anything is transformed, by the
//! tilted moments. An upper bound is never above that of the moments alone (Chernoff's), which also answers where a
//! transform would be too long.

mod bound;
mod compose;
pub mod discrete;
#[cfg(test)]
mod double_double;
mod draw;
mod gaussian;
mod grid;
mod knots;
mod replace;

use crate::AccountingError;
use bound::Bound;
use compose::{Composer, Window};
use damper_core::accounting::event::Event;
use draw::{Direction, Losses};
use knots::Knots;
use libm::{exp, expm1, log, log1p, sqrt};
use serde::Serialize;

/// The neighbour relation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbours {
    /// One sample, there or not: added, removed, or replaced by a null sample. Multipliers are in units of the clip.
    #[default]
    AddOrRemove,
    /// One sample in the place of another. A release moves by up to twice the clip. Multipliers are in units of the clip.
    Replace,
}

/// The longest transform: its product and its parts stay far below a gibibyte.
const LONGEST: usize = 1 << 20;
const SHORTEST: usize = 1 << 10;
/// Numbers that the transformed parts of a schedule may take in all.
const PARTS: usize = 1 << 24;
/// The share of ε, and the least ε, that the grid's step may cost.
const SHARE: f64 = 1e-3;
const LEAST: f64 = 1.5e-5;
/// A finer grid that gains no more than this share of ε is the last.
const SETTLED: f64 = 1.5e-3;
/// Spacing of nodes in units of σ, for few events and for many.
const FINE: f64 = 1.0 / 128.0;
const MEDIUM: f64 = 1.0 / 64.0;
const MANY: usize = 32;
/// The mass beyond the nodes, of all events, over δ.
const BEYOND: f64 = 1e-7;
/// The logarithm of one over that share is at most this, for any number of events.
const FARTHEST: f64 = 1000.0;
/// Losses above so many times ε are cut, where few large ones decide.
const CUT: f64 = 2.0;
/// The share of δ that those may be, of an upper bound.
const LOST: f64 = 2e-4;
/// The width of a window, in standard deviations of the tilted distribution, and the loss of a lower bound to folding.
const REACH: f64 = 9.0;
const FOLDED: f64 = 1e-11;
/// Multipliers from here on are priced as this one.
const LARGEST: f64 = 1e9;

/// ε at `delta` of all `events`, each so many times, rounded up: an upper bound for the continuous Gaussian. Infinite where
/// nothing is found to hold.
///
/// # Errors
///
/// δ must be above 0 and below 1, and there must be an event.
pub fn epsilon(events: &[(Event, u64)], neighbours: Neighbours, delta: f64) -> Result<f64, AccountingError> {
    check(events, delta)?;
    Ok(upper(events, pairs(neighbours), delta))
}

fn upper(events: &[(Event, u64)], pairs: &[Pair], delta: f64) -> f64 {
    pairs.iter().fold(0.0, |least, pair| {
        let question = Question { least, ..Question::new(events, *pair, delta, Bound::Upper) };
        question.answer(f64::INFINITY).unwrap_or(f64::INFINITY).max(least)
    })
}

/// [`epsilon`] of the discrete Gaussian that runs, whose σ is at least [`SMALLEST_SIGMA`](crate::SMALLEST_SIGMA) grid units in every
/// release (and so of the continuous one).
///
/// # Errors
///
/// As [`epsilon`].
pub fn of_discrete(events: &[(Event, u64)], neighbours: Neighbours, delta: f64) -> Result<f64, AccountingError> {
    match continuous(events) {
        Some(events) => epsilon(&events, neighbours, delta),
        None => Ok(f64::INFINITY),
    }
}

/// [`of_discrete`] of `times` equal draws where neighbours have one sample in the place of another. Their releases lie at most `apart`
/// times as far from each other as either lies from the release without the sample: 2 if the clip is the only bound, less if one-hot counts are
/// released too ([`apart`](crate::replaced::apart)).
pub(crate) fn of_replaced(event: Event, times: u64, apart: f64, delta: f64) -> Result<f64, AccountingError> {
    let events = [(event, times)];
    check(&events, delta)?;
    Ok(match continuous(&events) {
        Some(events) => upper(&events, &[Pair::Replaced { apart: apart.clamp(1.0, 2.0) }], delta),
        None => f64::INFINITY,
    })
}

/// The continuous events of which discrete ones are a post-processing, up to a factor below every rounding; `None` where a multiplier
/// vanishes.
pub(crate) fn continuous(events: &[(Event, u64)]) -> Option<Vec<(Event, u64)>> {
    let bounded = |(event, times): &(Event, u64)| {
        let multiplier = discrete::continuous(event.multiplier(), crate::SMALLEST_SIGMA as f64)?;
        Some((Event::new(event.rate(), multiplier).ok()?, *times))
    };
    events.iter().map(bounded).collect()
}

/// A lower bound of ε at `delta` of all `events` for the worst neighbours of the continuous Gaussian; the transform of each
/// different event is taken, so that many cost time.
///
/// # Errors
///
/// As [`epsilon`].
pub fn epsilon_lower_bound(
    events: &[(Event, u64)],
    neighbours: Neighbours,
    delta: f64,
) -> Result<f64, AccountingError> {
    check(events, delta)?;
    let mut most = 0.0f64;
    for pair in pairs(neighbours) {
        let limit = Question::new(events, *pair, delta, Bound::Upper).answer(f64::INFINITY).unwrap_or(f64::INFINITY);
        most = most.max(Question::new(events, *pair, delta, Bound::Lower).answer(limit).unwrap_or(0.0));
    }
    Ok(most)
}

fn check(events: &[(Event, u64)], delta: f64) -> Result<(), AccountingError> {
    crate::delta::check_delta(delta)?;
    if events.iter().all(|(_, times)| *times == 0) { Err(AccountingError::Steps) } else { Ok(()) }
}

/// The two distributions that are told apart.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Pair {
    /// With one sample, and without it.
    Sampled(Direction),
    /// With one sample, and with another in its place. `apart` is how far the two releases lie from each other at most, over how far either
    /// lies from the one without the sample.
    Replaced { apart: f64 },
}

fn pairs(neighbours: Neighbours) -> &'static [Pair] {
    match neighbours {
        Neighbours::AddOrRemove => &[Pair::Sampled(Direction::Remove), Pair::Sampled(Direction::Add)],
        Neighbours::Replace => &[Pair::Replaced { apart: 2.0 }],
    }
}

/// ε of one pair.
struct Question {
    events: Knots,
    pair: Pair,
    delta: f64,
    bound: Bound,
    /// Nodes reach so many standard deviations.
    reach: f64,
    /// An upper bound need not be sharper than this: the other pair's is.
    least: f64,
}

/// An ε, and whether few large losses make up δ.
#[derive(Clone, Copy, Debug)]
struct Found {
    epsilon: f64,
    heavy: bool,
}

/// A tilt, and what it says before anything is transformed.
#[derive(Clone, Copy, Debug)]
struct Aim {
    tilt: f64,
    /// Chernoff's ε.
    epsilon: f64,
    mean: f64,
    deviation: f64,
    /// The window reaches at least so far from the mean.
    reach: f64,
}

impl Question {
    fn new(events: &[(Event, u64)], pair: Pair, delta: f64, bound: Bound) -> Self {
        let capped = |(event, times): &(Event, u64)| {
            let event = if event.multiplier() > LARGEST { Event::new(event.rate(), LARGEST) } else { Ok(*event) };
            (event.unwrap_or(events[0].0), *times)
        };
        let capped: Vec<_> = events.iter().map(capped).collect();
        let times: f64 = events.iter().map(|(_, times)| *times as f64).sum();
        // Of a δ that is hardly a number, the share underflows: nothing is found for it, but not on endless nodes.
        let reach = sqrt(2.0 * log(times / (BEYOND * delta)).min(FARTHEST));
        let spread = if pair == (Pair::Replaced { apart: 2.0 }) { 2.0 } else { 1.0 };
        let events = if bound == Bound::Upper { knots::few(&capped, spread) } else { knots::exact(&capped) };
        Self { events, pair, delta, bound, reach, least: 0.0 }
    }

    fn losses(&self, spacing: f64) -> Vec<Losses> {
        let (bound, reach) = (self.bound, self.reach);
        let one = |event: &Event| match (self.pair, bound) {
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
        self.events.knots.iter().map(one).collect()
    }

    /// Events a knot stands for, by weight.
    fn counts(&self) -> Vec<f64> {
        let mut counts = vec![0.0; self.events.knots.len()];
        for (mixture, times) in &self.events.mixtures {
            for (knot, weight) in mixture {
                counts[*knot] += weight * *times as f64;
            }
        }
        counts
    }

    /// The tilt at which Chernoff's ε is smallest.
    fn aim(&self, losses: &[Losses], counts: &[f64], room: f64) -> Aim {
        // The mass at 0 of a replacement is one point, and no density.
        let thin: Vec<Losses> = match self.pair {
            Pair::Replaced { .. } => losses.to_vec(),
            Pair::Sampled(_) => losses.iter().map(Losses::thinned).collect(),
        };
        let at = |ln_tilt: f64| {
            let tilt = exp(ln_tilt);
            let (mut ln_moment, mut mean, mut variance) = (0.0, 0.0, 0.0);
            for (losses, count) in thin.iter().zip(counts) {
                let moments = losses.tilted(tilt);
                ln_moment += count * moments.ln_moment;
                mean += count * moments.mean;
                variance += count * moments.variance;
            }
            Aim {
                tilt,
                epsilon: chernoff(ln_moment, tilt, room),
                mean,
                deviation: sqrt(variance),
                reach: REACH * sqrt(variance),
            }
        };
        const FROM: f64 = -7.0;
        const TO: f64 = 13.0;
        const STEP: f64 = 0.5;
        let grid = (0..=((TO - FROM) / STEP) as i32).map(|k| FROM + STEP * f64::from(k));
        let best = |a: (f64, Aim), b: (f64, Aim)| if b.1.epsilon < a.1.epsilon { b } else { a };
        let (mut middle, mut found) = grid.map(|x| (x, at(x))).reduce(best).unwrap_or((0.0, at(0.0)));
        let mut width = STEP / 2.0;
        while width > 0.02 {
            (middle, found) =
                [middle - width, middle + width].map(|x| (x, at(x))).into_iter().fold((middle, found), best);
            width /= 2.0;
        }
        found
    }

    /// ε, finite; `None` where nothing is found. A lower bound is sought up to `limit`.
    fn answer(&self, limit: f64) -> Option<f64> {
        let knots = &self.events.knots;
        if knots.iter().any(|event| event.multiplier() < gaussian::SMALLEST) {
            return None;
        }
        let all = self.losses(if self.bound == Bound::Upper && knots.len() > MANY { MEDIUM } else { FINE });
        let counts = self.counts();
        let mut found = match self.bound {
            Bound::Upper => self.settled(&all, &counts, limit, true)?,
            Bound::Lower => Found { epsilon: 0.0, heavy: limit.is_finite() },
        };
        // Where few large losses make up δ, those far above ε only widen the window.
        let mut cut = CUT * if self.bound == Bound::Upper { found.epsilon } else { limit };
        while found.heavy && cut > 0.0 {
            let mut losses = self.cut(&all, cut);
            // What is cut off is taken from δ: so little that ε hardly moves.
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

    fn cut(&self, losses: &[Losses], cut: f64) -> Vec<Losses> {
        losses.iter().map(|one| one.cut(cut, self.bound)).collect()
    }

    /// ε on a grid so fine that a finer one gains little; on the first one where it is `rough` and few losses decide.
    fn settled(&self, losses: &[Losses], counts: &[f64], limit: f64, rough: bool) -> Option<Found> {
        let beyond = self.beyond(losses, counts, limit);
        let room = self.delta - beyond;
        if room <= 0.0 {
            return None;
        }
        let mut aim = self.aim(losses, counts, room);
        if self.bound == Bound::Lower {
            while aim.reach < 1e3 * aim.deviation
                && self.folded(losses, counts, &aim, aim.mean - aim.reach, aim.mean + aim.reach) > FOLDED
            {
                aim.reach *= 1.5;
            }
        }
        if self.bound == Bound::Upper {
            let ln_moment = losses.iter().zip(counts).map(|(one, count)| count * one.tilted(aim.tilt).ln_moment);
            let moments = chernoff(ln_moment.sum(), aim.tilt, room) * (1.0 + 1e-6);
            if moments < self.least {
                return Some(Found { epsilon: moments.max(0.0), heavy: false });
            }
        }
        let (mut step, mut len) = self.step(losses, counts, &aim);
        let mut found = self.at(losses, counts, &aim, beyond, limit, step, len)?;
        // Chernoff's bound is about right where many losses add up, and what a step costs is then known in advance.
        let heavy = found < 0.75 * aim.epsilon;
        while len < self.longest() && (self.bound == Bound::Lower || (heavy && !rough)) {
            (step, len) = (step / 2.0, len * 2);
            let finer = self.at(losses, counts, &aim, beyond, limit, step, len)?;
            let gained = (finer - found).abs();
            found = if self.bound == Bound::Upper { found.min(finer) } else { found.max(finer) };
            if gained <= (SETTLED * found).max(LEAST) {
                break;
            }
        }
        Some(Found { epsilon: found, heavy })
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

    /// ε on one grid.
    #[expect(clippy::too_many_arguments)]
    fn at(
        &self,
        losses: &[Losses],
        counts: &[f64],
        aim: &Aim,
        beyond: f64,
        limit: f64,
        step: f64,
        len: usize,
    ) -> Option<f64> {
        let mut composer = Composer::new(len);
        for one in losses {
            composer.part(match self.bound {
                Bound::Upper => grid::spread(one, aim.tilt, step, len),
                Bound::Lower => grid::merge(one, aim.tilt, step, len),
            });
        }
        for (mixture, times) in &self.events.mixtures {
            composer.compose(mixture, *times);
        }
        let composed = composer.finish();
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
        Some(found.min(moments).max(0.0)).filter(|epsilon| epsilon.is_finite())
    }

    /// The longest transform for so many parts.
    fn longest(&self) -> usize {
        LONGEST.min((PARTS / self.events.knots.len()).next_power_of_two()).max(SHORTEST)
    }

    /// A step, a power of two, and a length, so that the excess stays within its share and the window holds what matters.
    fn step(&self, losses: &[Losses], counts: &[f64], aim: &Aim) -> (f64, usize) {
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
            if len >= self.longest() || (step * (aim.tilt + 1.0) < 0.5 && excess.sum::<f64>() <= allowed(aim)) {
                return (step, len);
            }
            len *= 2;
        }
    }

    /// A bound on the tilted mass outside `[bottom, top)`, times the largest weight that it may get.
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

/// By how much the grid may change `ln M`.
fn allowed(aim: &Aim) -> f64 {
    (SHARE * aim.epsilon).max(LEAST) * aim.tilt
}

/// The end of the part that is read.
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

#[cfg(test)]
mod tests {
    use super::*;
    use damper_core::accounting::event::Rate;
    use libm::erfc;

    fn event(q: f64, sigma: f64) -> Event {
        Event::new(Rate::at_least(q).unwrap(), sigma).unwrap()
    }

    fn removed(events: &[(Event, u64)], delta: f64, bound: Bound) -> Question {
        Question::new(events, Pair::Sampled(Direction::Remove), delta, bound)
    }

    fn near(found: f64, exact: f64, share: f64) {
        assert!((found - exact).abs() <= share * exact.abs(), "{found:e}, not {exact:e}");
    }

    /// Full batches: the loss is normal with mean `shift²/2` and this deviation.
    fn shift(events: &[(Event, u64)]) -> f64 {
        sqrt(events.iter().map(|(event, times)| *times as f64 / (event.multiplier() * event.multiplier())).sum())
    }

    fn above(z: f64) -> f64 {
        0.5 * erfc(z / sqrt(2.0))
    }

    fn gaussian_epsilon(shift: f64, delta: f64) -> f64 {
        let at =
            |epsilon: f64| above(epsilon / shift - shift / 2.0) - exp(epsilon) * above(epsilon / shift + shift / 2.0);
        let (mut low, mut high) = (0.0, 1000.0);
        for _ in 0..100 {
            let middle = (low + high) / 2.0;
            if at(middle) > delta { low = middle } else { high = middle }
        }
        high
    }

    fn full(parts: [(f64, u64); 2]) -> [(Event, u64); 2] {
        parts.map(|(sigma, times)| (event(1.0, sigma), times))
    }

    const FULL: [[(f64, u64); 2]; 3] = [[(1.0, 2), (2.0, 4)], [(300.0, 3), (200.0, 5)], [(0.1, 2), (0.2, 3)]];

    /// The largest of `e^(-λy) (1 - e^-y)` by trying.
    #[test]
    fn chernoff_takes_the_largest_weight() {
        for (ln_moment, tilt, delta) in [(0.3, 0.2, 1e-5), (7.0, 1.0, 1e-3), (900.0, 40.0, 1e-9)] {
            let weight = |k: i32| {
                let y = f64::from(k) * 1e-4;
                exp(-tilt * y) * -expm1(-y)
            };
            let most = (1..200_000).map(weight).fold(0.0, f64::max);
            near(chernoff(ln_moment, tilt, delta), log(exp(ln_moment) / delta * most) / tilt, 1e-6);
        }
    }

    #[test]
    fn aim_is_chernoffs_best_for_gaussians() {
        for parts in FULL {
            let (events, delta) = (full(parts), 1e-5);
            let (shift, question) = (shift(&events), removed(&events, delta, Bound::Upper));
            let bound = |tilt: f64| chernoff(tilt * (tilt + 1.0) * shift * shift / 2.0, tilt, delta);
            let best = (-8000..14_000).map(|k| bound(exp(f64::from(k) / 1000.0))).fold(f64::INFINITY, f64::min);
            let aim = question.aim(&question.losses(FINE), &question.counts(), delta);
            near(aim.epsilon, best, 5e-4);
            near(aim.mean, shift * shift * (0.5 + aim.tilt), 5e-3);
            near(aim.deviation, shift, 5e-3);
            near(aim.reach, 9.0 * aim.deviation, 1e-12);
        }
    }

    /// Of full batches the best tilt λ is at `ln 1/δ = λ²·shift²/2 + ln(1 + λ)`.
    #[test]
    fn aim_finds_the_best_tilt() {
        let events = full(FULL[0]);
        let (shift, question) = (shift(&events), removed(&events, 1e-5, Bound::Upper));
        let (losses, counts) = (question.losses(FINE), question.counts());
        for ln_tilt in [-0.5f64, -0.26, 0.0, 0.12, 0.51, 0.77, 1.0, 1.24, 1.5] {
            let tilt = exp(ln_tilt);
            let delta = exp(-tilt * tilt * shift * shift / 2.0) / (1.0 + tilt);
            let found = log(question.aim(&losses, &counts, delta).tilt);
            assert!((found - ln_tilt).abs() < 1.0 / 64.0 + 2e-3, "{found}, not {ln_tilt}");
        }
    }

    /// Between the mass of both normal tails and Chernoff's bound on it at a change of up to a quarter more than the best.
    #[test]
    fn folded_bounds_two_normal_tails() {
        let events = full(FULL[0]);
        let question = removed(&events, 1e-5, Bound::Lower);
        let (losses, counts) = (question.losses(FINE), question.counts());
        let aim = question.aim(&losses, &counts, 1e-5);
        for (down, up) in [(3.0, 5.0), (6.0, 3.5), (4.0, 8.0), (1.0, 6.0)] {
            let edges = (aim.mean - down * aim.deviation, aim.mean + up * aim.deviation);
            let found = question.folded(&losses, &counts, &aim, edges.0, edges.1);
            let exact: f64 = [down, up].map(above).iter().sum();
            let chernoffs: f64 = [down, up].map(|z| exp(-0.46 * z * z)).iter().sum();
            assert!(found >= exact && found <= 1.1 * chernoffs, "{down} {up}: {found:e} {exact:e}");
        }
    }

    #[test]
    fn beyond_is_the_chance_of_any() {
        let one = |beyond, second| Losses { atoms: Vec::new(), beyond, second };
        let (losses, counts) = ([one(0.1, 0.01), one(0.02, 0.005)], [3.0, 2.5]);
        let first: f64 = 1.0 - 0.9f64.powf(3.0) * 0.98f64.powf(2.5);
        let second = 1.0 - 0.99f64.powf(3.0) * 0.995f64.powf(2.5);
        let beyond = |bound, limit| removed(&[(event(0.1, 1.0), 1)], 1e-5, bound).beyond(&losses, &counts, limit);
        let found = beyond(Bound::Upper, 1.0);
        assert!(found >= first && found <= first * (1.0 + 1e-9), "{found} {first}");
        for limit in [0.0, 1.5] {
            let (found, exact) = (beyond(Bound::Lower, limit), first - exp(limit) * second);
            assert!(found <= exact && found >= exact * (1.0 - 1e-8), "{found} {exact}");
        }
        assert_eq!((beyond(Bound::Lower, 9.0), beyond(Bound::Lower, f64::INFINITY)), (0.0, 0.0));
        // Of one event it is the mass itself, whatever the logarithm and the exponential round to.
        for mass in (1..400).map(|k| f64::from(k) * 2.3e-3) {
            let found =
                removed(&[(event(0.1, 1.0), 1)], 1e-5, Bound::Upper).beyond(&[one(mass, 0.0)], &[1.0], f64::INFINITY);
            assert!(found >= mass && found < mass * (1.0 + 2e-10), "{found:e}, not {mass:e}");
        }
    }

    #[test]
    fn counts_add_up_shares_of_mixtures() {
        let mut question = removed(&[(event(0.1, 1.0), 1), (event(0.1, 2.0), 1)], 1e-5, Bound::Upper);
        question.events.mixtures = vec![(vec![(0, 0.25), (1, 0.75)], 4), (vec![(1, 1.0)], 3), (vec![(0, 0.5)], 6)];
        assert_eq!(question.counts(), [4.0, 6.0]);
    }

    #[test]
    fn nodes_leave_a_small_part_of_delta() {
        let events = [(event(0.1, 1.0), 70), (event(0.2, 2.0), 30)];
        let reach = removed(&events, 1e-5, Bound::Upper).reach;
        near(100.0 * exp(-reach * reach / 2.0), 1e-12, 1e-9);
        assert_eq!(removed(&events, 5e-324, Bound::Upper).reach, sqrt(2000.0));
        let endless = removed(&[(event(0.1, 1e300), 1), (event(0.1, 2.0), 1)], 1e-5, Bound::Upper);
        assert_eq!(endless.events.knots.iter().map(Event::multiplier).fold(0.0, f64::max), 1e9);
    }

    /// A window of the asked width; and its step the largest power of two whose excess is allowed.
    #[test]
    fn steps_are_as_coarse_as_is_allowed() {
        for (events, delta) in [
            ([(event(1.0, 1.0), 3), (event(1.0, 2.0), 4)], 1e-5),
            ([(event(0.01, 1.0), 900), (event(0.02, 0.8), 300)], 1e-6),
            ([(event(0.3, 30.0), 9), (event(0.5, 20.0), 30)], 1e-3),
        ] {
            let question = removed(&events, delta, Bound::Upper);
            let (losses, counts) = (question.losses(FINE), question.counts());
            let aim = question.aim(&losses, &counts, delta);
            let (step, len) = question.step(&losses, &counts, &aim);
            let low = (aim.mean - 9.0 * aim.deviation).min(aim.epsilon - 30.0 / aim.tilt);
            let high = (aim.mean + 9.0 * aim.deviation).max(aim.epsilon + 30.0 / aim.tilt);
            assert_eq!(super::above(&aim), high);
            let width = step * len as f64;
            assert!(width >= high - low && width < 2.0 * (high - low) * (1.0 + 1e-12), "{width} {low} {high}");
            assert_eq!(step.log2().fract(), 0.0);
            // What the grid adds to `ln M`, directly.
            let added = |step: f64, len: usize| -> f64 {
                let one = |losses: &Losses| {
                    grid::spread(losses, aim.tilt, step, 64 * len).ln_moment - losses.tilted(aim.tilt).ln_moment
                };
                losses.iter().zip(&counts).map(|(losses, count)| count * one(losses)).sum()
            };
            let costs = |step: f64, len: usize| added(step, len) / aim.tilt / aim.epsilon;
            assert!(costs(step, len) <= 1.1e-3, "{}", costs(step, len));
            let coarser = 2.0 * step;
            assert!(
                len == SHORTEST || costs(coarser, len) >= 0.9e-3 || coarser * (aim.tilt + 1.0) >= 0.5,
                "{len}: {}",
                costs(coarser, len)
            );
            assert_eq!(top(&aim, step, 0.25), ((high - 0.25) / step).ceil() as i64);
        }
        assert_eq!([0.3, 0.5, 5.0].map(exp2_up), [0.5, 0.5, 8.0]);
    }

    #[test]
    fn a_step_may_cost_a_thousandth() {
        for (epsilon, tilt, costs) in [(2.0, 5.0, 2e-3), (1e-3, 40.0, 1.5e-5)] {
            let aim = Aim { tilt, epsilon, mean: 1.0, deviation: 1.0, reach: 9.0 };
            near(chernoff(3.0 + allowed(&aim), tilt, 1e-5) - chernoff(3.0, tilt, 1e-5), costs, 1e-9);
        }
    }

    #[test]
    fn what_lies_beyond_is_taken_from_delta() {
        for parts in FULL {
            let (events, delta) = (full(parts), 1e-5);
            let question = removed(&events, delta, Bound::Upper);
            let (losses, counts) = (question.losses(FINE), question.counts());
            let aim = question.aim(&losses, &counts, delta);
            let (step, len) = question.step(&losses, &counts, &aim);
            for left in [0.5, 0.01] {
                let found =
                    question.at(&losses, &counts, &aim, (1.0 - left) * delta, f64::INFINITY, step, len).unwrap();
                let exact = gaussian_epsilon(shift(&events), left * delta);
                assert!(found >= exact && found < 1.01 * exact, "{found} {exact}");
            }
        }
    }

    /// Nothing is composed if, and only if, Chernoff's bound is below the cost of another pair.
    #[test]
    fn moments_suffice_below_the_least() {
        let events = full(FULL[0]);
        let question = removed(&events, 1e-5, Bound::Upper);
        let (losses, counts) = (question.losses(FINE), question.counts());
        let beyond = question.beyond(&losses, &counts, f64::INFINITY);
        let tilt = question.aim(&losses, &counts, 1e-5 - beyond).tilt;
        let ln_moment = losses.iter().zip(&counts).map(|(one, count)| count * one.tilted(tilt).ln_moment);
        let moments = chernoff(ln_moment.sum(), tilt, 1e-5 - beyond);
        let settled = |least: f64| {
            let question = Question { least, ..removed(&events, 1e-5, Bound::Upper) };
            question.settled(&losses, &counts, f64::INFINITY, true).unwrap().epsilon
        };
        near(settled(1.00001 * moments), (1.0 + 1e-6) * moments, 1e-9);
        for least in [0.0, 0.5 * moments, moments] {
            near(settled(least), gaussian_epsilon(shift(&events), 1e-5), 2e-3);
        }
        assert!(moments > 1.01 * settled(0.0));
    }

    /// If many losses add up, the cost of a step is known in advance, and the first result is a rough one.
    #[test]
    fn one_grid_settles_what_is_known_before() {
        let few = [(event(1e-4, 0.5), 100), (event(1e-4, 0.6), 50)];
        for (events, heavy) in [(full(FULL[0]), false), (full(FULL[1]), false), (full(FULL[2]), false), (few, true)] {
            let question = removed(&events, 1e-6, Bound::Upper);
            let (losses, counts) = (question.losses(FINE), question.counts());
            let beyond = question.beyond(&losses, &counts, f64::INFINITY);
            let aim = question.aim(&losses, &counts, 1e-6 - beyond);
            let (step, len) = question.step(&losses, &counts, &aim);
            let first = question.at(&losses, &counts, &aim, beyond, f64::INFINITY, step, len).unwrap();
            let settled = |rough| question.settled(&losses, &counts, f64::INFINITY, rough).unwrap();
            assert_eq!((settled(true).epsilon, settled(true).heavy), (first, heavy));
            assert_eq!(settled(false).epsilon == first, !heavy);
            assert!(settled(false).epsilon <= first);
        }
    }

    /// A window that ends 3.1 deviations below the mean: what lies below may have been folded into it, and is taken off.
    #[test]
    fn lower_bounds_take_off_what_is_folded() {
        let (events, delta, len) = (full(FULL[0]), 1e-5, 1024);
        let (shift, question) = (shift(&events), removed(&events, delta, Bound::Lower));
        let (losses, counts) = (question.losses(FINE), question.counts());
        let aim = question.aim(&losses, &counts, delta);
        let (step, width) = (1.0 / 64.0, 16.0);
        let aim = Aim { reach: width - 3.1 * shift, epsilon: 0.0, ..aim };
        assert_eq!(super::above(&aim), aim.mean + aim.reach);
        let found = question.at(&losses, &counts, &aim, 0.0, f64::INFINITY, step, len).unwrap();
        // At least the mass below the lower end, as large as κ ≤ 1 allows.
        let (mean, tilt) = (shift * shift * (0.5 + aim.tilt), aim.tilt);
        let below = above((mean - (aim.mean + aim.reach - width)) / shift);
        let most = |epsilon: f64| {
            let folded = exp(tilt * (tilt + 1.0) * shift * shift / 2.0 - tilt * epsilon) * below;
            above(epsilon / shift - shift / 2.0) - exp(epsilon) * above(epsilon / shift + shift / 2.0) - folded
        };
        assert!(most(found) >= delta, "{found}: {:e}", most(found));
        assert!(found > 0.9 * gaussian_epsilon(shift, delta), "{found}");
    }

    #[test]
    fn answers_enclose_the_gaussian() {
        for parts in FULL {
            let events = full(parts);
            for delta in [1e-3, 1e-8] {
                let exact = gaussian_epsilon(shift(&events), delta);
                let [low, high] =
                    [epsilon_lower_bound, epsilon].map(|bound| bound(&events, Neighbours::AddOrRemove, delta).unwrap());
                assert!(low <= exact && exact <= high, "{low} {exact} {high}");
                assert!(high - low <= 1.2e-3 * exact + 2e-5, "{low} {exact} {high}");
            }
        }
    }

    /// So many events that nodes lie wider apart.
    #[test]
    fn answers_hold_for_many_events() {
        let events: Vec<_> = (0..60).map(|k| (event(1.0, 2.0 * 1.09f64.powi(k)), 1 + k as u64)).collect();
        assert!(removed(&events, 1e-5, Bound::Upper).events.knots.len() > MANY);
        for delta in [1e-3, 1e-8] {
            let exact = gaussian_epsilon(shift(&events), delta);
            let found = epsilon(&events, Neighbours::AddOrRemove, delta).unwrap();
            assert!(exact <= found && found < 1.003 * exact, "{exact} {found}");
        }
    }

    /// Values of the independent generator where few large losses decide, where many add up, and in between.
    #[test]
    fn answers_enclose_recorded_bounds() {
        for line in include_str!("vectors/pld.tsv").lines().filter(|line| !line.starts_with('#')).step_by(24) {
            let fields: Vec<f64> = line.split('\t').map(|field| field.parse().unwrap()).collect();
            let [numerator, sigma, steps, delta, least, most] = fields[..] else { panic!("{line}") };
            let events = [(Event::new(Rate::from_numerator(numerator as u64).unwrap(), sigma).unwrap(), steps as u64)];
            let [low, high] =
                [epsilon_lower_bound, epsilon].map(|bound| bound(&events, Neighbours::AddOrRemove, delta).unwrap());
            println!("{line}: {} {}", low / least - 1.0, high / least - 1.0);
            assert!(low <= most && high >= least && low <= high, "{line}: {low} {high}");
            assert!(high - low <= 1.5e-3 * least + 2e-5, "{line}: {low} {high}");
        }
    }

    #[test]
    fn what_can_not_be_asked_is_refused() {
        let one = event(0.1, 1.0);
        for bound in [epsilon, epsilon_lower_bound, of_discrete] {
            assert_eq!(bound(&[(one, 0)], Neighbours::AddOrRemove, 1e-5), Err(AccountingError::Steps));
            for delta in [0.0, 1.0, f64::NAN] {
                assert!(matches!(bound(&[(one, 1)], Neighbours::AddOrRemove, delta), Err(AccountingError::Delta(_))));
            }
        }
        assert_eq!(epsilon(&[(event(0.1, 0.01), 1)], Neighbours::AddOrRemove, 1e-5), Ok(f64::INFINITY));
    }
}
