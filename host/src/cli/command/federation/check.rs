//! `damper federation check`: checks a device's rows once before it joins, on the device.

use super::common::{check_model, model_of_plan, read_device, read_plan, read_users};
use crate::cli::args::data::DataArgs;
use crate::cli::args::model::ModelArgs;
use crate::cli::{Failure, answer};
use clap::Args;
use damper_federated::DeviceData;
use damper_federation::{Unit, join};
use std::path::PathBuf;

/// Checks that a device's model and data fit the plan, without a request. Its messages may name rows, and stay on the
/// device.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true)]
pub(super) struct CheckArgs {
    /// The plan of the federation
    #[arg(value_name = "FEDERATION.json")]
    plan: PathBuf,
    /// The model of the plan
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// With --unit user: a text file with the user of each training row, one name per line [default: all rows belong to
    /// one user]
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// The device's folder, as for damper federation update: records that the data fits [default: records nothing]
    #[arg(long, value_name = "DIR")]
    ledger: Option<PathBuf>,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    options: ModelArgs,
}

pub(super) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let plan = read_plan(&args.plan)?;
    check_model(&plan, &args.model)?;
    let options = model_of_plan(&plan, &args.options)?;
    let read = read_device(&plan, &args.model, &args.data, args.data.source(), &options)?;
    let users = read_users(args.users.as_deref(), &read, &plan)?;
    let units = DeviceData { read: &read, users: &users }.units(plan.unit);
    plan.check_units(u32::try_from(units).unwrap_or(u32::MAX))?;
    if let Some(folder) = &args.ledger {
        join(folder, &plan)?;
    }
    let of = match plan.unit {
        Unit::Sample => "samples",
        Unit::User => "users",
    };
    answer(&format!("the data fits the plan: {units} {of}, of which a round draws at most {}", plan.most_units))
}
