//! Text, from a table and a tokenizer file to a trained classifier and a trained language model.

use super::{MLP, folder, json, refused, run, stderr, train};
use damper::graph::DType;
use damper::onnx::pb::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto};
use damper::onnx::{Extent, encode, make_attr_int, make_node, make_tensor_f32, make_tensor_i64, make_value_info};
use std::fs;
use std::path::{Path, PathBuf};

const BYTES: [&str; 2] = ["--tokenizer", "onnx-models/text/bytes.json"];
/// Tokens of a sample, and size of the vocabulary of `bytes.json`.
const LENGTH: usize = 12;
const VOCABULARY: usize = 259;

/// A fixed sequence in (−0.1, 0.1).
fn weights(shape: &[usize]) -> Vec<f32> {
    let len = shape.iter().product::<usize>() as u32;
    (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 8.4e7 - 0.1).collect()
}

fn tensor(name: &str, shape: &[usize]) -> TensorProto {
    make_tensor_f32(name, shape, &weights(shape))
}

fn model(path: &Path, inputs: &[&str], nodes: Vec<NodeProto>, weights: Vec<TensorProto>, output: &[Extent]) {
    let ids = [Extent::Batch, Extent::Fixed(LENGTH)];
    let graph = GraphProto {
        name: "text".into(),
        node: nodes,
        initializer: weights,
        input: inputs.iter().map(|name| make_value_info(name, DType::I64, &ids)).collect(),
        output: vec![make_value_info("logits", DType::F32, output)],
        ..GraphProto::default()
    };
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 17 }];
    let model = ModelProto { ir_version: 8, opset_import, graph: Some(graph), ..ModelProto::default() };
    fs::write(path, encode(&model)).unwrap();
}

/// Writes a sum of embeddings and a linear layer: logits `[N, 2]`.
fn classifier(folder: &Path) -> PathBuf {
    let path = folder.join("classifier.onnx");
    let nodes = vec![
        make_node("Gather", "look", &["embedding", "input_ids"], &["rows"], vec![]),
        make_node("ReduceSum", "add", &["rows", "axis"], &["sum"], vec![make_attr_int("keepdims", 0)]),
        make_node("Gemm", "head", &["sum", "weight", "bias"], &["logits"], vec![]),
    ];
    let axis = make_tensor_i64("axis", &[1], &[1]);
    let weights = vec![tensor("embedding", &[VOCABULARY, 4]), tensor("weight", &[4, 2]), tensor("bias", &[2]), axis];
    model(&path, &["input_ids"], nodes, weights, &[Extent::Batch, Extent::Fixed(2)]);
    path
}

/// Writes a model that predicts a token from the previous token alone: logits `[N, S, V]`.
fn bigrams(folder: &Path) -> PathBuf {
    let path = folder.join("bigrams.onnx");
    let nodes = vec![
        make_node("Gather", "look", &["embedding", "input_ids"], &["rows"], vec![]),
        make_node("MatMul", "head", &["rows", "weight"], &["logits"], vec![]),
    ];
    let weights = vec![tensor("embedding", &[VOCABULARY, 8]), tensor("weight", &[8, VOCABULARY])];
    let output = [Extent::Batch, Extent::Fixed(LENGTH), Extent::Fixed(VOCABULARY)];
    model(&path, &["input_ids"], nodes, weights, &output);
    path
}

/// Writes 200 rows. The label is 1 if the row has an exclamation mark.
fn table(folder: &Path) -> String {
    let row = |i: usize| format!("{}\tword{}{}\n", i % 2, i % 7, if i % 2 == 1 { "!!!" } else { "..." });
    let rows: String = (0..200).map(row).collect();
    let path = folder.join("train.tsv");
    fs::write(&path, format!("label\tcontent\n{rows}")).unwrap();
    fs::write(folder.join("dev.tsv"), format!("label\tcontent\n{}{}", row(3), row(4))).unwrap();
    format!("text:{}", folder.display())
}

