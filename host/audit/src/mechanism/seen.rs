//! Observations of the steps of a course, compared with the assumptions of the accountant.

mod coins;
mod draws;
mod laws;
mod noise;
mod open;
mod recount;
mod whitened;

use super::across::Across;
use super::made::Linear;
use super::tests_of::Tests;
use damper_accounting::Recorded;
use damper_core::count::UNIT;
use damper_train::inside::observe::{Given, Observer, Summed};
use damper_train::inside::step_loop::StepSum;
use damper_train::{LEDGER, NoiseKind, Run};
use draws::BatchSampler;
use laws::Checks;
pub(super) use noise::Slack;
use noise::{MOST_COORDINATES, SeenNoise};
use open::Open;
pub(super) use open::assumed;
use recount::recount;
use std::path::{Path, PathBuf};
pub(super) use whitened::Whitened;
use whitened::multipliers;

/// Observer of a course.
pub(super) struct Seen<'a> {
    run: &'a Run,
    name: String,
    linear: Option<Linear>,
    ledger: PathBuf,
    across: &'a mut Across,
    /// True if the file of the ledger is read at every step.
    reads_ledger: bool,
    open: Open,
    /// Steps released so far.
    steps: u32,
    /// Steps of the earlier runs.
    first: u32,
    noise: SeenNoise,
    /// Removes the correlation of the noise, if it is correlated.
    whitened: Option<Whitened>,
    draws: BatchSampler,
    /// Clip of the next step, computed from released counts.
    learned: Option<f32>,
    laws: Checks,
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
        Self {
            run,
            name: name.into(),
            linear,
            ledger: PathBuf::new(),
            across,
            reads_ledger,
            open: Open::none(),
            steps: 0,
            first: 0,
            noise: SeenNoise::new(run, per_window),
            whitened: run.price.terms.correlated.as_ref().map(Whitened::new),
            draws: BatchSampler::new(run),
            learned: None,
            laws: Checks::default(),
        }
    }

    /// Starts the next run, with its ledger in `checkpoint`.
    pub(super) fn again(&mut self, checkpoint: &Path) {
        self.ledger = checkpoint.join(LEDGER);
        self.first = self.steps;
        self.learned = None;
        self.noise.again();
        self.whitened.iter_mut().for_each(Whitened::again);
        self.draws.again();
    }

    /// Compares a finished run's record and ledger with the observed releases.
    pub(super) fn ended(&mut self, recorded: &Recorded, paid: u32) {
        let steps = self.steps - self.first;
        self.laws.ended.hold(recorded.steps() == u64::from(steps) && paid == steps, || {
            format!("{steps} releases, {} recorded, {paid} in the ledger", recorded.steps())
        });
    }

    /// Adds the tests and checks of the course.
    pub(super) fn conclude(self, tests: &mut Tests) {
        let Self { run, name, linear, steps, noise, draws, laws, .. } = self;
        noise.conclude(&name, run, steps, tests);
        draws.conclude(&name, linear, run.price.terms.event_rate.as_f64(), u64::from(steps), tests);
        laws.conclude(&name, tests);
    }
}

/// Returns the charged steps in a ledger file.
fn paid(file: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    serde_json::from_str::<serde_json::Value>(&text).ok()?["ledger"]["paid"].as_u64()
}

