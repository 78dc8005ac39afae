//! Selection of trained parameters, and the reasons.

mod ties;

use super::*;
use damper_onnx::graph::{BatchAxis, Initializer, initializers, retie};
use damper_onnx::{make_attr_int as int, make_attr_ints, make_tensor_f32, write_trained};
use ties::language_model;

fn listed(model: &ModelProto, options: &GraphOptions) -> Vec<Initializer> {
    initializers(model, options).unwrap()
}

fn reason(model: &ModelProto, name: &str) -> (bool, String) {
    let all = listed(model, &GraphOptions::default());
    let found = all.into_iter().find(|one| one.name == name).unwrap_or_else(|| panic!("'{name}' is not listed"));
    (found.trained, found.reason)
}

/// Options that specify exactly these parameters.
fn given(names: &[&str]) -> GraphOptions {
    GraphOptions { parameter: names.iter().map(|name| name.to_string()).collect(), ..GraphOptions::default() }
}

fn options(train: &[&str], freeze: &[&str]) -> GraphOptions {
    let owned = |patterns: &[&str]| patterns.iter().map(|pattern| pattern.to_string()).collect();
    GraphOptions { train: owned(train), freeze: owned(freeze), ..GraphOptions::default() }
}

// An alias of a merged initializer is a separate parameter.
#[test]
fn alias_of_merged_weight_is_own_parameter() {
    let model = Sketch::new(17, &[N, 3])
        .tensor("a", &[3], &[1.0; 3])
        .node("Identity", &["a"], "b", &[])
        .node("Tanh", &["x"], "u", &[])
        .node("Mul", &["u", "a"], "h", &[])
        .node("Mul", &["h", "b"], "y", &[])
        .returns(&["y"]);
    let graph = graph(&model).unwrap();
    let names: Vec<&str> = graph.trained().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(graph.nodes[2].inputs[1], graph.find("b"));
    let because = "trained: scale of Mul 'y'; the exporter merged it with 'a', of equal value";
    assert_eq!(reason(&model, "b"), (true, because.to_string()));
}

/// Scale of 1 that two nodes read.
fn shared_scale() -> ModelProto {
    Sketch::new(17, &[N, 3])
        .tensor("ones", &[3], &[1.0; 3])
        .node("Tanh", &["x"], "u", &[])
        .node("Mul", &["u", "ones"], "first", &[])
        .node("Tanh", &["first"], "t", &[])
        .node("Mul", &["t", "ones"], "second", &[])
        .returns(&["second"])
}

// Equal norms that an exporter merged without a trace are split again.
#[test]
fn untraced_merged_norms_are_split() {
    let model = shared_scale();
    let graph = graph(&model).unwrap();
    let names: Vec<&str> = graph.trained().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["ones", "ones::second"]);
    let because = "trained: scale of Mul 'second'; the exporter merged it into 'ones', of equal value";
    assert_eq!(reason(&model, "ones::second"), (true, because.to_string()));
    // The trained model reads two initializers, and the original reads one.
    let trained = write_trained(&model, &[("ones", &[2.0; 3]), ("ones::second", &[3.0; 3])]).unwrap();
    let again = super::graph(&trained).unwrap();
    let initial: Vec<f32> = again.trained().map(|p| p.initial.as_f32().unwrap()[0]).collect();
    assert_eq!(initial, [2.0, 3.0]);
}

#[test]
fn a_layer_applied_twice_stays_one_layer() {
    let model = Sketch::new(17, &[N, 3])
        .weight("w", &[3, 3])
        .tensor("b", &[3], &[0.0; 3])
        .node("Gemm", &["x", "w", "b"], "first", &[])
        .node("Gemm", &["first", "w", "b"], "y", &[])
        .returns(&["y"]);
    let graph = graph(&model).unwrap();
    let names: Vec<&str> = graph.trained().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["w", "b"]);
}

