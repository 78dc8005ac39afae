//! `damper inspect`: trained parameters, errors, and sizes.

use crate::cli::args::flags::with_flags;
use crate::cli::args::model::{ModelArgs, bytes_text, memory};
use crate::cli::{Failure, answer, answer_json};
use clap::Args;
use damper_edit::init::Loaded;
use damper_grad::{
    DeriveError, DeriveOptions, FrozenPart, GradGraph, GradStrategy, Readout, UNREACHED, derive,
    has_nonzero_derivative, is_differentiated,
};
use damper_onnx::graph::{Graph, GraphOptions, Support, Value, initializers, retie, support};
use damper_onnx::pb::{ModelProto, ValueInfoProto, tensor_shape_proto::dimension, type_proto};
use damper_report::page;
use damper_report::{loss_name, reduction_name};
use damper_runtime::Choice;
use damper_train::{check_weights, read_graph, review};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
A model that cannot be trained is no error here: the last lines say why.
--only, --train and --freeze override the rule that decides what is trained.

Of a parameter that is trained, the third column says how a clipped sum takes
its gradients: dense (the reverse sweep gives them), materialised of their
factors, or by gram matrices of the factors, whichever costs less. A per-sample
readout has all of them dense or materialised.

Example:
  damper inspect onnx-models/digits-cnn.onnx --freeze 'conv.*'
The same with adapters of rank 4 in the linear layers (LoRA):
  damper inspect onnx-models/digits-cnn.onnx --lora 4 --lora-target 'fc*'";

/// Shows which parts of a model are trained and why, and if it can be trained.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(in crate::cli) struct InspectArgs {
    /// The model, exported as .onnx
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// Memory limit for the tensors of one worker, which determines the physical batch
    #[arg(long, value_name = "SIZE", default_value = "2GiB", value_parser = memory)]
    memory: u64,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: ModelArgs,
}

#[derive(Serialize)]
struct Inspection {
    model: String,
    opset: Option<i64>,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    parameters: Vec<Parameter>,
    /// Warnings before training. `damper train` gives the same.
    warnings: Vec<String>,
    /// Number of trained values, and number of float values in initializers that are not trained.
    trained: usize,
    not_trained: usize,
    operators: Vec<Operator>,
    loss: String,
    /// Reduction over a sample's tokens or elements. `None` if the model computes its loss.
    reduction: Option<&'static str>,
    trainable: bool,
    /// Reason why the model cannot be trained.
    refusal: Option<String>,
    /// Bytes of one sample's gradient.
    gradient_bytes: usize,
    /// Given limit.
    memory: u64,
    /// Cost of the gradient graph of each readout, if it has one.
    costs: Vec<CostOf>,
}

#[derive(Serialize)]
struct CostOf {
    readout: &'static str,
    /// Forward and backward, for one sample.
    multiply_adds: u64,
    sample_bytes: u64,
    fixed_bytes: u64,
    /// Number of rows that fit the memory. `None` if no row fits.
    physical_batch: Option<usize>,
}

#[derive(Serialize)]
struct Tensor {
    name: String,
    shape: Vec<String>,
}

#[derive(Serialize)]
struct Parameter {
    name: String,
    shape: Vec<usize>,
    trained: bool,
    reason: String,
    /// Gradient strategy of a clipped sum, if the parameter is trained and has one.
    gradient: Option<Gradient>,
}

#[derive(Serialize)]
struct Gradient {
    strategy: &'static str,
    /// Compared cost, if there was a choice: multiply-adds of one sample, including written floats.
    gram_cost: Option<usize>,
    materialised_cost: Option<usize>,
}

#[derive(Serialize)]
struct Operator {
    op: String,
    count: usize,
    supported: bool,
    note: String,
}

