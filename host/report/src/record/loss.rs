//! Names of losses, reductions and label weights.

use damper_grad::{DeriveOptions, LabelWeights, Loss, LossReduction};

/// Returns a loss as a value of the flag.
pub fn loss_name(loss: &Loss) -> String {
    match loss {
        Loss::SoftmaxCrossEntropy => "softmax-cross-entropy".into(),
        Loss::CausalLm => "causal-lm".into(),
        Loss::Ctc => "ctc".into(),
        Loss::Mse => "mse".into(),
        Loss::L1 => "l1".into(),
        Loss::Huber => "huber".into(),
        Loss::BceWithLogits => "bce-with-logits".into(),
        Loss::Output(name) => format!("output:{name}"),
    }
}

/// Returns a reduction as a value of the flag, if the loss has one.
pub fn reduction_name(options: &DeriveOptions) -> Option<&'static str> {
    match (&options.loss, options.reduction) {
        (Loss::Output(_), _) => None,
        (_, LossReduction::Mean) => Some("mean"),
        (_, LossReduction::Sum) => Some("sum"),
    }
}

/// Returns the weights of labels as text, if not all are equal.
pub fn label_weights_text(weights: &LabelWeights) -> Option<String> {
    let LabelWeights { class_weights, label_smoothing, focal_gamma } = weights;
    let list = class_weights.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let parts = [
        (!class_weights.is_empty()).then(|| format!("class weights {list}")),
        (*label_smoothing != 0.0).then(|| format!("label smoothing {label_smoothing}")),
        (*focal_gamma != 0.0).then(|| format!("focal gamma {focal_gamma}")),
    ];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_weights_are_named_where_given() {
        assert_eq!(label_weights_text(&LabelWeights::default()), None);
        let all = LabelWeights { class_weights: vec![1.0, 2.5], label_smoothing: 0.1, focal_gamma: 2.0 };
        assert_eq!(label_weights_text(&all).unwrap(), "class weights 1, 2.5, label smoothing 0.1, focal gamma 2");
    }
}