// The constants of a decomposed GroupNorm are not trained.
#[test]
fn group_norm_constants_are_not_trained() {
    let norm = |ones: f32, zeros: f32| {
        Sketch::new(17, &[N, 4, 3])
            .ints("groups", &[0, 2, -1])
            .ints("back", &[0, 4, 3])
            .tensor("ones", &[2], &[ones; 2])
            .tensor("zeros", &[2], &[zeros; 2])
            .weight("s", &[4, 1])
            .node("Reshape", &["x", "groups"], "g", &[])
            .node("InstanceNormalization", &["g", "ones", "zeros"], "i", &[])
            .node("Reshape", &["i", "back"], "h", &[])
            .node("Mul", &["h", "s"], "y", &[])
            .returns(&["y"])
    };
    let constant = "not trained: constant scale of the InstanceNormalization that a GroupNorm is exported as";
    assert_eq!(reason(&norm(1.0, 0.0), "ones"), (false, constant.to_string()));
    assert!(!reason(&norm(1.0, 0.0), "zeros").0);
    assert!(reason(&norm(1.0, 0.0), "s").0);
    // Values that no exporter writes are weights.
    assert!(reason(&norm(1.5, 0.5), "ones").0);
}

#[test]
fn each_kind_of_initializer_has_its_reason() {
    let model = Sketch::new(17, &[N, 3])
        .weight("w", &[3, 3])
        .tensor("temperature", &[], &[0.7])
        .tensor("val_3", &[], &[0.5])
        .tensor("two", &[], &[2.0])
        .tensor("shared", &[], &[3.0])
        .tensor("mask", &[3], &[0.0, f32::NEG_INFINITY, 0.0])
        .tensor("spare", &[2], &[0.0, 1.0])
        .ints("t", &[-1, 3])
        .node("MatMul", &["x", "w"], "a", &[])
        .node("Mul", &["a", "temperature"], "b", &[])
        .node("Mul", &["b", "val_3"], "c", &[])
        .node("Pow", &["c", "two"], "d", &[])
        .node("Add", &["d", "mask"], "e", &[])
        .node("Reshape", &["e", "t"], "f", &[])
        .node("Mul", &["f", "shared"], "g", &[])
        .node("Add", &["g", "shared"], "y", &[])
        .returns(&["y"]);
    for (name, trained, because) in [
        ("w", true, "trained: weight of MatMul 'a'"),
        ("temperature", true, "trained: scale of Mul 'b'"),
        ("val_3", false, "not trained: a single number that the exporter named; `train` 'val_3' if it is a weight"),
        ("two", false, "not trained: exponent of Pow 'd', not a weight"),
        (
            "mask",
            false,
            "not trained: a mask: it holds infinities or numbers far below 0; `train` 'mask' if it is a weight",
        ),
        ("spare", false, "not trained: no output depends on it"),
        ("t", false, "not trained: int64, not a float tensor"),
        (
            "shared",
            false,
            "not trained: a scalar with 2 readers, which exporters merge from equal constants; `train` 'shared' if it \
             is one weight",
        ),
    ] {
        assert_eq!(reason(&model, name), (trained, because.to_string()), "{name}");
    }
}

#[test]
fn patterns_override_and_freeze_wins() {
    let model = Sketch::new(17, &[N, 3])
        .weight("a.weight", &[3])
        .weight("a.bias", &[3])
        .node("Tanh", &["x"], "u", &[])
        .node("Mul", &["u", "a.weight"], "h", &[])
        .node("Add", &["h", "a.bias"], "y", &[])
        .returns(&["y"]);
    let trained = |options: &GraphOptions| -> Vec<String> {
        let graph = Graph::from_model(&model, options).unwrap();
        graph.trained().map(|p| p.name.clone()).collect()
    };
    assert_eq!(trained(&options(&[], &["*.bias"])), ["a.weight"]);
    assert_eq!(trained(&options(&["a.*"], &["a.bias"])), ["a.weight"]);
    assert_eq!(listed(&model, &options(&[], &["*.bias"]))[1].reason, "not trained: `freeze` '*.bias'");
    assert_eq!(
        Graph::from_model(&model, &options(&[], &["b.*"])).unwrap_err().to_string(),
        "`freeze` 'b.*': matches no initializer; damper inspect lists their names"
    );
    // A frozen parameter is a constant of the run.
    let graph = Graph::from_model(&model, &options(&[], &["a.bias"])).unwrap();
    assert!(graph.constant(graph.find("a.bias").unwrap()).is_some());
    assert!(graph.constant(graph.find("a.weight").unwrap()).is_none());
}

