//! `damper fix`: removes layers that mix the samples of a batch, adds layers that help private training, and quantises
//! weights.

use crate::cli::args::flags::with_flags;
use crate::cli::{Failure, answer, answer_json, warn};
use clap::Args;
use damper_edit::init::converted;
use damper_edit::{
    BatchNormChange, BatchNormFix, QuantizeChange, Replacement, ScaleChange, WeightChange, add_scale_norms,
    fix_batch_norm, quantize_weights, standardize_weights,
};
use damper_onnx::graph::{Graph, GraphOptions, hoist_weights, open_inputs};
use damper_onnx::{self as onnx, TensorError, decode_tensor};
use damper_train::files::Access;
use damper_train::write_model;
use serde::Serialize;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
BatchNormalization mixes the samples of a batch, so none has a gradient of its
own. A layer without statistics (means 0, variances 1), or in training mode,
becomes a GroupNorm with the same weights: train the model afterwards. A layer
with statistics, as of a pretrained model, is a scale and a shift: it is merged
into the convolution or linear layer before it, or else stays a scale and a
shift, which are trained. That changes no output.

--weight-standardisation and --scale-norm change the outputs, so train the model
afterwards. The first centres each filter of a convolution and gives it length 1.
The second puts a normalisation without parameters after each sum of two branches.

--int8 writes weights as 8-bit integers with a scale for each channel, a quarter
of their bytes in the file and in a compiled network. They have no gradient: name
layers that you do not train. What that costs in accuracy is yours to measure.

Examples:
  damper fix resnet18.onnx -o resnet18-fixed.onnx
  damper train resnet18-fixed.onnx --data cifar:cifar-10-binary.tar.gz ...
  damper fix wrn.onnx --weight-standardisation --scale-norm -o wrn-ws.onnx
  damper fix mnist-cnn.onnx --int8 'conv*' -o mnist-cnn-int8.onnx";

/// Replaces BatchNormalization, which cannot be trained privately, adds normalisations that help, and rounds weights
/// that are not trained.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(in crate::cli) struct FixArgs {
    /// The model, exported as .onnx
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// The file to write
    #[arg(short, long = "out", value_name = "OUT.onnx")]
    out: PathBuf,
    /// Replacement of a BatchNormalization: `group`, a GroupNorm, or `merge`, a scale and a shift by its statistics.
    /// `auto` merges if it has statistics and is not in training mode
    #[arg(long, value_name = "auto|group|merge", default_value = "auto")]
    batch_norm: BatchNormFix,
    /// Groups of each GroupNorm [default: the largest divisor of the channels up to 32 that leaves two channels a
    /// group]
    #[arg(long, value_name = "G")]
    groups: Option<usize>,
    /// Standardises the filters of convolutions: each is its parameters less their mean, scaled to length 1
    #[arg(long)]
    weight_standardisation: bool,
    /// Normalises groups of channels after each sum of two branches, unless a normalisation follows
    #[arg(long)]
    scale_norm: bool,
    /// Weights to write as 8-bit integers with a scale for each channel, which are not trained. Repeatable, `*` matches
    /// any text
    #[arg(long, value_name = "PATTERN")]
    int8: Vec<String>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

const BATCH_NORM: &str = "BatchNormalization";

#[derive(Serialize)]
struct Fixed {
    model: String,
    out: String,
    changes: Vec<Change>,
    /// Reason why the model still cannot be trained, if any.
    refusal: Option<String>,
}

#[derive(Serialize)]
struct Change {
    node: String,
    operator: String,
    to: String,
}

impl From<BatchNormChange> for Change {
    fn from(change: BatchNormChange) -> Self {
        let to = match change.to {
            Replacement::GroupNorm { groups, channels } => {
                format!("GroupNorm of {groups} groups of {channels} channels")
            }
            Replacement::Merged { layer } => format!("merged into the layer '{layer}'"),
            Replacement::Affine => "a scale and a shift, by its statistics".into(),
            Replacement::Kept { why } => format!("kept: {why}"),
        };
        Self { node: change.node, operator: BATCH_NORM.into(), to }
    }
}