// A text classifier trains from a text file and a tokenizer.
#[test]
fn text_classifier_trains_from_text() {
    let (folder, out) = folder();
    let (model, data) = (classifier(folder.path()), table(folder.path()));
    let flags = ["--epochs", "20", "--optimizer", "momentum", "--noise-multiplier", "0.3", "--seed", "1", "--json"];
    let mut command = train(model.to_str().unwrap(), &data, &out, &[&flags[..], &BYTES].concat());
    let report = json(&command.output().unwrap());
    assert_eq!(report["test_accuracy"], 1.0);
    assert_eq!(report["test_perplexity"], serde_json::Value::Null);
    assert_eq!((&report["held_out"]["samples"], &report["held_out"]["counted"]), (&2.into(), &"samples".into()));
    assert_eq!(report["training"]["reduction"], "mean");
    assert_eq!(report["privacy"]["samples"], 200);
}

// A language model trains on lines and reports its tokens.
#[test]
fn language_model_trains_on_lines() {
    let (folder, out) = folder();
    let model = bigrams(folder.path());
    let file = folder.path().join("lines.txt");
    fs::write(&file, "abcabcabc\nbca\ncab\n".repeat(40)).unwrap();
    let data = format!("text:{}", file.display());
    let flags = ["--task", "language-model", "--test", "0.2", "--reduction", "sum", "--epochs", "30", "--json"];
    let more = ["--optimizer", "momentum", "--noise-multiplier", "0.3", "--seed", "1"];
    let mut command = train(model.to_str().unwrap(), &data, &out, &[&flags[..], &BYTES, &more].concat());
    let report = json(&command.output().unwrap());
    let (loss, perplexity) = (report["test_loss"].as_f64().unwrap(), report["test_perplexity"].as_f64().unwrap());
    assert!((perplexity - loss.exp()).abs() < 1e-9 * perplexity);
    assert!(perplexity < 30.0, "{perplexity}, where guessing has 259");
    assert_eq!(report["held_out"]["counted"], "labels");
    assert_eq!(report["training"]["reduction"], "sum");
}

// An audit of token inputs has no neighbours with non-finite values.
#[test]
fn audit_of_tokens_has_no_nan_cases() {
    let (folder, out) = folder();
    let (model, data) = (classifier(folder.path()), table(folder.path()));
    let mut command = super::damper();
    let train = train(model.to_str().unwrap(), &data, &out, &BYTES);
    command.args(["audit", "neighbours"]).args(train.get_args().skip(1)).args(["--steps", "2", "--json"]);
    let found = json(&command.output().unwrap());
    assert_eq!((&found["holds"], found["cases"].as_array().unwrap().len()), (&true.into(), 8));
}

// The error for text that does not fit names the fix.
#[test]
fn invalid_text_error_names_fix() {
    let (folder, out) = folder();
    let (model, data) = (classifier(folder.path()), table(folder.path()));
    let model = model.to_str().unwrap();
    refused(train(model, &data, &out, &[]), &out, &["--tokenizer"]);
    refused(train(MLP, &data, &out, &BYTES), &out, &["'x'", "integers"]);
    let pieces = ["--tokenizer", "onnx-models/text/wordpiece.json"];
    refused(train(model, &data, &out, &pieces), &out, &["wordpiece.json", "4096 tokens", "embeds 259"]);
    let cases: [(&[&str], &[&str]); 4] = [
        (&["--max-length", "13"], &["--max-length 13", "12 tokens"]),
        (&["--text-column", "body"], &["train.tsv", "'body'", "'content'"]),
        (&["--label-column", "content"], &["line 2", "the label, is not a number", "--classes"]),
        (&["--task", "language-model"], &["--task language-model", "[12]"]),
    ];
    for (flags, words) in cases {
        refused(train(model, &data, &out, &[flags, &BYTES].concat()), &out, words);
    }
}

#[test]
fn inspect_names_the_reduction() {
    let output = run(&["inspect", MLP, "--reduction", "sum", "--json"]);
    assert_eq!(json(&output)["reduction"], "sum");
    let output = run(&["inspect", MLP, "--loss", "mse"]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(text.contains("--loss mse --reduction mean"), "{text}{}", stderr(&output));
}
