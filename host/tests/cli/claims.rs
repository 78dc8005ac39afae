//! Claims in a run's outputs, compared with the run.

use super::{DIGITS, MLP, damper, folder, json, refused, run, stderr, train};
use damper::accounting::Recorded;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn read(out: &Path, name: &str) -> String {
    fs::read_to_string(out.join(name)).unwrap()
}

fn read_json(out: &Path, name: &str) -> Value {
    serde_json::from_str(&read(out, name)).unwrap()
}

/// Returns the value of a metadata entry of `model.onnx`.
fn metadata(out: &Path, key: &str) -> Option<String> {
    let model = damper::onnx::load(&out.join("model.onnx")).unwrap();
    model.metadata_props.into_iter().find(|entry| entry.key == key).map(|entry| entry.value)
}

/// Returns every number after the word `epsilon` in a line, with the line's step, and the tolerance of that step.
fn shown(lines: &str, steps_of_epoch: f64) -> Vec<(u64, u64, f64)> {
    let number = |text: &str| text.split([' ', ',']).next().unwrap().parse::<f64>().unwrap();
    let of_line = |line: &str| {
        let epsilon = number(line.split_once("epsilon ")?.1);
        if let Some((_, rest)) = line.split_once("step ") {
            return Some((number(rest.split('/').next().unwrap()) as u64, 0, epsilon));
        }
        let epoch = number(line.strip_prefix("epoch ")?.split(':').next().unwrap());
        // An epoch is printed with one decimal.
        Some(((epoch * steps_of_epoch).round() as u64, 3, epsilon))
    };
    lines.lines().filter_map(of_line).collect()
}

/// The accountant gives the first 47 of 469 steps 1.94, and the Rényi bound is 2.9995.
#[test]
fn progress_shows_the_price_of_its_steps() {
    let (_guard, out) = folder();
    // A rate of 32/1437: 469 steps are 10.44 epochs.
    let flags = ["--batch-size", "32", "--epochs", "10.44", "--epsilon", "3", "--delta", "1e-5", "--workers", "1"];
    let mut command = damper();
    command.args(["train", MLP, "--data", DIGITS, "--lr", "0.1", "--backend", "tract", "--eval-every", "2.3", "--out"]);
    let output = command.arg(&out).args(flags).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let recorded: Recorded = serde_json::from_str(&read(&out, "events.json")).unwrap();
    assert_eq!(recorded.steps(), 469);
    let shown = shown(&stderr(&output), 1437.0 / 32.0);
    assert!(shown.len() > 6, "{}", stderr(&output));
    let exact =
        |step: u64| recorded.first(step.max(1), u64::MAX).epsilon(recorded.accountant, recorded.delta).unwrap().epsilon;
    for (step, off, epsilon) in &shown {
        assert!(*epsilon >= exact(step - off), "step {step}: {epsilon}, exact {}", exact(step - off));
        assert!(*epsilon <= 1.01 * exact(step + off) + 1e-4, "step {step}: {epsilon}, exact {}", exact(step + off));
    }
    assert!(shown.windows(2).all(|two| two[0].2 <= two[1].2), "{shown:?}");
}

#[test]
fn every_output_of_a_simulation_names_it() {
    for (flags, kind) in [(&["--seed", "7"][..], "simulation"), (&[], "private")] {
        let (_guard, out) = folder();
        let output = train(MLP, DIGITS, &out, flags).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(read_json(&out, "events.json")["run"], kind);
        assert_eq!(read_json(&out, "report.json")["run"], kind);
        assert_eq!(metadata(&out, "damper.run").as_deref(), Some(kind));
        let metrics = read(&out, "metrics.csv");
        let (head, rows) = metrics.split_once('\n').unwrap();
        let end = format!(",{kind},exact");
        assert!(head.ends_with(",run,test_metrics") && rows.lines().all(|row| row.ends_with(&end)), "{metrics}");
        assert!(rows.lines().count() > 0);
        let columns = head.split(',').count();
        assert!(rows.lines().all(|row| row.split(',').count() == columns), "{metrics}");
        let text = String::from_utf8(run(&["epsilon", out.to_str().unwrap()]).stdout).unwrap();
        assert_eq!(text.to_lowercase().contains("simulation"), kind == "simulation", "{text}");
        assert_eq!(json(&run(&["epsilon", out.to_str().unwrap(), "--json"]))["run"], kind);
    }
}

