//! Runs that succeed.

use super::{DIGITS, MLP, assert_refused, damper, folder, json, run, stderr, train};
use damper::data::{self, Batch, BatchLabels, DataOptions, InputShape, chunks};
use damper::graph::DType;
use damper::onnx::{self, pb::ModelProto};
use damper::onnx::{Dim, TensorSpec};
use damper::runtime::{Choice, SessionSpec, open};
use serde_json::Value;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

const FIXED: [&str; 6] = ["epsilon", "delta", "noise_multiplier", "sampling_rate", "steps", "accountant"];
const TRAIN: [&str; 5] = ["test_accuracy", "test_loss", "seconds", "backend", "params_digest"];

#[test]
fn help_is_there_for_every_subcommand() {
    for args in
        [vec!["--help"], vec!["train", "--help"], vec!["derive", "-h"], vec!["inspect", "-h"], vec!["--version"]]
    {
        let output = run(&args);
        assert!(output.status.success() && !output.stdout.is_empty() && output.stderr.is_empty());
    }
}

// The epsilon of a calibrated multiplier is the calibrated epsilon.
#[test]
fn epsilon_matches_calibrated_multiplier() {
    let common = ["--sampling-rate", "0.0042667", "--steps", "3516", "--delta", "1e-5", "--json"];
    let found = json(&damper().args(["calibrate", "--epsilon", "3"]).args(common).output().unwrap());
    let multiplier = found["noise_multiplier"].as_f64().unwrap().to_string();
    let priced = json(&damper().args(["epsilon", "--noise-multiplier", &multiplier]).args(common).output().unwrap());
    for key in FIXED {
        assert_eq!(found[key], priced[key], "{key}");
    }
    let epsilon = priced["epsilon"].as_f64().unwrap();
    assert!((2.97..=3.0).contains(&epsilon), "{epsilon}");
}

// The privacy costs of groups of k samples exceed those of quadrature and an FFT in double precision by less than 0.1
// %. The reference is the mixture Σ Bin(k, q)(j) N(j, σ²) against N(0, σ²) on a grid of 2e-4. Each loss is split
// between its neighbours on the grid (NumPy).
#[test]
fn group_price_is_that_of_quadrature() {
    for (multiplier, rate, steps, delta, size, wanted) in [
        ("1", "0.015625", "400", "1e-5", "5", 12.083799),
        ("2", "0.01", "1000", "1e-6", "3", 2.377031),
        ("0.8", "0.00390625", "500", "1e-5", "2", 2.062642),
        ("1.5", "0.25", "20", "1e-4", "4", 20.232165),
    ] {
        let plan = ["--noise-multiplier", multiplier, "--sampling-rate", rate, "--steps", steps, "--delta", delta];
        let found = json(&damper().arg("epsilon").args(plan).args(["--group", size, "--json"]).output().unwrap());
        let epsilon = found["epsilon"].as_f64().unwrap();
        assert!((wanted..wanted * 1.001).contains(&epsilon), "{epsilon}, not {wanted}");
        assert_eq!(found["group"].to_string(), size);
        let one = json(&damper().arg("epsilon").args(plan).arg("--json").output().unwrap());
        assert!(epsilon > one["epsilon"].as_f64().unwrap() * size.parse::<f64>().unwrap());
    }
    let plan = ["--noise-multiplier", "1", "--sampling-rate", "0.01", "--steps", "10", "--delta", "1e-5"];
    assert_refused(
        &damper().arg("epsilon").args(plan).args(["--group", "1001"]).output().unwrap(),
        &["--group 1001", "at most 1000"],
    );
}

// Training prints one JSON object and writes a complete folder.
#[test]
fn train_writes_json_and_whole_folder() {
    let (folder, out) = folder();
    let output = train(MLP, DIGITS, &out, &["--epsilon", "3", "--delta", "1e-5", "--json"]).output().unwrap();
    assert_eq!(stderr(&output), "");
    let report = json(&output);
    for key in FIXED.iter().chain(&TRAIN) {
        assert!(!report[key].is_null(), "{key}");
    }
    let epsilon = report["epsilon"].as_f64().unwrap();
    assert!((2.97..=3.0).contains(&epsilon), "{epsilon}");
    assert_eq!(report["run"], "private");
    assert_eq!(report["steps"], 5);
    assert_eq!(report["backend"], "tract");
    assert!(report["mechanism"]["seed"].is_null());

    let written: Value = serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
    assert_eq!(written, report);
    let metrics = fs::read_to_string(out.join("metrics.csv")).unwrap();
    assert_eq!(metrics.lines().count(), 2, "{metrics}");
    let mut names: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(
        names,
        [
            "checkpoint",
            "config.toml",
            "events.json",
            "metrics.csv",
            "model.onnx",
            "report.html",
            "report.json",
            "statement.json"
        ]
    );
    assert_eq!(accuracy(&out.join("model.onnx")), report["test_accuracy"].as_f64().unwrap());
    drop(folder);
}

