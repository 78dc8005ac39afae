//! Held-out samples: their releases, the privacy cost, and that all outputs agree.

use super::{DIGITS, MLP, damper, folder, json, refused, run, stderr, train, warnings};
use damper::accounting::Recorded;
use serde_json::{Value, json};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Writes a CSV of 64 features and a class, a row for each number.
fn csv(folder: &Path, name: &str, rows: Range<u32>) -> (PathBuf, String) {
    let row = |row: u32| {
        let features: Vec<String> =
            (0..64u32).map(|at| (row.wrapping_mul(2_654_435_761) >> (at % 29) & 15).to_string()).collect();
        format!("{},{}\n", features.join(","), row % 10)
    };
    let file = folder.join(name);
    fs::write(&file, rows.map(row).collect::<String>()).unwrap();
    let spec = format!("csv:{}", file.display());
    (file, spec)
}

fn read(out: &Path, name: &str) -> String {
    fs::read_to_string(out.join(name)).unwrap()
}

fn read_json(out: &Path, name: &str) -> Value {
    serde_json::from_str(&read(out, name)).unwrap()
}

/// Returns every output of a finished run, and that of the terminal.
fn outputs(out: &Path, terminal: &str) -> Vec<(&'static str, String)> {
    let files = ["report.json", "statement.json", "report.html", "events.json", "metrics.csv"];
    files.map(|name| (name, read(out, name))).into_iter().chain([("terminal", terminal.to_owned())]).collect()
}

// Every output marks exact metrics as unprotected.
#[test]
fn exact_metrics_are_marked_unprotected() {
    let (guard, out) = folder();
    let (_, data) = csv(guard.path(), "d.csv", 0..300);
    let output = train(MLP, &data, &out, &["--test", "0.2", "--delta", "1e-4"]).output().unwrap();
    let terminal = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let warning = "the held-out rows come out of the training file";
    assert!(
        stderr(&output).contains(warning) && stderr(&output).contains("--test-metrics private"),
        "{}",
        stderr(&output)
    );
    assert!(terminal.contains("held-out samples; exact, not covered by epsilon"), "{terminal}");
    let report = read_json(&out, "report.json");
    assert_eq!(report["held_out"]["metrics"], "exact");
    let words = |text: &Value| text.as_str().unwrap().to_owned();
    assert!(words(&report["held_out"]["public"]).contains("not protected by epsilon"));
    assert!(words(&report["held_out"]["public"]).contains("come out of the training file"));
    assert!(words(&report["privacy"]["not_covered"]).starts_with("the held-out samples"));
    assert!(words(&report["privacy"]["covered"]).starts_with("the training samples, in"));
    assert!(report["warnings"].to_string().contains(warning));
    let assumptions = read_json(&out, "statement.json")["assumptions"].to_string();
    assert!(assumptions.contains("not protected by epsilon"), "{assumptions}");
    let page = read(&out, "report.html");
    assert!(
        page.contains("not protected by epsilon")
            && page.contains(warning)
            && !page.contains("taken to be public: its")
    );
    assert!(read(&out, "metrics.csv").lines().skip(1).all(|line| line.ends_with(",private,exact")));
    assert!(read_json(&out, "events.json").get("held_out").is_none());
    let help = String::from_utf8(run(&["train", "--help-all"]).stdout)
        .unwrap()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(help.contains("exact functions of samples that epsilon does not protect"), "{help}");
}

