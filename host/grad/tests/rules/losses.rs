//! Cases of the losses.

use super::builder::{BATCH_FIRST, Case, GraphBuilder};
use damper_grad::{DeriveOptions, LabelWeights, Loss, LossReduction};
use damper_onnx::graph::BatchAxis;
use damper_onnx::make_attr_ints;

/// All losses, in the layouts that they accept.
pub fn cases() -> Vec<Case> {
    let within = |reach: f32, name, shape: &[usize], options| {
        let mut b = GraphBuilder::new(17);
        let x = b.activation_in(shape, -reach, reach);
        b.case_with(name, x, options)
    };
    let one = |name, shape: &[usize], options| within(3.0, name, shape, options);
    let huge = |name, shape: &[usize], options| within(1e4, name, shape, options);
    let entropy = DeriveOptions::new(Loss::SoftmaxCrossEntropy);
    let on_axis = |axis| DeriveOptions { class_axis: Some(axis), ..DeriveOptions::new(Loss::SoftmaxCrossEntropy) };
    let mse = DeriveOptions::new(Loss::Mse);
    let bce = DeriveOptions::new(Loss::BceWithLogits);
    let ctc = DeriveOptions::new(Loss::Ctc);
    let causal = DeriveOptions::new(Loss::CausalLm);
    let weighted = |options: &DeriveOptions, weights: &[f32], smoothing: f32, gamma: f32| DeriveOptions {
        label_weights: LabelWeights { class_weights: weights.to_vec(), label_smoothing: smoothing, focal_gamma: gamma },
        ..options.clone()
    };
    let weights = [0.5, 2.0, 0.0, 1.25];
    let summed = |options: &DeriveOptions| DeriveOptions { reduction: LossReduction::Sum, ..options.clone() };

    let mut merged = GraphBuilder::new(17);
    let x = merged.activation(&[3, 4]);
    let rows = merged.node_at("Reshape", &[x], vec![], &[3, 4], Some(BatchAxis { axis: 0, outer: 1, inner: 3 }));
    let mut transposed = GraphBuilder::new(17);
    let x = transposed.activation(&[3, 4]);
    let perm = vec![make_attr_ints("perm", &[1, 0, 2])];
    let second = transposed.node_at("Transpose", &[x], perm, &[3, 1, 4], Some(BatchAxis { axis: 1, ..BATCH_FIRST }));
    let mut own = GraphBuilder::new(17);
    let x = own.activation(&[3]);
    let minus_one = own.ints(&[-1]);
    let sum = own.node("ReduceSum", &[x, minus_one], vec![], &[1, 1]);
    let name = "v2".to_string();
    vec![
        one("softmax-cross-entropy: one label", &[5], entropy.clone()),
        one("softmax-cross-entropy: ignored labels", &[5], on_axis(1)),
        one("softmax-cross-entropy: tokens", &[3, 4], entropy.clone()),
        one("softmax-cross-entropy: tokens, some ignored", &[3, 4], on_axis(-1)),
        one("softmax-cross-entropy: tokens, summed", &[3, 4], summed(&on_axis(-1))),
        one("softmax-cross-entropy: classes first", &[4, 2, 3], on_axis(1)),
        one("softmax-cross-entropy: classes between tokens, summed", &[2, 4, 3], summed(&on_axis(2))),
        one("softmax-cross-entropy: classes counted from the end", &[4, 2, 3], on_axis(-3)),
        one("softmax-cross-entropy: a large vocabulary", &[2, 1000], entropy.clone()),
        huge("softmax-cross-entropy: logits up to 1e4", &[3, 4], on_axis(2)),
        merged.case_with("softmax-cross-entropy: tokens merged into the batch", rows, entropy.clone()),
        transposed.case_with("softmax-cross-entropy: the batch on axis 1", second, entropy),
        one("softmax-cross-entropy: class weights", &[3, 4], weighted(&on_axis(2), &weights, 0.0, 0.0)),
        one("softmax-cross-entropy: label smoothing", &[3, 4], weighted(&on_axis(2), &[], 0.1, 0.0)),
        one("softmax-cross-entropy: weights and smoothing", &[4, 3], weighted(&on_axis(1), &weights, 0.3, 0.0)),
        one("softmax-cross-entropy: focal", &[5], weighted(&on_axis(1), &[], 0.0, 2.0)),
        one(
            "softmax-cross-entropy: focal, weights, summed",
            &[3, 4],
            summed(&weighted(&on_axis(2), &weights, 0.0, 1.0)),
        ),
        huge("softmax-cross-entropy: weights, logits up to 1e4", &[3, 4], weighted(&on_axis(2), &weights, 0.0, 0.0)),
        huge("softmax-cross-entropy: focal, logits up to 1e4", &[3, 4], weighted(&on_axis(2), &weights, 0.0, 2.5)),
        one("bce-with-logits: class weights", &[2, 3], weighted(&bce, &[0.5, 3.0], 0.0, 0.0)),
        one("bce-with-logits: focal", &[2, 3], weighted(&bce, &[], 0.0, 2.0)),
        one("bce-with-logits: focal and weights", &[2, 3], weighted(&bce, &[1.0, 4.0], 0.0, 1.5)),
        one("causal-lm", &[4, 5], causal.clone()),
        one("causal-lm: some ignored", &[6, 4], DeriveOptions { class_axis: Some(-1), ..causal.clone() }),
        one("causal-lm: summed, smoothed", &[3, 4], summed(&weighted(&causal, &[], 0.1, 0.0))),
        one("ctc", &[5, 3], ctc.clone()),
        one("ctc: summed", &[4, 4], summed(&ctc)),
        one("ctc: one place", &[1, 3], ctc),
        one("l1", &[2, 3], DeriveOptions::new(Loss::L1)),
        one("l1: summed", &[4], summed(&DeriveOptions::new(Loss::L1))),
        one("huber", &[2, 3], DeriveOptions::new(Loss::Huber)),
        one("huber: summed", &[5], summed(&DeriveOptions::new(Loss::Huber))),
        one("mse", &[2, 3], mse.clone()),
        one("mse: summed", &[2, 3], summed(&mse)),
        one("bce-with-logits", &[2, 3], bce.clone()),
        one("bce-with-logits: summed", &[2, 3], summed(&bce)),
        one("bce-with-logits: one element", &[1], bce.clone()),
        huge("bce-with-logits: logits up to 1e4", &[2, 3], bce),
        own.case_with("output", sum, DeriveOptions::new(Loss::Output(name))),
    ]
}
