//! `damper train --resume DIR`: the settings of the run in DIR, from its state.

use super::Failure;
use super::given::{Fault, of_invocation, of_table, overlaid, table_of};
use super::train::TrainArgs;
use clap::Command;
use damper_report::is_finished;
use damper_train::Checkpoint;
use std::path::{Path, absolute};
use toml::Value;

/// What may be given beside --resume: it changes no bit.
const FREE: [&str; 9] =
    ["alone", "json", "quiet", "workers", "checkpoint-every", "no-checkpoint", "events", "tensorboard", "shard-data"];
/// What is not part of a run's settings: where it writes, what is told of it, and what has started it.
pub(super) const NOT_KEPT: [&str; 4] = ["out", "alone", "json", "quiet"];

/// The settings of the run in `out`, with those of `given` that may be given again.
pub(super) fn resumed(given: &TrainArgs, out: &Path, train: &Command) -> Result<TrainArgs, Fault> {
    let own = table_of(given);
    if let Some(key) = own.keys().find(|key| !FREE.contains(&key.as_str())) {
        let flag = if key == "model" { "the model".to_owned() } else { format!("--{key}") };
        return Err(Failure::usage(format!("`resume`: the run has its own settings; leave out {flag}")).into());
    }
    let out = absolute(out).map_err(Failure::from)?;
    if is_finished(&out).map_err(Failure::from)? {
        Checkpoint::remove(&out.join("checkpoint")).map_err(Failure::from)?;
        let problem = "the run is finished, so there is nothing to resume; damper report makes its report again";
        return Err(Failure::in_file(&out, problem).into());
    }
    let invocation = Checkpoint::invocation(&out.join("checkpoint")).map_err(Failure::from)?;
    let mut all = overlaid(of_invocation(&invocation, train)?, own);
    all.insert("out".into(), Value::String(out.display().to_string()));
    let mut args = of_table(&all, train).map_err(|fault| {
        Failure::in_file(&out, format!("its state has a setting `{}` that this version does not read", fault.key))
    })?;
    args.resume = Some(out);
    Ok(args)
}

/// How the run in `out` goes on.
pub(super) fn command(out: &Path) -> String {
    format!("damper train --resume {}", out.display())
}
