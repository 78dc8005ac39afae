//! Model and data by their place on the command line: `MODEL DATA`, or with --model `DATA` alone.

use crate::cli::Failure;
use crate::cli::args::train::TrainArgs;
use std::path::Path;

/// Moves what was given by place to the settings of the same meaning.
pub(super) fn take(args: &mut TrainArgs) -> Result<(), Failure> {
    let (first, second) = (args.first.take(), args.second.take());
    let has_model = args.model.is_some();
    let is_run_file = |first: &&Path| first.extension().is_some_and(|end| end == "toml");
    if let (true, Some(file)) = (has_model, first.as_deref().filter(is_run_file)) {
        let problem = "a run file names its model; leave out `model`, or change it in the file";
        return Err(Failure::usage(format!("{}: {problem}", file.display())));
    }
    let (model, data) = match (first, second) {
        (Some(first), Some(second)) if has_model => {
            let problem = "the model is given twice, before the data and by `model`; leave one out";
            return Err(Failure::usage(format!("{} {second}: {problem}", first.display())));
        }
        (Some(data), None) if has_model => (None, Some(data.to_string_lossy().into_owned())),
        (Some(data), None) if is_data(&data) => {
            let problem = "is data; give the model before it, or name a network with `model`, such as linear";
            return Err(Failure::usage(format!("{}: {problem}", data.display())));
        }
        both => both,
    };
    args.model = args.model.take().or(model);
    let Some(data) = data else { return Ok(()) };
    if args.data.is_given() {
        let likely = if has_model { "the model is given by `model`" } else { "the data are given by `data`" };
        return Err(Failure::usage(format!("{data}: {likely}; leave one of the two out")));
    }
    args.data.set(data);
    Ok(())
}

/// Returns true if the file is data by its name, so that the model was left out.
fn is_data(file: &Path) -> bool {
    let is_data = |end: &str| matches!(end, "csv" | "tsv" | "parquet" | "npz" | "npy" | "gz");
    file.extension().is_some_and(|end| is_data(&end.to_string_lossy()))
}
