//! Names of columns and classes in the command: in the model, the resumed run, the plan of a federation and the report.

use super::data_files::*;
use super::{assert_refused, json, run, stderr};
use damper::data::{DataNames, TableNames};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Output;

fn spec(kind: &str, path: &Path) -> String {
    format!("{kind}:{}", path.display())
}

/// Returns rows of a table of features a and b and a class, with the columns in this order.
fn table(order: &str, rows: std::ops::Range<usize>) -> String {
    let cell = |row: usize, column: &str| match column {
        "a" => format!("{}", row % 7),
        "b" => format!("{}", 100 + row % 5),
        _ => ["ant", "bee"][usize::from(row % 7 > 3)].into(),
    };
    let line = |row: usize| order.split(',').map(|column| cell(row, column)).collect::<Vec<_>>().join(",") + "\n";
    format!("{order}\n{}", rows.map(line).collect::<String>())
}

/// Writes a model `two.onnx` of two features, and tables in three orders.
fn files(folder: &Path) {
    linear(folder, "two", &[2], 2);
    for (name, order, rows) in [
        ("train", "a,b,kind", 0..140),
        ("moved", "kind,b,a", 0..140),
        ("test", "a,b,kind", 3..38),
        ("moved-test", "b,kind,a", 3..38),
    ] {
        fs::write(folder.join(format!("{name}.csv")), table(order, rows)).unwrap();
    }
    fs::write(folder.join("other.csv"), table("a,b,kind", 0..140).replacen("b,", "c,", 1)).unwrap();
}

fn train(folder: &Path, data: &str, out: &str, extra: &[&str]) -> Output {
    let [model, out] = ["two.onnx", out].map(|file| folder.join(file).display().to_string());
    let data = spec("csv", &folder.join(data));
    let common = ["--noise-multiplier", "1", "--seed", "3", "--batch-size", "16", "--epochs", "1", "--lr", "0.01"];
    let flags = ["--scale", "b=102,2", "--json", "--quiet", "--backend", "portable", "--workers", "1"];
    run(&[&["train", &model, "--data", &data, "--out", &out][..], &common, &flags, extra].concat())
}

const CLASSES: [&str; 4] = ["--classes", "ant,bee", "--label-column", "kind"];

