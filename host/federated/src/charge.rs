//! The charge of a federation against the budget of a device's data.
//!
//! A budget composes events: a sampling rate and a multiplier for each round. The events are those of the party that
//! learns the most, so they bound the privacy loss to every party. They use the smallest number of noise terms, and a
//! rate of 1 if the time of an answer may reveal the draw.
//!
//! | plan | noise terms of a round |
//! | --- | --- |
//! | `clear` | the device's own, because the server reads its update |
//! | `prio` | `n − 1 − c`, as for a participant. With local noise at least 1 |
//!
//! The whole plan is charged at once, before its first round. A sum of discrete Gaussians is not a discrete Gaussian,
//! and an integer may leave its range. Both change δ by less than 1e-20 (`damper_accounting::NoiseShares`). Lowering
//! the multiplier by one part in 10⁹ covers this.

use super::RoundError;
use damper_accounting::{Accountant, Recorded};
use damper_budget::{BudgetError, BudgetFile, EXACT, RunPlan};
use damper_core::accounting::{Rate, SampledGaussian};
use damper_federation::{Aggregation, DeviceNoise, FederationPlan, RoundLedger};
use std::path::Path;

/// Returns the events of `plan` for the party that learns the most.
fn run_plan(plan: &FederationPlan) -> Result<RunPlan, RoundError> {
    let noises = match plan.aggregation {
        Aggregation::Clear => 1,
        Aggregation::Prio => {
            let others = plan.smallest_cohort.saturating_sub(plan.colluders).saturating_sub(1);
            if plan.noise == DeviceNoise::Local { others.max(1) } else { others }
        }
    };
    let own = f64::from(plan.sigma) / f64::from(1u32.checked_shl(plan.grid_bits).unwrap_or(u32::MAX));
    let multiplier = if noises == 1 { own } else { own * f64::from(noises).sqrt() * (1.0 - 1e-9) };
    let rate = if plan.reply_seconds.is_some() { plan.rate()? } else { Rate::ONE };
    let events = [(SampledGaussian::new(rate, multiplier)?, u64::from(plan.rounds))];
    Ok(RunPlan {
        run: plan.run.to_string(),
        path: EXACT.into(),
        steps: plan.rounds,
        steps_per_event: 1,
        evaluate_every: None,
        events: Recorded::new(Accountant::Pld, plan.delta, &events).with_kind(plan.run),
    })
}

/// Charges `plan` to the budget in `file`, once per ledger of the device, which is in `folder`. The charge is durable
/// when it returns. A recreated ledger, or another plan, is charged again.
///
/// # Errors
///
/// The plan is a simulation, it would exceed the limit, or the budget cannot be read or written.
pub fn charge_budget(
    file: &Path,
    folder: &Path,
    ledger: &RoundLedger,
    plan: &FederationPlan,
) -> Result<(), ChargeError> {
    let charge = run_plan(plan)?;
    let budget = BudgetFile::open(file)?;
    // Identifies the plan and the ledger, independent of the folder's name.
    let command = format!("federation {} of ledger {}", plan.digest(), ledger.folder_number());
    let is_charged = budget.record().charges.iter().any(|made| made.command == command && made.plan == charge);
    if !is_charged {
        budget.reserve(&command, folder, charge)?;
    }
    Ok(())
}

/// The error of a federation that cannot be charged.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum ChargeError {
    #[error(transparent)]
    Round(#[from] RoundError),
    #[error(transparent)]
    Budget(#[from] BudgetError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_budget::BudgetHeader;
    use damper_federation::PlanSettings;

    fn settings() -> PlanSettings {
        PlanSettings {
            unit: damper_federation::Unit::Sample,
            noise: DeviceNoise::Local,
            noise_multiplier: 4.0,
            sampling_rate: 0.5,
            rounds: 20,
            devices: 10,
            smallest_cohort: 10,
            colluders: 0,
            aggregation: Aggregation::Clear,
            expected_batch: 4,
            most_units: None,
            reply_seconds: None,
            members: vec![],
            clip: 1.0,
            grid_bits: 16,
            lr: 1.0,
            local: None,
            delta: 1e-5,
            simulation: false,
            model_flags: vec![],
            names: damper_data::DataNames::default(),
        }
    }

    fn plan(settings: &PlanSettings) -> FederationPlan {
        FederationPlan::new(settings, 650, "m".repeat(64)).unwrap()
    }

    // One budget for all plans. Each is charged once, at the cost to the party that learns the most, and composition is
    // by events.
    #[test]
    fn budget_pays_for_each_plan_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data.budget");
        BudgetFile::create(&file, BudgetHeader::new("data".into(), Some(8.0), 1e-5)).unwrap();
        let total = || BudgetFile::open(&file).unwrap().record().epsilon(None).unwrap();
        let charge = |name: &str, plan: &FederationPlan| {
            let place = folder.path().join(name);
            let ledger = RoundLedger::of_device(&place, plan, 1).unwrap();
            charge_budget(&file, &place, &ledger, plan)
        };
        let first = plan(&settings());
        for _ in 0..3 {
            charge("one", &first).unwrap();
        }
        // 20 rounds at rate 1 and multiplier 4.
        let server = first.epsilon(20).unwrap().server.unwrap();
        assert!((total() / server - 1.0).abs() < 1e-6 && (server - 4.985).abs() < 0.001, "{} {server}", total());
        // With two aggregators, nine noise terms of ten devices remain.
        let hidden = plan(&PlanSettings { aggregation: Aggregation::Prio, ..settings() });
        charge("two", &hidden).unwrap();
        // Inverse variances add: 20/16 + 20/(16·9).
        let both = plan(&PlanSettings { noise_multiplier: 4.0 / (10f64 / 9.0).sqrt(), ..settings() });
        let wanted = both.epsilon(20).unwrap().server.unwrap();
        assert!((total() / wanted - 1.0).abs() < 1e-3, "{} {wanted}", total());
        // The same cost for another plan, or for a ledger that was lost and recreated. Each is charged.
        let runs = || BudgetFile::open(&file).unwrap().record().charges.len();
        let before = runs();
        let other = plan(&PlanSettings {
            clip: 0.5,
            aggregation: Aggregation::Prio,
            rounds: 1,
            noise_multiplier: 50.0,
            ..settings()
        });
        charge("other", &other).unwrap();
        charge(
            "other",
            &plan(&PlanSettings {
                lr: 0.5,
                clip: 0.5,
                aggregation: Aggregation::Prio,
                rounds: 1,
                noise_multiplier: 50.0,
                ..settings()
            }),
        )
        .unwrap();
        std::fs::remove_dir_all(folder.path().join("other")).unwrap();
        charge("other", &other).unwrap();
        std::os::unix::fs::symlink(folder.path().join("other"), folder.path().join("link")).unwrap();
        charge("link", &other).unwrap();
        assert_eq!(runs(), before + 3);
        // A third plan exceeds the limit.
        let third = plan(&PlanSettings { rounds: 30, ..settings() });
        assert!(charge("three", &third).unwrap_err().to_string().contains("limit"));
        let seeded = plan(&PlanSettings { simulation: true, ..settings() });
        assert!(charge("four", &seeded).unwrap_err().to_string().contains("simulation"));
    }
}
