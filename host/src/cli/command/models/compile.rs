//! `damper compile`: writes a network as a crate or C files that train on a device.

use crate::cli::Failure;
use crate::cli::args::model::{ModelArgs, bytes_text, memory as size};
use crate::cli::{answer, warn};
use clap::{Args, ValueEnum};
use damper_compile::{CompileOptions, CompiledFile, Language, compile};
use damper_data::DataNames;
use damper_edit::init::Loaded;
use damper_grad::{DeriveOptions, Readout, derive};
use damper_onnx::graph::Graph;
use damper_train::data_names;
use damper_train::files::{Access, write};
use std::fs;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
The crate is no_std, without a heap, and builds in any folder: it has copies of
damper-core and damper-nn, or uses those of --damper. It has forward, loss,
gradient, and add_sample, which adds a sample's gradient to a private step
without a copy of it in memory. Its README says what it takes of a device.

With --target c it is C99 over damper's C library, libdamper_capi.a.

Train a part with --only: what is not trained stays in flash.

Example:
  damper compile onnx-models/digits-cnn.onnx --out digits-cnn";

/// Language of the output.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum Target {
    /// A crate
    Rust,
    /// C99 files over damper's C library
    C,
}

/// Writes a network as a crate or C files that train on a microcontroller, with the bits of --backend portable.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true, after_help = AFTER_HELP)]
pub(in crate::cli) struct CompileArgs {
    /// The model, exported as .onnx
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// The folder to write, which is not there or is empty
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// Language of the output
    #[arg(long, value_name = "LANGUAGE", default_value = "rust")]
    target: Target,
    /// The crate's name [default: the model file's]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Uses the crates `core` and `nn` of damper's sources in this folder, as the crate names it, instead of copies
    #[arg(long, value_name = "DIR")]
    damper: Option<PathBuf>,
    /// RAM for parameters, the step's sum and a sample, such as 64K: if a gradient fits too, it is kept and computed
    /// once
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,
    #[command(flatten)]
    options: ModelArgs,
}

pub(in crate::cli) fn run(args: &CompileArgs) -> Result<(), Failure> {
    let CompileArgs { model, out, target, name, damper, memory, options } = args;
    if !is_free(out) {
        return Err(Failure::in_file(out, "is there and no empty folder; name another `out`"));
    }
    if options.checkpoint_activations {
        return Err(Failure::usage("`checkpoint_activations` is of training on a host; leave it out"));
    }
    let (Loaded { model: proto, warnings, .. }, graph_options) = options.load(model)?;
    warnings.iter().for_each(|warning| warn(warning));
    let graph = Graph::from_model(&proto, &graph_options).map_err(|error| Failure::of_file(model, error))?;
    let derived =
        DeriveOptions { readout: Readout::Factored { positions: false, groups: true }, ..options.derive_options() };
    let grad = derive(&graph, &derived).map_err(|error| Failure::of_file(model, error))?;
    let stem = || model.file_stem().map_or("network".into(), |stem| stem.to_string_lossy().into_owned());
    let language = match target {
        Target::Rust => Language::Rust,
        Target::C => Language::C,
    };
    let memory = memory.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let compiled = CompileOptions { name: name.clone().unwrap_or_else(stem), memory, language, damper: damper.clone() };
    let mut compiled = compile(&graph, &grad, &compiled).map_err(|error| Failure::of_file(model, error))?;
    let names = data_names(&proto).map_err(|error| Failure::of_file(model, error))?;
    for file in compiled.files.iter_mut().filter(|file| file.path.ends_with("README.md") && !names.is_empty()) {
        file.bytes.extend(data_section(&names).into_bytes());
    }
    place(out, &compiled.files).map_err(|(path, error)| Failure::in_file(&path, error))?;
    let figures = compiled.figures;
    answer(&format!(
        "{}: {} trained parameters; {} of memory beside them and their sum; {} of constants; {} multiply-adds a gradient",
        out.display(),
        figures.params,
        bytes_text(figures.memory as u64),
        bytes_text(figures.constants as u64),
        figures.gradient,
    ))
}

/// Returns the description of the device's data, by the names in the model. The network takes numbers, which have no
/// names.
fn data_section(names: &DataNames) -> String {
    let row = |(place, name): (usize, &String)| {
        format!("| {place} | {} |\n", name.replace(char::is_control, " ").replace('|', "\\|"))
    };
    let mut text =
        "\n## Its data\n\nThe network takes numbers by place. A device must give them in the order of training.\n"
            .to_owned();
    if let Some(table) = &names.table {
        text += "\n| place in the input | column |\n| ---: | --- |\n";
        text.extend(table.features().enumerate().map(row));
    }
    if let Some(classes) = &names.classes {
        text += "\n| label | class |\n| ---: | --- |\n";
        text.extend(classes.iter().enumerate().map(row));
    }
    text
}

/// Returns true if `out` does not exist or is an empty folder.
fn is_free(out: &Path) -> bool {
    match fs::read_dir(out) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => !out.exists(),
    }
}

/// Writes the files next to `out`, and moves them there when they are complete.
fn place(out: &Path, files: &[CompiledFile]) -> Result<(), (PathBuf, String)> {
    let mut staged = out.as_os_str().to_owned();
    staged.push(format!(".damper-{}", std::process::id()));
    let staged = PathBuf::from(staged);
    let written = files.iter().try_for_each(|file| {
        let path = staged.join(&file.path);
        let folder = path.parent().unwrap_or(&staged);
        fs::create_dir_all(folder).map_err(|error| (folder.to_owned(), error.to_string()))?;
        write(&path, &file.bytes, Access::Public).map_err(|error| (path.clone(), error.to_string()))
    });
    let moved = written.and_then(|()| fs::rename(&staged, out).map_err(|error| (out.to_owned(), error.to_string())));
    if moved.is_err() {
        let _ = fs::remove_dir_all(&staged);
    }
    moved
}
