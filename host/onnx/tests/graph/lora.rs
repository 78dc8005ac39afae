//! Adapters: outputs of the adapted and the merged model, in tract.

use super::*;
use damper_edit::{Adapters, LoraOptions, add_adapters};
use damper_onnx::{SettingError, make_attr_float, make_attr_int, write_trained};
use damper_testing::Random;
use std::num::NonZeroUsize;

fn options(rank: usize, alpha: Option<f32>, targets: &[&str]) -> LoraOptions {
    LoraOptions {
        rank: NonZeroUsize::new(rank).unwrap(),
        alpha,
        targets: targets.iter().map(|target| target.to_string()).collect(),
    }
}

/// Random values from -1 to 1.
fn numbers(random: &mut Random, count: usize) -> Vec<f32> {
    (0..count).map(|_| random.below(2001) as f32 / 1000.0 - 1.0).collect()
}

fn add(model: &ModelProto, options: &LoraOptions) -> Result<(ModelProto, Adapters), SettingError> {
    add_adapters(model, options, &|_, inputs, length| vec![1.0 / inputs as f32; length])
}

fn message(model: &ModelProto, targets: &[&str]) -> String {
    add(model, &options(2, None, targets)).unwrap_err().to_string()
}

/// Linear layers in each form, with a ReLU between them, and one weight shared by two layers. The weight is the right
/// operand of MatMul, of Gemm (plain, or transposed with factors), or follows a Transpose.
fn network() -> ModelProto {
    let factors = [make_attr_int("transB", 1), make_attr_float("alpha", 0.5), make_attr_float("beta", 2.0)];
    Sketch::new(17, &[N, 6])
        .weight("first", &[6, 5])
        .node("MatMul", &["x", "first"], "a", &[])
        .node("Relu", &["a"], "ra", &[])
        .weight("second", &[5, 4])
        .weight("bias", &[4])
        .node("Gemm", &["ra", "second", "bias"], "b", &[])
        .node("Relu", &["b"], "rb", &[])
        .weight("third", &[7, 4])
        .weight("offset", &[7])
        .node("Gemm", &["rb", "third", "offset"], "c", &factors)
        .node("Relu", &["c"], "rc", &[])
        .weight("fourth", &[3, 7])
        .node("Transpose", &["fourth"], "turned", &[])
        .node("MatMul", &["rc", "turned"], "d", &[])
        .weight("shared", &[3, 3])
        .node("MatMul", &["d", "shared"], "e", &[])
        .node("Relu", &["e"], "re", &[])
        .node("MatMul", &["re", "shared"], "f", &[])
        .weight("table", &[3, 3])
        .ints("rows", &[0, 2, 1])
        .node("Gather", &["table", "rows"], "looked", &[])
        .node("MatMul", &["f", "looked"], "g", &[])
        .node("Mul", &["g", "scale"], "y", &[])
        .tensor("scale", &[1], &[0.5])
        .returns(&["y"])
}

/// Output of `model` for three samples.
fn output(model: &ModelProto) -> Vec<f32> {
    let graph = Graph::from_model(model, &GraphOptions::default()).unwrap();
    run(model, &graph, 3, usize::MAX, &["y".to_string()]).remove(0).1
}

#[test]
fn merged_weights_compute_what_adapters_do() {
    let model = network();
    let base = output(&model);
    for (seed, rank, alpha) in [(1, 1, None), (2, 2, Some(4.0)), (3, 3, Some(1.0))] {
        let (adapted, adapters) = add(&model, &options(rank, alpha, &["*"])).unwrap();
        let weights: Vec<&str> = adapters.list.iter().map(|adapter| adapter.weight.as_str()).collect();
        assert_eq!(weights, ["first", "second", "third", "fourth", "shared"]);
        assert_eq!(adapters.scale(), f64::from(alpha.unwrap_or(rank as f32)) / rank as f64);
        // B is zero at first.
        assert_eq!(output(&adapted), base);
        let mut random = Random(seed);
        let values: Vec<(String, Vec<f32>)> = adapters
            .list
            .iter()
            .flat_map(|one| [(&one.down, one.inputs * rank), (&one.up, rank * one.outputs)])
            .map(|(name, count)| (name.clone(), numbers(&mut random, count)))
            .collect();
        let parts: Vec<(&str, &[f32])> = values.iter().map(|(name, values)| (name.as_str(), &values[..])).collect();
        let trained = output(&write_trained(&adapted, &parts).unwrap());
        let merged = adapters.merged(&model, &parts).unwrap();
        let merged: Vec<(&str, &[f32])> = merged.iter().map(|(name, values)| (name.as_str(), &values[..])).collect();
        let released = write_trained(&model, &merged).unwrap();
        // The original graph and names.
        let (graph, original) = (released.graph.as_ref().unwrap(), model.graph.as_ref().unwrap());
        assert_eq!((&graph.node, &graph.input, &graph.output), (&original.node, &original.input, &original.output));
        let names =
            |graph: &GraphProto| graph.initializer.iter().map(|t| (t.name.clone(), t.dims.clone())).collect::<Vec<_>>();
        assert_eq!(names(graph), names(original));
        let largest = trained.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        for (a, b) in trained.iter().zip(output(&released)) {
            assert!((a - b).abs() <= 1e-5 * largest, "{a} {b}");
        }
        assert!(trained.iter().zip(&base).any(|(a, b)| (a - b).abs() > 1e-3 * largest), "the adapters do nothing");
    }
}