// A Constant node is trained only on request.
#[test]
fn constant_node_is_trained_on_request() {
    let value = onnx::make_attr_tensor("value", make_tensor_f32("", &[3], &[1.0, 2.0, 3.0]));
    let model = Sketch::new(17, &[N, 3])
        .weight("w", &[3])
        .node("Constant", &[], "k", &[value])
        .node("Tanh", &["x"], "u", &[])
        .node("Mul", &["u", "w"], "h", &[])
        .node("Add", &["h", "k"], "y", &[])
        .returns(&["y"]);
    assert_eq!(graph(&model).unwrap().trained().count(), 1);
    let both = Graph::from_model(&model, &options(&["k"], &[])).unwrap();
    assert_eq!(both.trained().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["w", "k"]);
    assert!(write_trained(&model, &[("k", &[0.0; 3])]).is_ok());
}

#[test]
fn what_is_read_as_integers_is_not_trained() {
    let model = Sketch::new(17, &[N, 3])
        .weight("w", &[3])
        .tensor("buckets.table", &[3], &[1.0, 2.0, 3.0])
        .node("Cast", &["buckets.table"], "whole", &[int("to", 7)])
        .node("Cast", &["whole"], "table", &[int("to", 1)])
        .node("Mul", &["x", "w"], "h", &[])
        .node("Add", &["h", "table"], "y", &[])
        .returns(&["y"]);
    let because = "not trained: Cast 'whole' takes no gradient back";
    assert_eq!(reason(&model, "buckets.table"), (false, because.to_string()));
}

// The reason names the operator after a reshape.
#[test]
fn reason_names_operator_after_reshape() {
    let model = Sketch::new(17, &[N, 3])
        .tensor("w", &[3], &[1.0, 2.0, 3.0])
        .ints("row", &[1, 3])
        .node("Reshape", &["w", "row"], "r", &[])
        .node("Tanh", &["x"], "u", &[])
        .node("Mul", &["u", "r"], "y", &[])
        .returns(&["y"]);
    assert_eq!(reason(&model, "w"), (true, "trained: scale of Mul 'y'".to_string()));
}

#[test]
fn running_statistics_are_not_weights() {
    let model = Sketch::new(17, &[N, 2, 3])
        .tensor("s", &[2], &[1.0, 2.0])
        .tensor("b", &[2], &[3.0, 4.0])
        .tensor("m", &[2], &[5.0, 6.0])
        .tensor("v", &[2], &[7.0, 8.0])
        .node("BatchNormalization", &["x", "s", "b", "m", "v"], "y", &[])
        .returns(&["y"]);
    assert_eq!(reason(&model, "s"), (true, "trained: scale of BatchNormalization 'y'".to_string()));
    assert_eq!(reason(&model, "b"), (true, "trained: bias of BatchNormalization 'y'".to_string()));
    let mean = "not trained: running mean of BatchNormalization 'y', not a weight";
    assert_eq!(reason(&model, "m"), (false, mean.to_string()));
    let variance = "not trained: running variance of BatchNormalization 'y', not a weight";
    assert_eq!(reason(&model, "v"), (false, variance.to_string()));
}