impl From<WeightChange> for Change {
    fn from(WeightChange { node, weight, kept }: WeightChange) -> Self {
        let to = match kept {
            None => format!("filters of '{weight}' centred and scaled to length 1; the outputs change"),
            Some(why) => format!("kept '{weight}': {why}"),
        };
        Self { node, operator: "Conv".into(), to }
    }
}

impl From<ScaleChange> for Change {
    fn from(ScaleChange { node, to }: ScaleChange) -> Self {
        let to = match to {
            Ok((groups, channels)) => {
                format!("normalised in {groups} groups of {channels} channels, without parameters; the outputs change")
            }
            Err(why) => format!("kept: {why}"),
        };
        Self { node, operator: "Add".into(), to }
    }
}

impl From<QuantizeChange> for Change {
    fn from(QuantizeChange { node, operator, weight, to }: QuantizeChange) -> Self {
        let to = match to {
            Ok((channels, error)) => {
                format!(
                    "'{weight}' as int8 of {channels} channels, not trained: each element changes by at most {error:.2e}"
                )
            }
            Err(why) => format!("kept '{weight}': {why}"),
        };
        Self { node, operator, to }
    }
}

pub(in crate::cli) fn run(args: &FixArgs) -> Result<(), Failure> {
    if args.out.exists() && !args.out.is_file() {
        return Err(Failure::in_file(&args.out, "is there and no plain file; name another -o"));
    }
    let mut model = onnx::load(&args.model)?;
    let is_listed = model.ir_version < 4;
    if let Some(graph) = model.graph.as_mut() {
        hoist_weights(graph, is_listed);
    }
    if let Some(warning) = converted(&mut model, &args.model) {
        warn(&warning);
    }
    let tensors = model.graph.iter().flat_map(|graph| &graph.initializer);
    let is_elsewhere = |error: &TensorError| matches!(error, TensorError::External(_));
    if let Some(error) = tensors.filter_map(|tensor| decode_tensor(tensor).err()).find(is_elsewhere) {
        return Err(Failure::of_file(&args.model, error));
    }
    let changes = fix_batch_norm(&mut model, args.batch_norm, args.groups)
        .map_err(|error| Failure::of_file(&args.model, error))?;
    let mut changes: Vec<Change> = changes.into_iter().map(Change::from).collect();
    if args.weight_standardisation {
        changes.extend(standardize_weights(&mut model).into_iter().map(Change::from));
    }
    if args.scale_norm {
        let scaled = add_scale_norms(&mut model, &GraphOptions::default());
        changes.extend(scaled.map_err(|error| Failure::of_file(&args.model, error))?.into_iter().map(Change::from));
    }
    let rounded = quantize_weights(&mut model, &args.int8).map_err(|error| Failure::of_file(&args.model, error))?;
    changes.extend(rounded.into_iter().map(Change::from));
    let open = open_inputs(&model, &GraphOptions::default()).unwrap_or_default();
    // The data or flags fix open axes.
    let is_open = open.iter().any(|input| input.extents.iter().any(Option::is_none));
    let refusal = Graph::from_model(&model, &GraphOptions::default()).err().filter(|_| !is_open);
    let refusal = refusal.map(|error| with_flags(&error.to_string()));
    write_model(&args.out, &model, Access::Public)?;
    let fixed =
        Fixed { model: args.model.display().to_string(), out: args.out.display().to_string(), changes, refusal };
    if args.json { answer_json(&fixed) } else { answer(&fixed.to_string()) }
}

impl std::fmt::Display for Fixed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for Change { node, operator, to } in &self.changes {
            writeln!(f, "  {operator} '{node}': {to}")?;
        }
        let norms = || self.changes.iter().filter(|change| change.operator == BATCH_NORM);
        let changed = norms().filter(|change| !change.to.starts_with("kept")).count();
        write!(f, "{}: {changed} of {} BatchNormalization replaced", self.out, norms().count())?;
        match &self.refusal {
            None => Ok(()),
            Some(refusal) => write!(f, "\nit still cannot be trained: {refusal}"),
        }
    }
}
