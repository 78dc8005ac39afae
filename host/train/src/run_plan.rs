//! The plan of a run: everything that its privacy cost follows from, written to disk before the first step is charged.
//!
//! The ledger counts paid steps. The plan says what each step costs. Together they give ε of a run that was killed or failed.

use super::held_out::{evaluations_until, steps_between};
use super::sampler::steps_per_event;
use super::{EXACT, NOT_PRIVATE, Noise, PrivateMetrics, Run, Terms, TrainConfig, TrainError};
use crate::before_steps::BeforeSteps;
use crate::files::{Access, write};
use damper_accounting::{CorrelatedRun, Recorded, RecordedEvent};
use damper_core::accounting::Event;
use damper_core::grid::Grid;
use damper_core::noise::{ContinuousGaussian, DiscreteGaussian};
use damper_core::private::Mechanism;
use damper_core::schedule::{Declared, Schedule};
use damper_files::sealed;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The plan's file in the private folder `checkpoint`.
pub const PLAN: &str = "plan.json";

/// The plan of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunPlan {
    /// `private`, `simulation` if the seed is known, or `not private`.
    pub run: String,
    /// `exact`, `float`, or `float, clipped by the backend`.
    pub path: String,
    /// Number of steps.
    pub steps: u32,
    /// Steps of one event: 1, or those of an epoch or of a cycle of groups, or all with correlated noise in a fixed order.
    pub steps_per_event: u32,
    /// Steps from one evaluation to the next, where some come before the last step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluate_every: Option<u32>,
    /// The events of all steps, in order.
    pub events: Recorded,
}

impl RunPlan {
    /// The plan of `run`.
    ///
    /// # Errors
    ///
    /// The noise or a rate is outside its range.
    pub fn new(run: &Run) -> Result<Self, TrainError> {
        Self::of(&run.config, run.data.train.len() as u64, &run.terms, run.private_metrics.as_ref())
    }

    /// The plan of a run on `samples` samples, with these noisy releases from held-out rows.
    pub(super) fn of(
        config: &TrainConfig,
        samples: u64,
        terms: &Terms,
        held_out: Option<&PrivateMetrics>,
    ) -> Result<Self, TrainError> {
        let steps_per_event = steps_per_event(config, samples, terms.steps);
        let BeforeSteps { normalize, non_finite } = BeforeSteps::of(config)?;
        let events = match (config.noise, terms.sigma_grid) {
            _ if config.is_not_private() => Ok(vec![]),
            _ if terms.correlated.is_some() => {
                Ok(terms.correlated.iter().map(CorrelatedRun::event).collect::<Result<_, _>>()?)
            }
            (Noise::Discrete, Some(sigma)) => {
                let mechanism = DiscreteGaussian::<i64>::new(Grid::new(config.grid_bits)?, sigma)?;
                events(terms, steps_per_event, mechanism)
            }
            _ => events(terms, steps_per_event, ContinuousGaussian::new(terms.multiplier)?),
        }?;
        Ok(Self {
            run: config.kind().to_string(),
            path: config.path().into(),
            steps: terms.steps,
            steps_per_event,
            evaluate_every: steps_between(config, terms.rate),
            events: Recorded {
                run: Some(config.kind()),
                held_out: held_out
                    .map(|metrics| metrics.plan.events().iter().map(RecordedEvent::new).collect())
                    .unwrap_or_default(),
                normalize: normalize.map(|event| RecordedEvent::new(&(event, 1))),
                non_finite: non_finite.map(|event| RecordedEvent::new(&(event, 1))),
                sampler: config.sampler,
                steps: (!config.sampler.has_event_each_step()).then_some(u64::from(terms.steps)),
                correlation: terms.correlated.as_ref().map(Into::into),
                truncation: terms.truncation,
                ..Recorded::new(config.accountant, config.delta, &events)
            },
        })
    }

