//! `SoftmaxCrossEntropyLoss` and `NegativeLogLikelihoodLoss` of each label, rewritten to simpler operators.

use super::super::DType;
use super::super::node::{Ruled, Site};
use super::rewrite::Rewrite;
use crate::{attr_int, data_type, find_attr, make_attr_int};

/// Reads scores `[N, C, …]`, labels `[N, …]` and optional class weights. Returns the loss of each label, `[N, …]`, and
/// for `SoftmaxCrossEntropyLoss` the log-probabilities.
pub(in super::super) fn of_labels(site: &Site<'_>) -> Ruled {
    let scores = site.float(0)?;
    let labels = site.data(1)?;
    if scores.shape.len() < 2 || !matches!(labels.shaped.dtype, DType::I32 | DType::I64) {
        return Err(site.invalid("it takes scores of classes along axis 1 and integer labels"));
    }
    if site.attr_string("reduction", "mean") != "none" {
        return Err(site.mixes(
            "it adds up the losses of the batch",
            "export it with reduction='none', and take the mean over each sample's own axes",
        ));
    }
    let mut out = Rewrite::of(site);
    let along = |axis| vec![make_attr_int("axis", axis)];
    let mut logarithms = site.node.input[0].clone();
    if site.op() == "SoftmaxCrossEntropyLoss" {
        logarithms = match site.node.output.get(1).filter(|name| !name.is_empty()) {
            None => out.node("LogSoftmax", &[&logarithms], along(1)),
            Some(name) => {
                out.named("LogSoftmax", &[&logarithms], along(1), name);
                name.clone()
            }
        };
    }
    let to = vec![make_attr_int("to", data_type(DType::I64) as i64)];
    let mut labels = out.node("Cast", &[&site.node.input[1]], to);
    let ignored = find_attr(site.attributes(), "ignore_index").map(|_| {
        let [ignored, first] = [attr_int(site.attributes(), "ignore_index", 0), 0].map(|label| out.fixed([label]));
        let ignored = out.node("Equal", &[&labels, &ignored], vec![]);
        labels = out.node("Where", &[&ignored, &first, &labels], vec![]);
        ignored
    });
    let classes = out.fixed([1]);
    let index = out.node("Unsqueeze", &[&labels, &classes], vec![]);
    let picked = out.node("GatherElements", &[&logarithms, &index], along(1));
    let picked = out.node("Squeeze", &[&picked, &classes], vec![]);
    let mut loss = out.node("Neg", &[&picked], vec![]);
    if site.has(2) {
        let weights = out.node("Gather", &[&site.node.input[2], &labels], along(0));
        loss = out.node("Mul", &[&loss, &weights], vec![]);
    }
    let Some(ignored) = ignored else { return Ok(out.end("Identity", &[&loss], vec![])) };
    let zero = out.floats(&[], vec![0.0]);
    Ok(out.end("Where", &[&ignored, &zero, &loss], vec![]))
}
