//! `damper train MODEL DATA --epsilon E`: data by place, defaults, the folder of runs, and networks by name.

use super::{MLP, json, stderr};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// The repository's root, from which a run in another folder finds its inputs.
fn root() -> String {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap().display().to_string()
}

/// Runs `damper` in `folder`. `ROOT` in `line` is the repository.
fn damper_in(folder: &TempDir, line: &str) -> Output {
    let words = line.split_whitespace().map(|word| word.replace("ROOT", &root()));
    Command::new(env!("CARGO_BIN_EXE_damper")).args(words).current_dir(folder).output().unwrap()
}

fn succeeded(folder: &TempDir, line: &str) -> Output {
    let output = damper_in(folder, line);
    assert!(output.status.success(), "{line}: {}", stderr(&output));
    output
}

/// 200 rows of two numbers and a class, and 200 texts with a class.
fn tables(folder: &TempDir) {
    let (mut rows, mut texts) = ("a,b,label\n".to_owned(), "label,text\n".to_owned());
    for row in 0..200 {
        let class = row % 2;
        rows += &format!("{},{},{class}\n", row % 7, class * 3);
        texts += &format!("{class},the film is {} and row {row}\n", ["bad", "good"][class]);
    }
    fs::write(folder.path().join("rows.csv"), rows).unwrap();
    fs::write(folder.path().join("texts.csv"), texts).unwrap();
}

#[test]
fn four_words_train() {
    let folder = TempDir::new().unwrap();
    let line = format!("train ROOT/{MLP} ROOT/onnx-models/digits --epsilon 3 --seed 5 --backend portable --workers 1");
    let output = succeeded(&folder, &line);
    let said = stderr(&output);
    // The published rule: 8 sqrt(1437) = 303.3. The steps are 40 * 1437 / 303 = 189.7, so the rate is
    // min(0.4, 4 / sqrt(64 + 32)) / sqrt(190) = 0.0290.
    for default in ["--delta 1e-5", "--batch-size 303", "--epochs 40", "--clip 1", "--optimizer adam", "--lr 0.029"] {
        assert!(said.contains(&format!("default: {default}: ")), "{said}");
    }
    assert!(said.contains("data: read as idx:"), "{said}");
    let runs = folder.path().join("damper-runs");
    let first = runs.join("0001");
    assert!(fs::read_to_string(runs.join(".gitignore")).unwrap().lines().any(|line| line == "*"));
    // Given in full, by the recorded settings or by resolved flags, the run is the same, bit for bit.
    let digest = |output: &Output| json(output)["training"]["params_digest"].clone();
    let again = succeeded(&folder, "train damper-runs/0001/config.toml --workers 1 --json");
    let in_full = format!(
        "train ROOT/{MLP} --data idx:ROOT/onnx-models/digits --epsilon 3 --delta 1e-5 --batch-size 303 --epochs 40 --clip 1 \
         --optimizer adam --lr 0.029 --seed 5 --backend portable --workers 1 --json --out full"
    );
    let in_full = succeeded(&folder, &in_full);
    assert!(!stderr(&in_full).contains("default:"), "{}", stderr(&in_full));
    let report: serde_json::Value = serde_json::from_slice(&fs::read(first.join("report.json")).unwrap()).unwrap();
    assert_eq!(digest(&again), digest(&in_full));
    assert_eq!(report["training"]["params_digest"], digest(&again));
    assert!(runs.join("0002/report.html").exists());
}

// A run that is refused leaves no folder of its own.
#[test]
fn refused_runs_leave_no_folder() {
    let folder = TempDir::new().unwrap();
    let output = damper_in(&folder, &format!("train ROOT/{MLP} nothing.csv --epsilon 3"));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(!folder.path().join("damper-runs/0001").exists());
    fs::create_dir_all(folder.path().join("damper-runs/0007")).unwrap();
    let output = damper_in(&folder, &format!("train ROOT/{MLP} nothing.csv --epsilon 3"));
    assert_eq!(output.status.code(), Some(1));
    let left: Vec<_> =
        fs::read_dir(folder.path().join("damper-runs")).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "0007" || name == ".gitignore"), "{left:?}");
}

// The declared number of samples determines the defaults, and the counted number does not reach the output.
#[test]
fn declared_sizes_determine_defaults() {
    let folder = TempDir::new().unwrap();
    tables(&folder);
    let line =
        "train --model linear rows.csv --classes 2 --epsilon 3 --epochs 1 --dataset-size 40000 --backend portable";
    let said = stderr(&succeeded(&folder, line));
    // 8 sqrt(40,000) = 1,600, and 40,000^-1.1 is 8.7e-6.
    for default in ["--delta 1e-6", "--batch-size 1600"] {
        assert!(said.contains(&format!("default: {default}: ")), "{said}");
    }
    // A rate of progress may have any digits.
    assert!(said.lines().all(|line| line.starts_with("step ") || !line.contains("200")), "{said}");
}

