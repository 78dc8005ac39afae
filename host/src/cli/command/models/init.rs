//! `damper init`: fresh random weights, or a file without weights.

use crate::cli::{Failure, answer, answer_json, warn};
use clap::Args;
use damper_edit::init::{Initialised, Override, converted, initialise, skeleton};
use damper_onnx as onnx;
use damper_onnx::graph::GraphOptions;
use damper_train::files::Access;
use damper_train::write_model;
use serde::Serialize;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Each trained parameter is drawn by the last --init that matches it, else by the
model's metadata (damper.init.NAME), else by its role as PyTorch does: weights
and biases of Conv, Gemm and MatMul uniform within 1/sqrt(fan_in), scales of
normalisations 1 and their biases 0, embeddings normal(0, 1), positions and
class tokens normal(0, 0.02), weights and biases of recurrent layers, unfolded
too, uniform within 1/sqrt(hidden). Anything else keeps its values, and is named.
A packed weight of nn.MultiheadAttention looks as that of any linear layer: where it
should be xavier-uniform, and its bias 0, as PyTorch draws them, say so by --init.

SPEC is zeros, ones, constant(C), uniform(LOW, HIGH), normal(MEAN, STD),
truncated-normal(MEAN, STD), kaiming-uniform or kaiming-normal(fan-in|fan-out,
relu|linear|a=SLOPE), xavier-uniform or xavier-normal(gain=G).

The values depend on the seed and on the parameter's name, and have the same
bits on every machine. The seed is public, as the model is.

Examples:
  damper init onnx-models/resnet18-groupnorm.onnx -o resnet18.onnx --seed 1
  damper init mine.onnx -o fresh.onnx --init 'embed.*=normal(0, 0.02)'
  damper init mine.onnx -o small.onnx --skeleton";

/// Writes a model with fresh random weights.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(in crate::cli) struct InitArgs {
    /// The model, exported as .onnx, with weights or without
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// The file to write
    #[arg(short, long = "out", value_name = "OUT.onnx")]
    out: PathBuf,
    /// Seed of the weights
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
    /// Initial values of the parameters that match (`*` and `?`, may be repeated, the last match counts)
    #[arg(long, value_name = "PATTERN=SPEC", value_parser = one)]
    init: Vec<Override>,
    /// Also draws the initializers that match, even if the rule of trained parameters excludes them (may be repeated)
    #[arg(long, value_name = "PATTERN")]
    train: Vec<String>,
    /// Keeps the values of the initializers that match. Overrides --train (may be repeated)
    #[arg(long, value_name = "PATTERN")]
    freeze: Vec<String>,
    /// Writes shapes and initialisers instead of weights: a small file that every command makes weights for
    #[arg(long, conflicts_with = "seed")]
    skeleton: bool,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

fn one(text: &str) -> Result<Override, String> {
    // Patterns have no '=', and initialisers may.
    let (pattern, initialiser) = text.split_once('=').ok_or("give PATTERN=SPEC, such as embed.*=normal(0, 0.02)")?;
    Ok(Override { pattern: pattern.trim().into(), initialiser: initialiser.parse()? })
}

#[derive(Serialize)]
struct AccountingResult {
    model: String,
    out: String,
    /// `None` for a skeleton.
    seed: Option<u64>,
    /// Number of drawn values.
    drawn: usize,
    parameters: Vec<Parameter>,
}

#[derive(Serialize)]
struct Parameter {
    name: String,
    shape: Vec<usize>,
    role: &'static str,
    /// `None` if the values were kept.
    init: Option<String>,
}

pub(in crate::cli) fn run(args: &InitArgs) -> Result<(), Failure> {
    if args.out.exists() && !args.out.is_file() {
        return Err(Failure::in_file(&args.out, "is there and no plain file; name another -o"));
    }
    let mut model = onnx::load(&args.model)?;
    if let Some(warning) = converted(&mut model, &args.model) {
        warn(&warning);
    }
    let options = GraphOptions { train: args.train.clone(), freeze: args.freeze.clone(), ..GraphOptions::default() };
    let (mut model, list) =
        initialise(&model, &options, &args.init, args.seed).map_err(|error| Failure::of_file(&args.model, error))?;
    if args.skeleton {
        skeleton(&mut model, &list);
    }
    write_model(&args.out, &model, Access::Public)?;
    let drawn = list.iter().filter(|one| one.initialiser.is_some());
    let answered = AccountingResult {
        model: args.model.display().to_string(),
        out: args.out.display().to_string(),
        seed: (!args.skeleton).then_some(args.seed),
        drawn: drawn.map(|one| one.shape.iter().product::<usize>()).sum(),
        parameters: list.into_iter().map(Parameter::from).collect(),
    };
    if args.json { answer_json(&answered) } else { answer(&answered.to_string()) }
}

impl From<Initialised> for Parameter {
    fn from(one: Initialised) -> Self {
        Self { name: one.name, shape: one.shape, role: one.role, init: one.initialiser.map(|init| init.to_string()) }
    }
}

impl std::fmt::Display for AccountingResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = self.parameters.iter().map(|one| one.name.chars().count()).max().unwrap_or(0);
        for one in &self.parameters {
            let init = one.init.as_deref().unwrap_or("keeps its values");
            writeln!(f, "  {:width$}  {:?}  {}: {init}", one.name, one.shape, one.role)?;
        }
        let kept = self.parameters.iter().filter(|one| one.init.is_none()).map(|one| &*one.name).collect::<Vec<_>>();
        if !kept.is_empty() {
            writeln!(f, "not drawn, as no rule is known for their use: {}; give --init NAME=SPEC", kept.join(", "))?;
        }
        match self.seed {
            Some(seed) => write!(f, "{}: {} numbers drawn, seed {seed}", self.out, self.drawn),
            None => write!(f, "{}: {} numbers left out, to be drawn on load", self.out, self.drawn),
        }
    }
}
