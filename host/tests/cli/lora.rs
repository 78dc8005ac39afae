//! `--lora`: adapters that are trained, merged on export, kept on request, and resumed.

use super::{DIGITS, MLP, assert_refused, damper, folder, json, run, stderr, trained_names};
use damper::onnx::pb::ModelProto;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tract_onnx::prelude::{DatumExt, Framework, InferenceModelExt, IntoRunnable, IntoTValue, Tensor, tvec};

/// Returns `damper train` with quiet steps on tract, with adapters and `extra` flags.
fn train(out: &Path, extra: &[&str]) -> Command {
    let mut command = damper();
    command.args(["train", MLP, "--data", DIGITS, "--lora", "3", "--lora-target", "*weight", "--out"]).arg(out);
    command
        .args(["--noise-multiplier", "1", "--batch-size", "64", "--lr", "0.5", "--seed", "2", "--quiet"])
        .args(extra);
    for (flag, value) in [("--epochs", "1"), ("--backend", "tract")] {
        if !extra.contains(&flag) {
            command.args([flag, value]);
        }
    }
    command
}

fn model(path: &Path) -> ModelProto {
    damper::onnx::load(path).unwrap()
}

fn root(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn tensors(model: &ModelProto) -> HashMap<String, Vec<f32>> {
    let stored = &model.graph.as_ref().unwrap().initializer;
    let values = |tensor| Some(damper::onnx::decode_tensor(tensor).ok()?.as_f32()?.to_vec());
    stored.iter().filter_map(|tensor| Some((tensor.name.clone(), values(tensor)?))).collect()
}

/// Returns the outputs of the model for three rows.
fn outputs(model: &ModelProto) -> Vec<f32> {
    let mut inference = tract_onnx::onnx().model_for_read(&mut &damper::onnx::encode(model)[..]).unwrap();
    inference.set_input_fact(0, f32::fact([3, 64]).into()).unwrap();
    let x: Vec<f32> = (0..192).map(|at| (at * 7919 % 17) as f32 / 16.0).collect();
    let x = Tensor::from_shape(&[3, 64], &x).unwrap();
    let found = inference.into_typed().unwrap().into_runnable().unwrap().run(tvec!(x.into_tvalue())).unwrap();
    found[0].to_plain_array_view::<f32>().unwrap().iter().copied().collect()
}

#[test]
fn merged_model_has_the_original_graph() {
    let (guard, out) = folder();
    let kept = guard.path().join("kept");
    let report = json(&train(&out, &["--json", "--lora-alpha", "6"]).output().unwrap());
    let beside = json(&train(&kept, &["--json", "--lora-alpha", "6", "--lora-keep"]).output().unwrap());
    let (before, merged, adapted) =
        (model(&root(MLP)), model(&out.join("model.onnx")), model(&kept.join("model.onnx")));
    let graph = |model: &ModelProto| model.graph.clone().unwrap();
    assert_eq!((graph(&merged).node, graph(&merged).input), (graph(&before).node, graph(&before).input));
    let names = |model: &ModelProto| {
        graph(model).initializer.iter().map(|t| (t.name.clone(), t.dims.clone())).collect::<Vec<_>>()
    };
    assert_eq!(names(&merged), names(&before));
    // The weights changed, and the biases did not.
    let (old, new, parts) = (tensors(&before), tensors(&merged), tensors(&adapted));
    for (name, values) in &old {
        assert_eq!(new[name] != *values, name.ends_with("weight"), "{name}");
        assert_eq!(parts[name], *values, "{name}");
    }
    // W + s A B computed here, with weights stored as [out, in].
    for (name, inputs, outs) in [("fc1.weight", 64, 32), ("fc2.weight", 32, 10)] {
        let (a, b) = (&parts[&format!("{name}.lora_A")], &parts[&format!("{name}.lora_B")]);
        for (input, output) in (0..inputs).flat_map(|input| (0..outs).map(move |output| (input, output))) {
            let product: f64 = (0..3).map(|r| f64::from(a[input * 3 + r]) * f64::from(b[r * outs + output])).sum();
            let at = output * inputs + input;
            assert_eq!(new[name][at], (f64::from(old[name][at]) + 2.0 * product) as f32);
        }
    }
    let (one, other) = (outputs(&merged), outputs(&adapted));
    let largest = one.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    assert!(one.iter().zip(&other).all(|(a, b)| (a - b).abs() <= 1e-5 * largest), "{one:?} {other:?}");
    // The claims of the reports, and the digest of model.onnx.
    let lora = json!({ "rank": 3, "alpha": 6.0, "weights": ["fc1.weight", "fc2.weight"], "merged": true });
    assert_eq!((&report["training"]["lora"], &beside["training"]["lora"]["merged"]), (&lora, &json!(false)));
    assert_eq!(
        (&report["training"]["init_seed"], &report["training"]["parameters"]),
        (&json!(0), &json!(3 * (64 + 32 + 32 + 10)))
    );
    assert_eq!(report["training"]["tensors"], json!(["fc1.weight", "fc2.weight"]));
    for out in [&out, &kept] {
        let said = run(&["report", out.to_str().unwrap(), "--json"]);
        let said = json(&said);
        assert!(said["agrees"] == true && said["guarantee"].as_str().unwrap().contains("simulation"), "{said}");
    }
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("rank 3, alpha 6, merged into fc1.weight, fc2.weight"), "{page}");
    assert_eq!(report["test_accuracy"], beside["test_accuracy"]);
}

