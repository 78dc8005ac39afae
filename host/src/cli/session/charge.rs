//! Charges of a run against the budget of a data set.

use crate::cli::args::flags::with_flags;
use crate::cli::{Failure, warn};
use damper_budget::{BudgetFile, Reservation, RunPlan};
use damper_report::{paid, planned};
use damper_train::{self as train, InputFiles, Run, TestMetrics, TrainConfig};
use std::path::Path;

/// Charge of a run, if it has a budget.
#[must_use]
pub(in crate::cli) struct Charge(Option<Reservation>);

impl Charge {
    /// Returns the charge of a run without a budget.
    pub(in crate::cli) fn none() -> Self {
        Self(None)
    }

    /// Charges the whole plan of a run with `config` on `samples` samples. No data is read.
    #[allow(clippy::too_many_arguments)] // The arguments are independent.
    pub(in crate::cli) fn begin(
        budget: &Path,
        source: &InputFiles,
        samples: u64,
        tuning: Option<f64>,
        config: TrainConfig,
        command: &str,
        out: &Path,
    ) -> Result<Self, Failure> {
        let plan = train::plan(source, config, samples, tuning)?;
        Ok(Self(Some(BudgetFile::open(budget)?.reserve(command, out, plan)?)))
    }

    /// Charges all of `plan`, if there is a budget.
    pub(in crate::cli) fn of_plan(
        budget: Option<&Path>,
        plan: &RunPlan,
        command: &str,
        out: &Path,
    ) -> Result<Self, Failure> {
        let Some(budget) = budget else { return Ok(Self::none()) };
        Ok(Self(Some(BudgetFile::open(budget)?.reserve(command, out, plan.clone())?)))
    }

    /// Charges the whole plan of the run with this charge, which resumes after a stop.
    pub(in crate::cli) fn again(budget: &Path, number: u64) -> Result<Self, Failure> {
        Ok(Self(Some(BudgetFile::open(budget)?.reserve_again(number)?)))
    }

    /// Returns its number in the budget, if it has one.
    pub(in crate::cli) fn number(&self) -> Option<u64> {
        self.0.as_ref().map(Reservation::number)
    }

    /// Fails if the run has another plan than the charged plan.
    pub(in crate::cli) fn check(&self, run: &Run) -> Result<(), Failure> {
        let Some(reservation) = &self.0 else { return Ok(()) };
        if run.run_plan()? == *reservation.plan() {
            return Ok(());
        }
        if run.data.test.is_none() && matches!(run.config.test_metrics, TestMetrics::Private { .. }) {
            return Err(Failure::usage(
                "`test_metrics` private: the charge covers evaluations, and the data has no held-out samples; add `test`, or use \
                 `test_metrics` none",
            ));
        }
        Err(Failure::usage(format!(
            "`samples`: gives another plan than the data, whose training split has {} samples; give that number",
            run.data.train.len()
        )))
    }

    /// Reduces the charge after an error of the run, to the charged steps of the ledger in `folder`. Without a folder,
    /// no step was charged. If the ledger cannot be read, the whole plan stays.
    pub(in crate::cli) fn narrow(self, folder: Option<&Path>) {
        let Self(Some(reservation)) = self else { return };
        let steps = match folder {
            None => 0,
            Some(folder) if !damper_train::files::may_hold_ledger(folder) => 0,
            Some(folder) => match planned(folder) {
                Ok(Some(plan)) if plan == *reservation.plan() => match paid(folder, &plan) {
                    Ok(steps) => steps,
                    Err(_) => return,
                },
                _ => return,
            },
        };
        if let Err(error) = reservation.narrow(steps) {
            warn(&format!("{}; the run stays charged as a whole", with_flags(&error.to_string())));
        }
    }
}