// Column order does not matter between training and test sets. The report and the model have the names.
#[test]
fn order_of_columns_changes_nothing() {
    let guard = tempfile::tempdir().unwrap();
    let folder = guard.path();
    files(folder);
    let test = |name: &str| spec("csv", &folder.join(name));
    let run = |out: &str, data: &str, held_out: &str| {
        json(&train(folder, data, out, &[&CLASSES[..], &["--test", &test(held_out)]].concat()))
    };
    let usual = run("1", "train.csv", "test.csv");
    let moved = run("2", "train.csv", "moved-test.csv");
    for key in ["params_digest", "test_accuracy", "test_loss"] {
        assert_eq!(usual[key], moved[key], "{key}");
    }
    let data = &usual["data"];
    assert_eq!((data["columns"].to_string(), &data["label"]), (r#"["a","b"]"#.into(), &"kind".into()));
    assert_eq!(data["classes"].to_string(), r#"["ant","bee"]"#);
    let classes = &usual["held_out"]["by_class"]["classes"];
    assert_eq!((&classes[0]["name"], &classes[1]["name"]), (&"ant".into(), &"bee".into()));
    // Rows 3 to 37: a row with a remainder by 7 above 3 is a bee.
    assert_eq!((&classes[0]["labels"], &classes[1]["labels"]), (&20.into(), &15.into()));
    let page = fs::read_to_string(folder.join("1/report.html")).unwrap();
    assert!(page.contains(">bee<") && page.contains(">ant<"), "{page}");
    // The model's names order the data's columns, without --classes. Other names are rejected.
    let gradients = |data: &str, out: &str| {
        let [model, out] = ["1/model.onnx", out].map(|file| folder.join(file).display().to_string());
        super::run(&[
            "gradients",
            &model,
            "--data",
            &spec("csv", &folder.join(data)),
            "--out",
            &out,
            "--backend",
            "portable",
        ])
    };
    for (data, out) in [("train.csv", "usual.npz"), ("moved.csv", "moved.npz")] {
        let output = gradients(data, out);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    assert_eq!(fs::read(folder.join("usual.npz")).unwrap(), fs::read(folder.join("moved.npz")).unwrap());
    assert_refused(
        &gradients("other.csv", "other.npz"),
        &["other.csv: has other columns than the model", "lacks 'b'", "'c'"],
    );
}

// A device with another column order makes the same update. A plan without names accepts no table with names.
#[test]
fn plan_puts_devices_in_order() {
    let guard = tempfile::tempdir().unwrap();
    let folder = guard.path();
    files(folder);
    let at = |name: &str| folder.join(name).display().to_string();
    let plan = |out: &str, names: &[&str]| {
        let [model, out] = [at("two.onnx"), at(out)];
        let flags = ["--rounds", "2", "--devices", "2", "--batch-size", "8", "--sampling-rate", "0.1"];
        let noise = ["--noise-multiplier", "1", "--delta", "1e-5", "--simulation", "--json"];
        let all = [&["federation", "plan", &model, "--out", &out][..], &flags, &noise, names].concat();
        super::run(&all)
    };
    let update = |plan: &str, data: &str, out: &str| {
        let [plan, model, ledger, data] = [at(plan), at("two.onnx"), at(&format!("ledger-{out}")), at(data)];
        let (data, out) = (format!("csv:{data}"), at(out));
        let flags = ["--device", "1", "--round", "0", "--seed", "5", "--backend", "portable", "--workers", "1"];
        let files = ["federation", "update", &plan, &model, "--data", &data, "--ledger", &ledger, "--out", &out];
        super::run(&[&files[..], &flags].concat())
    };
    json(&plan("named.json", &["--columns", "a,b,kind", "--classes", "ant,bee"]));
    let text: Value = serde_json::from_slice(&fs::read(folder.join("named.json")).unwrap()).unwrap();
    assert_eq!(text["federation"]["format"], 3);
    let names: DataNames = serde_json::from_value(text["federation"]["names"].clone()).unwrap();
    let table = TableNames { columns: ["a", "b", "kind"].map(String::from).into(), label: Some("kind".into()) };
    assert_eq!(names, DataNames { table: Some(table), classes: Some(["ant", "bee"].map(String::from).into()) });
    for (data, out) in [("train.csv", "1.upd"), ("moved.csv", "2.upd")] {
        let output = update("named.json", data, out);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    assert_eq!(fs::read(folder.join("1.upd")).unwrap(), fs::read(folder.join("2.upd")).unwrap());
    assert_refused(&update("named.json", "other.csv", "3.upd"), &["other columns than the plan", "lacks 'b'", "'c'"]);
    json(&plan("bare.json", &[]));
    assert_refused(&update("bare.json", "train.csv", "4.upd"), &["train.csv", "the plan names none"]);
    assert_refused(&plan("5.json", &["--columns", "a,A,kind"]), &["--columns A: is named twice"]);
}

// Some editors start a file with a byte order mark. In an earlier version it became part of the first class's name.
#[test]
fn class_files_may_begin_with_a_mark() {
    let guard = tempfile::tempdir().unwrap();
    let folder = guard.path();
    files(folder);
    let list = folder.join("classes.txt");
    fs::write(&list, "\u{feff}ant\r\nbee\r\n").unwrap();
    let flags = ["--classes", list.to_str().unwrap(), "--label-column", "kind"];
    let found = json(&train(folder, "train.csv", "run", &flags));
    assert_eq!(found["data"]["classes"].to_string(), r#"["ant","bee"]"#);
    fs::write(&list, b"\xff\xfea\0n\0t\0").unwrap();
    let refused = train(folder, "train.csv", "utf16", &flags);
    assert!(stderr(&refused).contains("the file is not UTF-8 text"), "{}", stderr(&refused));
    // A run file may have a byte order mark too.
    let toml = folder.join("run.toml");
    let [model, out] = ["two.onnx", "of-file"].map(|file| folder.join(file).display().to_string());
    fs::write(&toml, format!("\u{feff}model = \"{model}\"\nlr = 0.25\n")).unwrap();
    let data = spec("csv", &folder.join("train.csv"));
    let own = ["train", toml.to_str().unwrap(), "--data", &data, "--out", &out];
    let usual = ["--noise-multiplier", "1", "--batch-size", "16", "--epochs", "1", "--clip", "1", "--json", "--quiet"];
    let found = json(&run(&[&own[..], &usual, &CLASSES, &["--backend", "portable"]].concat()));
    assert_eq!(found["training"]["lr"], 0.25);
}

// If the column order changed after a stop, columns are matched by name. Other columns are rejected.
#[test]
fn resumed_run_matches_columns_by_name() {
    let guard = tempfile::tempdir().unwrap();
    let folder = guard.path();
    files(folder);
    let source = |data: &str, names| damper::train::InputFiles {
        model: folder.join("two.onnx"),
        of_file: Default::default(),
        graph: damper::graph::GraphOptions::default(),
        lora: None,
        derive: damper::grad::DeriveOptions::new(damper::grad::Loss::SoftmaxCrossEntropy),
        data: spec("csv", &folder.join(data)),
        data_options: damper::data::DataOptions {
            classes: Some(["ant", "bee"].map(String::from).into()),
            // The column's position in the file at the start of the run.
            label_column: Some("2".into()),
            names,
            ..damper::data::DataOptions::default()
        },
    };
    let config = || {
        let method = damper::train::Method::dp_sgd(1.0, 0.1);
        damper::train::TrainConfig::new(damper::train::Budget::NoiseMultiplier(1.0), 1e-5, 16, 1.0, method)
    };
    let private = folder.join("checkpoint");
    fs::create_dir(&private).unwrap();
    let every = std::time::Duration::ZERO;
    let begun = damper::train::prepare(&source("train.csv", None), config()).unwrap();
    let invocation = damper::train::Invocation::default();
    drop(damper::train::Checkpoint::begin(&private, &begun, invocation, every).unwrap());
    let names = || Some(damper::train::Checkpoint::names(&private).unwrap());
    let moved = damper::train::prepare(&source("moved.csv", names()), config()).unwrap();
    assert_eq!(moved.data.train, begun.data.train);
    damper::train::Checkpoint::resume(&private, &moved, every).unwrap();
    let message = damper::train::prepare(&source("other.csv", names()), config()).err().unwrap().to_string();
    assert!(message.contains("has other columns than the run") && message.contains("'c'"), "{message}");
}

// A folder without the first class. An earlier version assigned its images to other classes.
#[test]
fn image_classes_keep_their_numbers() {
    let guard = tempfile::tempdir().unwrap();
    let folder = guard.path();
    linear(folder, "rgb", &[3, 8, 8], 3);
    for (split, classes) in [("train", &["ant", "bee", "cat"][..]), ("held-out", &["bee", "cat"]), ("new", &["dog"])] {
        for (class, name) in classes.iter().enumerate() {
            fs::create_dir_all(folder.join(split).join(name)).unwrap();
            for image in 0..10u8 {
                let bytes = png(8, 8, 3, image + 20 * class as u8 + split.len() as u8);
                fs::write(folder.join(split).join(name).join(format!("{image}.png")), bytes).unwrap();
            }
        }
    }
    let at = |name: &str| folder.join(name).display().to_string();
    let train = |model: &str, data: &str, test: &str, out: &str| {
        let [model, data, test, out] =
            [at(model), format!("images:{}", at(data)), format!("images:{}", at(test)), at(out)];
        let flags =
            ["--noise-multiplier", "1", "--batch-size", "10", "--epochs", "1", "--lr", "0.1", "--json", "--quiet"];
        let files = ["train", &model, "--data", &data, "--test", &test, "--out", &out, "--backend", "portable"];
        super::run(&[&files[..], &flags].concat())
    };
    let found = json(&train("rgb.onnx", "train", "held-out", "run"));
    let classes = found["held_out"]["by_class"]["classes"].as_array().unwrap();
    let by_name: Vec<_> =
        classes.iter().map(|class| (class["name"].as_str().unwrap(), class["labels"].as_u64().unwrap())).collect();
    assert_eq!(by_name, [("ant", 0), ("bee", 10), ("cat", 10)]);
    assert_refused(&train("rgb.onnx", "train", "new", "2"), &["the class 'dog'", "'ant', 'bee', 'cat'"]);
    // The model keeps its own class indices.
    let found = json(&train("run/model.onnx", "held-out", "train", "3"));
    assert_eq!(found["data"]["classes"].to_string(), r#"["ant","bee","cat"]"#);
}