#[test]
fn clipped_sums_and_heads_train_with_lora() {
    let (guard, out) = folder();
    let other = guard.path().join("other");
    let readout = ["--json", "--noise", "continuous", "--readout", "clipped-sum", "--train", "fc2.bias"];
    let sums = json(&train(&out, &readout).output().unwrap());
    json(&train(&other, &["--json", "--noise", "continuous", "--train", "fc2.bias"]).output().unwrap());
    assert_eq!(sums["training"]["tensors"], json!(["fc2.bias", "fc1.weight", "fc2.weight"]));
    let (a, b) = (tensors(&model(&out.join("model.onnx"))), tensors(&model(&other.join("model.onnx"))));
    for (name, values) in &a {
        let far = values.iter().zip(&b[name]).fold(0.0f32, |most, (a, b)| most.max((a - b).abs()));
        assert!(far < 1e-4, "{name}: {far}");
    }
    assert!(tensors(&model(&root(MLP)))["fc2.bias"] != a["fc2.bias"]);
    // Another seed starts from other adapters. The same seed gives the same run.
    let digest = |name: &str, extra: &[&str]| {
        json(&train(&guard.path().join(name), &[&["--json"], extra].concat()).output().unwrap())["params_digest"]
            .clone()
    };
    assert_eq!(digest("a", &[]), digest("b", &["--init-seed", "0", "--workers", "2"]));
    assert!(digest("c", &["--init-seed", "1"]) != digest("d", &[]));
}

#[test]
fn stopped_runs_go_on_with_their_adapters() {
    let (guard, out) = folder();
    let whole = guard.path().join("whole");
    let flags = ["--epochs", "20"];
    assert!(train(&whole, &flags).stdout(Stdio::null()).status().unwrap().success());
    let mut child = train(&out, &[&flags[..], &["--checkpoint-every", "0"]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while !out.join("checkpoint/ledger.json").exists() {
        assert!(started.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none());
        sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
    let mut again = damper();
    let output = again.args(["train", "--quiet", "--json", "--resume"]).arg(&out).output().unwrap();
    let expected: Value = serde_json::from_slice(&fs::read(whole.join("report.json")).unwrap()).unwrap();
    assert_eq!(json(&output)["params_digest"], expected["params_digest"]);
    assert!(fs::read(out.join("model.onnx")).unwrap() == fs::read(whole.join("model.onnx")).unwrap());
}

/// Also for a baseline, and from a run file. `inspect` and `derive` show the same network.
#[test]
fn adapters_are_flags_as_all_others() {
    let (guard, out) = folder();
    let mut command = damper();
    command.args([
        "train",
        MLP,
        "--data",
        DIGITS,
        "--lora",
        "2",
        "--lora-target",
        "fc1*",
        "--not-private",
        "--json",
        "--out",
    ]);
    command.arg(&out).args(["--batch-size", "64", "--lr", "0.1", "--epochs", "0.2", "--quiet", "--backend", "tract"]);
    let found = json(&command.output().unwrap());
    assert_eq!((&found["run"], &found["training"]["tensors"]), (&json!("not private"), &json!(["fc1.weight"])));
    let seen = json(&run(&["inspect", MLP, "--lora", "2", "--lora-target", "fc1*", "--train", "fc2*", "--json"]));
    assert_eq!(trained_names(&seen), ["fc2.weight", "fc2.bias", "fc1.weight.lora_A", "fc1.weight.lora_B"]);
    assert_eq!(seen["trained"], 2 * (64 + 32) + 330);
    let derived = guard.path().join("grad.onnx");
    let made = run(&["derive", MLP, "--lora", "2", "--lora-target", "fc1*", "-o", derived.to_str().unwrap()]);
    assert!(made.status.success(), "{}", stderr(&made));
    let outputs: Vec<String> = model(&derived).graph.unwrap().output.into_iter().map(|output| output.name).collect();
    assert!(outputs.contains(&"dp.grad.fc1.weight.lora_A".to_owned()), "{outputs:?}");
    // A model that already has adapters gets no others.
    let kept = guard.path().join("kept");
    assert!(train(&kept, &["--epochs", "0.2", "--lora-keep"]).stdout(Stdio::null()).status().unwrap().success());
    let again =
        run(&["inspect", kept.join("model.onnx").to_str().unwrap(), "--lora", "2", "--lora-target", "fc1.weight"]);
    assert_refused(&again, &["--lora", "it has adapters already"]);
}
