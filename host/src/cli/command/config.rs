//! `damper config`: the schema of run files.

use crate::cli::args::train::TrainArgs;
use crate::cli::{Failure, answer_json};
use clap::Args;
use schemars::schema_for;
use serde_json::Value;

const AFTER_HELP: &str = "\
Example, for an editor that reads JSON Schema:
  damper config --schema > run.schema.json
and as the first line of run.toml
  #:schema ./run.schema.json";

/// Prints the JSON Schema of run files, whose keys are the flags of damper train
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(in crate::cli) struct ConfigArgs {
    /// Prints the schema
    #[arg(long, required = true)]
    schema: bool,
}

/// Removes null from the schema: a setting is either given or absent.
fn given_or_not(property: &mut Value) {
    let Some(property) = property.as_object_mut() else { return };
    property.shift_remove("default");
    if let Some(types) = property.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|of| of != "null");
    }
    if let Some(forms) = property.get_mut("anyOf").and_then(Value::as_array_mut) {
        forms.retain(|form| form["type"] != "null");
    }
}

pub(in crate::cli) fn run(_: &ConfigArgs) -> Result<(), Failure> {
    let mut schema = schema_for!(TrainArgs);
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flatten().for_each(|(_, property)| given_or_not(property));
    schema.insert("title".into(), "a run file of damper train".into());
    schema.insert("additionalProperties".into(), false.into());
    answer_json(&schema)
}
