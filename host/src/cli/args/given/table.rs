//! Settings as a table, whose keys are flags without dashes.

use super::fault::{KeyFault, KeyFaultKind};
use super::words::{argument, plain_type};
use crate::cli::args::train::TrainArgs;
use clap::Command;
use serde::Deserialize;
use toml::{Table, Value};

/// Settings that set the noise. A later setting overrides the others.
const EITHER: [&str; 3] = ["epsilon", "noise-multiplier", "equation-6"];

/// Settings of a private run, which `not-private` overrides.
pub(in crate::cli) const OF_PRIVATE: [&str; 11] = [
    "epsilon",
    "noise-multiplier",
    "equation-6",
    "delta",
    "accountant",
    "allow-large-delta",
    "clip",
    "noise",
    "readout",
    "grid-bits",
    "truncate",
];

/// The settings that `args` were given, without those of the call itself.
pub(in crate::cli) fn table_of(args: &TrainArgs) -> Table {
    let mut table = Table::try_from(args).expect("settings are a table");
    table.retain(|_, value| match value {
        Value::Boolean(switch) => *switch,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    });
    table
}

/// The settings in `table`. `train` is the subcommand's description.
pub(in crate::cli) fn of_table(table: &Table, train: &Command) -> Result<TrainArgs, KeyFault> {
    let mut settings = Table::new();
    for (key, value) in table {
        let at = |kind| KeyFault { key: key.clone(), kind };
        let name = argument(train, key).ok_or_else(|| at(KeyFaultKind::Unknown))?;
        // Alone, so that an error is of this key.
        let one = Table::from_iter([(name.clone(), value.clone())]);
        TrainArgs::deserialize(one)
            .map_err(|error| at(KeyFaultKind::Value(value.clone(), plain_type(error.message()))))?;
        settings.insert(name, value.clone());
    }
    // Each alone is right.
    Ok(TrainArgs::deserialize(settings).expect("settings are read one by one"))
}

/// Lays `own` over the settings in `below`.
pub(in crate::cli) fn overlaid(mut below: Table, own: Table) -> Table {
    if EITHER.iter().any(|key| own.contains_key(*key)) {
        EITHER.iter().for_each(|key| drop(below.remove(*key)));
    }
    if own.contains_key("not-private") {
        OF_PRIVATE.iter().for_each(|key| drop(below.remove(*key)));
    }
    below.extend(own);
    below
}
