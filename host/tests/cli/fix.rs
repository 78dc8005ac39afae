//! `damper fix`: replacement of BatchNormalization, compared by the outputs of the models in tract.

use super::{DIGITS, assert_refused, damper, folder, json, stderr, train, trained_names};
use damper::graph::DType;
use damper::onnx::pb::{GraphProto, ModelProto, OperatorSetIdProto};
use damper::onnx::{self, Extent, make_attr_int, make_node, make_tensor_f32, make_value_info};
use std::fs;
use std::path::Path;
use std::process::Output;
use tract_onnx::prelude::{Datum, Framework, InferenceModelExt, IntoRunnable, IntoTValue, Tensor, tvec};

const ROWS: usize = 3;
const EPSILON: f32 = 1e-5;

/// Pseudo-random numbers from -1 to 1.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| (((at + seed) * 7919 + 13) % 1009) as f32 / 504.5 - 1.0).collect()
}

/// Builds a model from `x` `[N, *input]` to `y` `[N, *output]`.
fn model(input: &[usize], output: &[usize], tensors: &[(&str, &[usize], Vec<f32>)], graph: GraphProto) -> ModelProto {
    let info = |name: &str, shape: &[usize]| {
        let shape: Vec<Extent> =
            [Extent::Batch].into_iter().chain(shape.iter().map(|&extent| Extent::Fixed(extent))).collect();
        make_value_info(name, DType::F32, &shape)
    };
    let graph = GraphProto {
        name: "model".into(),
        input: vec![info("x", input)],
        output: vec![info("y", output)],
        initializer: tensors.iter().map(|(name, shape, data)| make_tensor_f32(name, shape, data)).collect(),
        ..graph
    };
    ModelProto {
        ir_version: 8,
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 17 }],
        graph: Some(graph),
        ..ModelProto::default()
    }
}

/// Returns the weights of a normalisation of `channels`, with or without statistics.
fn norm(channels: usize, has_statistics: bool) -> Vec<(&'static str, Vec<usize>, Vec<f32>)> {
    let positive = |values: Vec<f32>| values.into_iter().map(|x| x.abs() + 0.3).collect::<Vec<_>>();
    let shape = vec![channels];
    let (mean, variance) = match has_statistics {
        true => (numbers(channels, 40), positive(numbers(channels, 50))),
        false => (vec![0.0; channels], vec![1.0; channels]),
    };
    vec![
        ("norm.weight", shape.clone(), positive(numbers(channels, 20))),
        ("norm.bias", shape.clone(), numbers(channels, 30)),
        ("norm.running_mean", shape.clone(), mean),
        ("norm.running_var", shape, variance),
    ]
}

const NORM: [&str; 5] = ["h", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var"];

/// Builds a layer, then a normalisation.
fn layer_and_norm(
    op: &str,
    input: &[usize],
    output: &[usize],
    weight: &[usize],
    bias: Option<usize>,
    has_statistics: bool,
) -> ModelProto {
    let mut tensors = norm(output[0], has_statistics);
    tensors.push(("layer.weight", weight.to_vec(), numbers(weight.iter().product(), 1)));
    tensors.extend(bias.map(|len| ("layer.bias", vec![len], numbers(len, 9))));
    let inputs = ["x", "layer.weight", "layer.bias"];
    let used = if bias.is_some() { 3 } else { 2 };
    let transposed = if op == "Gemm" { vec![make_attr_int("transB", 1)] } else { vec![] };
    let nodes = match op {
        "" => vec![make_node("Relu", "layer", &["x"], &["h"], vec![])],
        _ => vec![make_node(op, "layer", &inputs[..used], &["h"], transposed)],
    };
    let nodes = [nodes, vec![make_node("BatchNormalization", "norm", &NORM, &["y"], vec![])]].concat();
    let tensors: Vec<_> = tensors.iter().map(|(name, shape, data)| (*name, &shape[..], data.clone())).collect();
    model(input, output, &tensors, GraphProto { node: nodes, ..GraphProto::default() })
}

/// Returns the outputs of the model in `file` for rows of `[*input]`.
fn outputs(file: &Path, input: &[usize]) -> Vec<f32> {
    let shape = [&[ROWS], input].concat();
    let x = Tensor::from_shape(&shape, &numbers(shape.iter().product(), 77)).unwrap();
    let fact = tract_onnx::prelude::InferenceFact::dt_shape(f32::datum_type(), &shape);
    let model = tract_onnx::onnx().model_for_path(file).unwrap().with_input_fact(0, fact).unwrap();
    let found = model.into_optimized().unwrap().into_runnable().unwrap().run(tvec!(x.into_tvalue())).unwrap();
    found[0].to_plain_array_view::<f32>().unwrap().iter().copied().collect()
}

fn fix(model: &ModelProto, folder: &Path, extra: &[&str]) -> Output {
    fs::write(folder.join("model.onnx"), onnx::encode(model)).unwrap();
    let mut command = damper();
    command.arg("fix").arg(folder.join("model.onnx")).arg("-o").arg(folder.join("fixed.onnx"));
    command.args(extra).output().unwrap()
}

#[track_caller]
fn close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= 2e-5 * b.abs().max(1.0), "{a} {b}");
    }
}

