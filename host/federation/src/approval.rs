//! An owner's approval of a plan, and the check of the device's data against it, stored in the folder of the owner's
//! device.
//!
//! Some plans protect a device only if other parties are honest. They rely on shares of the noise, or on members that
//! the server does not control. A device cannot verify that, so its owner must approve such a plan. A plan without
//! members, in which a device adds all of the noise itself, does not need approval.

use crate::round_ledger::{self, SETTING};
use crate::{Aggregation, DeviceNoise, FederationError, FederationPlan};
use damper_accounting::RunKind;
use damper_files::{Access, create_private_folder_for, read_if_there, sealed, write_for};
use serde::{Deserialize, Serialize};
use std::path::Path;

const APPROVED: &str = "approved.json";
const JOINED: &str = "joined.json";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Approval {
    plan: String,
}

fn note(folder: &Path, name: &str, plan: &FederationPlan) -> Result<(), FederationError> {
    let text = sealed::line("approved", "", &Approval { plan: plan.digest() }).0;
    Ok(write_for(&folder.join(name), text.as_bytes(), Access::Private, SETTING)?)
}

fn is_noted(folder: &Path, name: &str, plan: &FederationPlan) -> Result<bool, FederationError> {
    let file = folder.join(name);
    let found = read_if_there(&file).map_err(|error| FederationError::Io { file, error })?;
    let approval = found.and_then(|bytes| sealed::read::<Approval>("approved", &bytes).ok());
    Ok(approval.is_some_and(|approval| approval.plan == plan.digest()))
}

/// Records that the data of the device with this folder fits `plan`. From now on the device answers each request, with
/// noise alone if its rows do not fit any more. So everything that a server sees is independent of the rows, except a
/// charged update.
///
/// # Errors
///
/// The folder cannot be written, or its ledger has charged rounds of another plan.
pub fn join(folder: &Path, plan: &FederationPlan) -> Result<(), FederationError> {
    if is_noted(folder, JOINED, plan)? {
        return Ok(());
    }
    create_private_folder_for(folder, SETTING)?;
    round_ledger::check_plan(folder, plan)?;
    note(folder, JOINED, plan)
}

/// Returns true if the device with this folder has joined `plan`.
///
/// # Errors
///
/// The folder cannot be read.
pub fn has_joined(folder: &Path, plan: &FederationPlan) -> Result<bool, FederationError> {
    is_noted(folder, JOINED, plan)
}

/// Records that the owner of the device with this folder approves `plan`. Creates the folder if it does not exist.
///
/// # Errors
///
/// The folder cannot be written, or its ledger has charged rounds of another plan.
pub fn approve(folder: &Path, plan: &FederationPlan) -> Result<(), FederationError> {
    create_private_folder_for(folder, SETTING)?;
    round_ledger::check_plan(folder, plan)?;
    note(folder, APPROVED, plan)
}

/// Returns an error if `plan` requires the owner's approval and does not have it.
///
/// # Errors
///
/// The plan is not approved, or the approval cannot be read.
pub fn check_approved(folder: &Path, plan: &FederationPlan) -> Result<(), FederationError> {
    let Some(reason) = reason(plan) else { return Ok(()) };
    let is_approved = is_noted(folder, APPROVED, plan)?;
    if is_approved { Ok(()) } else { Err(FederationError::NotApproved { folder: folder.into(), reason }) }
}

/// Returns the reason why an owner must approve `plan`, if any.
fn reason(plan: &FederationPlan) -> Option<&'static str> {
    match (plan.run, plan.noise, plan.aggregation) {
        // The owner sets the seed of the device.
        (RunKind::Simulation, ..) => None,
        (_, DeviceNoise::Shares, Aggregation::Clear) => {
            Some("a device adds a share of the noise alone, and the server reads each update")
        }
        (_, DeviceNoise::Shares, Aggregation::Prio) => {
            Some("a device adds a share of the noise alone, and the other members and one aggregator must be honest")
        }
        _ if !plan.members.is_empty() => Some("its epsilon for participants counts on the members"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlanSettings;
    use crate::plan::tests::settings;
    use std::fs;

    #[test]
    fn shares_want_the_owners_word() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("device");
        let of = |noise, simulation| {
            FederationPlan::new(&PlanSettings { noise, simulation, ..settings() }, 650, "m".repeat(64)).unwrap()
        };
        let (shares, local) = (of(DeviceNoise::Shares, false), of(DeviceNoise::Local, false));
        for free in [&local, &of(DeviceNoise::Shares, true)] {
            check_approved(&place, free).unwrap();
        }
        assert!(matches!(check_approved(&place, &shares), Err(FederationError::NotApproved { .. })));
        approve(&place, &local).unwrap();
        assert!(check_approved(&place, &shares).is_err(), "another plan is approved");
        approve(&place, &shares).unwrap();
        check_approved(&place, &shares).unwrap();
        fs::write(place.join(APPROVED), "{}").unwrap();
        assert!(check_approved(&place, &shares).is_err());
    }
}
