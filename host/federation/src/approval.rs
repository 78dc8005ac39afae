//! An owner's approval of a plan, in the folder of the owner's device.
//!
//! Some plans protect a device by what others do: a share of the noise, or members that are not all the server's own. Nothing proves that to a device,
//! so its owner has to say it. A plan in which a device adds all of the noise itself, and has no members, asks for no approval.

use crate::{Aggregation, DeviceNoise, FederationError, FederationPlan};
use damper_accounting::RunKind;
use damper_files::{Access, create_private_folder, sealed, write};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

const APPROVED: &str = "approved.json";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Approval {
    plan: String,
}

/// Writes that the owner of the device with this folder approves `plan`. The folder is made if it is not there.
///
/// # Errors
///
/// The folder cannot be written.
pub fn approve(folder: &Path, plan: &FederationPlan) -> Result<(), FederationError> {
    create_private_folder(folder)?;
    let text = sealed::line("approved", "", &Approval { plan: plan.digest() }).0;
    Ok(write(&folder.join(APPROVED), text.as_bytes(), Access::Private)?)
}

/// Refuses `plan` if its owner has to approve it and has not.
///
/// # Errors
///
/// It is not approved, or the approval cannot be read.
pub fn check_approved(folder: &Path, plan: &FederationPlan) -> Result<(), FederationError> {
    let Some(reason) = reason(plan) else { return Ok(()) };
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        approved: Approval,
        sha256: String,
    }
    let file = folder.join(APPROVED);
    let is_approved = match fs::read(&file) {
        Ok(bytes) => serde_json::from_slice(&bytes).is_ok_and(|File { approved, sha256 }| {
            sealed::digest(&approved) == sha256 && approved.plan == plan.digest()
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(FederationError::Io { file, error }),
    };
    if is_approved { Ok(()) } else { Err(FederationError::NotApproved { folder: folder.into(), reason }) }
}

/// The reason for which an owner has to approve `plan`.
fn reason(plan: &FederationPlan) -> Option<&'static str> {
    match (plan.run, plan.noise, plan.aggregation) {
        // The owner gives the device its seed.
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
