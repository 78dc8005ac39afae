//! Noise of a course, in deviations of the accounted noise: its tails, and its independence of everything else.

use super::super::chance::{FAR, Moments, Products, TailSlack, detected};
use super::super::power::Power;
use super::super::tests_of::Tests;
use super::coins::CoinsAndNoise;
use super::whitened::rounding;
use damper_core::schedule::{AnyNoise, NoiseSchedule};
use damper_train::Run;
use damper_train::inside::worker::ParamLayout;

/// Maximum number of coordinates that are tested separately.
pub(super) const MOST_COORDINATES: usize = 64;
/// Number of classes of coordinates in a large network. A class is an offset in the blocks of the release, and its
/// tests use all its draws.
const PLACES: usize = 64;
/// Number of parts of a noise schedule that are tested separately.
const PARTS: u64 = 18;

/// Relative error of a 24-bit float after the two roundings of a release.
const FLOAT: f64 = 2.0 / (1u32 << 24) as f64;

/// Permitted difference between a run's correct noise and independent normals.
pub(in super::super) struct Slack {
    /// Relative error of the sum of squares.
    pub(in super::super) squares: f64,
    /// Error of the tail probabilities.
    pub(in super::super) tails: TailSlack,
}

impl Slack {
    pub(in super::super) fn of(run: &Run) -> Self {
        match run.price.terms.sigma_grid {
            // Rounding of a 24-bit float, and of the grid.
            Some(sigma) => {
                let rounded = rounding(run);
                let shift = 1.0 / f64::from(sigma) + 2.0 * rounded + 1e-6;
                Self { squares: 1e-6 + 4.0 * rounded, tails: TailSlack { shift, chance: 0.0 } }
            }
            // Sums and noise are rounded. Draws are computed from 32 bits, and none exceeds 6.67 deviations.
            None => Self { squares: 2e-4, tails: TailSlack { shift: 2e-4, chance: 1e-9 } },
        }
    }
}

/// State of the noise tests.
pub(super) struct SeenNoise {
    layout: Vec<usize>,
    slack: f64,
    tail_slack: TailSlack,
    /// Largest rounding error of 24-bit floats, in deviations.
    rounded: f64,
    /// Noise of the current step, and of the previous step.
    step: Vec<f64>,
    previous: Vec<f64>,
    all: Moments,
    by_coordinate: Vec<Moments>,
    by_layer: Vec<Moments>,
    by_place: Vec<Moments>,
    by_step: Vec<Moments>,
    by_count: Vec<Moments>,
    window: Moments,
    per_window: u64,
    /// Steps of the noise schedule. Its parts then each form a group over all runs, instead of windows of steps.
    by_part: Option<u32>,
    neighbours: [Products; 3],
    in_turn: [Products; 2],
    with_counts: Products,
    coins: CoinsAndNoise,
}

impl SeenNoise {
    pub(super) fn new(run: &Run, per_window: u64) -> Self {
        let lengths = ParamLayout::new(&run.model.grad).lengths().to_vec();
        let dim: usize = lengths.iter().sum();
        let Slack { squares: slack, tails: tail_slack } = Slack::of(run);
        let scheduled = run.price.terms.noise_schedule != AnyNoise::Schedule(NoiseSchedule::Constant);
        Self {
            slack,
            tail_slack,
            rounded: 0.0,
            step: vec![],
            previous: vec![],
            all: Moments::default(),
            by_coordinate: vec![Moments::default(); if dim <= MOST_COORDINATES { dim } else { 0 }],
            by_layer: vec![Moments::default(); lengths.len()],
            by_place: vec![Moments::default(); if dim > MOST_COORDINATES { PLACES } else { 0 }],
            by_step: vec![],
            by_count: vec![],
            window: Moments::default(),
            per_window,
            by_part: (dim <= MOST_COORDINATES && scheduled).then_some(run.price.terms.steps),
            neighbours: [Products::default(); 3],
            in_turn: [Products::default(); 2],
            with_counts: Products::default(),
            coins: CoinsAndNoise::default(),
            layout: lengths,
        }
    }

    /// Sets the rounding error of the step. Its released values were as large as `most` deviations.
    pub(super) fn rounds(&mut self, most: f64) {
        self.rounded = self.rounded.max(most * FLOAT);
    }

    /// Sets the noise of a step, one value for each coordinate.
    pub(super) fn set(&mut self, noise: impl Iterator<Item = f64>) {
        self.step.clear();
        self.step.extend(noise);
    }

    /// Returns the noise of the step.
    pub(super) fn step(&self) -> &[f64] {
        &self.step
    }

    /// Allocates state for `counts` counts.
    pub(super) fn counts(&mut self, counts: usize) {
        self.by_count.resize_with(self.by_count.len().max(counts), Moments::default);
    }

    /// Adds the noise `z` of count `at` of the step.
    pub(super) fn count(&mut self, at: usize, z: f64) {
        self.by_count[at].add(z);
        if let Some(of_gradient) = self.step.get(at) {
            self.with_counts.add(z, *of_gradient);
        }
    }

