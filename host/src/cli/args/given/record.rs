//! The settings of a run in its output folder.

use super::state::NOT_KEPT;
use super::table::table_of;
use crate::cli::Failure;
use crate::cli::args::train::TrainArgs;
use toml::Value;

/// The file in an output folder that has the settings of its run.
pub(in crate::cli) const RECORD: &str = "config.toml";

/// The settings of a run as a run file, which everybody may read. The path of a recording is secret and is left out. If the number of samples
/// is declared, the counted number is left out. A model in the output folder has its path from there.
pub(in crate::cli) fn record(args: &TrainArgs) -> Result<String, Failure> {
    let mut settings = table_of(args);
    let is_declared = settings.contains_key("dataset-size");
    settings.retain(|key, _| {
        !NOT_KEPT.contains(&key)
            && !["record", "record-limit", "copy-model"].contains(&key)
            && !(is_declared && ["samples", "budget"].contains(&key))
    });
    let out = std::path::absolute(args.out())?;
    let kept = args.model.as_ref().and_then(|model| model.strip_prefix(&out).ok());
    if let Some(kept) = kept {
        settings.insert("model".into(), Value::String(kept.display().to_string()));
    }
    Ok(format!("# The settings of this run. damper train {RECORD} --out DIR takes them again.\n{settings}"))
}
