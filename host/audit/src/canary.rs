//! Auditing in one training run. After Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run"
//! (2023).
//!
//! The audit trains once with canaries. A fair Bernoulli trial decides for each canary if it is in the data. The audit
//! guesses the outcomes from what is released, and turns correct guesses into a lower bound on ε.
//!
//! A canary is one additional sample, with its own slot after the samples of the data. At every step its own Poisson
//! trial decides if it is drawn. The core clips and sums it like any other sample. The adversary of differential
//! privacy has all other data. So the audit subtracts from each release what the samples of the data added: their draws
//! and gradients are not secret here. The rest is the canaries and the noise.
//!
//! | canaries | what a canary adds | its score |
//! | --- | --- | --- |
//! | `dirac` | a coordinate of its own, as long as the clip | the likelihood ratio of the released gradients there |
//! | `random` | a direction of signs, as long as the clip | the likelihood ratio of the released gradients along it |
//!
//! The adversary sees every released gradient. It guesses that the most likely canaries are in the data and that the
//! least likely canaries are out. The number of guesses is fixed in advance. The audit makes no guess for the other
//! canaries. [`bound`](super::bound) has the theorem.
//!
//! The trained model is not a result, because it has seen synthetic samples. It is stored on request only. Its name and
//! a mark in the file identify it, and every command of damper rejects it as a model.

mod made;

pub use made::Canaries;

use super::bound::{MOST_GUESSES, lower_bound};
use super::sum_probe::{Account, Driven, Order};
use super::{Claim, VERSION, check_rules, check_sampler};
use damper_onnx::SettingError;
use damper_runtime::open;
use damper_train::inside::generator::{self, RunGenerator};
use damper_train::inside::step_loop::{self, Draw, StepLoop, StepSum};
use damper_train::inside::trained::Trained;
use damper_train::inside::worker::Accumulate;
use damper_train::{Run, TrainError};
use made::{Directions, coins};
use serde::Serialize;
use std::fmt;

/// Smallest number of canaries.
pub const LEAST_CANARIES: u32 = 1000;

/// Options of the audit. All are fixed before training.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CanaryOptions {
    /// Kind of the canaries.
    pub canaries: Canaries,
    /// Number of canaries, at least [`LEAST_CANARIES`].
    pub count: u32,
    /// Number of guesses, an even number: half of them in and half out. Default: [`CanaryOptions::usual_guesses`].
    pub guesses: Option<u32>,
    /// Probability that the bound is right: at least one half, and below 1.
    pub confidence: f64,
    /// Seed of all randomness. If absent, the key comes from the operating system.
    pub seed: Option<u64>,
}

impl CanaryOptions {
    /// Returns the default number of guesses: two in five canaries, the most certain fifth on each side.
    #[must_use]
    pub fn usual_guesses(count: u32) -> u32 {
        count / 5 * 2
    }

    /// Checks the options against the theorem and the run. Returns the number of guesses.
    ///
    /// # Errors
    ///
    /// An option is outside its range.
    pub fn check(&self, run: &Run) -> Result<u32, TrainError> {
        let Self { canaries, count, confidence, .. } = *self;
        if count < LEAST_CANARIES {
            let problem = format!("too few canaries; use {LEAST_CANARIES} or more");
            return Err(SettingError::new("num_canaries", count, problem).into());
        }
        let guesses = self.guesses.unwrap_or(Self::usual_guesses(count));
        if guesses == 0 || guesses % 2 == 1 || guesses > count.min(MOST_GUESSES) {
            let problem = format!(
                "must be even, above 0 and at most {}: half of them are guessed in, half out",
                count.min(MOST_GUESSES)
            );
            return Err(SettingError::new("num_guesses", guesses, problem).into());
        }
        if !(0.5..1.0).contains(&confidence) {
            let problem = "must be from 0.5 to below 1; 0.999 is usual";
            return Err(SettingError::new("confidence", confidence, problem).into());
        }
        let (dim, split) = (run.model.params.len(), &run.data.train);
        match canaries {
            Canaries::Dirac if count as usize > dim => {
                let problem =
                    format!("each dirac canary has a coordinate of its own, and here are {dim}; use `canaries` random");
                Err(SettingError::new("num_canaries", count, problem).into())
            }
            _ if split.len() as u64 + u64::from(count) > u64::from(u32::MAX) => {
                Err(SettingError::new("num_canaries", count, "more slots than 2^32; give fewer").into())
            }
            _ => Ok(guesses),
        }
    }
}