#[test]
fn fix_merges_statistics_unchanged() {
    type Case<'a> = (&'a str, &'a [usize], &'a [usize], &'a [usize], Option<usize>, &'a str);
    let cases: [Case<'_>; 7] = [
        ("Conv", &[2, 5, 5], &[6, 3, 3], &[6, 2, 3, 3], Some(6), "merged into the layer 'layer'"),
        ("Conv", &[2, 5, 5], &[6, 3, 3], &[6, 2, 3, 3], None, "merged into the layer 'layer'"),
        ("ConvTranspose", &[2, 3, 3], &[6, 4, 4], &[2, 6, 2, 2], Some(6), "merged into the layer 'layer'"),
        ("Gemm", &[5], &[4], &[4, 5], Some(4), "merged into the layer 'layer'"),
        ("Gemm", &[5], &[4], &[4, 5], Some(1), "merged into the layer 'layer'"),
        ("", &[4, 3, 3], &[4, 3, 3], &[1], None, "a scale and a shift, by its statistics"),
        ("", &[4], &[4], &[1], None, "a scale and a shift, by its statistics"),
    ];
    for (op, input, output, weight, bias, what) in cases {
        let (folder, _) = folder();
        let answer = json(&fix(&layer_and_norm(op, input, output, weight, bias, true), folder.path(), &["--json"]));
        assert_eq!(answer["changes"][0]["to"], what, "{op} {bias:?}");
        assert!(answer["refusal"].is_null(), "{answer}");
        let before = outputs(&folder.path().join("model.onnx"), input);
        close(&outputs(&folder.path().join("fixed.onnx"), input), &before);
        let left = onnx::load(&folder.path().join("fixed.onnx")).unwrap().graph.unwrap();
        assert!(left.initializer.iter().all(|tensor| !tensor.name.contains("running")), "{op}");
    }
}

#[test]
fn fix_replaces_norms_by_group_norm() {
    for (shape, groups, extra) in
        [(&[6usize, 2, 3][..], 3, &[][..]), (&[6, 2, 3], 2, &["--groups", "2"]), (&[6], 3, &[]), (&[7, 4], 1, &[])]
    {
        let (folder, _) = folder();
        let fixed = fix(&layer_and_norm("", shape, shape, &[1], None, false), folder.path(), extra);
        let channels = shape[0];
        let said = String::from_utf8(fixed.stdout).unwrap();
        let what = format!("BatchNormalization 'norm': GroupNorm of {groups} groups of {channels} channels");
        assert!(said.contains(&what) && said.contains("1 of 1 BatchNormalization replaced"), "{said}");
        let inner: usize = shape[1..].iter().product();
        let x: Vec<f32> = numbers(ROWS * channels * inner, 77).into_iter().map(|x| x.max(0.0)).collect();
        let weights = norm(channels, false);
        let mut expected = Vec::new();
        for row in x.chunks(channels * inner) {
            for (group, values) in row.chunks(channels * inner / groups).enumerate() {
                let count = values.len() as f64;
                let mean = values.iter().map(|x| f64::from(*x)).sum::<f64>() / count;
                let variance = values.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / count;
                expected.extend(values.iter().enumerate().map(|(at, x)| {
                    let channel = group * channels / groups + at / inner;
                    let normal = (f64::from(*x) - mean) / (variance + f64::from(EPSILON)).sqrt();
                    normal as f32 * weights[0].2[channel] + weights[1].2[channel]
                }));
            }
        }
        close(&outputs(&folder.path().join("fixed.onnx"), shape), &expected);
    }
}

#[test]
fn fix_makes_an_export_trainable() {
    let (folder, out) = folder();
    for kind in ["torchscript", "dynamo"] {
        let fixed = folder.path().join(kind).display().to_string() + ".onnx";
        let export = format!("onnx-models/exports/batchnorm.{kind}.onnx");
        let done = damper().args(["fix", &export, "-o", &fixed]).output().unwrap();
        assert!(done.status.success() && !stderr(&done).contains("still"), "{}", stderr(&done));
        let list = json(&damper().args(["inspect", &fixed, "--json"]).output().unwrap());
        assert_eq!(
            trained_names(&list),
            ["conv.weight", "conv.bias", "norm.weight", "norm.bias", "fc.weight", "fc.bias"],
            "{list}"
        );
        assert!(train(&fixed, DIGITS, &out.with_extension(kind), &[]).output().unwrap().status.success());
    }
}

