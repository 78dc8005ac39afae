//! Budget of a data set: charged before data is read, never exceeded, and never below the steps charged by ledgers.

use super::{DIGITS, MLP, assert_refused, damper, folder, json, stderr, train};
use damper::accounting::{Accountant, Recorded, RunParts};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tempfile::TempDir;

/// Number of training samples of the digits.
const SAMPLES: &str = "1437";

/// Returns a folder, and a budget in it with `flags`.
fn budget(flags: &[&str]) -> (TempDir, PathBuf) {
    let (guard, _) = folder();
    let file = guard.path().join("digits.budget");
    let output =
        damper().arg("budget").arg(&file).args(["--create", "digits", "--delta", "1e-5"]).args(flags).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    (guard, file)
}

fn total(file: &Path) -> Value {
    json(&damper().arg("budget").arg(file).arg("--json").output().unwrap())
}

fn flags<'a>(file: &'a Path, extra: &[&'a str]) -> Vec<&'a str> {
    [&["--budget", file.to_str().unwrap(), "--samples", SAMPLES], extra].concat()
}

const ONE: [&str; 4] = ["--epsilon", "1", "--delta", "1e-5"];

#[test]
fn runs_are_charged_and_composed() {
    let (guard, file) = budget(&["--epsilon", "1.15"]);
    assert_eq!((total(&file)["epsilon"].as_f64(), total(&file)["left"].as_f64() < Some(1.15)), (Some(0.0), true));
    let run = |name: &str, extra: &[&str]| {
        train(MLP, DIGITS, &guard.path().join(name), &flags(&file, extra)).output().unwrap()
    };
    let first = run("a", &ONE);
    assert!(first.status.success(), "{}", stderr(&first));
    let of = |name: &str| -> Value { serde_json::from_slice(&fs::read(guard.path().join(name)).unwrap()).unwrap() };
    let alone = of("a/report.json")["epsilon"].as_f64().unwrap();
    let one = total(&file);
    assert!((one["epsilon"].as_f64().unwrap() - alone).abs() < 1e-9, "{one}");
    assert_eq!((&one["runs"][0]["steps"], &one["runs"][0]["command"]), (&json!(5), &json!("train")));

    // Two runs cost less than the sum of both, and more than one run.
    let second = run("b", &["--epsilon", "0.5", "--delta", "1e-5"]);
    assert!(second.status.success(), "{}", stderr(&second));
    let two = total(&file);
    let epsilon = two["epsilon"].as_f64().unwrap();
    assert!(epsilon > alone && epsilon < alone + 0.5, "{two}");
    assert!((two["left"].as_f64().unwrap() - (1.15 - epsilon)).abs() < 1e-9);
    assert!(two["epsilon_of_replaced"].as_f64() > two["epsilon"].as_f64());

    // A third run is rejected before it reads data, which does not even exist, and charges nothing.
    let mut third = train(MLP, "idx:no-such-folder", &guard.path().join("c"), &flags(&file, &ONE));
    assert_refused(&third.output().unwrap(), &["digits.budget", "above the limit of 1.15", "damper calibrate"]);
    assert_eq!(total(&file), two);
    assert!(!guard.path().join("c").exists());
    let text = String::from_utf8(damper().arg("budget").arg(&file).output().unwrap().stdout).unwrap();
    assert!(
        text.contains("dataset   digits") && text.contains("limit     1.15") && text.contains("5 of 5 steps"),
        "{text}"
    );
}

/// The charge of a failed run is reduced to zero if it charged no step, and otherwise to its ledger.
#[test]
fn failed_runs_keep_what_they_paid() {
    let (guard, file) = budget(&[]);
    let out = guard.path().join("run");
    let mut absent = train(MLP, "idx:no-such-folder", &out, &flags(&file, &[]));
    assert_refused(&absent.output().unwrap(), &["no-such-folder"]);
    let mut wrong = train(MLP, DIGITS, &out, &["--budget", file.to_str().unwrap(), "--samples", "1000"]);
    assert_refused(&wrong.output().unwrap(), &["--samples", "1437"]);
    let found = total(&file);
    assert_eq!((&found["runs"][0]["steps"], &found["runs"][1]["steps"]), (&json!(0), &json!(0)));
    assert_eq!(found["epsilon"], json!(0.0));

    let train = train(MLP, DIGITS, &out, &flags(&file, &["--epochs", "8", "--no-checkpoint"]));
    let output = std::process::Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$@\"", "sh"])
        .arg(train.get_program())
        .args(train.get_args())
        .current_dir(train.get_current_dir().unwrap())
        .output()
        .unwrap();
    assert_refused(&output, &["model.onnx", "unfinished"]);
    let found = total(&file);
    assert_eq!((&found["runs"][2]["steps"], &found["runs"][2]["planned_steps"]), (&json!(180), &json!(180)), "{found}");
}