/// Record of the audit: `audit-canary.json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CanaryAudit {
    /// Version of this format.
    pub version: u32,
    /// Always `canary`.
    pub audit: &'static str,
    /// True if the lower bound is above the claim.
    pub refuted: bool,
    /// Lower bound on ε with the stated confidence, rounded down.
    pub epsilon_lower: f64,
    /// Probability that such a bound is right.
    pub confidence: f64,
    /// Claim of the audited run.
    pub claim: Claim,
    /// Kind of the canaries.
    pub canaries: Canaries,
    /// Number of canaries.
    pub count: u32,
    /// Number of guesses, half in and half out, fixed in advance.
    pub guesses: u32,
    /// Number of correct guesses.
    pub correct: u32,
    /// View of the adversary.
    pub adversary: &'static str,
    /// Source of the bound.
    pub bound: &'static str,
    /// Seed of all randomness, if given.
    pub seed: Option<u64>,
    /// Name and version of the backend.
    pub backend: String,
    /// File of the canary model, if it is stored. It is not a result.
    pub model: Option<String>,
}

impl CanaryAudit {
    /// Returns the confidence in percent, without the rounding error of the product.
    pub fn percent(&self) -> f64 {
        (100.0 * self.confidence * 1e9).round() / 1e9
    }
}

impl fmt::Display for CanaryAudit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "epsilon   at least {:.4} with {} % confidence, claimed at most {} at delta {:e}: {}\nguesses   {} of {} right, of \
             {} canaries; the {} others were not guessed",
            self.epsilon_lower,
            self.percent(),
            damper_accounting::upward(self.claim.epsilon),
            self.claim.delta,
            if self.refuted { "REFUTED" } else { "not refuted" },
            self.correct,
            self.guesses,
            self.count,
            self.count - self.guesses,
        )
    }
}

/// Trains `run` once with canaries, and guesses.
///
/// Returns the record and the parameters of the canary model. `told` is the progress callback.
///
/// # Errors
///
/// An option is out of its range, the backend is absent or fails, or the operating system gives no key.
pub fn canary(
    run: &Run,
    options: CanaryOptions,
    told: &mut dyn FnMut(&str),
) -> Result<(CanaryAudit, Vec<f32>), TrainError> {
    check_rules(run)?;
    check_sampler(&run.config)?;
    let guesses = options.check(run)?;
    let generator = generator::fresh(options.seed)?;
    let backend = open(run.config.backend)?;
    told(&format!("backend: {}", backend.note()));
    let included = coins(&generator, options.count);
    let step_loop = Inserted { run, options, generator: &generator, included: &included, told };
    let (scores, params) = step_loop::go(run, backend.as_ref(), step_loop)?;
    let correct = right(&scores, &included, guesses);
    let claim = Claim::new(run);
    let epsilon_lower = lower_bound(options.count, guesses, correct, claim.delta, options.confidence);
    let audit = CanaryAudit {
        version: VERSION,
        audit: "canary",
        refuted: epsilon_lower > claim.epsilon,
        epsilon_lower,
        confidence: options.confidence,
        claim,
        canaries: options.canaries,
        count: options.count,
        guesses,
        correct,
        adversary: "sees every released gradient, and knows all samples but the canaries",
        bound: "Steinke, Nasr and Jagielski 2023, theorem 5.2",
        seed: options.seed,
        backend: format!("{} {}", backend.name(), backend.version()),
        model: None,
    };
    Ok((audit, params))
}

/// Returns the number of correct guesses. The highest scores are guessed in, the lowest out.
fn right(scores: &[f64], included: &[bool], guesses: u32) -> u32 {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    // The sort is stable: ties keep the canaries' order, which is independent of their trials.
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    let half = guesses as usize / 2;
    let guessed_in = order[..half].iter().filter(|canary| included[**canary]).count();
    let guessed_out = order[order.len() - half..].iter().filter(|canary| !included[**canary]).count();
    (guessed_in + guessed_out) as u32
}

/// Step loop that trains with canaries and scores them.
pub(super) struct Inserted<'a> {
    pub(super) run: &'a Run,
    pub(super) options: CanaryOptions,
    pub(super) generator: &'a RunGenerator,
    pub(super) included: &'a [bool],
    pub(super) told: &'a mut dyn FnMut(&str),
}