pub(in crate::cli) fn run(args: &InspectArgs) -> Result<(), Failure> {
    let (Loaded { model, mut warnings, .. }, options) = args.options.load(&args.model)?;
    let read = read_graph(&model, &options, Some(Choice::Auto));
    let opaque = read.as_ref().ok().and_then(|read| read.opaque.clone());
    warnings.extend(read.as_ref().ok().and_then(|read| read.note.as_deref().map(with_flags)));
    let graph = read.map(|read| read.graph);
    let grads = match &graph {
        Err(error) => Err(with_flags(&error.to_string())),
        Ok(graph) => {
            grad_graphs(graph, &args.options.derive_options()).map_err(|refusal| with_flags(&refusal.to_string()))
        }
    };
    if let Ok(graph) = &graph {
        let tied = retie(&model, &options).map_err(|error| Failure::of_file(&args.model, error))?.into_owned();
        let derive = args.options.derive_options();
        let of_model = match opaque {
            // Its batch stays as it is.
            Some(_) => damper_grad::warnings(graph, &derive),
            None => review(tied, graph, &options, &derive).1,
        };
        warnings.extend(of_model.iter().map(|line| with_flags(line)));
        // Training rejects these weights. The trained parameters, with reasons, are still shown.
        warnings.extend(check_weights(graph, &options).err().map(|error| with_flags(&error.to_string())));
    }
    let (refusal, grads) = match grads {
        Ok(grads) => (None, grads),
        Err(why) => (Some(why), vec![]),
    };
    let parameters = parameters(&args.model, &model, &options, &grads)?;
    let costs = grads.iter().map(|(readout, grad)| CostOf {
        readout: readout.name(),
        multiply_adds: grad.cost.multiply_adds,
        sample_bytes: grad.cost.sample_bytes,
        fixed_bytes: grad.cost.fixed_bytes,
        physical_batch: grad.cost.rows(args.memory).map(NonZeroUsize::get),
    });
    let costs = costs.collect();
    let count = |trained: bool| -> usize {
        let of = parameters.iter().filter(|parameter| parameter.trained == trained);
        of.map(|parameter| parameter.shape.iter().product::<usize>()).sum()
    };
    let (trained, not_trained) = (count(true), count(false));
    let (inputs, outputs) = match &graph {
        Ok(graph) if opaque.is_none() => {
            let typed = |ids: &[damper_onnx::graph::ValueId]| ids.iter().map(|id| tensor(graph.value(*id))).collect();
            (typed(&graph.inputs), typed(&graph.outputs))
        }
        _ => declared(&model),
    };
    let inspection = Inspection {
        model: args.model.display().to_string(),
        opset: model.opset_import.iter().find(|set| matches!(&*set.domain, "" | "ai.onnx")).map(|set| set.version),
        inputs,
        outputs,
        trained,
        not_trained,
        parameters,
        warnings,
        operators: operators(&model, opaque.as_ref()),
        loss: loss_name(&args.options.loss()),
        reduction: reduction_name(&args.options.derive_options()),
        trainable: refusal.is_none(),
        refusal,
        gradient_bytes: 4 * trained,
        memory: args.memory,
        costs,
    };
    if args.json { answer_json(&inspection) } else { answer(&inspection.to_string()) }
}

/// Returns the initializers of a model, with their gradients and the reason for training them or not.
fn parameters(
    file: &Path,
    model: &ModelProto,
    options: &GraphOptions,
    grads: &[(Readout, GradGraph)],
) -> Result<Vec<Parameter>, Failure> {
    let mut ways: HashMap<&str, Gradient> = HashMap::new();
    for (_, grad) in grads.iter().filter(|(readout, _)| *readout == Readout::ClippedSum) {
        ways.extend(
            grad.parameters.iter().zip(&grad.strategies).map(|(spec, way)| (spec.name.as_str(), gradient(*way))),
        );
    }
    let unreached = |name: &str| grads.iter().any(|(_, grad)| grad.unreached.iter().any(|other| other == name));
    let parameters = initializers(model, options)
        .map_err(|error| Failure::of_file(file, error))?
        .into_iter()
        .map(|i| Parameter {
            gradient: ways.remove(i.name.as_str()),
            trained: i.trained && !unreached(&i.name),
            reason: if unreached(&i.name) { UNREACHED.into() } else { with_flags(&i.reason) },
            name: i.name,
            shape: i.shape,
        })
        .collect();
    Ok(parameters)
}