#[test]
fn simulations_and_exact_audits_are_refused() {
    let (guard, file) = budget(&[]);
    let out = guard.path().join("run");
    let seeded = train(MLP, DIGITS, &out, &flags(&file, &["--seed", "1"])).output().unwrap();
    assert_refused(&seeded, &["simulation"]);
    let missing = train(MLP, DIGITS, &out, &["--budget", file.to_str().unwrap()]).output().unwrap();
    assert!(stderr(&missing).contains("--samples"), "{}", stderr(&missing));
    let absent = train(MLP, DIGITS, &out, &["--budget", "no-such.budget", "--samples", SAMPLES]).output().unwrap();
    assert_refused(&absent, &["no-such.budget", "--create"]);
    assert_eq!(total(&file)["runs"], json!([]));
    let again = damper().arg("budget").arg(&file).args(["--create", "digits", "--delta", "1e-5"]).output().unwrap();
    assert_refused(&again, &["is there already"]);
}

#[cfg(unix)]
#[test]
fn budget_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let (_guard, file) = budget(&[]);
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn torn_and_damaged_lines_are_errors() {
    let (guard, file) = budget(&["--epsilon", "8"]);
    let train_one = |name: &str| train(MLP, DIGITS, &guard.path().join(name), &flags(&file, &ONE)).output().unwrap();
    assert!(train_one("a").status.success());
    let whole = fs::read(&file).unwrap();
    let shown = total(&file);

    // A crash during the write of the next line.
    let line = whole.split_inclusive(|byte| *byte == b'\n').nth(1).unwrap();
    fs::write(&file, [&whole, &line[..line.len() / 3]].concat()).unwrap();
    for output in [train_one("b"), damper().arg("budget").arg(&file).output().unwrap()] {
        assert_refused(&output, &["line 3 is torn", "--repair"]);
    }
    let repaired = json(&damper().arg("budget").arg(&file).args(["--repair", "--json"]).output().unwrap());
    assert_eq!((&repaired["torn_lines"], &repaired["epsilon"]), (&json!([3]), &shown["epsilon"]));
    assert!(train_one("b").status.success());
    assert_eq!(total(&file)["runs"].as_array().unwrap().len(), 2);
    assert_refused(&damper().arg("budget").arg(&file).arg("--repair").output().unwrap(), &["no line is torn"]);

    // A complete line that was changed or removed.
    let text = String::from_utf8(whole.clone()).unwrap();
    fs::write(&file, text.replace("\"times\":5", "\"times\":1")).unwrap();
    assert_refused(&train_one("c"), &["line 2 is damaged"]);
    let two = fs::read_to_string(guard.path().join("digits.budget")).unwrap();
    let lines: Vec<&str> = two.split_inclusive('\n').collect();
    fs::write(&file, lines[1..].concat()).unwrap();
    assert_refused(&train_one("c"), &["damaged"]);
}