/// Exporters merge equal tensors, and read them through Identity.
#[test]
fn fix_follows_merged_weights() {
    for (op, weight) in [("Conv", &[6usize, 2, 1, 1][..]), ("", &[1])] {
        let input = [if op.is_empty() { 6 } else { 2 }, 3, 3];
        for extra in [&["--json"][..], &["--json", "--batch-norm", "group"]] {
            let mut model = layer_and_norm(op, &input, &[6, 3, 3], weight, None, true);
            let graph = model.graph.as_mut().unwrap();
            let alias = |from: &str, to: &str| make_node("Identity", to, &[from], &[to], vec![]);
            graph.node.splice(0..0, [alias("norm.weight", "a"), alias("a", "b"), alias("norm.bias", "c")]);
            let norm = graph.node.iter_mut().find(|node| node.op_type == "BatchNormalization").unwrap();
            (norm.input[1], norm.input[2]) = ("b".into(), "c".into());
            let (folder, _) = folder();
            let answer = json(&fix(&model, folder.path(), extra));
            assert!(answer["refusal"].is_null(), "{answer}");
            let [before, after] = ["model.onnx", "fixed.onnx"].map(|file| outputs(&folder.path().join(file), &input));
            if extra.len() == 1 {
                close(&after, &before);
            }
        }
    }
}

// `fix` rejects a number of groups that does not divide the channels, and keeps other nodes.
#[test]
fn rejects_bad_groups_and_keeps_the_rest() {
    let (folder, _) = folder();
    let shape = [6, 2];
    let plain = layer_and_norm("", &shape, &shape, &[1], None, false);
    assert_refused(&fix(&plain, folder.path(), &["--groups", "4"]), &["--groups 4", "6 channels", "'norm'"]);
    assert!(!folder.path().join("fixed.onnx").exists());
    let mut of_weights = plain;
    let graph = of_weights.graph.as_mut().unwrap();
    graph.initializer.push(make_tensor_f32("w", &[1, 6, 2], &numbers(12, 3)));
    graph.node[1].input[0] = "w".into();
    graph.node[1].output[0] = "v".into();
    graph.node.push(make_node("Add", "add", &["h", "v"], &["y"], vec![]));
    let answer = json(&fix(&of_weights, folder.path(), &["--json"]));
    assert_eq!(answer["changes"][0]["to"], "kept: it normalises weights, not samples");
    assert!(answer["refusal"].as_str().unwrap().contains("BatchNormalization"), "{answer}");
}

/// Returns `values` normalised to mean 0 and mean square 1.
fn normal(values: &[f64], epsilon: f64) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let square = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64;
    values.iter().map(|x| (x - mean) / (square + epsilon).sqrt()).collect()
}

#[test]
fn fix_standardises_filters() {
    for opset in [17, 18] {
        let (folder, _) = folder();
        let mut model = layer_and_norm("Conv", &[2, 5, 5], &[6, 3, 3], &[6, 2, 3, 3], None, true);
        model.opset_import[0].version = opset;
        let answer = json(&fix(&model, folder.path(), &["--json", "--weight-standardisation"]));
        assert!(answer["refusal"].is_null(), "{answer}");
        let said = &answer["changes"][1];
        assert_eq!(said["to"], "filters of 'layer.weight' centred and scaled to length 1; the outputs change");
        // The same convolution with filters that the test standardises. The normalisation is merged before.
        let graph = onnx::load(&folder.path().join("fixed.onnx")).unwrap().graph.unwrap();
        let tensor = |name: &str| {
            let proto = graph.initializer.iter().find(|tensor| tensor.name == name).unwrap();
            onnx::decode_tensor(proto).unwrap().as_f32().unwrap().to_vec()
        };
        let filters: Vec<f32> = tensor("layer.weight")
            .chunks(18)
            .flat_map(|filter| normal(&filter.iter().map(|x| f64::from(*x)).collect::<Vec<_>>(), 0.0))
            .map(|x| (x / 18f64.sqrt()) as f32)
            .collect();
        let bias = tensor("norm.bias");
        let plain = GraphProto {
            node: vec![make_node("Conv", "layer", &["x", "w", "b"], &["y"], vec![])],
            ..GraphProto::default()
        };
        let tensors = [("w", &[6, 2, 3, 3][..], filters), ("b", &[6], bias)];
        fs::write(
            folder.path().join("plain.onnx"),
            onnx::encode(&self::model(&[2, 5, 5], &[6, 3, 3], &tensors, plain)),
        )
        .unwrap();
        let [found, expected] = ["fixed.onnx", "plain.onnx"].map(|file| outputs(&folder.path().join(file), &[2, 5, 5]));
        close(&found, &expected);
        let list = json(&damper().arg("inspect").arg(folder.path().join("fixed.onnx")).arg("--json").output().unwrap());
        assert_eq!(trained_names(&list), ["norm.bias", "layer.weight"], "{list}");
    }
}