#[test]
fn only_adapters_and_named_are_trained() {
    let (adapted, adapters) = add(&network(), &options(2, None, &["first", "shared"])).unwrap();
    let read = |train: &[&str], freeze: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
        let options = GraphOptions {
            adapters: adapters.names(),
            train: owned(train),
            freeze: owned(freeze),
            ..GraphOptions::default()
        };
        let graph = Graph::from_model(&adapted, &options).unwrap();
        graph.trained().map(|parameter| parameter.name.clone()).collect::<Vec<_>>()
    };
    let names = ["first.lora_A", "first.lora_B", "shared.lora_A", "shared.lora_B"];
    assert_eq!(read(&[], &[]), names);
    assert_eq!(read(&["bias"], &[]), [&["bias"], &names[..]].concat());
    assert_eq!(read(&[], &["first.*"]), names[2..]);
}

/// A weight that is also trained is merged with its trained values.
#[test]
fn trained_weights_are_merged_too() {
    let model = network();
    let (_, adapters) = add(&model, &options(1, None, &["second"])).unwrap();
    let (a, b, w) = ([1.0, 2.0, 0.0, 0.0, -1.0], [1.0, 0.0, 3.0, 0.5], [0.25; 20]);
    let parts: [(&str, &[f32]); 3] = [("second.lora_A", &a), ("second", &w), ("second.lora_B", &b)];
    let merged = adapters.merged(&model, &parts).unwrap().remove(0);
    let exact: Vec<f32> = a.iter().flat_map(|a| b.iter().map(move |b| 0.25 + a * b)).collect();
    assert_eq!(merged, ("second".to_string(), exact));
    assert!(adapters.merged(&model, &parts[..1]).unwrap_err().to_string().contains("second.lora_B"));
    let short: [(&str, &[f32]); 2] = [("second.lora_A", &a[..3]), ("second.lora_B", &b)];
    assert!(adapters.merged(&model, &short).unwrap_err().to_string().contains("has 5 values"));
}

#[test]
fn non_linear_targets_are_errors() {
    let model = network();
    let linear = "linear weights are 'first', 'second', 'third', 'fourth' and 1 more";
    for (target, words) in [
        ("nothing", "`lora_target` 'nothing': matches no weight of the model"),
        ("table", "'table' gets no adapter: Gather 'looked' reads it, an embedding"),
        ("bias", "'bias' gets no adapter: it is no matrix, for it has the shape [4]"),
        ("rows", "matches no weight of the model"),
    ] {
        let found = message(&model, &["first", target]);
        assert!(found.contains(words) && found.contains(linear), "{found}");
    }
    assert!(message(&model, &[]).contains("add `lora_target` PATTERN"));
    let bad = add(&model, &options(2, Some(f32::NAN), &["*"])).unwrap_err().to_string();
    assert!(bad.starts_with("`lora_alpha` NaN: must be"), "{bad}");
    let twice = add(&add(&model, &options(2, None, &["first"])).unwrap().0, &options(2, None, &["first"]));
    assert!(twice.unwrap_err().to_string().contains("it has adapters already"));
    // Read by another operator as well, as left operand, in both orientations, or with transposed samples.
    let both = Sketch::new(17, &[N, 3]).weight("both", &[3, 3]).ints("rows", &[0]).weight("other", &[3, 3]);
    let both = both
        .node("Gather", &["both", "rows"], "row", &[])
        .node("MatMul", &["x", "both"], "a", &[])
        .node("MatMul", &["a", "other"], "b", &[])
        .node("Add", &["b", "row"], "c", &[])
        .scaled("c");
    assert!(message(&both, &["both"]).contains("Gather 'row' reads it"));
    let notes = add(&both, &options(1, None, &["*o*"])).unwrap().1;
    assert_eq!(notes.list.len(), 1);
    assert_eq!(
        notes.notes[0],
        "`lora_target` '*o*': 'both' gets no adapter: Gather 'row' reads it, an embedding, whose rows no adapter changes"
    );
    let left = Sketch::new(17, &[N, 3]).weight("w", &[3, 3]).node("Transpose", &["x"], "t", &[]);
    assert!(
        message(&left.node("MatMul", &["w", "t"], "a", &[]).scaled("a"), &["w"])
            .contains("MatMul 'a' reads it on the left")
    );
    let mixed = Sketch::new(17, &[N, 3]).weight("w", &[3, 3]).node("MatMul", &["x", "w"], "a", &[]);
    let mixed = mixed.node("Gemm", &["a", "w"], "b", &[make_attr_int("transB", 1)]).scaled("b");
    assert!(message(&mixed, &["w"]).contains("both as it is and transposed"));
    let conv =
        Sketch::new(17, &[N, 3, 4, 4]).weight("w", &[2, 3, 1, 1]).node("Conv", &["x", "w"], "a", &[]).scaled("a");
    assert!(message(&conv, &["w"]).contains(
        "'w' gets no adapter: it is no matrix, for it has the shape [2, 3, 1, 1]; the model has no linear weight"
    ));
}

/// Files of IR version 3 list initializers among the inputs.
#[test]
fn adapters_are_listed_as_initializers() {
    let old = ModelProto { ir_version: 3, ..network() };
    let (adapted, _) = add(&old, &options(2, None, &["first"])).unwrap();
    let inputs: Vec<String> = adapted.graph.unwrap().input.into_iter().map(|input| input.name).collect();
    assert_eq!(inputs, ["x", "first.lora_A", "first.lora_B", "first.lora_scale"]);
}