/// Mask looked up at the sample indices plus `shift` and at `positions`, as PyTorch's exporters write it.
fn mask_look_up(shift: i64, positions: &[i64]) -> ModelProto {
    Sketch::new(17, &[N, 4])
        .ids("mask", &[N, 4])
        .weight("w", &[4])
        .ints("zero", &[0])
        .ints("minus", &[-1])
        .ints("behind", &[1])
        .int("from", 0)
        .int("step", 1)
        .int("shift", shift)
        .ints("flat", positions)
        .ints("front", &[0])
        .node("Unsqueeze", &["flat", "front"], "positions", &[])
        .node("Shape", &["x"], "shape", &[])
        .int("first", 0)
        .node("Gather", &["shape", "first"], "n", &[])
        .node("Range", &["from", "n", "step"], "numbers", &[])
        .node("Add", &["numbers", "shift"], "shifted", &[])
        .node("Unsqueeze", &["shifted", "behind"], "column", &[])
        .node("Max", &["column", "positions"], "both", &[])
        .node("Shape", &["both"], "grid", &[])
        .node("Expand", &["column", "grid"], "rows", &[])
        .node("Expand", &["positions", "grid"], "columns", &[])
        .node("Unsqueeze", &["rows", "minus"], "r", &[])
        .node("Unsqueeze", &["columns", "minus"], "c", &[])
        .node("Concat", &["r", "c"], "pairs", &[int("axis", -1)])
        .node("GatherND", &["mask", "pairs"], "found", &[])
        .node("Cast", &["found"], "kept", &[int("to", 1)])
        .node("Mul", &["x", "w"], "h", &[])
        .node("Mul", &["h", "kept"], "y", &[])
        .returns(&["y"])
}

// A sample may read its own row, and no other.
#[test]
fn sample_looks_up_only_its_own_row() {
    let ops = |model: &ModelProto| {
        let graph = graph(model).unwrap();
        let found = graph.find("found").unwrap();
        assert_eq!(graph.value(found).batch, Some(BatchAxis::plain(0)));
        graph.nodes.iter().map(|node| node.op.clone()).filter(|op| op != "Mul" && op != "Cast").collect::<Vec<_>>()
    };
    assert_eq!(ops(&mask_look_up(0, &[0, 1, 2, 3])), ["Reshape"]);
    assert_eq!(ops(&mask_look_up(0, &[3, 2, 1, 0])), ["Reshape", "Gather", "Reshape"]);
    let message = graph(&mask_look_up(1, &[0, 1, 2, 3])).unwrap_err().to_string();
    assert!(message.contains("'pairs', the samples' numbers"), "{message}");
    // Outside the row.
    assert!(graph(&mask_look_up(0, &[0, 1, 2, 4])).is_err());
}

// A parameter without gradient is not trained.
#[test]
fn parameter_without_gradient_is_frozen() {
    // A threshold that is scaled and moved before a comparison, and a mask that becomes a condition.
    let threshold = Sketch::new(17, &[N, 3])
        .weight("threshold", &[3])
        .weight("mask", &[3])
        .weight("step", &[3])
        .weight("w", &[3])
        .node("Mul", &["threshold", "x"], "moved", &[])
        .node("Less", &["x", "moved"], "below", &[])
        .node("Cast", &["mask"], "kept", &[int("to", 9)])
        .node("And", &["below", "kept"], "both", &[])
        .node("Tanh", &["x"], "u", &[])
        .node("Mul", &["u", "w"], "scaled", &[])
        .node("Where", &["both", "scaled", "x"], "chosen", &[])
        .node("Add", &["step", "x"], "sum", &[])
        .node("Floor", &["sum"], "floor", &[])
        .node("Add", &["chosen", "floor"], "y", &[])
        .returns(&["y"]);
    for options in [GraphOptions::default(), options(&["*"], &[])] {
        let trained: Vec<String> =
            listed(&threshold, &options).into_iter().filter(|one| one.trained).map(|one| one.name).collect();
        assert_eq!(trained, ["w"]);
    }
    let because = "not trained: Mul 'moved' and what follows it take no gradient back";
    assert_eq!(reason(&threshold, "threshold"), (false, because.to_string()));
    assert_eq!(reason(&threshold, "mask"), (false, "not trained: Cast 'kept' takes no gradient back".to_string()));
}

