//! What is seen of the steps of a course, and held against what the price assumes.

use super::chance::{Moments, Products, binomial, binomial_between, detected};
use super::made::Linear;
use super::tests_of::Tests;
use crate::course::Sum;
use crate::observe::{Given, Observer, Summed};
use crate::worker::{Layout, Point};
use crate::{Clipping, LEDGER, Noise, Run};
use damper_accounting::Recorded;
use damper_core::count::{Query, UNIT};
use damper_core::schedule::{AnyNoise, Noise as _, NoiseSchedule};
use damper_data::Split;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Coordinates of noise that are compared with those of other steps and runs.
const KEPT: usize = 1 << 16;
/// Steps of which so many coordinates are kept.
const KEPT_STEPS: usize = 8;
/// Coordinates of a block that no two may share.
const BLOCK: usize = 6;
/// Cells of a block's numbers in one deviation: two blocks agree by chance once in 10²⁴.
const CELLS: f64 = 4096.0;
/// So many coordinates are tested one by one.
const MOST_COORDINATES: usize = 64;
/// So many samples and coordinates are paired to compare coins with noise.
const PAIRED: usize = 4;
/// The part of a coordinate's draws that a test of a class of places uses: places within a block of the release.
const PLACES: usize = 64;
/// Parts of a schedule of noise that are tested one by one.
const PARTS: u64 = 18;

/// What outlasts a course: noise that no other course may repeat.
#[derive(Default)]
pub(super) struct Across {
    blocks: HashSet<[u16; BLOCK]>,
    /// Of each course, the noise of the first steps.
    kept: Vec<(String, Vec<f32>)>,
    repeated: Option<String>,
    compared: u64,
}

impl Across {
    /// The tests of all courses together.
    pub(super) fn conclude(self, tests: &mut Tests) {
        tests.law(
            "all courses: blocks of noise are distinct, over steps, chunks, purposes and restarts",
            self.compared,
            self.repeated,
        );
        for (at, (one, a)) in self.kept.iter().enumerate() {
            for (other, b) in &self.kept[at + 1..] {
                let mut products = Products::default();
                a.iter().zip(b).for_each(|(a, b)| products.add(f64::from(*a), f64::from(*b)));
                tests.test(
                    "all courses: noise of different steps and runs is uncorrelated",
                    products.count,
                    products.p(),
                    || format!("{one} and {other}: correlation {:.5}", products.correlation()),
                );
            }
        }
    }

    /// Notes the noise of a step: its blocks, and what is compared with other steps.
    pub(super) fn step(&mut self, course: &str, number: u32, noise: &[f64]) {
        for (at, block) in noise.chunks(8).enumerate() {
            self.block(block, || {
                format!("{course}, step {number}, from coordinate {}: noise that was there before", 8 * at)
            });
        }
        if noise.len() >= 1024 && self.kept.iter().filter(|(name, _)| name.starts_with(course)).count() < KEPT_STEPS {
            let kept = noise.iter().take(KEPT).map(|z| *z as f32).collect();
            self.kept.push((format!("{course}, step {number}"), kept));
        }
    }

    fn block(&mut self, noise: &[f64], where_: impl FnOnce() -> String) {
        if noise.len() < BLOCK {
            return;
        }
        self.compared += 1;
        // Far out cells wrap.
        let key = std::array::from_fn(|at| (noise[at] * CELLS).floor() as i64 as u16);
        if !self.blocks.insert(key) {
            self.repeated.get_or_insert_with(where_);
        }
    }
}

/// The observer of a course.
pub(super) struct Seen<'a> {
    run: &'a Run,
    name: String,
    linear: Option<Linear>,
    ledger: PathBuf,
    across: &'a mut Across,
    /// Whether the file of the ledger is read at every step.
    reads_ledger: bool,
    batch: f64,
    layout: Vec<usize>,
    slack: f64,
    tail_slack: f64,

    // The step that is open.
    sum: Vec<f64>,
    clip: f32,
    deviation: f64,
    counts: Vec<i32>,
    query: Query,
    samples: Vec<u32>,
    number: u32,

    // What was released so far.
    steps: u32,
    /// Of the runs before this one.
    first: u32,
    noise: Vec<f64>,
    previous: Vec<f64>,
    all: Moments,
    by_coordinate: Vec<Moments>,
    by_layer: Vec<Moments>,
    by_place: Vec<Moments>,
    by_step: Vec<Moments>,
    by_count: Vec<Moments>,
    window: Moments,
    per_window: u64,
    /// Whether the steps of a part of the noise's schedule make a group, over all runs, and not windows of steps.
    by_part: bool,
    neighbours: [Products; 3],
    in_turn: [Products; 2],
    with_counts: Products,
    drawn: Vec<u64>,
    /// Pairs of draws that should be independent, and how often both came up: of neighbours, of samples a chunk apart, and of one sample
    /// at consecutive steps.
    both: [(u64, u64); 3],
    drawn_before: Vec<u32>,
    learned: Option<f32>,
    coins: [[[u64; 3]; PAIRED]; PAIRED],
    laws: Laws,
}

