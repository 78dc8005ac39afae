//! Losses and reductions by their names.

use damper_grad::{DeriveOptions, Loss, Reduction};

/// A loss as the command line takes it.
pub fn loss_name(loss: &Loss) -> String {
    match loss {
        Loss::SoftmaxCrossEntropy => "softmax-cross-entropy".into(),
        Loss::Mse => "mse".into(),
        Loss::BceWithLogits => "bce-with-logits".into(),
        Loss::Output(name) => format!("output:{name}"),
    }
}

/// A reduction as the command line takes it, if the loss has one.
pub fn reduction_name(options: &DeriveOptions) -> Option<&'static str> {
    match (&options.loss, options.reduction) {
        (Loss::Output(_), _) => None,
        (_, Reduction::Mean) => Some("mean"),
        (_, Reduction::Sum) => Some("sum"),
    }
}