/// `(x - mean) / std`, and a layer with the output `h`.
fn normalised() -> Sketch {
    Sketch::new(17, &[N, 3])
        .weight("mean", &[3])
        .weight("std", &[1, 3])
        .ints("row", &[1, 3])
        .weight("layer.weight", &[3, 4])
        .weight("layer.bias", &[4])
        .node("Reshape", &["mean", "row"], "means", &[])
        .node("Sub", &["x", "means"], "centred", &[])
        .node("Reciprocal", &["std"], "inverse", &[])
        .node("Mul", &["centred", "inverse"], "normal", &[])
        .node("MatMul", &["normal", "layer.weight"], "product", &[])
        .node("Add", &["product", "layer.bias"], "h", &[])
}

fn trained(model: &ModelProto, options: &GraphOptions) -> Vec<String> {
    Graph::from_model(model, options).unwrap().trained().map(|parameter| parameter.name.clone()).collect()
}

#[test]
fn constants_of_an_input_are_frozen() {
    let model = normalised().returns(&["h"]);
    assert_eq!(trained(&model, &GraphOptions::default()), ["layer.weight", "layer.bias"]);
    assert_eq!(trained(&model, &options(&["std"], &[])), ["std", "layer.weight", "layer.bias"]);
    let because =
        "not trained: it only shifts or scales the input 'x' (Sub 'centred'); `train` 'mean' if it is a weight";
    assert_eq!(reason(&model, "mean"), (false, because.to_string()));
    let warnings = Graph::from_model(&model, &GraphOptions::default()).unwrap().warnings;
    assert_eq!(
        warnings,
        [
            "'mean', 'std': not trained, for it only shifts or scales an input; give `train` with the name if it is a weight"
        ]
    );
    assert!(Graph::from_model(&model, &options(&["std"], &["mean"])).unwrap().warnings.is_empty());
}

#[test]
fn weights_past_an_input_are_trained() {
    // A position embedding of an embedded input, the scale of a decomposed normalisation, and a gate of its square.
    let model = Sketch::new(17, &[N, 4])
        .weight("positions", &[4])
        .weight("norm.weight", &[4])
        .weight("gate", &[4])
        .weight("w", &[4, 4])
        .ints("last", &[-1])
        .node("MatMul", &["x", "w"], "embedded", &[])
        .node("Add", &["embedded", "positions"], "placed", &[])
        .node("ReduceMean", &["x"], "mean", &[make_attr_ints("axes", &[-1])])
        .node("Sub", &["x", "mean"], "centred", &[])
        .node("Mul", &["centred", "norm.weight"], "scaled", &[])
        .node("Mul", &["x", "x"], "square", &[])
        .node("Mul", &["square", "gate"], "gated", &[])
        .node("Add", &["placed", "scaled"], "sum", &[])
        .node("Add", &["sum", "gated"], "all", &[])
        .node("Tanh", &["all"], "y", &[])
        .returns(&["y"]);
    assert_eq!(trained(&model, &GraphOptions::default()), ["positions", "norm.weight", "gate", "w"]);
}

/// Cross-entropy with class weights, computed in the model.
fn weighted_loss(looked_up: bool) -> ModelProto {
    let model = normalised()
        .ids("labels", &[N, 1])
        .tensor("loss.weight", &[4], &[0.5, 1.0, 2.0, 4.0])
        .ints("flat", &[-1])
        .node("LogSoftmax", &["h"], "logarithms", &[int("axis", -1)]);
    let model = if looked_up {
        model
            .node("GatherElements", &["logarithms", "labels"], "chosen", &[int("axis", 1)])
            .node("Gather", &["loss.weight", "labels"], "weight", &[])
            .node("Mul", &["chosen", "weight"], "weighted", &[])
    } else {
        model.node("Mul", &["logarithms", "loss.weight"], "scaled", &[]).node(
            "GatherElements",
            &["scaled", "labels"],
            "weighted",
            &[int("axis", 1)],
        )
    };
    model.node("Neg", &["weighted"], "n", &[]).node("Reshape", &["n", "flat"], "loss", &[]).returns(&["loss"])
}