/// Returns the gradient graph of each readout, as the trainer reads it.
fn grad_graphs(graph: &Graph, options: &DeriveOptions) -> Result<Vec<(Readout, GradGraph)>, DeriveError> {
    let of = |readout| Ok((readout, derive(graph, &DeriveOptions { readout, ..options.clone() })?));
    [Readout::Factored { positions: true, groups: false }, Readout::Norms, Readout::ClippedSum]
        .into_iter()
        .map(of)
        .collect()
}

fn gradient(way: GradStrategy) -> Gradient {
    let costs = match way {
        GradStrategy::Materialised(costs) | GradStrategy::Gram(costs) => Some(costs),
        GradStrategy::Dense => None,
    };
    Gradient {
        strategy: way.name(),
        gram_cost: costs.map(|costs| costs.gram),
        materialised_cost: costs.map(|costs| costs.materialised),
    }
}

/// Describes a value, with its batch extent as `N`.
fn tensor(value: &Value) -> Tensor {
    let extent = |(axis, extent): (usize, &usize)| match value.batch {
        Some(batch) if batch.axis == axis && *extent == 1 => "N".into(),
        Some(batch) if batch.axis == axis => format!("{extent}*N"),
        _ => extent.to_string(),
    };
    Tensor { name: value.name.clone(), shape: value.shape.iter().enumerate().map(extent).collect() }
}

/// Returns the declared inputs and outputs of the file, without initializers.
fn declared(model: &ModelProto) -> (Vec<Tensor>, Vec<Tensor>) {
    let Some(graph) = &model.graph else { return (vec![], vec![]) };
    let tensors = |infos: &[ValueInfoProto]| {
        let data = infos.iter().filter(|info| graph.initializer.iter().all(|i| i.name != info.name));
        data.map(|info| Tensor { name: info.name.clone(), shape: declared_shape(info) }).collect()
    };
    (tensors(&graph.input), tensors(&graph.output))
}

fn declared_shape(info: &ValueInfoProto) -> Vec<String> {
    let value = info.r#type.as_ref().and_then(|kind| kind.value.as_ref());
    let Some(type_proto::Value::TensorType(tensor)) = value else { return vec![] };
    let dims = tensor.shape.iter().flat_map(|shape| &shape.dim);
    dims.map(|dim| match &dim.value {
        Some(dimension::Value::DimValue(extent)) => extent.to_string(),
        Some(dimension::Value::DimParam(name)) => name.clone(),
        None => "?".into(),
    })
    .collect()
}

