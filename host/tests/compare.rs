//! `damper compare` through the program, on small comparisons and on broken files.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Two methods on the digits, one of them tuned: (2 + 2 + 2) · 2 runs of one epoch.
const SMALL: &str = "\
model = \"onnx-models/digits-mlp.onnx\"
data = \"idx:onnx-models/digits\"
delta = 1e-5
batch-size = 128
epochs = 1
backend = \"tract\"
workers = 1
epsilon = [3, 8]
seeds = [1, 2]
[method.dp-sgd]
lr = [0.05, 1]
[method.\"with | momentum\"]
method = \"dp-sgd\"
optimizer = \"momentum\"
lr = 0.5
";
const RUNS: usize = 12;

/// A folder with the file `text` in it.
struct Case {
    folder: TempDir,
    file: PathBuf,
    out: PathBuf,
}

impl Case {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (file, out) = (folder.path().join("compare.toml"), folder.path().join("out"));
        fs::write(&file, text).unwrap();
        Self { folder, file, out }
    }

    /// Returns the program, run from the workspace's root without an onnxruntime of the user's.
    fn command(&self, extra: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_damper"));
        command
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
            .env_remove("ORT_DYLIB_PATH")
            .args([Path::new("compare"), &self.file, Path::new("--out"), &self.out])
            .args(extra);
        command
    }

    fn run(&self, extra: &[&str]) -> Output {
        self.command(extra).output().unwrap()
    }

    /// Returns the folders of its ledgers.
    fn ledgers(&self) -> Vec<PathBuf> {
        fs::read_dir(self.out.join("ledgers")).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    fn json(&self) -> Value {
        let output = self.run(&["--json", "--quiet"]);
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.out.join(name)).unwrap()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns the values that are independent of stops: all except the seconds of repeated runs.
fn digests(comparison: &Value) -> Vec<(Value, Value)> {
    let runs = comparison["runs"].as_array().unwrap();
    runs.iter().map(|run| (run["flags"].clone(), run["params_digest"].clone())).collect()
}

// A comparison writes a table, a page and figures, and resumes after a stop.
#[test]
fn writes_outputs_and_resumes() {
    let case = Case::new(SMALL);
    let output = case.run(&["--jobs", "1"]);
    let (text, progress) = (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output));
    assert!(output.status.success(), "{progress}");
    for word in ["epsilon 3", "epsilon 8", "with | momentum", " ± ", "(2) *", "chosen: dp-sgd: lr = ", "SIMULATION"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(progress.contains("run 12/12") && progress.contains(" left"), "{progress}");
    assert_eq!(progress.matches("warning:").count(), 1, "{progress}");

    let found: Value = serde_json::from_str(&case.read("compare.json")).unwrap();
    assert_eq!((found["metric"].as_str(), found["run"].as_str()), (Some("test_accuracy"), Some("simulation")));
    assert_eq!(found["runs"].as_array().unwrap().len(), RUNS);
    assert_eq!(found["tuning"]["runs"], 4);
    for row in found["methods"].as_array().unwrap() {
        for cell in row["cells"].as_array().unwrap() {
            let (epsilon, budget) = (cell["epsilon"].as_f64().unwrap(), cell["budget"].as_f64().unwrap());
            assert!(epsilon <= budget && epsilon > 0.99 * budget, "{cell}");
            assert!(cell["n"] == 2 && cell["std"].is_f64() && cell["noise_multiplier"].is_f64(), "{cell}");
        }
    }
    // A tuning run has no accounting, and is evaluated on 287 of the 1,437 training samples. The others are evaluated
    // on the 360 test samples.
    for run in found["runs"].as_array().unwrap() {
        let tuning = run["purpose"] == "tuning";
        assert_eq!(run["epsilon"].is_null(), tuning, "{run}");
        let right = run["test_accuracy"].as_f64().unwrap() * if tuning { 287.0 } else { 360.0 };
        assert!((right - right.round()).abs() < 1e-9, "{run}");
    }
    let table = case.read("compare.md");
    assert!(table.contains("| method | ε = 3 | ε = 8 |") && table.contains("| with \\| momentum |"), "{table}");
    assert!(case.read("compare.html").contains("<svg") && !case.out.join("checkpoint").exists());

    // Half of the runs are lost, and one is partially written.
    let journal = case.read("runs.jsonl");
    let lines: Vec<&str> = journal.lines().collect();
    assert_eq!(lines.len(), RUNS);
    fs::write(case.out.join("runs.jsonl"), format!("{}\n{}", lines[..RUNS / 2].join("\n"), &lines[RUNS / 2][..50]))
        .unwrap();
    let output = case.run(&[]);
    assert_eq!(stderr(&output).matches("\nrun ").count(), RUNS / 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("run 7/12"));
    let again = case.json();
    assert_eq!(digests(&again), digests(&found));
    assert_eq!(again["runs"].as_array().unwrap()[..RUNS / 2], found["runs"].as_array().unwrap()[..RUNS / 2]);
    assert_eq!(case.read("runs.jsonl").lines().count(), RUNS);
}

/// Equation 6 sets the noise as in `damper train`, and each cell has the accountant's epsilon of it.
#[test]
fn equation_6_is_a_column_and_is_priced() {
    let text = SMALL.replace("epsilon = [3, 8]", "equation-6 = [0.8, 1.6]").replace("lr = [0.05, 1]", "lr = 0.5");
    let case = Case::new(&text.replace("seeds = [1, 2]\n", "").replace("epochs = 1", "epochs = 0.2"));
    let output = case.run(&["--quiet"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("--equation-6 0.8: sets the noise to"), "{}", stderr(&output));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("equation 6 0.8") && shown.contains("epsilon: dp-sgd: "), "{shown}");
    assert!(case.read("compare.md").contains("| method | equation 6, ε̄ = 0.8 | equation 6, ε̄ = 1.6 |"));
    let found = case.json();
    assert_eq!(found["budget"], "equation 6");
    let (rate, steps) = (128.0 / 1437.0, 3.0f64);
    for row in found["methods"].as_array().unwrap() {
        for cell in row["cells"].as_array().unwrap() {
            let of = |key: &str| cell[key].as_f64().unwrap_or_else(|| panic!("{key}: {cell}"));
            let logs = (16.0 * steps * rate / 1e-5).ln() * (1.25f64 / 1e-5).ln();
            let expected = rate / of("budget") * (logs * steps).sqrt();
            let multiplier = of("noise_multiplier");
            assert!((multiplier / expected - 1.0).abs() < 1e-5, "{cell} {expected}");
            let args = [
                "epsilon".to_owned(),
                "--json".into(),
                "--delta=1e-5".into(),
                format!("--steps={steps}"),
                format!("--noise-multiplier={multiplier}"),
                format!("--sampling-rate={rate}"),
            ];
            let priced = Command::new(env!("CARGO_BIN_EXE_damper")).args(args).output().unwrap();
            let priced: Value = serde_json::from_slice(&priced.stdout).unwrap();
            assert!((priced["epsilon"].as_f64().unwrap() / of("epsilon") - 1.0).abs() < 1e-6, "{cell} {priced}");
        }
    }
}

// A rejected method is shown with its reason and does not stop the others.
#[test]
fn rejected_method_is_shown_and_skipped() {
    let text = SMALL
        .replace("lr = [0.05, 1]", "lr = 0.5\nthreshold = \"percentile\"\ncount-noise-multiplier = 0.5")
        .replace("[3, 8]", "3");
    let case = Case::new(&text.replace("seeds = [1, 2]\n", ""));
    let output = case.run(&["--quiet"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("refused: dp-sgd at epsilon 3: --count-noise-multiplier"), "{table}");
    assert!(
        table.contains("(1) *") && table.contains("Epsilon is that of one run") && !table.contains("private by itself"),
        "{table}"
    );
    let found = case.json();
    assert_eq!(
        (&found["run"], &found["seeds"], &found["runs"][0]["seed"]),
        (&"private".into(), &Value::Null, &Value::Null)
    );

    let case = Case::new(&SMALL.replace("delta = 1e-5", "delta = 0.5"));
    let output = case.run(&["--quiet"]);
    assert_eq!(output.status.code(), Some(1));
    let message = stderr(&output);
    assert!(
        message.contains("compare.toml: no run finished") && message.contains("first was refused: --delta"),
        "{message}"
    );
    assert!(message.lines().count() == 1, "{message}");
    assert!(output.stdout.is_empty() && !case.out.exists());
}

// The error for an invalid file names table and key before anything runs.
#[test]
fn invalid_file_error_names_table_and_key() {
    let change = |from: &str, to: &str| {
        assert!(SMALL.contains(from));
        SMALL.replace(from, to)
    };
    let cases = [
        (change("delta = 1e-5", "delta = "), vec!["line 3", "not TOML"]),
        (change("delta = 1e-5", "delt = 1e-5"), vec!["unknown key `delt`"]),
        (change("lr = 0.5", "rl = 0.5"), vec!["[method.\"with | momentum\"]: unknown key `rl`"]),
        (change("lr = 0.5", "momentum = 0.5"), vec!["[method.\"with | momentum\"]", "--lr", "add"]),
        (change("lr = 0.5", "lr = \"fast\""), vec!["[method.\"with | momentum\"]", "`lr = \"fast\"`", "give a number"]),
        (
            change("lr = [0.05, 1]", "lr = 1\n") + "tune-private = \"geometric:0.1\"",
            vec!["[method.\"with | momentum\"]", "at the top"],
        ),
        (
            change("[3, 8]", "3\ntune-private = \"geometric:2\""),
            vec!["`tune-private = \"geometric:2\"`", "geometric:0.1"],
        ),
        (change("[3, 8]", "3\ntune-private = 5"), vec!["`tune-private = 5`", "give a text"]),
        (change("[3, 8]", "3\ntune-score = \"private\""), vec!["`tune-score`", "tune-private = "]),
        (
            change("[3, 8]", "3\ntune-private = \"poisson:3\"\ntune-score = \"exact\""),
            vec!["`tune-score = \"exact\"`", "public"],
        ),
        (
            change("[3, 8]", "3\ntune-private = \"poisson:3\"").replace("[0.05, 1]", "1"),
            vec!["no method has several values"],
        ),
        (change("lr = [0.05, 1]", "lr = []"), vec!["[method.dp-sgd]: `lr = []`", "empty"]),
        (change("lr = [0.05, 1]", "lr = [0.05, \"x\"]"), vec!["[method.dp-sgd]", "give a number"]),
        (change("lr = [0.05, 1]", "epsilon = 3"), vec!["[method.dp-sgd]: `epsilon`", "at the top"]),
        (change("method = \"dp-sgd\"\n", ""), vec!["`with | momentum` is no method", "method ="]),
        (change("epsilon = [3, 8]", "epsilon = []"), vec!["`epsilon = []`", "empty"]),
        (change("epsilon = [3, 8]", "epsilon = [3, -1]"), vec!["`epsilon = [3, -1]`", "above 0"]),
        (change("epsilon = [3, 8]", "epsilon = [3, 3.0]"), vec!["twice"]),
        (change("epsilon = [3, 8]", ""), vec!["no budgets", "epsilon = [1, 3, 8]"]),
        (change("epsilon = [3, 8]", "epsilon = 3\nnoise-multiplier = 1"), vec!["`epsilon` and `noise-multiplier`"]),
        (change("epsilon = [3, 8]", "epsilon = 3\nequation-6 = 1"), vec!["`epsilon` and `equation-6`", "keep one"]),
        (change("lr = 0.5", "lr = 0.5\nequation-6 = 1"), vec!["`equation-6` is for all methods alike"]),
        (change("seeds = [1, 2]", "seeds = []"), vec!["`seeds = []`", "empty"]),
        (change("seeds = [1, 2]", "seeds = [1, 1]"), vec!["twice"]),
        (change("seeds = [1, 2]", "seeds = 0"), vec!["`seeds = 0`", "[1, 2, 3]"]),
        (change("seeds = [1, 2]", "seed = 1"), vec!["`seed = 1`", "seeds ="]),
        (change("lr = [0.05, 1]", "lr = 1\nbetas = [0.9, 0.99]"), vec!["[method.dp-sgd]: --betas", "sgd has none"]),
        (change("lr = [0.05, 1]", "lr = 1\nfilter = [\"p6\", \"p66\"]"), vec!["[method.dp-sgd]: --filter p66"]),
        (change("digits-mlp.onnx", "no-such.onnx"), vec!["[method.dp-sgd]: ", "no-such.onnx"]),
        (change("idx:onnx-models/digits", "idx:onnx-models/no-such"), vec!["[method.dp-sgd]: ", "no-such"]),
        (change("batch-size", "batch_size"), vec!["unknown key `batch_size`: write it `batch-size`"]),
        (change("batch-size = 128", "batch-size = 1.5"), vec!["`batch-size = 1.5`", "give a whole number"]),
        (SMALL[..SMALL.find("[method").unwrap()].into(), vec!["no method", "[method.dp-sgd]"]),
        (change("model = \"onnx-models/digits-mlp.onnx\"\n", ""), vec!["names no model", "model ="]),
    ];
    for (text, words) in cases {
        let case = Case::new(&text);
        let output = case.run(&[]);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {message}");
        assert!(message.starts_with("error: ") && message.lines().count() == 1, "{message}");
        for word in words.into_iter().chain(["compare.toml: "]) {
            assert!(message.contains(word), "`{word}` is not in: {message}");
        }
        assert!(output.stdout.is_empty() && !case.out.exists(), "{message}");
    }
}

#[test]
fn a_folder_of_something_else_is_left_alone() {
    let case = Case::new(SMALL);
    fs::create_dir(&case.out).unwrap();
    fs::write(case.out.join("precious"), "1").unwrap();
    let output = case.run(&[]);
    assert!(stderr(&output).contains("not empty") && output.status.code() == Some(1), "{}", stderr(&output));
    assert_eq!(fs::read_dir(&case.out).unwrap().count(), 1);

    fs::write(case.out.join("runs.jsonl"), "not a run\n").unwrap();
    let output = case.run(&[]);
    assert!(stderr(&output).contains("runs.jsonl: line 1: not a run"), "{}", stderr(&output));
    assert_eq!(case.read("runs.jsonl"), "not a run\n");

    let no_folder = Case::new(SMALL);
    let output = Command::new(env!("CARGO_BIN_EXE_damper")).arg("compare").arg(&no_folder.file).output().unwrap();
    assert!(stderr(&output).contains("no folder for the outputs: add out = "), "{}", stderr(&output));
    drop(no_folder.folder);
}

/// Charges before the kill stay, and runs in the journal are not repeated.
#[test]
fn killed_comparison_is_resumed() {
    let case = Case::new(&SMALL.replace("epochs = 1", "epochs = 20"));
    let mut child = case.command(&["--jobs", "2"]).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let lines = || fs::read_to_string(case.out.join("runs.jsonl")).unwrap_or_default().matches('\n').count();
    while lines() == 0 {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let (finished, ledgers) = (lines(), case.ledgers());
    let paid = ledgers.iter().filter(|folder| folder.join("checkpoint/ledger.json").exists()).count();
    let output = case.run(&["--resume", "--jobs", "2", "--json", "--quiet"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let warned = stderr(&output).contains("paid for steps and did not finish");
    assert_eq!(warned, paid > finished, "{paid} {finished}: {}", stderr(&output));
    assert_eq!(case.ledgers().len(), ledgers.len() + RUNS - finished);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let fresh =
        Case { folder: tempfile::tempdir().unwrap(), file: case.file.clone(), out: case.folder.path().join("2") };
    assert_eq!(digests(&found), digests(&fresh.json()));
    assert_eq!(digests(&found).len(), RUNS);
}

/// Returns everything that does not depend on the machine.
fn figures(mut comparison: Value) -> Value {
    for run in comparison["runs"].as_array_mut().unwrap() {
        run["seconds"] = Value::Null;
        run["training"]["workers"] = Value::Null;
    }
    for row in comparison["methods"].as_array_mut().unwrap() {
        row["seconds"] = Value::Null;
        for cell in row["cells"].as_array_mut().unwrap() {
            cell["seconds_mean"] = Value::Null;
        }
    }
    comparison["command"] = Value::Null;
    comparison
}

#[test]
fn jobs_do_not_change_the_figures() {
    let with = |text: &str, jobs: &str| {
        let case = Case::new(text);
        let output = case.run(&["--quiet", "--json", "--jobs", jobs]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(case.ledgers().len(), RUNS);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let line: Vec<&str> = found["command"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(line.starts_with(&["damper", "compare"]) && line.ends_with(&["--jobs", jobs]), "{line:?}");
        assert_eq!(found["versions"]["damper"], found["damper"]);
        figures(found)
    };
    let serial = with(SMALL, "1");
    assert_eq!(with(SMALL, "3"), serial);
    let open = SMALL.replace("workers = 1\n", "");
    assert_eq!(with(&open, "1"), with(&open, "5"));
}

// Resumed runs are charged again, and the output states this.
#[test]
fn resumed_runs_are_charged_again() {
    let folder = tempfile::tempdir().unwrap();
    let budget = folder.path().join("budget.json");
    let damper = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_damper")).args(args).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        output
    };
    let path = budget.to_str().unwrap();
    damper(&["budget", path, "--create", "digits", "--delta", "1e-5"]);
    let charges = || fs::read_to_string(&budget).unwrap().matches("\"unix_seconds\"").count();
    let case = Case::new(&SMALL.replace("seeds = [1, 2]", "seeds = 2\nsamples = 1437").replace("[3, 8]", "3"));
    let flags = ["--budget", path, "--jobs", "2"];
    let output = case.run(&[&flags[..], &["--resume"]].concat());
    assert!(
        output.status.code() == Some(1) && stderr(&output).contains("no comparison to resume"),
        "{}",
        stderr(&output)
    );
    assert!(!case.out.exists());

    let output = case.run(&flags);
    assert!(output.status.success(), "{}", stderr(&output));
    let runs = RUNS / 2;
    let ledgers = || case.ledgers().len();
    assert_eq!((charges(), ledgers()), (runs, runs));
    // As after a kill before the last run was in the journal.
    let journal = case.read("runs.jsonl");
    let kept: Vec<&str> = journal.lines().take(runs - 1).collect();
    fs::write(case.out.join("runs.jsonl"), kept.join("\n") + "\n").unwrap();
    let output = case.run(&[&flags[..], &["--resume", "--quiet"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let warned = stderr(&output);
    assert!(warned.contains("1 earlier run paid for steps") && warned.contains("charged again"), "{warned}");
    assert_eq!((charges(), ledgers()), (runs + 1, runs + 1));
    assert!(case.read("runs.jsonl").starts_with(&kept.join("\n")));
    assert!(case.out.join("ledgers/0001/checkpoint/command.json").exists());
}

/// Returns the search of `comparison`, and its run.
fn searches(comparison: &Value) -> Vec<&Value> {
    comparison["runs"].as_array().unwrap().iter().filter(|run| run["search"].is_object()).collect()
}

// A private search costs the budget as a whole, is one charge, and releases only its best candidate.
#[test]
fn private_search_is_one_charge_and_one_model() {
    let folder = tempfile::tempdir().unwrap();
    let budget = folder.path().join("budget.json");
    let damper = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_damper")).args(args).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let path = budget.to_str().unwrap();
    damper(&["budget", path, "--create", "digits", "--delta", "1e-5"]);
    let case = Case::new(&SMALL.replace("seeds = [1, 2]", "seeds = 2\nsamples = 1437").replace("[3, 8]", "3"));
    let output = case.run(&["--tune-private", "geometric:0.3", "--budget", path]);
    let (text, told) = (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output));
    assert!(output.status.success(), "{told}");
    assert!(
        text.contains("found: dp-sgd at epsilon 3, repeat 1: lr = ") && text.contains("Tuning was private"),
        "{text}"
    );
    // Two searches and two runs, whatever the searches drew.
    assert!(
        told.contains("private search 2") && !told.contains("trying") && told.matches("\nrun ").count() == 4,
        "{told}"
    );
    assert_eq!((case.read("runs.jsonl").lines().count(), case.ledgers().len()), (4, 4));
    assert_eq!(fs::read_to_string(&budget).unwrap().matches("\"unix_seconds\"").count(), 4);

    let found: Value = serde_json::from_str(&case.read("compare.json")).unwrap();
    assert_eq!((found["run"].as_str(), found["search"][0].as_str()), (Some("private"), Some("geometric:0.3")));
    assert!(found.get("tuning").is_none_or(Value::is_null), "{found}");
    let runs = searches(&found);
    assert_eq!(runs.len(), 2);
    for run in &runs {
        let (epsilon, candidate) =
            (run["epsilon"].as_f64().unwrap(), run["search"]["candidate_epsilon"].as_f64().unwrap());
        assert!(epsilon <= 3.0 && epsilon > 0.98 * 3.0 && candidate < 2.0 && candidate > 0.5, "{run}");
        let out = case.out.join(run["search"]["folder"].as_str().unwrap());
        assert!(out.join("model.onnx").exists() && !out.join("checkpoint/candidate").exists());
        let answer: Value = serde_json::from_str(&damper(&["epsilon", out.to_str().unwrap(), "--json"])).unwrap();
        assert_eq!((answer["epsilon"].as_f64(), answer["search"].as_str()), (Some(epsilon), Some("geometric:0.3")));
        // On the 287 samples of the score, with noise.
        let right = run["search"]["score"].as_f64().unwrap() * 287.0;
        assert!((right - right.round()).abs() > 1e-9 || right == 0.0 || right == 287.0, "{run}");
        let right = run["test_accuracy"].as_f64().unwrap() * 360.0;
        assert!((right - right.round()).abs() < 1e-9, "{run}");
    }
    // Four runs of ε 3 cost more than one, and less than their sum.
    let total: Value = serde_json::from_str(&damper(&["budget", path, "--json"])).unwrap();
    let total = total["epsilon"].as_f64().unwrap();
    assert!(total > 4.0 && total < 12.0, "{total}");

    // As after a kill in the second search, which is charged again.
    let journal = case.read("runs.jsonl");
    let kept: Vec<&str> = journal.lines().filter(|line| !line.contains("ledgers/0002")).collect();
    fs::write(case.out.join("runs.jsonl"), kept.join("\n") + "\n").unwrap();
    assert!(case.run(&["--tune-private", "geometric:0.3", "--budget", path, "--resume", "--quiet"]).status.success());
    assert_eq!(
        (fs::read_to_string(&budget).unwrap().matches("\"unix_seconds\"").count(), case.ledgers().len()),
        (5, 5)
    );
}

// Searches with equal seeds are equal, and a public score is the exact figure of the test split.
#[test]
fn searches_of_seeds_can_be_repeated() {
    let text = SMALL.replace(
        "epsilon = [3, 8]",
        "noise-multiplier = 2\ntune-private = \"negative-binomial:0.5,0.2\"\ntune-score = \"public\"",
    );
    let run = || {
        let case = Case::new(&text);
        case.json()
    };
    let found = run();
    assert_eq!(digests(&found), digests(&run()));
    for run in searches(&found) {
        assert_eq!(run["search"]["score"], run["test_accuracy"], "{run}");
        assert!(run["epsilon"].as_f64() > run["search"]["candidate_epsilon"].as_f64(), "{run}");
    }
    assert_eq!(searches(&found).len(), 2);
}