/// Returns the accuracy of a trained model on the held-out digits, by a runtime without any state of the run.
fn accuracy(model: &Path) -> f64 {
    let rows = NonZeroUsize::new(60).unwrap();
    let spec = |name: &str, extent| TensorSpec {
        name: name.into(),
        dtype: DType::F32,
        shape: vec![Dim::Batch, Dim::Fixed(extent)],
    };
    let plan =
        SessionSpec { batch: rows.get(), threads: 1, inputs: vec![spec("x", 64)], outputs: vec![spec("logits", 10)] };
    let mut session = open(Choice::Tract).unwrap().load(&damper::onnx::load(model).unwrap(), &plan).unwrap();
    let options = DataOptions {
        inputs: vec![InputShape { name: "x".into(), shape: vec![64], dtype: DType::F32, rows: None }],
        ..DataOptions::default()
    };
    let digits = format!("idx:{}/../onnx-models/digits", env!("CARGO_MANIFEST_DIR"));
    let test = data::load(&digits, &options).unwrap().test.unwrap();
    let mut batch = Batch::new(&test, rows);
    let all: Vec<u32> = (0..test.len() as u32).collect();
    let mut right = 0;
    for chunk in chunks(&all, rows) {
        batch.fill(&test, chunk).unwrap();
        let BatchLabels::Classes(labels) = batch.labels() else { panic!("digits have classes") };
        session
            .run(&[batch.features(0)], &mut |outputs| {
                for (logits, label) in outputs[0].chunks(10).zip(labels).take(chunk.samples.len()) {
                    let label = *label as usize;
                    right += usize::from((0..10).all(|other| other == label || logits[other] < logits[label]));
                }
            })
            .unwrap();
    }
    right as f64 / test.len() as f64
}

// A seed gives the same parameters for any number of workers.
#[test]
fn seed_fixes_params_for_any_workers() {
    let digest = |seed: &str, workers: &str| {
        let (_folder, out) = folder();
        let output = train(MLP, DIGITS, &out, &["--seed", seed, "--workers", workers, "--json"]).output().unwrap();
        assert!(stderr(&output).contains("simulation"), "{}", stderr(&output));
        let report = json(&output);
        assert_eq!(report["run"], "simulation");
        report["params_digest"].as_str().unwrap().to_owned()
    };
    let one = digest("1", "1");
    assert_eq!(digest("1", "1"), one);
    assert_eq!(digest("1", "3"), one);
    assert_ne!(digest("2", "1"), one);
}

#[test]
fn two_private_runs_differ() {
    let digest = || {
        let (_folder, out) = folder();
        json(&train(MLP, DIGITS, &out, &["--json"]).output().unwrap())["params_digest"].clone()
    };
    assert_ne!(digest(), digest());
}

#[test]
fn flags_override_a_run_file() {
    let (folder, out) = folder();
    let file = folder.path().join("run.toml");
    fs::write(
        &file,
        format!(
            "model = \"{MLP}\"\ndata = \"{DIGITS}\"\nepsilon = 3.0\ndelta = 1e-5\nbatch-size = 64\nepochs = 0.2\n\
             optimizer = \"momentum\"\nlr = 0.25\nbackend = \"tract\"\nquiet = true\nnormalize = [0.5, 0.25]\n\
             freeze = [\"fc1.bias\"]\nseed = 7\n"
        ),
    )
    .unwrap();
    let with = |extra: &[&str]| {
        let (_folder, out) = super::folder();
        let mut command = damper();
        command.args(["train", file.to_str().unwrap(), "--json", "--out"]).arg(&out).args(extra);
        json(&command.output().unwrap())
    };
    let plain = with(&[]);
    assert_eq!(plain["training"]["lr"], 0.25);
    assert!((2.97..=3.0).contains(&plain["epsilon"].as_f64().unwrap()));
    let other = with(&["--lr", "0.5", "--noise-multiplier", "2"]);
    assert_eq!(other["training"]["lr"], 0.5);
    assert_eq!(other["noise_multiplier"], 2.0);
    assert_eq!(other["training"]["optimizer"]["name"], "sgd");
    drop((folder, out));
}

