//! Bounds of compositions with parts that are not Poisson-sampled Gaussians.

use super::bound::Bound;
use super::draw::Direction;
use super::question::at_epsilon::asked;
use super::question::{Pair, Question};
use super::shape::Part;
use super::{Neighbours, closed, pairs};
use damper_core::accounting::event::{Rate, SampledGaussian};
use damper_core::numerics::up::{add_up, div_up, sqrt_up};

/// A composition of continuous Gaussians and other parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Composition {
    pub(crate) gaussians: Vec<(SampledGaussian, u64)>,
    pub(crate) parts: Vec<(Part, u64)>,
}

/// The δ whose question gives a first guess of δ at an ε.
const FIRST: f64 = 1e-40;
/// A found δ below this share of the guess is asked again.
const NEAR: f64 = 0.01;
const ROUNDS: usize = 4;
/// Logarithms of the largest tilts of releases with few points.
const STEEPEST: [f64; 6] = [13.0, 10.0, 8.0, 6.0, 4.0, 2.0];

impl Composition {
    /// Returns true if nothing is released.
    pub(crate) fn is_empty(&self) -> bool {
        self.gaussians.iter().all(|(_, times)| *times == 0) && self.parts.iter().all(|(_, times)| *times == 0)
    }

    /// A bound on the shift of all releases together, in standard deviations, with their rate: they are one Gaussian if
    /// none is sampled, or there is one draw.
    fn one_draw(&self, neighbours: Neighbours, bound: Bound) -> Option<(f64, Rate)> {
        let all = &self.gaussians;
        let is_one = |all: &[(SampledGaussian, u64)]| all.len() == 1 && all[0].1 == 1;
        let rate = match (&all[..], &self.parts[..]) {
            (all, []) if all.iter().all(|(event, _)| event.rate() == Rate::ONE) => Rate::ONE,
            (all, []) if is_one(all) && neighbours == Neighbours::AddOrRemove => all[0].0.rate(),
            ([], [(Part::Fixed { multiplier, rate, .. }, 1)]) => {
                let shift = div_up(1.0, *multiplier);
                return Some((if bound == Bound::Upper { shift } else { shift * (1.0 - 4.0 * f64::EPSILON) }, *rate));
            }
            _ => return None,
        };
        let square = |(event, times): &(SampledGaussian, u64)| {
            let one = div_up(1.0, event.multiplier());
            one * one * (1.0 + f64::EPSILON) * *times as f64 * (1.0 + f64::EPSILON)
        };
        let shift = sqrt_up(all.iter().map(square).fold(0.0, add_up));
        let shift = if neighbours == Neighbours::Replace { 2.0 * shift } else { shift };
        // Each of the roundings is up, by a few units in the last place.
        let excess = (all.len() as f64 + 8.0) * 4.0 * f64::EPSILON;
        Some((if bound == Bound::Upper { shift } else { shift * (1.0 - excess) }, rate))
    }

    /// The number of releases.
    pub(crate) fn steps(&self) -> u64 {
        let all = self.gaussians.iter().map(|(_, times)| *times).chain(self.parts.iter().map(|(_, times)| *times));
        all.fold(0, u64::saturating_add)
    }

    /// Returns true if the cost has a closed form.
    pub(crate) fn is_exact(&self, neighbours: Neighbours) -> bool {
        self.one_draw(neighbours, Bound::Upper).is_some()
    }

    /// A bound on ε at `delta`. Infinite, or 0 for a lower bound, if none is found.
    pub(crate) fn epsilon(&self, neighbours: Neighbours, bound: Bound, delta: f64) -> f64 {
        if let Some((shift, rate)) = self.one_draw(neighbours, bound) {
            return if shift.is_finite() { closed::epsilon(shift, rate, delta, bound) } else { f64::INFINITY };
        }
        if bound == Bound::Lower {
            return self.each_way().iter().fold(0.0, |most, parts| {
                pairs(neighbours).iter().fold(most, |most: f64, pair| {
                    let limit = self.question(parts, *pair, delta, Bound::Upper).answer(f64::INFINITY);
                    let limit = limit.unwrap_or(f64::INFINITY);
                    let lower = |question: Question| question.answer(limit).unwrap_or(0.0);
                    let all = self.lower_questions(parts, *pair, delta);
                    all.into_iter().map(lower).fold(most, f64::max)
                })
            });
        }
        pairs(neighbours).iter().fold(0.0, |least, pair| {
            let mut question = self.question(&self.parts, *pair, delta, Bound::Upper);
            question.least = least;
            question.answer(f64::INFINITY).unwrap_or(f64::INFINITY).max(least)
        })
    }

