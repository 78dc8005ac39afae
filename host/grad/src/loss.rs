//! The losses: one number a sample, and its gradient with respect to the output it reads.

mod bce_with_logits;
mod from_output;
mod mse;
mod softmax_cross_entropy;

use super::emit::{BATCH_FIRST, Emitter, Var};
use super::refusal::Refusal;
use super::{DeriveOptions, Loss};
use damper_onnx::graph::{DType, Graph, ValueId};

/// Name of the labels' input.
pub const LABELS: &str = "dp.labels";

/// The label of a token or element that is not counted.
const IGNORED: i64 = -100;

/// An emitted loss.
pub struct Emitted {
    /// `[N]`.
    pub loss: Var,
    /// The labels' input, if the loss reads labels.
    pub labels: Option<Var>,
    /// The value the loss reads, and the gradient of each sample's loss with respect to it.
    pub seed: (ValueId, Var),
}

/// Emits the loss that `options` names.
pub fn emit(
    em: &mut Emitter,
    graph: &Graph,
    forward: &[Option<Var>],
    options: &DeriveOptions,
) -> Result<Emitted, Refusal> {
    let (id, name) = source(graph, options)?;
    let output = forward[id.0].clone().expect("outputs are emitted");
    if output.batch.is_none() {
        return Err(Refusal::new(
            format!("output {name}"),
            "it does not depend on the samples",
            "choose the output that feeds the loss with --output",
        ));
    }
    if !matches!(output.dtype, DType::F32 | DType::F64) {
        return Err(Refusal::new(
            format!("output {name}"),
            "it is not a float tensor",
            "choose the output that feeds the loss with --output",
        ));
    }
    let z = Head::new(em, &output);
    let (loss, labels, seed) = match &options.loss {
        Loss::SoftmaxCrossEntropy => softmax_cross_entropy::emit(em, &z, name, options)?,
        Loss::Mse => mse::emit(em, &z, options.reduction),
        Loss::BceWithLogits => bce_with_logits::emit(em, &z, options.reduction),
        Loss::Output(_) => from_output::emit(em, &z, name)?,
    };
    let seed = z.put_back(em, &seed);
    Ok(Emitted { loss, labels, seed: (id, seed) })
}

/// The output that feeds the loss.
fn source<'a>(graph: &'a Graph, options: &'a DeriveOptions) -> Result<(ValueId, &'a str), Refusal> {
    let wanted = match (&options.loss, &options.output) {
        (Loss::Output(name), _) => Some((name, "--loss")),
        (_, Some(name)) => Some((name, "--output")),
        _ => None,
    };
    let names = || graph.outputs.iter().map(|o| &*graph.values[o.0].name).collect::<Vec<_>>().join(", ");
    match wanted {
        Some((name, flag)) => {
            let id = graph.outputs.iter().find(|o| graph.values[o.0].name == *name).ok_or_else(|| {
                let reason = format!("the model has no output {name}");
                Refusal::new(flag, reason, format!("name one of its outputs: {}", names()))
            })?;
            Ok((*id, name))
        }
        None => match graph.outputs[..] {
            [id] => Ok((id, &graph.values[id.0].name)),
            _ => Err(Refusal::new(
                "the model",
                format!("it has {} outputs", graph.outputs.len()),
                format!("choose the one that feeds the loss with --output: {}", names()),
            )),
        },
    }
}

/// The output that a loss reads, with the samples in front: `[N, *rest]`.
pub struct Head {
    pub var: Var,
    original: Var,
}

impl Head {
    fn new(em: &mut Emitter, output: &Var) -> Self {
        if output.is_batch_first() {
            return Self { var: output.clone(), original: output.clone() };
        }
        let batch = output.batch.expect("checked to be batched");
        let mut rest = output.shape.clone();
        if rest[batch.axis] == 1 {
            rest.remove(batch.axis);
        }
        Self { var: em.per_sample(output, &rest), original: output.clone() }
    }

    /// Shape of one sample.
    pub fn rest(&self) -> &[usize] {
        &self.var.shape[1..]
    }

    fn put_back(&self, em: &mut Emitter, grad: &Var) -> Var {
        let batch = self.original.batch.expect("checked to be batched");
        let grad = em.per_sample(grad, &self.original.shape);
        em.as_batched(&grad, &self.original.shape, batch)
    }
}

/// The labels' input with one entry a sample of the given shape.
fn labels(dtype: DType, rest: &[usize]) -> Var {
    Var { name: LABELS.into(), dtype, shape: [&[1], rest].concat(), batch: Some(BATCH_FIRST) }
}

/// The sum of each sample's elements: `[N]`.
fn sum_each(em: &mut Emitter, x: &Var) -> Var {
    if x.len() == 1 {
        return em.per_sample(x, &[]);
    }
    let axes: Vec<usize> = (1..x.rank()).collect();
    em.reduce_sum(x, &axes, false)
}

/// What a sample's sum over elements is divided by, `[N, 1, …]` of as many axes as `counted`: the number of its ones,
/// and 1 where there is none.
fn divisor(em: &mut Emitter, counted: &Var) -> Var {
    let axes: Vec<usize> = (1..counted.rank()).collect();
    let count = em.reduce_sum(counted, &axes, true);
    let one = em.scalar(counted.dtype, 1.0);
    em.binary("Max", &count, &one)
}
