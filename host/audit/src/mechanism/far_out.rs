//! Far tails of the noise: the number of draws beyond each bound, repeated values, and the largest draw, against a
//! normal.
//!
//! No sample is drawn, so a step takes only the time of its noise. Truncated or clamped tails lack draws beyond the
//! limit. Clamped tails also repeat one value too often. A value is a cell of 2⁻¹⁹ deviations, or of four grid units if
//! those are wider.

use super::chance::{FAR, Moments, density, outside, tail};
use super::power::Power;
use super::seen::{Slack, Whitened, assumed};
use super::tests_of::Tests;
use damper_train::inside::observe::{Given, Observer, Summed};
use damper_train::inside::step_loop::StepSum;
use damper_train::{NoiseKind, Run};

/// Number of draws that are compared with one another to find repeated values.
const COMPARED: usize = 1 << 21;
/// A bound farther out than any draw.
const FARTHEST: f64 = 20.0;

/// Noise of steps without a sample.
pub(super) struct FarOut<'a> {
    run: &'a Run,
    whitened: Option<Whitened>,
    /// Deviation of the open step, and its clip.
    deviation: f64,
    clip: f64,
    is_empty: bool,
    moments: Moments,
    largest: f64,
    cells: Vec<i64>,
    width: f64,
    slack: Slack,
}

impl<'a> FarOut<'a> {
    pub(super) fn new(run: &'a Run) -> Self {
        let grid = run.price.terms.sigma_grid.map_or(0.0, |sigma| 4.0 / f64::from(sigma));
        Self {
            run,
            whitened: run.price.terms.correlated.as_ref().map(Whitened::new),
            deviation: 0.0,
            clip: 0.0,
            is_empty: true,
            moments: Moments::default(),
            largest: 0.0,
            cells: Vec::with_capacity(COMPARED),
            width: grid.max(1.0 / f64::from(1u32 << 19)),
            slack: Slack::of(run),
        }
    }

    /// Starts the next run.
    pub(super) fn again(&mut self) {
        self.whitened.iter_mut().for_each(Whitened::again);
    }

    fn add(&mut self, z: f64) {
        self.moments.add(z);
        self.largest = self.largest.max(z.abs());
        if self.cells.len() < COMPARED {
            self.cells.push((z / self.width).floor() as i64);
        }
    }

    /// Adds the tests of the course.
    pub(super) fn conclude(mut self, tests: &mut Tests) {
        let draws = self.moments.count;
        let mut slack = self.slack.tails;
        // Rounding of the largest draw to a 24-bit float.
        slack.shift += 1e-6 * self.whitened.as_ref().map_or(1.0, Whitened::weight);
        tests.law("tails: no sample is drawn", draws, (!self.is_empty).then(|| "a sum that is not zero".into()));
        let what = "tails: as many draws beyond each bound as of a normal";
        for (at, p) in self.moments.of_tails(slack).into_iter().enumerate() {
            let (bound, out) = (FAR[at], self.moments.out[at]);
            tests.test(what, draws, p, || {
                let expected = draws as f64 * outside(bound);
                format!("{out} of {draws} draws beyond {bound} deviations, where {expected:.1} are expected")
            });
        }
        tests.finds(what, Power::Cut(draws));
        let what = "tails: the largest draw, as of a normal";
        tests.test(what, draws, largest(draws, self.largest, slack.beyond(self.largest)), || {
            format!("of {draws} draws the largest is {:.3} deviations", self.largest)
        });
        tests.finds(what, Power::Cut(draws));
        let what = "tails: no value comes too often";
        let compared = self.cells.len() as u64;
        let (p, cell, came) = most_often(&mut self.cells, self.width, slack.shift);
        tests.test(what, compared, p, || {
            format!("{came} of {compared} draws at {:.4} deviations", cell as f64 * self.width)
        });
        let of = (2.0 * FARTHEST / self.width) as u64;
        tests.finds(what, Power::Atom { draws: compared, chance: chance(0.0, self.width, slack.shift), of });
    }
}