// A projected run reports its projected tensors. If there are none, it has the bits of a plain run.
#[test]
fn projection_is_reported_and_optional() {
    let with = |extra: &[&str]| {
        let (_folder, out) = folder();
        let common = ["--method", "doppler", "--optimizer", "adam", "--seed", "1", "--json"];
        json(&train(MLP, DIGITS, &out, &[&common, extra].concat()).output().unwrap())
    };
    let projected = with(&["--galore", "4"]);
    let galore = &projected["training"]["galore"];
    assert_eq!((&galore["rank"], &galore["every"]), (&4.into(), &200.into()));
    assert_eq!(galore["scale"], 1.0);
    // [32, 64] and [10, 32], projected on the left, and two biases.
    assert_eq!(galore["projected"], serde_json::json!(["fc1.weight", "fc2.weight"]));
    assert_eq!(galore["coordinates"], 4 * 64 + 4 * 32 + 32 + 10);

    let (plain, idle) = (with(&[]), with(&["--galore", "32"]));
    assert!(plain["training"]["galore"].is_null());
    assert_eq!(plain["params_digest"], idle["params_digest"]);
    assert_ne!(plain["params_digest"], projected["params_digest"]);
    let warned = |report: &Value| report["warnings"].to_string().contains("--galore 32: no tensor");
    assert!(warned(&idle) && !warned(&projected), "{}", idle["warnings"]);
}

