//! `damper federation approve`: shows a plan to the owner of a device, and records the owner's approval.

use super::common::{Cost, cost_text, read_plan};
use crate::cli::{Failure, answer, answer_json};
use clap::Args;
use damper_federation::{Aggregation, DeviceNoise, FederationPlan, Member, approve};
use serde::Serialize;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Compare each member's public key with what its owner told you. Nothing else shows
that the members are not the server's own: with n - 1 members of its own, a server
learns as much of your device as the line for the server says.
damper federation update refuses a plan with members, or with shares of the noise,
until its device's owner has approved it.";

/// Prints a plan's members, its epsilon for each party and what the server may learn, and records the owner's approval.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ApproveArgs {
    /// The plan of the federation
    #[arg(value_name = "FEDERATION.json")]
    plan: PathBuf,
    /// The device's folder, as for damper federation update. Made if it is not there [default: prints, and records
    /// nothing]
    #[arg(long, value_name = "DIR")]
    ledger: Option<PathBuf>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Approved<'a> {
    #[serde(flatten)]
    cost: Cost,
    sha256: String,
    members: &'a [Member],
    learns: Vec<String>,
    /// Folder of the record.
    approved_in: Option<String>,
}

/// Returns the server's knowledge about a device, in sentences.
fn learns(plan: &FederationPlan) -> Vec<String> {
    let mut learns = vec![match (plan.aggregation, plan.noise) {
        (Aggregation::Clear, DeviceNoise::Local) => {
            "the server reads this device's update, which has all of the noise".to_owned()
        }
        (Aggregation::Clear, DeviceNoise::Shares) => format!(
            "the server reads this device's update, which has a share of the noise: one of {}",
            plan.smallest_cohort - plan.colluders
        ),
        (Aggregation::Prio, _) => {
            "neither aggregator reads this device's update while the other one is honest; together they do".to_owned()
        }
    }];
    learns.push(match plan.reply_seconds {
        Some(seconds) => format!("the time of an answer shows nothing: it comes {seconds} s after the request"),
        None => "the time of an answer may show that a round drew nothing: its epsilon counts every unit as drawn"
            .to_owned(),
    });
    learns.push("which rounds the device takes part in, and that it has the plan's model".to_owned());
    if plan.members.is_empty() {
        learns.push("the plan has no members: whoever reaches the server speaks for any device".to_owned());
    } else {
        learns.push(format!(
            "members whose owners you do not know may be the server's own; epsilon for outsiders and participants counts on {} honest ones",
            plan.smallest_cohort - plan.colluders
        ));
    }
    learns
}

pub(super) fn run(args: &ApproveArgs) -> Result<(), Failure> {
    let plan = read_plan(&args.plan)?;
    let cost = Cost::of(&plan)?;
    if let Some(folder) = &args.ledger {
        approve(folder, &plan)?;
    }
    let approved = Approved {
        cost,
        sha256: plan.digest(),
        members: &plan.members,
        learns: learns(&plan),
        approved_in: args.ledger.as_ref().map(|folder| folder.display().to_string()),
    };
    if args.json {
        return answer_json(&approved);
    }
    let mut text = format!("plan              {}\n{}", approved.sha256, cost_text(&plan, &approved.cost));
    for (number, member) in (1..).zip(&plan.members) {
        text += &format!("\nmember {number:<11}{}  {}", member.public_key, member.name);
    }
    for sentence in &approved.learns {
        text += &format!("\nserver            {sentence}");
    }
    text += &match &approved.approved_in {
        Some(folder) => format!("\napproved in {folder}"),
        None => "\nnot recorded: give the device's folder by --ledger to approve the plan".to_owned(),
    };
    answer(&text)
}
