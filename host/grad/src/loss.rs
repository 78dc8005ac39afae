//! Losses: one value per sample, and its gradient with respect to the output that the loss reads.

mod bce_with_logits;
mod ctc;
mod difference;
mod from_output;
mod head;
mod label_weights;
mod labels;
mod probabilities;
mod softmax_cross_entropy;
mod sums;

use super::derive_error::DeriveError;
use super::emit::{Emitter, Var};
use super::options::{DeriveOptions, Loss};
use damper_onnx::graph::{DType, Graph, ValueId};
use head::Head;

/// Emitted loss.
pub struct EmittedLoss {
    /// Loss of each sample, `[N]`.
    pub loss: Var,
    /// Input of the labels, if the loss has labels.
    pub labels: Option<Var>,
    /// Value that the loss reads, and the gradient of each sample's loss with respect to it.
    pub seed: (ValueId, Var),
}

/// Emits the loss selected in `options`.
pub fn emit(
    em: &mut Emitter,
    graph: &Graph,
    forward: &[Option<Var>],
    options: &DeriveOptions,
) -> Result<EmittedLoss, DeriveError> {
    let (id, name) = source(graph, options)?;
    let output = forward[id.0].clone().expect("outputs are emitted");
    if output.batch.is_none() {
        return Err(DeriveError::new(
            format!("output {name}"),
            "it does not depend on the samples",
            "choose the output that feeds the loss with `output`",
        ));
    }
    if !matches!(output.dtype, DType::F32 | DType::F64) {
        return Err(DeriveError::new(
            format!("output {name}"),
            "it is not a float tensor",
            "choose the output that feeds the loss with `output`",
        ));
    }
    label_weights::check(options)?;
    let z = Head::new(em, &output);
    let (loss, labels, seed) = match &options.loss {
        Loss::SoftmaxCrossEntropy | Loss::CausalLm => softmax_cross_entropy::emit(em, &z, name, options)?,
        Loss::Ctc => ctc::emit(em, &z, name, options)?,
        Loss::Mse | Loss::L1 | Loss::Huber => difference::emit(em, &z, options),
        Loss::BceWithLogits => bce_with_logits::emit(em, &z, options)?,
        Loss::Output(_) => from_output::emit(em, &z, name)?,
    };
    let seed = z.scatter(em, &seed);
    Ok(EmittedLoss { loss, labels, seed: (id, seed) })
}

/// Output that feeds the loss.
pub fn source<'a>(graph: &'a Graph, options: &'a DeriveOptions) -> Result<(ValueId, &'a str), DeriveError> {
    let wanted = match (&options.loss, &options.output) {
        (Loss::Output(name), _) => Some((name, "loss")),
        (_, Some(name)) => Some((name, "output")),
        _ => None,
    };
    let names = || graph.outputs.iter().map(|o| &*graph.values[o.0].name).collect::<Vec<_>>().join(", ");
    match wanted {
        Some((name, setting)) => {
            let id = graph.outputs.iter().find(|o| graph.values[o.0].name == *name).ok_or_else(|| {
                let reason = format!("the model has no output {name}");
                DeriveError::of_setting(setting, reason, format!("name one of its outputs: {}", names()))
            })?;
            Ok((*id, name))
        }
        None => match graph.outputs[..] {
            [id] => Ok((id, &graph.values[id.0].name)),
            _ => Err(DeriveError::new(
                "the model",
                format!("it has {} outputs", graph.outputs.len()),
                format!("choose the one that feeds the loss with `output`: {}", names()),
            )),
        },
    }
}
