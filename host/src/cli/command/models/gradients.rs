//! `damper gradients`: writes the gradient of every sample, which is not private.

use crate::cli::args::data::DataArgs;
use crate::cli::args::flags::with_flags;
use crate::cli::args::machine::MachineArgs;
use crate::cli::args::model::{ModelArgs, bytes_text};
use crate::cli::session::signals::Signals;
use crate::cli::{Failure, answer, say_of_data, warn};
use clap::Args;
use damper_runtime::open;
use damper_train::gradients::{self, GradientOptions};
use damper_train::{InputFiles, read};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
NOT PRIVATE: the file has the exact gradient and loss of every sample, from which
the samples can often be reconstructed. It is as secret as the data, readable by
its owner alone. No epsilon covers it or anything that is computed from it.

The file has, of the N training samples in their order, as float32:
  grad/NAME   [N, *shape], of each trained initializer NAME
  loss        [N]
at the weights of the model file. The gradients have the bits that damper train
clips and sums with the same backend and --physical-batch. A row that --on-bad-row
drop left out has the gradient 0 and the loss NaN.

Example:
  damper gradients onnx-models/digits-cnn.onnx --data idx:onnx-models/digits \\
    --out gradients.npz";

/// Writes the exact gradient of every training sample, for inspection: not private.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true, after_help = AFTER_HELP)]
pub(in crate::cli) struct GradientsArgs {
    /// The model, exported as .onnx
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// The file to write, as secret as the data
    #[arg(short, long, value_name = "FILE.npz")]
    out: PathBuf,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    options: ModelArgs,
    #[command(flatten)]
    machine: MachineArgs,
}

pub(in crate::cli) fn run(args: &GradientsArgs) -> Result<ExitCode, Failure> {
    let GradientsArgs { model, out, data, options, machine } = args;
    if out.exists() && !out.is_file() {
        return Err(Failure::in_file(out, "is there and no plain file; name another `out`"));
    }
    let source = InputFiles {
        model: model.clone(),
        of_file: options.of_file(),
        graph: options.graph_options(),
        lora: options.lora(),
        derive: options.derive_options(),
        data: data.source().to_owned(),
        data_options: data.options(),
    };
    let choice = machine.backend()?;
    let read = read(&source, Some(choice)).map_err(|error| Failure::in_model(model, error))?;
    read.warnings.iter().for_each(|warning| warn(&with_flags(warning)));
    read.data.notes.iter().for_each(|note| say_of_data(note));
    let signals = Signals::listen()?;
    let backend = open(choice)?;
    let options =
        GradientOptions { physical_batch: machine.physical_batch, memory: machine.memory(), workers: machine.workers };
    let written = gradients::write(out, &read, backend.as_ref(), &options, &|| signals.code().is_some());
    if !written.map_err(|error| Failure::in_model(model, error))? {
        let _ = writeln!(io::stderr(), "stopped; {} is not written", out.display());
        return Ok(ExitCode::from(signals.code().unwrap_or(1)));
    }
    let size = bytes_text(gradients::size(&read));
    let grad = &read.grad;
    let unreached = match grad.unreached.join(", ") {
        names if names.is_empty() => names,
        names => format!("\nno gradient reaches {names} from the loss"),
    };
    answer(&format!(
        "{}: gradients of {} parameters in {} tensors, {} samples, {size}, by {} {}; NOT PRIVATE: as secret as the data{unreached}",
        out.display(),
        grad.trained_len(),
        grad.parameters.len(),
        read.data.train.len(),
        backend.name(),
        backend.version(),
    ))?;
    Ok(ExitCode::SUCCESS)
}