impl Observer for Seen<'_> {
    fn summed(&mut self, step: Summed<'_>) {
        let Summed { number, event, clip, samples, points, sum, query, counts } = step;
        let terms = &self.run.price.terms;
        self.open = Open {
            number,
            clip,
            deviation: assumed(self.run, number),
            sum: match sum {
                StepSum::Grid(words) => words.into_iter().map(|word| word as f64).collect(),
                StepSum::Floats(words) => words.into_iter().map(f64::from).collect(),
            },
            query,
            counts: counts[..query.len()].to_vec(),
            samples: samples.to_vec(),
        };
        let laws = &mut self.laws;
        let steps = self.steps - self.first;
        laws.order.hold(number == steps, || format!("step {number} comes as number {steps}"));
        let dim = self.open.sum.len();
        let holds = points.iter().all(|point| point.params.len() == dim);
        laws.points.hold(holds, || format!("step {number}"));
        let mut precision = self.open.deviation.powi(-2);
        if let Some(noise) = terms.count_noise {
            precision += noise.multiplier().powi(-2);
        }
        let planned = precision.powf(-0.5);
        let told = event.multiplier();
        // The accountant rounds down.
        let (least, most) = match &terms.correlated {
            None => ((1.0 - 1e-6) * planned, (1.0 + 1e-6) * planned),
            Some(noise) => multipliers(noise, self.open.deviation),
        };
        let holds = told > least && told < most && event.rate() == terms.event_rate;
        laws.price.hold(holds, || format!("step {number}: a multiplier of {told}, where {planned} was planned"));
        if let Some(learned) = self.learned {
            laws.threshold.hold(clip.to_bits() == learned.to_bits(), || {
                format!("step {number}: a clip of {clip:e}, where the released counts give {learned:e}")
            });
        }
        self.draws.add(samples, steps, laws);
        if self.reads_ledger || steps.is_multiple_of(4096) {
            let said = paid(&self.ledger);
            laws.paid.hold(said.is_some_and(|paid| paid > u64::from(number)), || {
                format!("step {number} is about to be released, and the ledger's file says {said:?} are paid")
            });
        }
        if let Some(linear) = self.linear.filter(|linear| linear.dim() <= MOST_COORDINATES) {
            recount(self.run, linear, &self.open, points, laws);
        }
    }

    fn given(&mut self, given: Given<'_>) {
        let Open { number, clip, deviation, .. } = self.open;
        let unit = self.open.unit(self.run);
        let scale = self.open.clips(self.run) / deviation;
        let laws = &mut self.laws;
        let (mut off, mut most) = (None, 0.0f64);
        let in_units = given.grad.iter().zip(&self.open.sum).enumerate().map(|(at, (released, sum))| {
            let units = f64::from(*released) / unit;
            most = most.max(units.abs());
            // A float of few units is exact to a tenth.
            if units.abs() < 1e6 && (units - units.round()).abs() > 0.13 {
                off = Some((at, units));
            }
            (units - sum) * scale
        });
        match &mut self.whitened {
            None => self.noise.set(in_units),
            Some(whitened) => {
                let noise = in_units.collect();
                self.noise.set(whitened.next(noise).into_iter());
            }
        }
        self.noise.rounds(most * scale * self.whitened.as_ref().map_or(1.0, Whitened::weight));
        if self.run.config.noise == NoiseKind::Discrete {
            laws.grid.hold(off.is_none(), || {
                let (at, units) = off.unwrap_or_default();
                format!("step {number}, coordinate {at}: {units:.3} grid units")
            });
        }
        let deviation = deviation * self.whitened.as_ref().map_or(1.0, |whitened| whitened.deviation(number));
        let (told, planned) = (given.noise_std, deviation * f64::from(clip) / f64::from(self.run.config.batch_size));
        laws.scale.hold((told / planned - 1.0).abs() < 1e-6, || {
            format!("step {number}: told {told:e}, and {planned:e} was planned")
        });
        if let Some(noise) = self.run.price.terms.count_noise {
            let mut whole = given.counts.len() == self.open.query.len();
            self.noise.counts(given.counts.len());
            for (at, (released, count)) in given.counts.iter().zip(&self.open.counts).enumerate() {
                let units = released * f64::from(UNIT);
                whole &= units.fract() == 0.0;
                self.noise
                    .count(at, (units - f64::from(*count) * f64::from(UNIT)) / (noise.multiplier() * f64::from(UNIT)));
            }
            laws.released_counts.hold(whole, || format!("step {number}: {:?}", given.counts));
        }
        let (next, learned) = (given.next_clip, given.learned_clip);
        laws.threshold.hold(next.to_bits() == learned.to_bits(), || {
            format!("after step {number}: a clip of {next:e}, where the released counts give {learned:e}")
        });
        self.learned = Some(learned);
        self.across.step(&self.name, number, self.noise.step());
        self.noise.note(number, self.steps, &self.open.samples);
        self.steps += 1;
    }
}
