//! Operators that are never supported, with the reason and the usual replacement.

/// Operator that is an error with any inputs.
pub(super) struct Refused {
    pub op: &'static str,
    pub reason: &'static str,
    pub remedy: &'static str,
}

const CONTROL: &str = "control flow chooses what runs from data, so a sample's cost and shapes could show it";
const STRAIGHT: &str = "export the model without data-dependent if and loop";
pub(super) const RANDOM: &str = "it draws random numbers outside the run's seed";
const SAMPLED: &str = "it picks its elements by coordinates that are data, and gradients do not pass through them";
const FIXED: &str = "use convolutions, pools and Resize over fixed positions";
const POWERS: &str = "its root has an infinite slope where a window is 0";
const MEANS: &str = "use AveragePool, or write the powers out with a small number added before the root";
pub(super) const REMOVE: &str = "export in evaluation mode (model.eval()) without it";
const QUANTIZED: &str = "rounded weights have no gradient";
const UNQUANTIZED: &str = "export the float32 model, train it, and quantise afterwards; weights that are not trained may be integers, as damper fix writes them";

const TREES: &str = "decision trees are steps, so they have no gradient";
const UNLIKE_TREES: &str = "train a network for this task: a file of trees holds nothing that gradients could train";

/// All such operators, sorted by name.
pub(super) const REFUSED: &[Refused] = &[
    Refused {
        op: "BatchNormalization",
        reason: "it is trained on statistics of the whole batch, so every sample's gradient depends on the others",
        remedy: "replace it on the way with `fix`, or for good with damper fix, or by torch.nn.GroupNorm in the source",
    },
    Refused { op: "Bernoulli", reason: RANDOM, remedy: REMOVE },
    Refused { op: "ConvInteger", reason: QUANTIZED, remedy: UNQUANTIZED },
    Refused { op: "DeformConv", reason: SAMPLED, remedy: FIXED },
    Refused { op: "DequantizeLinear", reason: QUANTIZED, remedy: UNQUANTIZED },
    Refused { op: "DynamicQuantizeLinear", reason: QUANTIZED, remedy: UNQUANTIZED },
    Refused { op: "GlobalLpPool", reason: POWERS, remedy: MEANS },
    Refused { op: "GridSample", reason: SAMPLED, remedy: FIXED },
    Refused {
        op: "Hardmax",
        reason: "it is a step, so no gradient passes it and what feeds it is not trained",
        remedy: "use Softmax",
    },
    Refused { op: "If", reason: CONTROL, remedy: STRAIGHT },
    Refused { op: "Loop", reason: CONTROL, remedy: STRAIGHT },
    Refused { op: "LpPool", reason: POWERS, remedy: MEANS },
    Refused { op: "MatMulInteger", reason: QUANTIZED, remedy: UNQUANTIZED },
    Refused { op: "MaxRoiPool", reason: SAMPLED, remedy: FIXED },
    Refused { op: "MaxUnpool", reason: SAMPLED, remedy: "use Resize or ConvTranspose" },
    Refused { op: "Multinomial", reason: RANDOM, remedy: REMOVE },
    Refused {
        op: "NonZero",
        reason: "it counts and lists elements of the whole batch, so shapes depend on all samples",
        remedy: "use a mask and Where",
    },
    Refused { op: "QLinearConv", reason: QUANTIZED, remedy: UNQUANTIZED },
    Refused { op: "QLinearMatMul", reason: QUANTIZED, remedy: UNQUANTIZED },
    Refused { op: "QuantizeLinear", reason: QUANTIZED, remedy: UNQUANTIZED },
    Refused { op: "RandomNormal", reason: RANDOM, remedy: REMOVE },
    Refused { op: "RandomNormalLike", reason: RANDOM, remedy: REMOVE },
    Refused { op: "RandomUniform", reason: RANDOM, remedy: REMOVE },
    Refused { op: "RandomUniformLike", reason: RANDOM, remedy: REMOVE },
    Refused { op: "RoiAlign", reason: SAMPLED, remedy: FIXED },
    Refused { op: "Scan", reason: CONTROL, remedy: STRAIGHT },
    Refused {
        op: "Scatter",
        reason: "it is of operator set 10",
        remedy: "export it with ScatterElements, or write it with torch.where or torch.cat",
    },
    Refused { op: "TreeEnsemble", reason: TREES, remedy: UNLIKE_TREES },
    Refused { op: "TreeEnsembleClassifier", reason: TREES, remedy: UNLIKE_TREES },
    Refused { op: "TreeEnsembleRegressor", reason: TREES, remedy: UNLIKE_TREES },
    Refused {
        op: "Unique",
        reason: "it compares elements of the whole batch, so shapes depend on all samples",
        remedy: "remove it",
    },
];

/// Entry of operator `op` of `domain`. The two domains of ONNX have no common names.
pub(super) fn find(domain: &str, op: &str) -> Option<&'static Refused> {
    let is_of_onnx = matches!(domain, "" | "ai.onnx" | "ai.onnx.ml");
    REFUSED.iter().find(|refused| is_of_onnx && refused.op == op)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The list contains every operator once, and none of them has a rule.
    #[test]
    fn unsupported_operators_are_unique() {
        for pair in REFUSED.windows(2) {
            assert!(pair[0].op < pair[1].op, "{} before {}", pair[0].op, pair[1].op);
        }
        for refused in REFUSED {
            assert!(super::super::rules::find(refused.op).is_none(), "{}", refused.op);
        }
    }
}