    /// The events of the first `paid` steps, and the releases before them, even if no step is paid. A part of an event counts as an event: with
    /// correlated noise in a fixed order, the first step pays for the whole run. Releases from held-out rows come after the step that
    /// they evaluate, so those of the paid steps count.
    #[must_use]
    pub fn paid(&self, paid: u32) -> Recorded {
        if self.events.search.is_some() && paid > 0 {
            // A search is charged as a whole before its first candidate: how many of them there were is secret.
            return self.events.clone();
        }
        let paid = paid.min(self.steps);
        let first = self.events.first(u64::from(paid.div_ceil(self.steps_per_event.max(1))));
        let evaluated = evaluations_until(paid, self.steps, self.evaluate_every);
        let held_out = Recorded { events: first.held_out.clone(), ..first.clone() }.first(u64::from(evaluated)).events;
        Recorded { steps: self.events.steps.map(|_| u64::from(paid)), held_out, ..first }
    }

    /// Returns true if ε is of the mechanism that runs, bit for bit, with noise that nobody knows.
    #[must_use]
    pub fn is_guaranteed(&self) -> bool {
        self.run == "private" && self.path == EXACT
    }

    /// Returns true if the run neither clips nor adds noise. Its plan has no events, and no ledger counts its steps.
    #[must_use]
    pub fn is_not_private(&self) -> bool {
        self.run == NOT_PRIVATE
    }

    /// SHA-256 of the plan, in hexadecimal. The ledger holds it too.
    #[must_use]
    pub fn digest(&self) -> String {
        sealed::digest(self)
    }

    /// The file's content: the plan and its digest.
    #[must_use]
    pub fn to_json(&self) -> String {
        sealed::line("plan", "", self).0
    }

    /// Reads the file's content. The error says what is damaged.
    ///
    /// # Errors
    ///
    /// The content is no plan, or its digest or its numbers of steps do not match.
    pub fn from_json(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            plan: RunPlan,
            sha256: String,
        }
        let File { plan, sha256 } = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if plan.digest() != sha256 {
            return Err("its digest does not match".into());
        }
        let events = match plan.is_not_private() {
            true => 0,
            false => u64::from(plan.steps.div_ceil(plan.steps_per_event.max(1))),
        };
        if plan.steps == 0 || plan.steps_per_event == 0 || plan.events.events() != events {
            return Err("its numbers of steps do not match".into());
        }
        Ok(plan)
    }

    /// Writes the plan into `checkpoint`. When it returns, the file survives a power cut.
    ///
    /// # Errors
    ///
    /// The disk is full or fails.
    pub fn write(&self, checkpoint: &Path) -> Result<(), TrainError> {
        Ok(write(&checkpoint.join(PLAN), self.to_json().as_bytes(), Access::Private)?)
    }
}

/// Each event and how often it comes in a row, in the order of the steps.
fn events<M: Mechanism>(terms: &Terms, steps_per_event: u32, mechanism: M) -> Result<Vec<(Event, u64)>, TrainError> {
    let schedule = Declared { learning_rate: terms.learning_rate, noise: terms.noise_schedule };
    let of_step = |step| {
        let event = Event::new(terms.event_rate, mechanism.scaled(schedule.noise_factor(step)).multiplier())?;
        terms.count_noise.map_or(Ok(event), |counts| event.and(counts.multiplier()))
    };
    let mut events: Vec<(Event, u64)> = Vec::new();
    let mut step = 0;
    while step < terms.steps {
        let end = terms.steps.min(step.saturating_add(steps_per_event));
        // The steps of an epoch count as the one with the least noise.
        let mut least: Event = of_step(step)?;
        for step in step + 1..end {
            let event = of_step(step)?;
            if event.multiplier() < least.multiplier() {
                least = event;
            }
        }
        match events.last_mut() {
            Some((last, times)) if *last == least => *times += 1,
            _ => events.push((least, 1)),
        }
        step = end;
    }
    Ok(events)
}