#[test]
fn private_metrics_are_noisy_and_charged() {
    let flags = ["--epsilon", "3", "--delta", "1e-5", "--epochs", "1", "--eval-every", "0.3", "--seed", "5", "--json"];
    let with = |metrics: &[&str]| {
        let (guard, out) = folder();
        let output = train(MLP, DIGITS, &out, &[&flags[..], metrics].concat()).output().unwrap();
        (json(&output), out, guard)
    };
    let (exact, exact_out, _exact) = with(&[]);
    let (noisy, out, _noisy) = with(&["--test-metrics", "private"]);
    // Training is the same. The figures of the held-out samples differ.
    assert_eq!(noisy["params_digest"], exact["params_digest"]);
    let figures = |out: &Path| -> Vec<(f64, f64)> {
        let number = |field: Option<&str>| field.unwrap().parse().unwrap();
        let of_line = |line: &str| {
            let mut fields = line.split(',').skip(3);
            (number(fields.next()), number(fields.next()))
        };
        read(out, "metrics.csv").lines().skip(1).map(of_line).collect()
    };
    let (exact_figures, noisy_figures) = (figures(&exact_out), figures(&out));
    assert_eq!((exact_figures.len(), noisy_figures.len()), (4, 4));
    let noise = &noisy["held_out"]["noise"];
    let multiplier = noise["noise_multiplier"].as_f64().unwrap();
    assert_eq!((&noise["evaluations"], &noise["loss_bound"]), (&json!(4), &json!(10.0)));
    let samples = noisy["held_out"]["samples"].as_f64().unwrap();
    for ((loss, accuracy), (noisy_loss, noisy_accuracy)) in exact_figures.iter().zip(&noisy_figures) {
        let of_noise = multiplier / samples;
        assert!(loss != noisy_loss && accuracy != noisy_accuracy);
        assert!((accuracy - noisy_accuracy).abs() < 7.0 * of_noise, "{accuracy} {noisy_accuracy} {of_noise}");
        assert!((loss - noisy_loss).abs() < 70.0 * of_noise + 0.01, "{loss} {noisy_loss} {of_noise}");
    }
    // An integer number of correct predictions would show the absence of noise.
    assert!(noisy_figures.iter().any(|(_, accuracy)| (accuracy * samples).fract() > 1e-6));

    // Privacy cost: four releases at a rate of 1, within the budget. The claim is the larger part.
    let recorded: Recorded = serde_json::from_str(&read(&out, "events.json")).unwrap();
    let held_out = recorded.of_held_out().unwrap();
    assert_eq!((held_out.events(), held_out.largest_rate().as_f64()), (4, 1.0));
    assert!((held_out.smallest_multiplier() * 2f64.sqrt() / multiplier - 1.0).abs() < 1e-9);
    let epsilon = |recorded: &Recorded| recorded.epsilon(recorded.accountant, 1e-5).unwrap().epsilon;
    let (training, held_out) = (epsilon(&recorded.of_training()), epsilon(&held_out));
    assert!(held_out <= 3.0 && held_out > 2.9, "{held_out}");
    assert_eq!(noisy["epsilon"], json!(training.max(held_out)));
    assert_eq!(json(&run(&["epsilon", out.to_str().unwrap(), "--json"]))["epsilon"], noisy["epsilon"]);
    // Charged before the first release.
    let ledger = read_json(&out, "checkpoint/ledger-held-out.json").to_string();
    assert!(ledger.contains("\"paid\":4"), "{ledger}");
    for (name, text) in outputs(&out, "") {
        if name != "events.json" && name != "terminal" {
            assert!(text.contains("private") && !text.contains("not protected by epsilon"), "{name}");
        }
    }
    assert!(read(&out, "report.html").contains("protected by epsilon as training samples are"));

    // A record without its releases, or with other noise, disagrees.
    type Change = fn(&mut Value);
    let changes: [(Change, &str); 2] = [
        (|events| drop(events.as_object_mut().unwrap().remove("held_out")), "releases from held-out samples"),
        (|events| events["held_out"][0]["noise_multiplier"] = json!(40.0), "held-out metrics with a multiplier"),
    ];
    let events = read_json(&out, "events.json");
    for (change, word) in changes {
        let mut changed = events.clone();
        change(&mut changed);
        fs::write(out.join("events.json"), changed.to_string()).unwrap();
        let output = run(&["report", out.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{word}");
        assert!(read(&out, "report.html").contains(word), "{word}: {}", stderr(&output));
    }
}

#[test]
fn private_metrics_terminal_says_so() {
    let (_guard, out) = folder();
    let output = train(MLP, DIGITS, &out, &["--test-metrics", "private"]).output().unwrap();
    let terminal = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(terminal.contains("held-out samples; with noise, covered by epsilon"), "{terminal}{}", stderr(&output));
    let covered = read_json(&out, "report.json")["privacy"]["covered"].to_string();
    assert!(covered.contains("the training samples and the held-out samples"), "{covered}");
}

#[test]
fn no_metrics_leaves_them_out() {
    let (_guard, out) = folder();
    let output = train(MLP, DIGITS, &out, &["--test-metrics", "none"]).output().unwrap();
    let terminal = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(terminal.contains("not measured (--test-metrics none)"), "{terminal}{}", stderr(&output));
    let report = read_json(&out, "report.json");
    assert!(report["test_accuracy"].is_null() && report["test_loss"].is_null());
    assert_eq!(report["held_out"]["metrics"], "none");
    assert_eq!(read(&out, "metrics.csv").lines().count(), 1);
    refused(train(MLP, DIGITS, &out.join("x"), &["--test-loss-bound", "3"]), &out.join("x"), &["--test-loss-bound"]);
    let zero = ["--test-metrics", "private", "--test-loss-bound", "0"];
    refused(train(MLP, DIGITS, &out.join("x"), &zero), &out.join("x"), &["--test-loss-bound 0"]);
}

#[test]
fn training_file_is_no_test_set() {
    let (guard, out) = folder();
    let (file, data) = csv(guard.path(), "d.csv", 0..200);
    let (_, copy) = csv(guard.path(), "copy.csv", 0..200);
    let indirect = format!("csv:{}/./d.csv", guard.path().display());
    let mut same = vec![data.clone(), copy, indirect];
    #[cfg(unix)]
    {
        let link = guard.path().join("link.csv");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        same.push(format!("csv:{}", link.display()));
    }
    for test in same {
        let flags = ["--test", &test, "--delta", "1e-4"];
        refused(train(MLP, &data, &out, &flags), &out, &["the held-out rows are the training rows", "--test"]);
    }
    let (_, other) = csv(guard.path(), "other.csv", 500..560);
    let output = train(MLP, &data, &out, &["--test", &other, "--delta", "1e-4"]).output().unwrap();
    assert!(output.status.success() && warnings(&output).is_empty(), "{}", stderr(&output));
}

/// The warning is only for a person at the data, because it depends on private rows. `rows` expects it on a terminal.
#[test]
fn shared_rows_are_in_no_kept_text() {
    let (guard, out) = folder();
    let (_, data) = csv(guard.path(), "d.csv", 0..200);
    let (_, overlapping) = csv(guard.path(), "o.csv", 197..260);
    let output = train(MLP, &data, &out, &["--test", &overlapping, "--delta", "1e-4"]).output().unwrap();
    assert!(output.status.success() && warnings(&output).is_empty(), "{}", stderr(&output));
    for (name, text) in outputs(&out, &String::from_utf8(output.stdout.clone()).unwrap()) {
        assert!(!text.contains("equal to training rows"), "{name}");
    }
}

#[test]
fn comparison_takes_exact_figures_alone() {
    let (guard, out) = folder();
    let file = guard.path().join("compare.toml");
    let digits = Path::new(env!("CARGO_MANIFEST_DIR")).join("../onnx-models");
    let text = format!(
        "out = {out:?}\nmodel = {:?}\ndata = \"idx:{}\"\ndelta = 1e-5\nbatch-size = 64\nepochs = 0.2\nepsilon = 3\nlr = 0.5\n\
         test-metrics = \"private\"\n[method.dp-sgd]\n",
        digits.join("digits-mlp.onnx"),
        digits.join("digits").display(),
    );
    fs::write(&file, text).unwrap();
    let output = damper().arg("compare").arg(&file).output().unwrap();
    assert!(stderr(&output).contains("test-metrics: a comparison is of exact figures"), "{}", stderr(&output));
}

/// Labels of ten held-out rows, far from the scale's mean.
const LABELS: [f64; 10] = [10.0, 14.0, 11.0, 18.0, 12.0, 13.0, 19.0, 10.0, 15.0, 16.0];

// R² is 1 minus the error over the variance of the held-out labels, in their unit.
#[test]
fn regressions_have_an_r_squared() {
    let (guard, out) = folder();
    let file = |name: &str, rows: &[(usize, f64)]| {
        let lines: String = rows.iter().map(|(row, label)| format!("{row},{},{label}\n", row % 3)).collect();
        let path = guard.path().join(name);
        fs::write(&path, format!("a,b,y\n{lines}")).unwrap();
        path.display().to_string()
    };
    let train = file("train.csv", &(0..200).map(|row| (row % 10, LABELS[row % 10])).collect::<Vec<_>>());
    let test = file("test.csv", &LABELS.into_iter().enumerate().collect::<Vec<_>>());
    let report = |extra: &[&str]| {
        let out = out.join(extra.len().to_string()).display().to_string();
        let data = ["train", "--model", "linear", &train, "--test", &test, "--loss", "mse", "--scale", "y=14,3"];
        let usual = ["--epsilon", "8", "--epochs", "3", "--backend", "portable", "--json", "--out", &out];
        json(&run(&[&data[..], &usual, extra].concat()))
    };
    let exact = report(&[]);
    let mean = LABELS.iter().sum::<f64>() / 10.0;
    let variance = LABELS.iter().map(|label| (label - mean).powi(2)).sum::<f64>() / 10.0;
    let expected = 1.0 - exact["test_loss"].as_f64().unwrap() / variance;
    let found = exact["test_r_squared"].as_f64().unwrap();
    assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    // A private run has no variance to divide by.
    let private = report(&["--test-metrics", "private", "--test-loss-bound", "9"]);
    assert_eq!(private["test_r_squared"], Value::Null);
}

// Released figures alone show that a run learned nothing.
#[test]
fn guesses_are_told() {
    let told = |noise: &str, epochs: &str| {
        let (_guard, out) = folder();
        let flags = ["--noise-multiplier", noise, "--delta", "1e-5", "--epochs", epochs, "--seed", "1", "--lr", "1"];
        let out = out.display().to_string();
        let args = [&["train", MLP, DIGITS, "--out", &out, "--clip", "0.1", "--batch-size", "64"][..], &flags].concat();
        stderr(&run(&args)).contains("that of a guess")
    };
    assert!(told("500", "1"));
    assert!(!told("1", "5"));
}