#[test]
fn weights_of_classes_are_frozen() {
    for (looked_up, node) in [(true, "Gather 'weight'"), (false, "Mul 'scaled'")] {
        let model = weighted_loss(looked_up);
        assert_eq!(trained(&model, &GraphOptions::default()), ["layer.weight", "layer.bias"]);
        let because = format!(
            "not trained: it weights the loss, which 'labels' enters ({node}); `train` 'loss.weight' if it is a parameter"
        );
        assert_eq!(reason(&model, "loss.weight"), (false, because));
        let all = trained(&model, &options(&["loss.weight"], &[]));
        assert_eq!(all, ["layer.weight", "layer.bias", "loss.weight"]);
        let warnings = Graph::from_model(&model, &GraphOptions::default()).unwrap().warnings;
        assert!(warnings.iter().any(|line| line.starts_with("'loss.weight': not trained, for it weights the loss")));
    }
}

#[test]
fn doubtful_constants_are_named() {
    // Targets scaled back, and a difference from a stored value.
    let model = normalised()
        .weight("target.std", &[4])
        .weight("anchor", &[4])
        .node("Tanh", &["h"], "t", &[])
        .node("Sub", &["t", "anchor"], "moved", &[])
        .node("Tanh", &["moved"], "u", &[])
        .node("Mul", &["u", "target.std"], "y", &[])
        .returns(&["y"]);
    let graph = Graph::from_model(&model, &options(&[], &["mean", "std"])).unwrap();
    assert_eq!(
        graph.warnings,
        [
            "'target.std', 'anchor': trained, though it may be a constant that shifts or scales values, or that a layer takes for data; \
             give `freeze` with the name if it is one"
        ]
    );
}

#[test]
fn only_trains_what_it_names() {
    let model = normalised().returns(&["h"]);
    let only = |patterns: &[&str]| GraphOptions {
        only: patterns.iter().map(|pattern| pattern.to_string()).collect(),
        ..GraphOptions::default()
    };
    assert_eq!(trained(&model, &only(&["*.bias"])), ["layer.bias"]);
    assert_eq!(trained(&model, &only(&["mean", "*.bias"])), ["mean", "layer.bias"]);
    assert_eq!(listed(&model, &only(&["*.bias"]))[2].reason, "not trained: `only` does not name it");
    assert_eq!(
        Graph::from_model(&model, &only(&["head.*"])).unwrap_err().to_string(),
        "`only` 'head.*': matches no initializer; damper inspect lists their names"
    );
    assert_eq!(
        Graph::from_model(&model, &options(&["layer.*"], &["*"])).unwrap_err().to_string(),
        "`train` 'layer.*': `freeze` wins over it, so nothing that it matches is trained; use `only` 'layer.*' alone"
    );
}

#[test]
fn nothing_to_train_has_its_reason() {
    let model = Sketch::new(17, &[N, 3]).weight("gate", &[3]).node("Mul", &["x", "gate"], "y", &[]).returns(&["y"]);
    let message = |options: &GraphOptions| Graph::from_model(&model, options).unwrap_err().to_string();
    assert!(
        message(&GraphOptions::default()).starts_with("nothing is trained: 'gate': not trained, for it only shifts")
    );
    assert!(message(&options(&[], &["*"])).starts_with("`freeze` leaves nothing to train; use `only` PATTERN"));
}

#[test]
fn given_parameters_are_taken_as_given() {
    let model = normalised().returns(&["h"]);
    // This includes parameters that only shift an input, which the rule excludes.
    assert_eq!(trained(&model, &given(&["mean", "layer.bias"])), ["mean", "layer.bias"]);
    assert!(Graph::from_model(&model, &given(&["mean"])).unwrap().warnings.is_empty());
    assert_eq!(
        Graph::from_model(&model, &given(&["*"])).unwrap_err().to_string(),
        "`parameter` '*': is no float initializer; damper inspect lists their names"
    );
}

#[test]
fn given_parameters_keep_their_uses() {
    // By the rule, a scale of 1 with two readers is two parameters, and the transpose of an embedding is not a separate
    // parameter.
    let model = shared_scale();
    assert_eq!(trained(&model, &given(&["ones"])), ["ones"]);
    let names = ["embedding.weight", "val_9"];
    assert_eq!(trained(&language_model("val_9"), &given(&names)), names);
}