// With an optimizer or a rate, the defaults are for it.
#[test]
fn defaults_follow_what_is_given() {
    let folder = TempDir::new().unwrap();
    tables(&folder);
    let said = |flags: &str| {
        let line = format!("train --model linear rows.csv --classes 2 --epochs 1 --backend portable {flags}");
        stderr(&succeeded(&folder, &line))
    };
    let given = said("--epsilon 3 --lr 0.5");
    assert!(given.contains("default: --clip 1: ") && given.contains("default: --optimizer sgd: "), "{given}");
    // min(4, 3 * 200 / (10 * 2)) / 0.1.
    let sgd = said("--epsilon 3 --optimizer sgd");
    assert!(sgd.contains("default: --lr 40: ") && sgd.contains("default: --clip 0.1: "), "{sgd}");
    let baseline = said("--not-private");
    assert!(!baseline.contains("--delta") && !baseline.contains("--clip"), "{baseline}");
}

#[test]
fn networks_by_name_train() {
    let folder = TempDir::new().unwrap();
    tables(&folder);
    let models = [
        ("linear rows.csv --classes 2", "linear, from [2] to 2 outputs"),
        ("mlp:8,4 rows.csv --loss mse", "mlp:8,4, from [2] to 1 output;"),
        ("cnn ROOT/onnx-models/digits --classes 10", "cnn, from [1, 8, 8] to 10 outputs"),
    ];
    for (at, (line, words)) in models.into_iter().enumerate() {
        let line =
            format!("train --model {line} --epsilon 3 --epochs 1 --seed 1 --backend portable --workers 1 --json");
        let output = succeeded(&folder, &line);
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
        let digest = json(&output)["training"]["params_digest"].clone();
        let run = format!("damper-runs/{:04}", 2 * at + 1);
        succeeded(&folder, &format!("inspect {run}/initial.onnx"));
        let again = succeeded(&folder, &format!("train {run}/config.toml --workers 1 --json"));
        assert_eq!(json(&again)["training"]["params_digest"], digest, "{line}");
    }
}

#[test]
fn networks_take_scaled_labels() {
    let folder = TempDir::new().unwrap();
    tables(&folder);
    let line = "train --model linear rows.csv --epsilon 3 --epochs 1 --scale label=0.5,0.25 --loss";
    succeeded(&folder, &format!("{line} mse"));
    let output = damper_in(&folder, &format!("{line} softmax-cross-entropy --classes 2"));
    assert!(stderr(&output).contains("are not scaled"), "{}", stderr(&output));
}

// Texts need neither a network nor a tokenizer of one's own.
#[cfg(feature = "text")]
#[test]
fn texts_train_by_two_names() {
    let folder = TempDir::new().unwrap();
    tables(&folder);
    for network in ["bag:8", "lstm:4"] {
        let line = format!(
            "train --model {network} texts.csv --classes 2 --max-length 16 --epsilon 8 --epochs 2 --out {}",
            &network[..3]
        );
        let output = succeeded(&folder, &line);
        assert!(stderr(&output).contains("data: read as text:texts.csv"), "{}", stderr(&output));
        let tokenizer = folder.path().join(&network[..3]).join("tokenizer.json");
        let own = Path::new(&root()).join("onnx-models/text/wordpiece.json");
        assert_eq!(fs::read(tokenizer).unwrap(), fs::read(own).unwrap());
        assert!(String::from_utf8(output.stdout).unwrap().contains("epsilon"));
    }
}

// Files in the folder do not change the meaning of a name.
#[test]
fn names_of_networks_are_not_files() {
    let folder = TempDir::new().unwrap();
    tables(&folder);
    fs::create_dir(folder.path().join("linear")).unwrap();
    let line = "train --model linear rows.csv --classes 2 --epsilon 3 --epochs 1 --backend portable";
    succeeded(&folder, line);
    fs::write(folder.path().join("english"), "not a tokenizer").unwrap();
    if cfg!(feature = "text") {
        succeeded(
            &folder,
            "train --model bag:4 texts.csv --classes 2 --max-length 8 --epsilon 3 --epochs 1 --backend portable",
        );
    }
}

// A number of classes leaves labels numbers, however they are written.
#[test]
fn counted_classes_take_numbers() {
    let folder = TempDir::new().unwrap();
    let rows: String = (0..100).map(|row| format!("{row},{}.0\n", row % 2)).collect();
    fs::write(folder.path().join("rows.csv"), format!("a,label\n{rows}")).unwrap();
    let line = "train --model linear rows.csv --classes 2 --epsilon 3 --epochs 1 --backend portable";
    succeeded(&folder, line);
    // The first checks have no batch size yet.
    succeeded(&folder, &format!("{line} --method quantile"));
    succeeded(&folder, &format!("{line} --weight-decay 0.1"));
}
