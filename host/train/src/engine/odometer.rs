//! ε of a run's first steps, for progress and evaluations.
//!
//! Each value is the privacy cost of those steps alone by the run's accountant, with the releases from held-out rows
//! after them. The accountant's rounding may make a longer prefix a thousandth cheaper than a shorter prefix. So the
//! odometer returns the largest value so far.

use crate::plan::held_out::steps_between;
use crate::{PrivateMetrics, Run};
use damper_accounting::{AccountingError, Spent};
use damper_budget::evaluations_until;
use damper_core::accounting::SampledGaussian;

/// Privacy odometer of a run.
pub(crate) struct Odometer {
    spent: Spent,
    /// Releases from held-out rows, and the event of each.
    evaluations: Option<(Spent, SampledGaussian)>,
    evaluate_every: Option<u32>,
    steps: u32,
    /// Number of counted steps.
    done: u32,
    /// ε of the whole run.
    whole: f64,
    /// The largest ε returned so far.
    largest: f64,
}

impl Odometer {
    /// Creates an odometer without counted steps.
    pub(crate) fn new(run: &Run) -> Result<Self, AccountingError> {
        let plan = run.price.plan.as_ref().ok_or(AccountingError::NotPrivate)?;
        let spent = plan.spent(run.config.accountant, run.price.plan_delta)?;
        let of_plan = |metrics: &PrivateMetrics| {
            metrics.event().map(|event| -> Result<_, AccountingError> {
                Ok((metrics.plan.spent(run.config.accountant, run.config.delta)?, event))
            })
        };
        let evaluations = run.price.private_metrics.as_ref().and_then(of_plan).transpose()?;
        let evaluate_every = steps_between(&run.config, run.price.terms.rate);
        Ok(Self {
            spent,
            evaluations,
            evaluate_every,
            steps: run.price.terms.steps,
            done: 0,
            whole: run.price.epsilon,
            largest: 0.0,
        })
    }

    /// Counts the next step, with the event that starts there, if any.
    pub(crate) fn count(&mut self, event: Option<SampledGaussian>) {
        self.done += 1;
        event.iter().for_each(|event| self.spent.count(event));
    }

    /// Counts a release from held-out rows.
    pub(crate) fn count_evaluation(&mut self) {
        if let Some((evaluations, event)) = &mut self.evaluations {
            evaluations.count(event);
        }
    }

    /// Returns the releases from held-out rows, with their numbers of repetitions.
    pub(crate) fn evaluations(&self) -> &[(SampledGaussian, u64)] {
        self.evaluations.as_ref().map_or(&[], |(spent, _)| spent.events())
    }

    /// Returns the counted events, with their numbers of repetitions.
    pub(crate) fn events(&self) -> &[(SampledGaussian, u64)] {
        self.spent.events()
    }

    /// Returns ε of the first `first` steps, or of the counted steps if they are more, with the evaluations after them.
    ///
    /// `event` returns the event of a later step. ε is infinite if it fails.
    pub(crate) fn of_first<E>(&mut self, first: u32, event: impl Fn(u32) -> Result<Option<SampledGaussian>, E>) -> f64 {
        if first >= self.steps {
            return self.whole;
        }
        let mut spent = self.spent.clone();
        for at in self.done..first {
            match event(at) {
                Ok(event) => event.iter().for_each(|event| spent.count(event)),
                Err(_) => return f64::INFINITY,
            }
        }
        let of_held_out = self.evaluated(first.max(self.done)).map_or(0.0, |spent| spent.least_epsilon());
        self.largest = spent.least_epsilon().max(of_held_out).min(self.whole).max(self.largest);
        self.largest
    }
    /// Returns the releases from held-out rows, including those after step `first`.
    fn evaluated(&self, first: u32) -> Option<Spent> {
        let (mut spent, event) = self.evaluations.clone()?;
        let counted: u64 = spent.events().iter().map(|(_, times)| times).sum();
        let all = evaluations_until(first, self.steps, self.evaluate_every);
        (counted..u64::from(all)).for_each(|_| spent.count(&event));
        Some(spent)
    }
}