#[test]
fn fix_normalises_residual_sums() {
    let shape = [4, 2, 3];
    let nodes = vec![
        make_node("Conv", "branch", &["x", "branch.weight"], &["h"], vec![]),
        make_node("Add", "sum", &["x", "h"], &["s"], vec![]),
        make_node("Tanh", "tanh", &["s"], &["t"], vec![]),
        make_node("Add", "last", &["t", "s"], &["y"], vec![]),
    ];
    let weight = numbers(16, 3);
    let tensors = [("branch.weight", &[4usize, 4, 1, 1][..], weight.clone())];
    let plain = model(&shape, &shape, &tensors, GraphProto { node: nodes, ..GraphProto::default() });
    let (folder, _) = folder();
    let answer = json(&fix(&plain, folder.path(), &["--json", "--scale-norm"]));
    assert_eq!(
        answer["changes"][0]["to"], "normalised in 2 groups of 4 channels, without parameters; the outputs change",
        "{answer}"
    );
    assert_eq!(answer["changes"][1]["to"], "kept: it is an output");
    let mut sums = Vec::new();
    for row in numbers(ROWS * 24, 77).chunks(24) {
        sums.extend((0..24).map(|at| {
            let branch =
                (0..4).map(|c| f64::from(weight[at / 6 * 4 + c]) * f64::from(row[c * 6 + at % 6])).sum::<f64>();
            f64::from(row[at]) + branch
        }));
    }
    let sums = sums.chunks(12).flat_map(|group| normal(group, f64::from(EPSILON)));
    let expected: Vec<f32> = sums.map(|x| (x + x.tanh()) as f32).collect();
    close(&outputs(&folder.path().join("fixed.onnx"), &shape), &expected);
    // A second call changes no layer.
    let once = onnx::load(&folder.path().join("fixed.onnx")).unwrap();
    let again = json(&fix(&once, folder.path(), &["--json", "--scale-norm"]));
    assert_eq!(again["changes"][0]["to"], "kept: a normalisation follows", "{again}");
}

// The named weights become integers and are frozen. The trained model keeps them, and every backend and a compiled
// network read them.
#[test]
fn fix_rounds_frozen_weights() {
    let (folder, out) = folder();
    let fixed = folder.path().join("int8.onnx").display().to_string();
    let mlp = "onnx-models/digits-mlp.onnx";
    let answer = json(&damper().args(["fix", mlp, "--int8", "fc1*", "-o", &fixed, "--json"]).output().unwrap());
    let to = |at: usize| answer["changes"][at]["to"].as_str().unwrap().to_owned();
    assert!(to(0).starts_with("'fc1.weight' as int8 of 32 channels, not trained"), "{answer}");
    assert!(to(1).starts_with("kept 'fc1.bias': it has one number for a channel"), "{answer}");
    let list = json(&damper().args(["inspect", &fixed, "--json"]).output().unwrap());
    assert_eq!(trained_names(&list), ["fc1.bias", "fc2.weight", "fc2.bias"], "{list}");
    let done = train(&fixed, DIGITS, &out, &[]).output().unwrap();
    assert!(done.status.success(), "{}", stderr(&done));
    let tensors = |file: &Path| onnx::load(file).unwrap().graph.unwrap().initializer;
    let (before, after) = (tensors(Path::new(&fixed)), tensors(&out.join("model.onnx")));
    let integers = before.iter().find(|tensor| tensor.name == "fc1.weight/int8").unwrap();
    assert!(after.contains(integers) && integers.raw_data.len() == 32 * 64);
    let crate_folder = folder.path().join("crate");
    let compiled = damper().args(["compile", &fixed, "--out"]).arg(&crate_folder).output().unwrap();
    assert!(compiled.status.success(), "{}", stderr(&compiled));
    assert_eq!(fs::read(crate_folder.join("src/q0.i8")).unwrap(), integers.raw_data);
    let refused = damper().args(["fix", mlp, "--int8", "nothing*", "-o", &fixed]).output().unwrap();
    assert_refused(&refused, &["--int8 'nothing*'", "matches no float32 initializer"]);
}
