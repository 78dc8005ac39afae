//! What is trained, and the reason given.

use super::super::{Initializer, initializers};
use super::*;
use crate::onnx::{make_attr_int as int, make_tensor_f32, write_trained};

fn listed(model: &ModelProto, options: &GraphOptions) -> Vec<Initializer> {
    initializers(model, options).unwrap()
}

fn reason(model: &ModelProto, name: &str) -> (bool, String) {
    let all = listed(model, &GraphOptions::default());
    let found = all.into_iter().find(|one| one.name == name).unwrap_or_else(|| panic!("'{name}' is not listed"));
    (found.trained, found.reason)
}

fn options(train: &[&str], freeze: &[&str]) -> GraphOptions {
    let owned = |patterns: &[&str]| patterns.iter().map(|pattern| pattern.to_string()).collect();
    GraphOptions { train: owned(train), freeze: owned(freeze), shape: vec![] }
}

#[test]
fn an_alias_of_a_merged_initializer_is_a_parameter_of_its_own() {
    let model = Sketch::new(17, &[N, 3])
        .tensor("a", &[3], &[1.0; 3])
        .node("Identity", &["a"], "b", &[])
        .node("Mul", &["x", "a"], "h", &[])
        .node("Mul", &["h", "b"], "y", &[])
        .returns(&["y"]);
    let graph = graph(&model).unwrap();
    let names: Vec<&str> = graph.trained().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(graph.nodes[1].inputs[1], graph.find("b"));
    let because = "trained: scale of Mul 'y'; the exporter merged it with 'a', of equal value";
    assert_eq!(reason(&model, "b"), (true, because.to_string()));
}

#[test]
fn equal_norms_that_an_exporter_merged_without_a_trace_come_apart() {
    let model = Sketch::new(17, &[N, 3])
        .tensor("ones", &[3], &[1.0; 3])
        .node("Mul", &["x", "ones"], "first", &[])
        .node("Tanh", &["first"], "t", &[])
        .node("Mul", &["t", "ones"], "second", &[])
        .returns(&["second"]);
    let graph = graph(&model).unwrap();
    let names: Vec<&str> = graph.trained().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["ones", "ones::second"]);
    let because = "trained: scale of Mul 'second'; the exporter merged it into 'ones', of equal value";
    assert_eq!(reason(&model, "ones::second"), (true, because.to_string()));
    // The trained model reads two initializers where the original read one.
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

#[test]
fn the_constants_of_a_decomposed_group_norm_are_not_trained() {
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
        ("val_3", false, "not trained: a scalar that the exporter named; --train 'val_3' if it is a weight"),
        ("two", false, "not trained: exponent of Pow 'd', not a weight"),
        ("mask", false, "not trained: a mask: it holds infinities or numbers below -1e9"),
        ("spare", false, "not trained: no output depends on it"),
        ("t", false, "not trained: int64, not a float tensor"),
        (
            "shared",
            false,
            "not trained: a scalar with 2 readers, which exporters merge from equal constants; --train 'shared' if it \
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
        .node("Mul", &["x", "a.weight"], "h", &[])
        .node("Add", &["h", "a.bias"], "y", &[])
        .returns(&["y"]);
    let trained = |options: &GraphOptions| -> Vec<String> {
        let graph = Graph::from_model(&model, options).unwrap();
        graph.trained().map(|p| p.name.clone()).collect()
    };
    assert_eq!(trained(&options(&[], &["*.bias"])), ["a.weight"]);
    assert_eq!(trained(&options(&["a.*"], &["a.bias"])), ["a.weight"]);
    assert_eq!(listed(&model, &options(&[], &["*.bias"]))[1].reason, "not trained: --freeze '*.bias'");
    assert_eq!(
        Graph::from_model(&model, &options(&[], &["b.*"])).unwrap_err().to_string(),
        "--freeze 'b.*' matches no initializer; damper inspect lists their names"
    );
    // What is frozen is a constant of the run.
    let graph = Graph::from_model(&model, &options(&[], &["a.bias"])).unwrap();
    assert!(graph.constant(graph.find("a.bias").unwrap()).is_some());
    assert!(graph.constant(graph.find("a.weight").unwrap()).is_none());
}

#[test]
fn a_constant_node_is_trained_on_request_only() {
    let value = onnx::make_attr_tensor("value", make_tensor_f32("", &[3], &[1.0, 2.0, 3.0]));
    let model = Sketch::new(17, &[N, 3])
        .weight("w", &[3])
        .node("Constant", &[], "k", &[value])
        .node("Mul", &["x", "w"], "h", &[])
        .node("Add", &["h", "k"], "y", &[])
        .returns(&["y"]);
    assert_eq!(graph(&model).unwrap().trained().count(), 1);
    let both = Graph::from_model(&model, &options(&["k"], &[])).unwrap();
    assert_eq!(both.trained().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["w", "k"]);
    assert!(write_trained(&model, &[("k", &[0.0; 3])]).is_ok());
}

#[test]
fn tied_weights_that_constant_folding_took_apart_are_pointed_out() {
    let model = Sketch::new(17, &[N, 2])
        .tensor("e", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        .tensor("val_9", &[3, 2], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0])
        .node("MatMul", &["x", "e"], "h", &[])
        .node("Gemm", &["h", "val_9"], "y", &[int("transA", 0)])
        .returns(&["y"]);
    assert_eq!(
        reason(&model, "val_9"),
        (
            true,
            "trained: weight of Gemm 'y'; its values are those of 'e' transposed: if they are one tensor in the source \
             (tied), note that they are trained apart here"
                .to_string()
        )
    );
}

#[test]
fn a_reason_names_the_operator_behind_a_reshape() {
    let model = Sketch::new(17, &[N, 3])
        .tensor("w", &[3], &[1.0, 2.0, 3.0])
        .ints("row", &[1, 3])
        .node("Reshape", &["w", "row"], "r", &[])
        .node("Mul", &["x", "r"], "y", &[])
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