/// Laws, each with how often it was compared and what broke it first.
#[derive(Default)]
struct Laws {
    grid: (u64, Option<String>),
    scale: (u64, Option<String>),
    price: (u64, Option<String>),
    threshold: (u64, Option<String>),
    sums: (u64, Option<String>),
    counts: (u64, Option<String>),
    released_counts: (u64, Option<String>),
    paid: (u64, Option<String>),
    order: (u64, Option<String>),
    points: (u64, Option<String>),
    ended: (u64, Option<String>),
}

fn hold(law: &mut (u64, Option<String>), holds: bool, what: impl FnOnce() -> String) {
    law.0 += 1;
    if !holds {
        law.1.get_or_insert_with(what);
    }
}

impl<'a> Seen<'a> {
    pub(super) fn new(
        run: &'a Run,
        name: &str,
        linear: Option<Linear>,
        reads_ledger: bool,
        per_window: u64,
        across: &'a mut Across,
    ) -> Self {
        let lengths = Layout::new(&run.grad).lengths().to_vec();
        let dim: usize = lengths.iter().sum();
        let (slack, tail_slack) = match run.terms.sigma_grid {
            // What a float of 24 bits rounds.
            Some(sigma) => (1e-6, 1.0 / f64::from(sigma)),
            // Sums and noise round, and no draw exceeds 6.67 deviations.
            None => (2e-4, 2e-5),
        };
        Self {
            run,
            name: name.into(),
            linear,
            ledger: PathBuf::new(),
            across,
            reads_ledger,
            batch: f64::from(run.config.batch_size),
            slack,
            tail_slack,
            sum: vec![],
            clip: 0.0,
            deviation: 0.0,
            counts: vec![],
            query: Query::None,
            samples: vec![],
            number: 0,
            steps: 0,
            first: 0,
            noise: vec![],
            previous: vec![],
            all: Moments::default(),
            by_coordinate: vec![Moments::default(); if dim <= MOST_COORDINATES { dim } else { 0 }],
            by_layer: vec![Moments::default(); lengths.len()],
            by_place: vec![Moments::default(); if dim > MOST_COORDINATES { PLACES } else { 0 }],
            by_step: vec![],
            by_count: vec![],
            window: Moments::default(),
            per_window,
            by_part: dim <= MOST_COORDINATES && run.terms.noise_schedule != AnyNoise::Schedule(NoiseSchedule::Constant),
            neighbours: [Products::default(); 3],
            in_turn: [Products::default(); 2],
            with_counts: Products::default(),
            drawn: vec![0; run.data.train.len()],
            both: [(0, 0); 3],
            drawn_before: vec![],
            learned: None,
            coins: [[[0; 3]; PAIRED]; PAIRED],
            laws: Laws::default(),
            layout: lengths,
        }
    }

    /// The deviation of the noise that the price assumes of step `number`, in clips.
    fn assumed(&self, number: u32) -> f64 {
        let factor = self.run.terms.noise_schedule.factor(number, &self.run.terms.learning_rate);
        match self.run.terms.sigma_grid {
            Some(sigma) => (f64::from(sigma) * factor).ceil() / f64::from(1u32 << self.run.config.grid_bits),
            None => self.run.terms.multiplier * factor,
        }
    }

    /// What a unit of the released mean is worth, as a float.
    fn unit(&self) -> f64 {
        match self.run.config.noise {
            Noise::Discrete => {
                let units = (1u32 << self.run.config.grid_bits) as f32;
                f64::from(self.clip / units / self.run.config.batch_size as f32)
            }
            Noise::Continuous => 1.0 / self.batch,
        }
    }

    /// Clips in a unit of the sum.
    fn clips(&self) -> f64 {
        match self.run.config.noise {
            Noise::Discrete => 1.0 / f64::from(1u32 << self.run.config.grid_bits),
            Noise::Continuous => 1.0 / f64::from(self.clip),
        }
    }