#[test]
fn events_of_the_other_kind_of_run_disagree() {
    let (_guard, out) = folder();
    assert!(train(MLP, DIGITS, &out, &[]).output().unwrap().status.success());
    let mut events = read_json(&out, "events.json");
    events["run"] = json!("simulation");
    fs::write(out.join("events.json"), events.to_string()).unwrap();
    let output = run(&["report", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("to be a private"), "{}", stderr(&output));
}

#[test]
fn seconds_are_whole_and_not_covered() {
    let (_guard, out) = folder();
    let report = json(&train(MLP, DIGITS, &out, &["--json"]).output().unwrap());
    let seconds = report["seconds"].as_f64().unwrap();
    assert!(seconds >= 1.0 && seconds.fract() == 0.0, "{seconds}");
    let words = |key: &str| report["privacy"][key].as_str().unwrap().to_owned();
    assert!(words("not_covered").contains("`seconds`") && words("covered").contains("without `seconds`"));
}

// Notes of a run describe its own sampler and noise, in each output.
#[test]
fn notes_are_of_the_run() {
    const POISSON: &str = "Poisson-subsampled";
    const FIXED: &str = "without amplification by sampling";
    for (flags, words, none) in [
        (&[][..], [POISSON, "moves the sum of gradients of a step by at most the clip", "integer grid"], FIXED),
        (&["--sampler", "shuffled"], [FIXED, "one for an epoch", "in one step of an epoch"], POISSON),
        (&["--sampler", "min-separation"], [FIXED, "one for an epoch", "in one step of an epoch"], POISSON),
        (
            &["--sampler", "min-separation", "--noise-correlation", "blt:2", "--epochs", "2"],
            [FIXED, "one for the whole run with its correlated noise", "steps together"],
            POISSON,
        ),
        (
            &["--sampler", "cyclic-poisson", "--groups", "4"],
            [POISSON, "one for a draw of each group", "in one step of each cycle of groups"],
            FIXED,
        ),
        (&["--noise", "continuous"], [POISSON, "which the floats of this run are not", "NOT exact"], "integer grid"),
    ] {
        let (_guard, out) = folder();
        let output = train(MLP, DIGITS, &out, flags).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let report = read_json(&out, "report.json");
        let notes = format!("{}{}", report["privacy"], report["method"]);
        for text in [&notes, &read(&out, "report.html")] {
            for word in words {
                assert!(text.contains(word), "{flags:?}: no `{word}` in {text}");
            }
            assert!(!text.contains(none), "{flags:?}: `{none}` in {text}");
        }
    }
}

// The report claims sample independence only as tested for this model.
#[test]
fn claims_independence_only_as_tested() {
    for (flags, word) in [
        (&[][..], "tested for this model"),
        (&["--noise", "continuous", "--readout", "clipped-sum"], "not shown: the backend sums"),
    ] {
        let (_guard, out) = folder();
        let report = json(&train(MLP, DIGITS, &out, &[flags, &["--json"]].concat()).output().unwrap());
        let claim = report["versions"]["sample_independence"].as_str().unwrap();
        assert!(claim.starts_with(word) && !claim.contains("shipped"), "{claim}");
    }
}

// With a declared size, no output shows the counted size.
#[test]
fn declared_size_hides_counted_size() {
    let (_guard, out) = folder();
    let output = train(MLP, DIGITS, &out, &["--dataset-size", "1500", "--delta", "1e-5"]).output().unwrap();
    let text = format!("{}{}", stderr(&output), String::from_utf8(output.stdout.clone()).unwrap());
    assert!(output.status.success(), "{text}");
    assert!(text.contains("the divisor is 64") && !text.contains("expected in each"), "{text}");
    for (name, text) in ["report.json", "report.html", "statement.json", "events.json", "metrics.csv"]
        .map(|name| (name, read(&out, name)))
        .into_iter()
        .chain([("terminal", text)])
    {
        assert!(!text.contains("1437") && !text.contains("1 437") && !text.contains("1\u{202f}437"), "{name}");
    }
    assert!(read(&out, "report.html").contains("declared, not counted"));

    // 1e-3 is below 1/900 and above 1/1437.
    let (_guard, out) = folder();
    let declared = ["--dataset-size", "900", "--delta", "1e-3"];
    refused(train(MLP, DIGITS, &out, &declared), &out, &["--dataset-size 900", "--delta 0.001", "--allow-large-delta"]);
    // Above 1437^-1.1 = 3.36e-4 and below 900^-1.1 = 5.6e-4.
    let output = train(MLP, DIGITS, &out, &["--dataset-size", "900", "--delta", "5e-4"]).output().unwrap();
    // The warning depends on the counted size, so only a terminal shows it.
    assert!(output.status.success() && stderr(&output).is_empty(), "{}", stderr(&output));
    assert_eq!(read_json(&out, "report.json")["warnings"], json!([]));

    let (guard, out) = folder();
    let data = guard.path().join("d.csv");
    fs::write(&data, "1,0\n".repeat(200)).unwrap();
    let fraction = ["--dataset-size", "300", "--test", "0.2", "--delta", "1e-5"];
    refused(
        train(MLP, &format!("csv:{}", data.display()), &out, &fraction),
        &out,
        &["--dataset-size", "--test KIND:PATH"],
    );
    refused(train(MLP, DIGITS, &out, &["--dataset-size", "32"]), &out, &["--dataset-size 32", "--batch-size 64"]);
}
