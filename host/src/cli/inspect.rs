//! `damper inspect`: what is trained, what is refused, and how large it is.

use super::model::{MEMORY, ModelArgs, bytes_text, memory};
use super::{Failure, answer, answer_json};
use crate::autodiff::{derive, has_slope, is_differentiated};
use crate::graph::{Graph, Support, Value, initializers, support};
use crate::onnx::pb::{ModelProto, ValueInfoProto, tensor_shape_proto::dimension, type_proto};
use crate::report::{loss_name, reduction_name};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
A model that cannot be trained is no error here: the last lines say why.
--train and --freeze override the rule that decides what is trained.

Example:
  damper inspect onnx-models/digits-cnn.onnx --freeze 'conv.*'";

/// Says what of a model is trained and why, and whether it can be.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct InspectArgs {
    /// The model, exported as .onnx
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// What the tensors of one worker may take: the physical batch follows
    #[arg(long, value_name = "SIZE", default_value = MEMORY, value_parser = memory)]
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
    /// Numbers that are trained, and float numbers in initializers that are not.
    trained: usize,
    not_trained: usize,
    operators: Vec<Operator>,
    loss: String,
    /// Over a sample's tokens or elements; none where the model computes its loss.
    reduction: Option<&'static str>,
    trainable: bool,
    /// Why not.
    refusal: Option<String>,
    /// Bytes of one sample's gradient.
    gradient_bytes: usize,
    /// What the gradient graph costs, where there is one.
    cost: Option<CostOf>,
}

#[derive(Serialize)]
struct CostOf {
    /// Of one sample, forward and backward.
    multiply_adds: u64,
    sample_bytes: u64,
    fixed_bytes: u64,
    /// The limit that was given.
    memory: u64,
    /// Rows that fit it; none where not even one does.
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
}

#[derive(Serialize)]
struct Operator {
    op: String,
    count: usize,
    supported: bool,
    note: String,
}

pub(super) fn run(args: &InspectArgs) -> Result<(), Failure> {
    let model = args.options.load(&args.model)?;
    let options = args.options.graph_options();
    let parameters: Vec<Parameter> = initializers(&model, &options)
        .map_err(|error| Failure::in_file(&args.model, error))?
        .into_iter()
        .map(|i| Parameter { name: i.name, shape: i.shape, trained: i.trained, reason: i.reason })
        .collect();
    let graph = Graph::from_model(&model, &options);
    let (refusal, cost) = match &graph {
        Err(error) => (Some(error.to_string()), None),
        Ok(graph) => match derive(graph, &args.options.derive_options()) {
            Ok(grad) => (None, Some(grad.cost)),
            Err(refusal) => (Some(refusal.to_string()), None),
        },
    };
    let cost = cost.map(|cost| CostOf {
        multiply_adds: cost.multiply_adds,
        sample_bytes: cost.sample_bytes,
        fixed_bytes: cost.fixed_bytes,
        memory: args.memory,
        physical_batch: cost.rows(args.memory).map(NonZeroUsize::get),
    });
    let count = |trained: bool| -> usize {
        let of = parameters.iter().filter(|parameter| parameter.trained == trained);
        of.map(|parameter| parameter.shape.iter().product::<usize>()).sum()
    };
    let (trained, not_trained) = (count(true), count(false));
    let (inputs, outputs) = match &graph {
        Ok(graph) => {
            let typed = |ids: &[crate::graph::ValueId]| ids.iter().map(|id| tensor(graph.value(*id))).collect();
            (typed(&graph.inputs), typed(&graph.outputs))
        }
        Err(_) => declared(&model),
    };
    let inspection = Inspection {
        model: args.model.display().to_string(),
        opset: model.opset_import.iter().find(|set| matches!(&*set.domain, "" | "ai.onnx")).map(|set| set.version),
        inputs,
        outputs,
        trained,
        not_trained,
        parameters,
        operators: operators(&model),
        loss: loss_name(&args.options.loss),
        reduction: reduction_name(&args.options.derive_options()),
        trainable: refusal.is_none(),
        refusal,
        gradient_bytes: 4 * trained,
        cost,
    };
    if args.json { answer_json(&inspection) } else { answer(&inspection.to_string()) }
}

/// A value with its batch extent as `N`.
fn tensor(value: &Value) -> Tensor {
    let extent = |(axis, extent): (usize, &usize)| match value.batch {
        Some(batch) if batch.axis == axis && *extent == 1 => "N".into(),
        Some(batch) if batch.axis == axis => format!("{extent}*N"),
        _ => extent.to_string(),
    };
    Tensor { name: value.name.clone(), shape: value.shape.iter().enumerate().map(extent).collect() }
}

/// Inputs and outputs as the file declares them, initializers left out.
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

fn operators(model: &ModelProto) -> Vec<Operator> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for node in model.graph.iter().flat_map(|graph| &graph.node) {
        *counts.entry((&node.domain, &node.op_type)).or_default() += 1;
    }
    let judged = counts.into_iter().map(|((domain, op), count)| {
        let (supported, note) = match support(domain, op) {
            Support::Ruled if is_differentiated(op) => (true, "differentiated".into()),
            Support::Ruled if !has_slope(op) => (true, "no gradient".into()),
            Support::Ruled => (true, "on constants and shapes only".into()),
            Support::Refused(why) => (false, format!("refused: {why}")),
            Support::Unknown => (false, "no rule".into()),
        };
        let op = if domain.is_empty() { op.into() } else { format!("{domain}.{op}") };
        Operator { op, count, supported, note }
    });
    judged.collect()
}

impl fmt::Display for CostOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "one sample takes {} multiply-adds, forward and backward", self.multiply_adds)?;
        let [sample, fixed, memory] = [self.sample_bytes, self.fixed_bytes, self.memory].map(bytes_text);
        writeln!(f, "a worker's tensors take {sample} a sample and {fixed} whatever their number")?;
        match self.physical_batch {
            Some(rows) => writeln!(f, "physical batch for --memory {memory}: {rows}"),
            None => writeln!(f, "not one sample fits --memory {memory}"),
        }
    }
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
            [mark.into(), parameter.name.clone(), format!("{:?}", parameter.shape), parameter.reason.clone()]
        });
        table(f, &rows.collect::<Vec<_>>())?;
        writeln!(f, "{} numbers are trained, {} are not", self.trained, self.not_trained)?;
        writeln!(f, "one sample's gradient takes {} bytes", self.gradient_bytes)?;
        if let Some(cost) = &self.cost {
            write!(f, "{cost}")?;
        }
        writeln!(f, "\noperators")?;
        let rows = self.operators.iter().map(|operator| {
            let mark = if operator.supported { "yes" } else { "no " };
            [mark.into(), operator.op.clone(), format!("x{}", operator.count), operator.note.clone()]
        });
        table(f, &rows.collect::<Vec<_>>())?;
        let reduction = self.reduction.map_or(String::new(), |reduction| format!(" --reduction {reduction}"));
        match &self.refusal {
            None => write!(f, "\ncan be trained with --loss {}{reduction}", self.loss),
            Some(why) => write!(f, "\ncannot be trained with --loss {}{reduction}: {why}", self.loss),
        }
    }
}

/// Columns, each as wide as its widest entry; the last as it is.
fn table(f: &mut fmt::Formatter<'_>, rows: &[[String; 4]]) -> fmt::Result {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (a, b, c) = (width(0), width(1), width(2));
    for [first, second, third, last] in rows {
        writeln!(f, "  {first:a$}  {second:b$}  {third:c$}  {last}")?;
    }
    Ok(())
}