    /// Ends step `number` of its run, after `steps` other steps in total. The step drew `samples`.
    pub(super) fn note(&mut self, number: u32, steps: u32, samples: &[u32]) {
        let dim = self.step.len();
        let mut of_step = Moments::default();
        let mut from = 0;
        for (layer, length) in self.by_layer.iter_mut().zip(&self.layout) {
            self.step[from..from + length].iter().for_each(|z| layer.add(*z));
            from += length;
        }
        for (at, z) in self.step.iter().enumerate() {
            of_step.add(*z);
            if let Some(moments) = self.by_coordinate.get_mut(at) {
                moments.add(*z);
            }
            if !self.by_place.is_empty() {
                self.by_place[at % PLACES].add(*z);
            }
        }
        self.all.merge(&of_step);
        for pair in self.step.chunks_exact(2) {
            self.neighbours[0].add(pair[0], pair[1]);
        }
        for (products, distance) in self.neighbours[1..].iter_mut().zip([64, 1024]) {
            for blocks in self.step.chunks_exact(2 * distance) {
                let (a, b) = blocks.split_at(distance);
                a.iter().zip(b).for_each(|(a, b)| products.add(*a, *b));
            }
        }
        if self.previous.len() == dim {
            let products = &mut self.in_turn[steps as usize % 2];
            self.previous.iter().zip(&self.step).for_each(|(a, b)| products.add(*a, *b));
        }
        if dim as u64 >= self.per_window {
            self.by_step.push(of_step);
        } else if let Some(of) = self.by_part {
            // Windows of consecutive steps would mix the end of a run with the start of the next.
            let part = (u64::from(number) * PARTS / u64::from(of.max(1))) as usize;
            self.by_step.resize_with(self.by_step.len().max(part + 1), Moments::default);
            self.by_step[part].merge(&of_step);
        } else {
            self.window.merge(&of_step);
            if self.window.count >= self.per_window {
                self.by_step.push(std::mem::take(&mut self.window));
            }
        }
        self.coins.add(samples, &self.step);
        std::mem::swap(&mut self.previous, &mut self.step);
    }

    /// Starts the next run.
    pub(super) fn again(&mut self) {
        self.previous.clear();
    }

    /// Adds the tests of `steps` steps.
    pub(super) fn conclude(self, name: &str, run: &Run, steps: u32, tests: &mut Tests) {
        let of = |what: &str| format!("{name}: {what}");
        let slack = self.slack;
        let tail_slack = TailSlack { shift: self.tail_slack.shift + self.rounded, ..self.tail_slack };
        let mut deviation = |what: &str, moments: &Moments, where_: String| {
            if moments.count == 0 {
                return;
            }
            tests.deviation(&of(what), moments.count, moments.of_squares(slack), detected(moments.count), || {
                format!("{where_}: {:.5} of the deviation that is priced", moments.deviation())
            });
            tests.test(&of("the mean of the noise"), moments.count, moments.of_sum(), || {
                format!("{what}, {where_}: mean {:.6} deviations", moments.sum / moments.count as f64)
            });
            tests.finds(&of("the mean of the noise"), Power::Mean(moments.count));
        };
        deviation("deviation of the noise, all of it", &self.all, format!("{steps} steps"));
        let (what, one) = match (self.by_step.len() == steps as usize, self.by_part) {
            (true, _) => ("deviation of the noise, each step", "step"),
            (_, Some(_)) => ("deviation of the noise, each part of the schedule", "part"),
            _ => ("deviation of the noise, each window of steps", "window"),
        };
        for (at, moments) in self.by_step.iter().enumerate() {
            deviation(what, moments, format!("{one} {at}"));
        }
        for (at, moments) in self.by_coordinate.iter().enumerate() {
            deviation("deviation of the noise, each coordinate", moments, format!("coordinate {at}"));
        }
        for (at, moments) in self.by_place.iter().enumerate() {
            deviation("deviation of the noise, each place in a block of 64", moments, format!("place {at}"));
        }
        for (at, (moments, spec)) in self.by_layer.iter().zip(&run.model.grad.parameters).enumerate() {
            deviation("deviation of the noise, each tensor", moments, format!("tensor {at}, {}", spec.name));
        }
        for (at, moments) in self.by_count.iter().enumerate() {
            deviation("deviation of the noise, each count", moments, format!("count {at}"));
        }
        for (p, bound) in self.all.of_tails(tail_slack).into_iter().zip(FAR) {
            tests
                .test(&of("noise far out, as of a normal"), self.all.count, p, || format!("beyond {bound} deviations"));
        }
        tests.finds(&of("noise far out, as of a normal"), Power::Cut(self.all.count));
        let mut correlation = |what: &str, products: &Products, where_: String| {
            tests.test(&of(what), products.count, products.p(), || {
                format!("{where_}correlation {:.5}", products.correlation())
            });
            if products.count > 0 {
                tests.finds(&of(what), Power::Correlation(products.count));
            }
        };
        for (products, distance) in self.neighbours.iter().zip([1, 64, 1024]) {
            let where_ = format!("at a distance of {distance}: ");
            correlation("noise of other coordinates is uncorrelated", products, where_);
        }
        for products in &self.in_turn {
            correlation("noise of consecutive steps is uncorrelated", products, String::new());
        }
        if self.with_counts.count > 0 {
            correlation("noise of counts and gradients is uncorrelated", &self.with_counts, String::new());
        }
        self.coins.conclude(name, run.data.train.len(), tail_slack, tests);
    }
}