    /// Holds the sum and the counts against those of the known gradients.
    fn recount(&mut self, linear: Linear, points: &[Point]) {
        let split: &Split = &self.run.data.train;
        let half = linear.dim() / 2;
        let (mut expected, mut off, mut taken) = (vec![0.0f64; half], 0.0f64, 0i64);
        let mut counts = vec![0i64; self.query.len()];
        let mut doubtful = 0i64;
        let clip = f64::from(self.clip);
        let grain = match self.run.config.noise {
            Noise::Discrete => 2.0 * self.clips(),
            Noise::Continuous => 1e-6,
        };
        for sample in &self.samples {
            let Some(gradient) = linear.gradient(split, *sample as usize, points) else {
                if let Query::Histogram { bins, .. } = self.query
                    && self.run.config.method.count_non_finite
                    && !split.is_null(*sample as usize)
                {
                    counts[bins as usize - 1] += 1;
                }
                continue;
            };
            taken += 1;
            let divisor = match self.run.config.method.clipping {
                Clipping::Flat => gradient.norm.max(clip),
                // Two layers of equal gradients and equal shares.
                Clipping::PerLayer => gradient.norm.max(clip),
                Clipping::Automatic { stability } => gradient.norm + f64::from(stability),
            };
            expected.iter_mut().zip(&gradient.half).for_each(|(sum, g)| *sum += g / divisor);
            let dims = (linear.dim() as f64).sqrt();
            off += grain + gradient.off * (1.0 + dims) / divisor + 2e-5;
            let norm = gradient.norm;
            let doubt = gradient.off * dims + norm * 1e-5;
            let (index, step, edge) = match self.query {
                Query::None => continue,
                Query::Histogram { bins, range } => {
                    let at = norm * f64::from(bins) / f64::from(range);
                    let bin = (at.floor().max(0.0) as usize).min(bins as usize - 1);
                    let doubt = doubt * f64::from(bins) / f64::from(range);
                    let lower = bin > 0 && at - bin as f64 <= doubt;
                    let upper = bin + 1 < bins as usize && (bin + 1) as f64 - at <= doubt;
                    (bin, 1, lower || upper)
                }
                Query::Above { norm: bound } => {
                    let bound = f64::from(bound);
                    (0, if norm > bound { 1 } else { -1 }, (norm - bound).abs() <= doubt)
                }
            };
            counts[index] += step;
            doubtful += i64::from(edge);
        }
        let clips = self.clips();
        let apart = self
            .sum
            .iter()
            .enumerate()
            .map(|(at, sum)| (at, (sum * clips - expected[at % half]).abs()))
            .max_by(|(_, a), (_, b)| a.total_cmp(b));
        if let Some((at, apart)) = apart {
            let (number, samples) = (self.number, self.samples.len());
            let holds = apart <= off && !apart.is_nan();
            hold(&mut self.laws.sums, holds, || {
                format!(
                    "step {number}, coordinate {at}: the sum of {samples} drawn samples is off by {apart:.6} clips, where {off:.6} are rounding"
                )
            });
        }
        if !self.query.is_empty() {
            let apart: i64 = counts.iter().zip(&self.counts).map(|(a, b)| (a - i64::from(*b)).abs()).sum();
            let number = self.number;
            hold(&mut self.laws.counts, apart <= 2 * doubtful, || {
                format!(
                    "step {number}: counts of {taken} samples are off by {apart}, of which {} may be rounding",
                    2 * doubtful
                )
            });
        }
    }

    /// Counts the pairs of samples that were both drawn. No sample is in two pairs of a kind.
    fn pair_draws(&mut self, steps: u32) {
        let count = self.drawn.len() as u64;
        let drew = |samples: &[u32], sample: u32| samples.binary_search(&sample).is_ok();
        for ((pairs, both), distance) in self.both.iter_mut().zip([1u32, 1024]) {
            let whole = count / (2 * u64::from(distance)) * u64::from(distance);
            let rest = (count % (2 * u64::from(distance))).saturating_sub(u64::from(distance));
            *pairs += whole + rest;
            let firsts = self.samples.iter().filter(|sample| (**sample / distance).is_multiple_of(2));
            *both += firsts.filter(|sample| drew(&self.samples, **sample + distance)).count() as u64;
        }
        if steps % 2 == 1 {
            self.both[2].0 += count;
            self.both[2].1 += self.samples.iter().filter(|sample| drew(&self.drawn_before, **sample)).count() as u64;
        }
        self.drawn_before.clone_from(&self.samples);
    }