/// Two concurrent runs cannot both take the rest of the budget.
#[test]
fn concurrent_runs_share_one_budget() {
    let (guard, file) = budget(&["--epsilon", "1.1"]);
    let children: Vec<_> = ["a", "b", "c", "d"]
        .map(|name| {
            let mut command = train(MLP, DIGITS, &guard.path().join(name), &flags(&file, &ONE));
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .into_iter()
        .map(|child| child.wait_with_output().unwrap())
        .collect();
    let taken = children.iter().filter(|output| output.status.success()).count();
    assert_eq!(taken, 1, "{:?}", children.iter().map(stderr).collect::<Vec<_>>());
    let found = total(&file);
    assert!(found["runs"].as_array().unwrap().len() == 1 && found["epsilon"].as_f64() <= Some(1.1), "{found}");
}

/// Every sampler and schedule is charged as it runs: the charge and the recorded events have the same cost.
#[test]
fn every_kind_of_run_is_charged_as_it_runs() {
    let cases: [&[&str]; 8] = [
        &["--normalize-private", "0,1"],
        &["--normalize-private", "0,1", "--release-non-finite"],
        &["--noise", "continuous"],
        &["--sampler", "shuffled", "--epochs", "2.5"],
        &["--truncate", "200"],
        &["--method", "adp", "--lr-schedule", "constant", "--noise-schedule", "polynomial:3,0.5"],
        &["--method", "adp", "--clip-rule", "percentile", "--epsilon", "3", "--delta", "1e-5"],
        &["--dataset-size", "1500"],
    ];
    for extra in cases {
        let (guard, file) = budget(&[]);
        let out = guard.path().join("run");
        let output = train(MLP, DIGITS, &out, &flags(&file, extra)).output().unwrap();
        assert!(output.status.success(), "{extra:?} {}", stderr(&output));
        let epsilon = json(&damper().arg("epsilon").arg(&out).arg("--json").output().unwrap())["epsilon"].as_f64();
        let charged = total(&file)["epsilon"].as_f64();
        assert!((epsilon.unwrap() / charged.unwrap() - 1.0).abs() < 1e-6, "{extra:?} {epsilon:?} {charged:?}");
    }
}

/// Private metrics add to the total, because another run may train on a row that is held out here. The run's own cost
/// is the larger part.
#[test]
fn private_metrics_add_to_the_total() {
    let metrics = ["--test-metrics", "private", "--epochs", "1", "--eval-every", "0.3"];
    let cases: [&[&str]; 3] = [&ONE, &["--truncate", "200"], &["--sampler", "shuffled"]];
    for extra in cases {
        let (guard, file) = budget(&[]);
        let out = guard.path().join("run");
        let output = train(MLP, DIGITS, &out, &flags(&file, &[&metrics, extra].concat())).output().unwrap();
        assert!(output.status.success(), "{extra:?} {}", stderr(&output));
        let events: Recorded = serde_json::from_slice(&fs::read(out.join("events.json")).unwrap()).unwrap();
        let RunParts { draws, held_out, .. } = events.parts();
        assert!(held_out.iter().map(|(_, times)| *times).sum::<u64>() >= 3, "{extra:?}");
        let draws = [draws, held_out].concat();
        let parts = RunParts { draws: &draws, held_out: &[], truncation: None, ..events.parts() };
        let both = events.with(&parts);
        let of = |events: &Recorded| events.epsilon(Accountant::Pld, 1e-5).unwrap().epsilon;
        let charged = total(&file)["epsilon"].as_f64().unwrap();
        assert!(charged > 1.2 * of(&events), "{extra:?} {charged}");
        // The share of delta for truncated draws is small here.
        assert!((charged / of(&both) - 1.0).abs() < 1e-3, "{extra:?} {charged} {}", of(&both));
    }
}

/// The charge covers evaluations before any data is read. Without held-out samples the run is rejected, and the charge
/// is returned.
#[test]
fn private_metrics_without_rows_are_refused() {
    let (guard, file) = budget(&[]);
    let table = guard.path().join("rows.csv");
    let row = |row: usize| format!("{}{}\n", "0.5,".repeat(64), row % 10);
    fs::write(&table, (0..200).map(row).collect::<String>()).unwrap();
    let data = format!("csv:{}", table.display());
    let charged = ["--budget", file.to_str().unwrap(), "--samples", "200", "--test-metrics", "private"];
    let mut run = train(MLP, &data, &guard.path().join("run"), &charged);
    assert_refused(&run.output().unwrap(), &["--test-metrics private", "no held-out samples", "--test-metrics none"]);
    let found = total(&file);
    assert_eq!((&found["epsilon"], &found["runs"][0]["steps"]), (&json!(0.0), &json!(0)), "{found}");
}

/// A comparison charges every run, including tuning runs, at the rate of the remaining samples.
#[test]
fn comparisons_charge_every_run() {
    let (guard, file) = budget(&[]);
    let toml = guard.path().join("compare.toml");
    fs::write(
        &toml,
        format!(
            "out = {:?}\nmodel = \"{MLP}\"\ndata = \"{DIGITS}\"\ndelta = 1e-5\nbatch-size = 64\nepochs = 0.2\nworkers = 1\n\
             backend = \"tract\"\nepsilon = 1\nseeds = 2\nsamples = {SAMPLES}\n[method.dp-sgd]\nlr = [0.5, 1]\n",
            guard.path().join("out")
        ),
    )
    .unwrap();
    let mut command = damper();
    let output = command.arg("compare").arg(&toml).arg("--quiet").arg("--budget").arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let found = total(&file);
    let runs = found["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4, "{found}");
    assert!(runs[0]["epsilon"].as_f64() > runs[3]["epsilon"].as_f64(), "a tuning run has a higher rate: {found}");
    assert!(runs.iter().all(|run| run["command"] == "compare" && run["steps"] == run["planned_steps"]), "{found}");
    let ledger = guard.path().join("out/ledgers/0004");
    let of_ledger = json(&damper().arg("epsilon").arg(&ledger).arg("--json").output().unwrap());
    assert_eq!(of_ledger["epsilon"], runs[3]["epsilon"]);
}

/// The noise that `calibrate --budget` finds fits the budget, and takes almost all of the rest.
#[test]
fn calibrate_finds_the_rest() {
    let (guard, file) = budget(&["--epsilon", "2"]);
    let first = train(MLP, DIGITS, &guard.path().join("a"), &flags(&file, &ONE)).output().unwrap();
    assert!(first.status.success(), "{}", stderr(&first));
    let mut command = damper();
    command.args(["calibrate", "--samples", SAMPLES, "--batch-size", "64", "--steps", "5", "--json", "--budget"]);
    let found = json(&command.arg(&file).output().unwrap());
    let noise = found["noise_multiplier"].as_f64().unwrap().to_string();
    let second = train(MLP, DIGITS, &guard.path().join("b"), &flags(&file, &["--noise-multiplier", &noise]));
    let second = { second }.output().unwrap();
    assert!(second.status.success(), "{}", stderr(&second));
    let epsilon = total(&file)["epsilon"].as_f64().unwrap();
    assert!(epsilon <= 2.0 && epsilon > 1.98 && epsilon == found["epsilon"].as_f64().unwrap(), "{epsilon} {found}");
    let third = train(MLP, DIGITS, &guard.path().join("c"), &flags(&file, &["--noise-multiplier", &noise])).output();
    assert_refused(&third.unwrap(), &["above the limit"]);
}