impl StepLoop for Inserted<'_> {
    /// A score for each canary, higher if it seems to be in the data, and the parameters.
    type End = (Vec<f64>, Vec<f32>);

    fn go<M, G>(self, mechanism: M, workers: G) -> Result<Self::End, TrainError>
    where
        M: Trained,
        G: Accumulate<M>,
        StepSum: From<Vec<M::Word>>,
    {
        let Self { run, options, generator, included, told } = self;
        let dim = run.model.params.len();
        let layers = step_loop::layers(run);
        let noise = mechanism
            .noise(run.model.params.len(), 0, generator)
            .map_err(|error| TrainError::Run(error.to_string()))?;
        let (step, state) = step_loop::watched_step(run, mechanism, noise, &layers)?;
        let split = &run.data.train;
        let directions = Directions::new(options.canaries, options.count, dim, generator);
        let others = options.count;
        let mut scores = vec![0.0f64; options.count as usize];
        let (mut account, mut beside) = (Account::new(run.price.terms.steps), Account::new(run.price.terms.steps));
        let mut driven = Driven {
            run,
            step: &step,
            state,
            workers,
            params: run.model.params.clone(),
            generator,
            draw: Draw::new(run, generator),
            others,
        };
        let mut buffer = vec![0.0f32; dim];
        let mut tenths = 0;
        for number in 0..run.price.terms.steps {
            let known = driven.sum_probe(split, &mut beside, Order::Drawn, None)?;
            driven.advance(split, &mut account, |opened, draw| {
                let slots = draw.samples.iter().filter_map(|sample| sample.checked_sub(split.len() as u32));
                for canary in slots.filter(|canary| included[*canary as usize]) {
                    directions.write(canary, LONG * opened.clip(), &mut buffer);
                    M::add_each(opened.adding(), &[&[&buffer]]);
                }
            })?;
            if let Some(watch) = &driven.state.optimizer.watch {
                let (released, noise_std) = (&watch.released, &watch.noise_std);
                let batch = f64::from(run.config.batch_size);
                let unit = f64::from(known.clip) / f64::from(1u32 << run.config.grid_bits) / batch;
                let added = |at: usize| match &known.sum {
                    StepSum::Grid(sum) => sum[at] as f64 * unit,
                    StepSum::Floats(sum) => f64::from(sum[at]) / batch,
                };
                let along = directions.along(&|at| (f64::from(released[at]) - added(at)) / noise_std);
                let seen = Seen::new(
                    f64::from(known.clip) / batch / noise_std,
                    run.price.terms.rate.as_f64(),
                    others,
                    &directions,
                );
                for (score, along) in scores.iter_mut().zip(along) {
                    *score += seen.evidence(along);
                }
            }
            let reached = u64::from(number + 1) * 10 / u64::from(run.price.terms.steps);
            if reached > tenths {
                tenths = reached;
                told(&format!("step {}/{}", number + 1, run.price.terms.steps));
            }
        }
        Ok((scores, driven.params))
    }
}

/// Norm of a canary's gradient, in clips. Clipping then shortens it to the clip.
const LONG: f32 = 16.0;

/// Parameters of the observation of a canary at one step.
struct Seen {
    /// The clip, in standard deviations of what hides the canary.
    clip: f64,
    rate: f64,
    /// Standard deviation of what hides the canary, in units of the noise. This is the noise and the other canaries
    /// that lie along its direction.
    hiding: f64,
}

impl Seen {
    fn new(clip: f64, rate: f64, count: u32, directions: &Directions) -> Self {
        let others = f64::from(count) / 2.0 * rate * directions.overlap();
        let hiding = (1.0 + clip * clip * others).sqrt();
        Self { clip: clip / hiding, rate, hiding }
    }

    /// Returns the log-likelihood ratio of `along`, for a canary that is in the data against a canary that is out. A
    /// canary in the data is drawn at the sampling rate.
    ///
    /// `ln(1 − q + q·e^x)`, `x = zc − c²/2`, without overflow.
    fn evidence(&self, along: f64) -> f64 {
        let Self { clip, rate, hiding } = *self;
        let x = clip * (along / hiding) - clip * clip / 2.0;
        if x > 0.0 { x + (rate + (1.0 - rate) * (-x).exp()).ln() } else { (1.0 - rate + rate * x.exp()).ln() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_log_likelihood_ratio() {
        for (clip, rate) in [(0.3, 0.01), (2.0, 0.5), (2.0, 1.0)] {
            let seen = Seen { clip, rate, hiding: 1.0 };
            // Its exponential has mean 1 over the noise of a canary that is out.
            let density = |z: f64| (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
            let points = (-12_000..12_000).map(|i| f64::from(i) / 1000.0);
            let mean: f64 = points.map(|z| seen.evidence(z).exp() * density(z) / 1000.0).sum();
            assert!((mean - 1.0).abs() < 1e-9, "{mean}");
        }
        // Almost no noise.
        let seen = Seen { clip: 1e6, rate: 0.01, hiding: 1.0 };
        assert!(seen.evidence(0.0).abs() < 0.011 && (seen.evidence(1e6) / 5e11 - 1.0).abs() < 1e-9);
    }

    // Guesses are correct if the scores follow the Bernoulli trials.
    #[test]
    fn guesses_match_scores_with_signal() {
        let included = [true, false, true, false, true, false];
        let scores = [5.0, -5.0, 4.0, -4.0, 0.0, 0.1];
        assert_eq!([2, 4, 6].map(|guesses| right(&scores, &included, guesses)), [2, 4, 4]);
        assert_eq!(right(&[0.0; 6], &included, 2), 2);
    }
}