    /// Notes the noise of one step.
    fn note(&mut self) {
        let dim = self.noise.len();
        let mut of_step = Moments::default();
        let mut from = 0;
        for (layer, length) in self.by_layer.iter_mut().zip(&self.layout) {
            self.noise[from..from + length].iter().for_each(|z| layer.add(*z));
            from += length;
        }
        for (at, z) in self.noise.iter().enumerate() {
            of_step.add(*z);
            if let Some(moments) = self.by_coordinate.get_mut(at) {
                moments.add(*z);
            }
            if !self.by_place.is_empty() {
                self.by_place[at % PLACES].add(*z);
            }
        }
        self.all.merge(&of_step);
        for pair in self.noise.chunks_exact(2) {
            self.neighbours[0].add(pair[0], pair[1]);
        }
        for (products, distance) in self.neighbours[1..].iter_mut().zip([64, 1024]) {
            for blocks in self.noise.chunks_exact(2 * distance) {
                let (a, b) = blocks.split_at(distance);
                a.iter().zip(b).for_each(|(a, b)| products.add(*a, *b));
            }
        }
        if self.previous.len() == dim {
            let products = &mut self.in_turn[self.steps as usize % 2];
            self.previous.iter().zip(&self.noise).for_each(|(a, b)| products.add(*a, *b));
        }
        self.across.step(&self.name, self.number, &self.noise);
        if dim as u64 >= self.per_window {
            self.by_step.push(of_step);
        } else if self.by_part {
            // Windows of consecutive steps would mix the end of a run with the start of the next.
            let part = (u64::from(self.number) * PARTS / u64::from(self.run.terms.steps.max(1))) as usize;
            self.by_step.resize_with(self.by_step.len().max(part + 1), Moments::default);
            self.by_step[part].merge(&of_step);
        } else {
            self.window.merge(&of_step);
            if self.window.count >= self.per_window {
                self.by_step.push(std::mem::take(&mut self.window));
            }
        }
        for (sample, row) in self.coins.iter_mut().enumerate() {
            if self.samples.binary_search(&(sample as u32)).is_ok() {
                for (cell, z) in row.iter_mut().zip(&self.noise) {
                    cell[0] += 1;
                    cell[1] += u64::from(*z < 0.0);
                    cell[2] += u64::from(z.abs().fract() < 0.5);
                }
            }
        }
        std::mem::swap(&mut self.previous, &mut self.noise);
    }

    /// A run ended, and the next begins, with a ledger there.
    pub(super) fn again(&mut self, checkpoint: &Path) {
        self.ledger = checkpoint.join(LEDGER);
        self.first = self.steps;
        self.learned = None;
        self.previous.clear();
        self.drawn_before.clear();
    }

    /// What a run says of itself at its end.
    pub(super) fn ended(&mut self, recorded: &Recorded, paid: u32) {
        let steps = self.steps - self.first;
        hold(&mut self.laws.ended, recorded.steps() == u64::from(steps) && paid == steps, || {
            format!("{steps} releases, {} recorded, {paid} in the ledger", recorded.steps())
        });
    }