/// Lists the operators of `model`, of which `opaque` runs one sample at a time.
fn operators(model: &ModelProto, opaque: Option<&FrozenPart>) -> Vec<Operator> {
    let is_run = |domain: &str, op: &str| {
        let mut nodes = opaque.iter().flat_map(|part| &part.model.graph).flat_map(|graph| &graph.node);
        nodes.any(|node| node.domain == domain && node.op_type == op)
    };
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for node in model.graph.iter().flat_map(|graph| &graph.node) {
        *counts.entry((&node.domain, &node.op_type)).or_default() += 1;
    }
    let judged = counts.into_iter().map(|((domain, op), count)| {
        let (supported, note) = match support(domain, op) {
            Support::Ruled if is_differentiated(op) => (true, "differentiated".into()),
            Support::Ruled if !has_nonzero_derivative(op) => (true, "no gradient".into()),
            Support::Ruled => (true, "computed, not differentiated".into()),
            _ if is_run(domain, op) => (true, "frozen: run one sample at a time".into()),
            Support::Refused(why) => (false, format!("refused: {why}")),
            Support::Unknown => (false, "no rule".into()),
        };
        let op = if domain.is_empty() { op.into() } else { format!("{domain}.{op}") };
        Operator { op, count, supported, note }
    });
    judged.collect()
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let opset = self.opset.map_or("?".into(), |opset| opset.to_string());
        writeln!(f, "{} (operator set {opset})", self.model)?;
        for (title, tensors) in [("inputs", &self.inputs), ("outputs", &self.outputs)] {
            let list: Vec<String> =
                tensors.iter().map(|tensor| format!("{} [{}]", tensor.name, tensor.shape.join(", "))).collect();
            writeln!(f, "{title:<8} {}", list.join(", "))?;
        }
        writeln!(f, "\nparameters")?;
        let rows = self.parameters.iter().map(|parameter| {
            let mark = if parameter.trained { "train " } else { "freeze" };
            let way = parameter.gradient.as_ref().map_or("", |gradient| gradient.strategy);
            // The mark already shows this.
            let reason =
                ["trained: ", "not trained: "].iter().find_map(|verdict| parameter.reason.strip_prefix(verdict));
            let reason = reason.unwrap_or(&parameter.reason).to_string();
            [mark.into(), parameter.name.clone(), format!("{:?}", parameter.shape), way.into(), reason]
        });
        table(f, &rows.collect::<Vec<_>>())?;
        writeln!(
            f,
            "{} numbers are trained, {} are not",
            grouped(self.trained as u64),
            grouped(self.not_trained as u64)
        )?;
        writeln!(f, "one sample's gradient takes {}", bytes_text(self.gradient_bytes as u64))?;
        if !self.costs.is_empty() {
            self.write_costs(f)?;
        }
        writeln!(f, "\noperators")?;
        let rows = self.operators.iter().map(|operator| {
            let mark = if operator.supported { "yes" } else { "no " };
            [mark.into(), operator.op.clone(), format!("x{}", operator.count), operator.note.clone()]
        });
        table(f, &rows.collect::<Vec<_>>())?;
        let reduction = self.reduction.map_or(String::new(), |reduction| format!(" --reduction {reduction}"));
        for warning in &self.warnings {
            writeln!(f, "\nwarning: {warning}")?;
        }
        match &self.refusal {
            None => write!(f, "\ncan be trained with --loss {}{reduction}", self.loss),
            Some(why) => write!(f, "\ncannot be trained with --loss {}{reduction}: {why}", self.loss),
        }
    }
}

impl Inspection {
    /// Writes a line for each readout: the cost of one sample, forward and backward, and the number of rows of a
    /// worker.
    fn write_costs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\ncost of one sample, forward and backward, for --memory {}", bytes_text(self.memory))?;
        let title = ["readout", "multiply-adds", "a sample", "besides", "physical batch"].map(String::from);
        let rows = self.costs.iter().map(|cost| {
            let rows = cost.physical_batch.map_or("not one sample fits".into(), |rows| rows.to_string());
            let [sample, fixed] = [cost.sample_bytes, cost.fixed_bytes].map(bytes_text);
            [cost.readout.into(), grouped(cost.multiply_adds), sample, fixed, rows]
        });
        table(f, &[title].into_iter().chain(rows).collect::<Vec<_>>())
    }
}

fn grouped(number: u64) -> String {
    page::grouped(number, ',')
}

/// Writes columns, each as wide as its widest entry. The last column is not padded.
fn table<const COLUMNS: usize>(f: &mut fmt::Formatter<'_>, rows: &[[String; COLUMNS]]) -> fmt::Result {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    for row in rows {
        for (cell, width) in row[..COLUMNS - 1].iter().zip(&widths) {
            write!(f, "  {cell:width$}")?;
        }
        writeln!(f, "  {}", row[COLUMNS - 1])?;
    }
    Ok(())
}