// The summary shows the metrics and the paths of the files.
#[test]
fn summary_shows_metrics_and_files() {
    let (_folder, out) = folder();
    let output = train(MLP, DIGITS, &out, &[]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for word in ["accuracy", "epsilon", "delta", "sigma", "report.json", "model.onnx"] {
        assert!(text.contains(word), "{text}");
    }
}

// `inspect` shows the strategy of each gradient and the cost of each readout.
#[test]
fn inspect_shows_strategies_and_costs() {
    let bert = ["inspect", "onnx-models/bert-tiny.onnx", "--memory", "100MiB"];
    let inspection = json(&run(&[&bert[..], &["--json"]].concat()));
    for parameter in inspection["parameters"].as_array().unwrap() {
        let gradient = &parameter["gradient"];
        match parameter["name"].as_str().unwrap() {
            "words.weight" => assert_eq!(gradient["strategy"], "gram"),
            "blocks.0.fc1.weight" => assert_eq!(gradient["strategy"], "materialised"),
            "norm.bias" => assert_eq!(gradient["strategy"], "dense"),
            _ => continue,
        }
        let costs = ["gram_cost", "materialised_cost"].map(|key| gradient[key].as_u64());
        match gradient["strategy"].as_str().unwrap() {
            "gram" => assert!(costs[0] < costs[1], "{parameter}"),
            "materialised" => assert!(costs[1] <= costs[0], "{parameter}"),
            _ => assert_eq!(costs, [None, None]),
        }
    }
    let costs = inspection["costs"].as_array().unwrap();
    let readouts: Vec<&str> = costs.iter().map(|cost| cost["readout"].as_str().unwrap()).collect();
    assert_eq!(readouts, ["per-sample", "norms", "clipped-sum"]);
    let bytes = |key: &str| [0, 1].map(|at| costs[at][key].as_u64().unwrap());
    let [per_sample, norms] = bytes("sample_bytes");
    assert!(norms < per_sample);
    // The gradients are computed from their factors for one sample at a time.
    let ([per_sample, norms], gradient) = (bytes("fixed_bytes"), inspection["gradient_bytes"].as_u64().unwrap());
    assert!((norms + 9 * gradient / 10..=norms + gradient).contains(&per_sample), "{per_sample} {norms} {gradient}");
    assert!(costs.iter().all(|cost| (1..=16).contains(&cost["physical_batch"].as_u64().unwrap())));

    let text = String::from_utf8(run(&[&bert[..3], &["1MiB"]].concat()).stdout).unwrap();
    assert_eq!(text.matches("not one sample fits").count(), 3, "{text}");
}

// `inspect` gives a reason for every initializer.
#[test]
fn inspect_gives_each_initializer_a_reason() {
    let inspection = json(&run(&["inspect", "onnx-models/digits-cnn.onnx", "--freeze", "conv.*", "--json"]));
    let parameters = inspection["parameters"].as_array().unwrap();
    assert_eq!(parameters.len(), 4);
    for parameter in parameters {
        let name = parameter["name"].as_str().unwrap();
        assert!(!parameter["reason"].as_str().unwrap().is_empty());
        assert!(parameter["shape"].is_array());
        assert_eq!(parameter["trained"], !name.starts_with("conv."), "{name}");
    }
    assert_eq!(inspection["trainable"], true);

    let refused = json(&run(&["inspect", "onnx-models/exports/batchnorm.dynamo.onnx", "--json"]));
    assert_eq!(refused["trainable"], false);
    assert!(refused["refusal"].as_str().unwrap().contains("BatchNormalization"));
}

/// A model with two heads, one of which feeds the loss, equals the model with only that head.
#[test]
fn parameter_without_gradient_is_frozen() {
    let (guard, _) = folder();
    let folder = guard.path();
    let mut model = onnx::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(MLP)).unwrap();
    let graph = model.graph.as_mut().unwrap();
    let (input, plain) = (graph.input[0].name.clone(), graph.output[0].name.clone());
    graph.node.push(onnx::make_node("Tanh", "bent", &[&input], &["bent"], vec![]));
    graph.node.push(onnx::make_node("Mul", "aside", &["bent", "other"], &["aux"], vec![]));
    graph.initializer.push(onnx::make_tensor_f32("other", &[1], &[0.5]));
    graph.output.push(onnx::make_value_info("aux", DType::F32, &[]));
    let path = folder.join("heads.onnx");
    fs::write(&path, onnx::encode(&model)).unwrap();
    let path = path.to_str().unwrap();

    let inspection = json(&run(&["inspect", path, "--output", &plain, "--json"]));
    let parameters = inspection["parameters"].as_array().unwrap();
    let other = parameters.iter().find(|parameter| parameter["name"] == "other").unwrap();
    assert_eq!(other["trained"], false);
    assert_eq!(other["reason"], "not trained: no gradient reaches it from the loss");
    assert_eq!(inspection["trained"], json(&run(&["inspect", MLP, "--json"]))["trained"]);

    let out = folder.join("heads.grad.onnx");
    let derived = run(&["derive", path, "--output", &plain, "--out", out.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&derived.stdout).contains("no gradient reaches it from the loss: other"));

    let parameters = |model: &str, name: &str, extra: &[&str]| {
        let out = folder.join(name);
        let output = train(model, DIGITS, &out, &[extra, &["--json"]].concat()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        (
            json(&output)["training"]["parameters"].as_u64().unwrap(),
            stderr(&output),
            onnx::load(&out.join("model.onnx")).unwrap(),
        )
    };
    let (alone, _, _) = parameters(MLP, "alone", &[]);
    let (both, notes, trained) = parameters(path, "both", &["--output", &plain]);
    assert_eq!(alone, both);
    assert!(notes.contains("other: not trained, for no gradient reaches it from the loss"), "{notes}");
    let kept =
        |model: &ModelProto| model.graph.as_ref().unwrap().initializer.iter().find(|t| t.name == "other").cloned();
    assert_eq!(kept(&trained), kept(&model));
}

// The inputs and outputs of a derived model follow from its readout and points.
#[test]
fn derived_model_io_fits_readout_and_points() {
    let (folder, _) = folder();
    let file = folder.path().join("grad.onnx");
    let names = |flags: &[&str]| {
        let output = run(&[&["derive", MLP, "-o", file.to_str().unwrap()], flags].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let graph = damper::onnx::load(&file).unwrap().graph.unwrap();
        let names =
            |list: Vec<damper::onnx::pb::ValueInfoProto>| list.into_iter().map(|info| info.name).collect::<Vec<_>>();
        (names(graph.input), names(graph.output))
    };
    let (plain, _) = names(&[]);
    let parameters = &plain[2..];
    let summed: Vec<String> = parameters.iter().map(|name| format!("dp.sum.{name}")).collect();
    assert_eq!(
        names(&["--readout", "norms"]),
        (plain.clone(), ["dp.loss", "logits", "dp.norm"].map(String::from).to_vec())
    );
    assert_eq!(names(&["--points", "1"]), names(&[]));
    let (inputs, outputs) = names(&["--readout", "clipped-sum", "--points", "2"]);
    let mut wanted = vec!["x".to_string(), "dp.labels".into()];
    wanted.extend((0..2).flat_map(|point| parameters.iter().map(move |name| format!("{name}@{point}"))));
    wanted.extend(["dp.mix", "dp.clip", "dp.weight"].map(String::from));
    assert_eq!(inputs, wanted);
    assert_eq!(outputs, [&["dp.loss", "logits", "dp.norm"].map(String::from)[..], &summed].concat());
}

// A derived model takes the parameters and returns their gradients.
#[test]
fn derived_model_maps_params_to_gradients() {
    let (folder, _) = folder();
    let file = folder.path().join("grad.onnx");
    let output = run(&["derive", MLP, "-o", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let graph = damper::onnx::load(&file).unwrap().graph.unwrap();
    let inputs: Vec<_> = graph.input.iter().map(|input| input.name.as_str()).collect();
    let outputs: Vec<_> = graph.output.iter().map(|output| output.name.as_str()).collect();
    assert!(inputs.starts_with(&["x", "dp.labels"]), "{inputs:?}");
    assert!(outputs.starts_with(&["dp.loss", "logits"]), "{outputs:?}");
    for name in &inputs[2..] {
        assert!(outputs.contains(&format!("dp.grad.{name}").as_str()), "{name}");
    }
    assert_eq!(inputs.len(), outputs.len());
}