    /// The tests and laws of the course.
    pub(super) fn conclude(self, tests: &mut Tests) {
        let name = &self.name;
        let of = |what: &str| format!("{name}: {what}");
        let slack = self.slack;
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
        };
        deviation("deviation of the noise, all of it", &self.all, format!("{} steps", self.steps));
        let (what, one) = match (self.by_step.len() == self.steps as usize, self.by_part) {
            (true, _) => ("deviation of the noise, each step", "step"),
            (_, true) => ("deviation of the noise, each part of the schedule", "part"),
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
        for (at, (moments, spec)) in self.by_layer.iter().zip(&self.run.grad.parameters).enumerate() {
            deviation("deviation of the noise, each tensor", moments, format!("tensor {at}, {}", spec.name));
        }
        for (at, moments) in self.by_count.iter().enumerate() {
            deviation("deviation of the noise, each count", moments, format!("count {at}"));
        }
        for (p, bound) in self.all.of_tails(self.tail_slack).into_iter().zip(1..) {
            tests
                .test(&of("noise far out, as of a normal"), self.all.count, p, || format!("beyond {bound} deviations"));
        }
        for (products, distance) in self.neighbours.iter().zip([1, 64, 1024]) {
            tests.test(&of("noise of other coordinates is uncorrelated"), products.count, products.p(), || {
                format!("at a distance of {distance}: correlation {:.5}", products.correlation())
            });
        }
        for products in &self.in_turn {
            tests.test(&of("noise of consecutive steps is uncorrelated"), products.count, products.p(), || {
                format!("correlation {:.5}", products.correlation())
            });
        }
        if self.with_counts.count > 0 {
            tests.test(
                &of("noise of counts and gradients is uncorrelated"),
                self.with_counts.count,
                self.with_counts.p(),
                || format!("correlation {:.5}", self.with_counts.correlation()),
            );
        }
        /// `P[frac |z| < 1/2]` of a normal.
        const HALVES: f64 = 0.601_993_55;
        for (sample, row) in self.coins.iter().enumerate().take(self.drawn.len()) {
            for (at, [drawn, negative, low]) in row.iter().enumerate() {
                let near = self.tail_slack + 1e-5;
                let signs = binomial_between(*negative, *drawn, 0.5 - near, 0.5 + near);
                let halves = binomial_between(*low, *drawn, HALVES - near, HALVES + near);
                tests.test(&of("coins say nothing of noise"), *drawn, (signs.min(halves) * 2.0).min(1.0), || {
                    format!(
                        "sample {sample}, coordinate {at}: {negative} of {drawn} draws below 0, {low} in a lower half"
                    )
                });
            }
        }

        let rate = self.run.terms.rate.as_f64();
        let steps = u64::from(self.steps);
        for (sample, drawn) in self.drawn.iter().enumerate() {
            tests.test(&of("draws of each sample, at the priced rate"), steps, binomial(*drawn, steps, rate), || {
                format!("sample {sample}: drawn {drawn} times in {steps} steps, at a rate of {rate:.6}")
            });
        }
        let mut group = |what: &str, of_group: &dyn Fn(usize) -> bool| {
            let members = (0..self.drawn.len()).filter(|sample| of_group(*sample));
            let (count, drawn) = members.fold((0u64, 0u64), |(n, k), sample| (n + 1, k + self.drawn[sample]));
            tests.test(
                &of("draws of groups of samples, at the priced rate"),
                count * steps,
                binomial(drawn, count * steps, rate),
                || format!("{what}: {drawn} draws in {steps} steps of {count} samples, at a rate of {rate:.6}"),
            );
        };
        group("all samples", &|_| true);
        if self.drawn.len() >= 64 {
            let tenth = self.drawn.len() / 10;
            group("the first tenth", &|sample| sample < tenth);
            group("the last tenth", &|sample| sample >= self.drawn.len() - tenth);
            group("even samples", &|sample| sample % 2 == 0);
            if let Some(linear) = self.linear {
                for class in 0..linear.classes.min(8) {
                    group(&format!("label {class}"), &|sample| sample % linear.classes == class);
                }
            }
        }

        for ((pairs, both), what) in
            self.both.into_iter().zip(["neighbours", "samples a chunk apart", "consecutive steps"])
        {
            tests.test(&of("draws are independent"), pairs, binomial(both, pairs, rate * rate), || {
                format!("{what}: both drawn {both} times of {pairs}, at a rate of {rate:.6}")
            });
        }

        let Laws { grid, scale, price, threshold, sums, counts, released_counts, paid, order, points, ended } =
            self.laws;
        for (what, (comparisons, broken)) in [
            ("the divisor and the clip: released means are whole grid units", grid),
            ("the noise that optimizers are told of", scale),
            ("the event of each step is the one that is planned", price),
            ("the clip is that learned from released counts", threshold),
            ("sums are those of known gradients, each drawn sample once", sums),
            ("counts are those of known gradients", counts),
            ("released counts are whole units, as many as were asked for", released_counts),
            ("each step is paid in the ledger's file before its release", paid),
            ("steps follow one another", order),
            ("as many events are recorded and paid as steps were released", ended),
            ("points have the parameters' length", points),
        ] {
            if comparisons > 0 {
                tests.law(&of(what), comparisons, broken);
            }
        }
    }
}

/// The steps that a ledger's file says are paid.
fn paid(file: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    serde_json::from_str::<serde_json::Value>(&text).ok()?["ledger"]["paid"].as_u64()
}