/// Returns the p-value of the largest of `draws` draws. A draw lies farther out with a probability between `least` and
/// `most`.
fn largest(draws: u64, largest: f64, (least, most): (f64, f64)) -> f64 {
    if !largest.is_finite() {
        return 0.0;
    }
    let below = (draws as f64 * (-least.clamp(0.0, 1.0)).ln_1p()).exp();
    let above = draws as f64 * most;
    (2.0 * below.min(above)).min(1.0)
}

/// Returns the largest probability of the cell that starts `near` deviations out.
fn chance(near: f64, width: f64, shift: f64) -> f64 {
    // One grid unit more, and neighbours that a float rounds into this cell.
    density((near - shift).max(0.0)) * (width + 2.0 * shift) * (1.0 + 1e-6)
}

/// Returns the p-value of the cell with too many draws, the cell, and its number of draws.
fn most_often(cells: &mut [i64], width: f64, shift: f64) -> (f64, i64, u64) {
    cells.sort_unstable();
    let (draws, of) = (cells.len() as u64, 2.0 * FARTHEST / width);
    let mut least = (1.0, 0, 0);
    for equal in cells.chunk_by(|a, b| a == b) {
        let (cell, came) = (equal[0], equal.len() as u64);
        let near = if cell >= 0 { cell as f64 } else { (cell + 1).unsigned_abs() as f64 } * width;
        let chance = chance(near, width, shift).min(1.0);
        let mean = draws as f64 * chance;
        // Lower counts are not significant.
        if came >= 3 && came as f64 > mean + 4.0 * mean.sqrt() {
            let p = (of * tail(came, draws, chance, true)).min(1.0);
            if p < least.0 {
                least = (p, cell, came);
            }
        }
    }
    least
}

impl Observer for FarOut<'_> {
    fn summed(&mut self, step: Summed<'_>) {
        self.deviation = assumed(self.run, step.number);
        self.clip = f64::from(step.clip);
        self.is_empty &= match &step.sum {
            StepSum::Grid(words) => words.iter().all(|word| *word == 0),
            StepSum::Floats(words) => words.iter().all(|word| *word == 0.0),
        };
    }

    fn given(&mut self, given: Given<'_>) {
        // A released value is the noise in clips, divided by the batch size.
        let scale = match self.run.config.noise {
            NoiseKind::Discrete => {
                let units = (1u32 << self.run.config.grid_bits) as f32;
                let unit = self.clip as f32 / units / self.run.config.batch_size as f32;
                1.0 / (f64::from(unit) * f64::from(units) * self.deviation)
            }
            NoiseKind::Continuous => f64::from(self.run.config.batch_size) / (self.clip * self.deviation),
        };
        match self.whitened.take() {
            None => given.grad.iter().for_each(|released| self.add(f64::from(*released) * scale)),
            Some(mut whitened) => {
                let noise = given.grad.iter().map(|released| f64::from(*released) * scale).collect();
                whitened.next(noise).into_iter().for_each(|z| self.add(z));
                self.whitened = Some(whitened);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_testing::Random;

    #[test]
    fn largest_draw_is_neither_near_nor_far() {
        let of = |draws, at| largest(draws, at, (outside(at), outside(at)));
        assert!(of(10_000_000, 5.3) > 0.1 && of(40_000_000, 5.6) > 0.1);
        assert!(of(10_000_000, 4.5) < 1e-20 && of(10_000_000, 9.0) < 1e-10 && of(10, f64::NAN) == 0.0);
    }

    #[test]
    fn clamped_draws_come_too_often() {
        let (mut random, width) = (Random(3), 1.0 / f64::from(1u32 << 19));
        let mut normal = || {
            let (u, v) = (1.0 - random.unit_f64(), random.unit_f64());
            (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
        };
        let draws: Vec<f64> = (0..COMPARED / 4).map(|_| normal()).collect();
        let p_of = |most: f64| {
            let mut cells: Vec<i64> = draws.iter().map(|z| (z.clamp(-most, most) / width).floor() as i64).collect();
            most_often(&mut cells, width, 1e-6)
        };
        assert!(p_of(30.0).0 > 1e-3);
        let (p, _, came) = p_of(4.0);
        assert!(p < 1e-12 && came > 5, "{p} {came}");
    }
}