    /// A bound on δ at `epsilon`, at most 1.
    pub(crate) fn delta(&self, neighbours: Neighbours, bound: Bound, epsilon: f64) -> f64 {
        if let Some((shift, rate)) = self.one_draw(neighbours, bound).filter(|(shift, _)| shift.is_finite()) {
            return libm::exp(closed::ln_delta_of_draw(shift, rate, epsilon, bound)).min(1.0);
        }
        let each = if bound == Bound::Lower { self.each_way() } else { vec![self.parts.clone()] };
        // The δ that a question suits is that of the first pair. A pair with a smaller δ does not count.
        let mut suited = None;
        let mut found = 0.0f64;
        for (parts, pair) in each.iter().flat_map(|parts| pairs(neighbours).iter().map(move |pair| (parts, *pair))) {
            let least = found;
            let ask = |asked| match bound {
                Bound::Lower => self.lower_questions(parts, pair, asked),
                Bound::Upper => {
                    let mut question = self.question(parts, pair, asked, bound);
                    question.least = least;
                    vec![question]
                }
            };
            let (next, asked) = delta_of(bound, epsilon, suited, ask);
            suited = suited.or(asked);
            found = found.max(next);
        }
        found.min(1.0)
    }

    /// The questions whose largest answer is a lower bound. A few points have losses with gaps between them, for which
    /// each loss is moved down, and a large tilt leaves only the last loss.
    fn lower_questions(&self, parts: &[(Part, u64)], pair: Pair, delta: f64) -> Vec<Question> {
        let mut all = vec![self.question(parts, pair, delta, Bound::Lower)];
        let is_drawn = |(part, _): &(Part, u64)| matches!(part, Part::Drawn { .. });
        if self.gaussians.is_empty() && parts.iter().all(is_drawn) {
            for steepest in STEEPEST {
                let mut question = self.question(parts, pair, delta, Bound::Lower);
                (question.floors, question.steepest) = (true, steepest);
                all.push(question);
            }
        }
        all
    }

    fn question(&self, parts: &[(Part, u64)], pair: Pair, delta: f64, bound: Bound) -> Question {
        Question::with_parts(&self.gaussians, parts, pair, delta, bound)
    }

    /// The parts, for each direction of the samples of a fixed number.
    fn each_way(&self) -> Vec<Vec<(Part, u64)>> {
        if !self.parts.iter().any(|(part, _)| matches!(part, Part::Fixed { .. })) {
            return vec![self.parts.clone()];
        }
        let turned = |part: &Part, to: Direction| match *part {
            Part::Fixed { multiplier, rate, .. } => Part::Fixed { multiplier, rate, direction: to },
            part => part,
        };
        let all = |to| self.parts.iter().map(|(part, times)| (turned(part, to), *times)).collect();
        [Direction::Remove, Direction::Add].map(all).to_vec()
    }
}

/// A bound on δ of one pair, and the δ that its question suits. `ask` returns the questions that suit a δ.
fn delta_of(bound: Bound, epsilon: f64, suited: Option<f64>, ask: impl Fn(f64) -> Vec<Question>) -> (f64, Option<f64>) {
    let trivial = if bound == Bound::Upper { 1.0 } else { 0.0 };
    let better = |a: f64, b: f64| if bound == Bound::Upper { a.min(b) } else { a.max(b) };
    let all = |asked| ask(asked).iter().map(|one| one.delta_at(epsilon)).fold(trivial, better);
    let guess = || ask(FIRST).first().and_then(|one| one.ln_delta_guess(epsilon)).map(asked);
    let Some(mut asked) = suited.or_else(guess) else { return (trivial, None) };
    let mut found = all(asked);
    for _ in 0..ROUNDS {
        if found >= NEAR * asked || found == 0.0 || suited.is_some() {
            break;
        }
        asked = found;
        found = better(found, all(asked));
    }
    (found, Some(asked))
}