impl Observer for Seen<'_> {
    fn summed(&mut self, step: Summed<'_>) {
        self.sum = match step.sum {
            Sum::Grid(words) => words.into_iter().map(|word| word as f64).collect(),
            Sum::Floats(words) => words.into_iter().map(f64::from).collect(),
        };
        (self.clip, self.number, self.query) = (step.clip, step.number, step.query);
        self.counts = step.counts[..step.query.len()].to_vec();
        self.samples = step.samples.to_vec();
        self.deviation = self.assumed(step.number);
        let (number, steps) = (step.number, self.steps - self.first);
        hold(&mut self.laws.order, number == steps, || format!("step {number} comes as number {steps}"));
        let dim = self.sum.len();
        let holds = step.points.iter().all(|point| point.params.len() == dim);
        hold(&mut self.laws.points, holds, || format!("step {number}"));
        let mut precision = self.deviation.powi(-2);
        if let Some(noise) = self.run.terms.count_noise {
            precision += noise.multiplier().powi(-2);
        }
        let planned = precision.powf(-0.5);
        let told = step.event.multiplier();
        // Prices round down.
        let holds = (told / planned - 1.0).abs() < 1e-6 && step.event.rate() == self.run.terms.rate;
        hold(&mut self.laws.price, holds, || {
            format!("step {number}: a multiplier of {told}, where {planned} was planned")
        });
        if let Some(learned) = self.learned {
            let clip = step.clip;
            hold(&mut self.laws.threshold, clip.to_bits() == learned.to_bits(), || {
                format!("step {number}: a clip of {clip:e}, where the released counts give {learned:e}")
            });
        }
        for sample in step.samples {
            if let Some(drawn) = self.drawn.get_mut(*sample as usize) {
                *drawn += 1;
            }
        }
        self.pair_draws(steps);
        if self.reads_ledger || steps.is_multiple_of(4096) {
            let said = paid(&self.ledger);
            hold(&mut self.laws.paid, said.is_some_and(|paid| paid > u64::from(number)), || {
                format!("step {number} is about to be released, and the ledger's file says {said:?} are paid")
            });
        }
        if let Some(linear) = self.linear.filter(|linear| linear.dim() <= MOST_COORDINATES) {
            self.recount(linear, step.points);
        }
    }

    fn given(&mut self, given: Given<'_>) {
        let unit = self.unit();
        let clips = self.clips();
        let scale = clips / self.deviation;
        let number = self.number;
        self.noise.clear();
        let mut off = None;
        for (at, (released, sum)) in given.grad.iter().zip(&self.sum).enumerate() {
            let units = f64::from(*released) / unit;
            // Of few units a float is exact to a tenth.
            if units.abs() < 1e6 && (units - units.round()).abs() > 0.13 {
                off = Some((at, units));
            }
            self.noise.push((units - sum) * scale);
        }
        if self.run.config.noise == Noise::Discrete {
            hold(&mut self.laws.grid, off.is_none(), || {
                let (at, units) = off.unwrap_or_default();
                format!("step {number}, coordinate {at}: {units:.3} grid units")
            });
        }
        let (told, planned) = (given.noise_std, self.deviation * f64::from(self.clip) / self.batch);
        hold(&mut self.laws.scale, (told / planned - 1.0).abs() < 1e-6, || {
            format!("step {number}: told {told:e}, and {planned:e} was planned")
        });
        if let Some(noise) = self.run.terms.count_noise {
            let mut whole = given.counts.len() == self.query.len();
            self.by_count.resize_with(self.by_count.len().max(given.counts.len()), Moments::default);
            for (at, (released, count)) in given.counts.iter().zip(&self.counts).enumerate() {
                let units = released * f64::from(UNIT);
                whole &= units.fract() == 0.0;
                let z = (units - f64::from(*count) * f64::from(UNIT)) / (noise.multiplier() * f64::from(UNIT));
                self.by_count[at].add(z);
                if let Some(of_gradient) = self.noise.get(at) {
                    self.with_counts.add(z, *of_gradient);
                }
            }
            hold(&mut self.laws.released_counts, whole, || format!("step {number}: {:?}", given.counts));
        }
        let (next, learned) = (given.next_clip, given.learned_clip);
        hold(&mut self.laws.threshold, next.to_bits() == learned.to_bits(), || {
            format!("after step {number}: a clip of {next:e}, where the released counts give {learned:e}")
        });
        self.learned = Some(learned);
        self.note();
        self.steps += 1;
    }
}
