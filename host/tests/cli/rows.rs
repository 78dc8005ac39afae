//! Warnings that depend on rows of the data: an interactive terminal shows them, and no stored output does.

use super::data_files::linear;
use super::{damper, folder, json, stderr, train};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Mark on every such warning.
const MARK: &str = "about rows, which epsilon does not cover";

/// A data set that causes a warning, a neighbour without it that differs in few rows, and words of the warning.
struct Pair {
    name: &'static str,
    model: &'static str,
    warned: String,
    other: String,
    flags: Vec<String>,
    words: &'static [&'static str],
}

fn rows(of: impl Fn(usize) -> String) -> String {
    (0..200).map(|at| of(at) + "\n").fold("a,b,y\n".to_owned(), |all, row| all + &row)
}

fn usual(at: usize) -> String {
    format!("0.{},{},{}", at % 90 + 10, at % 7, at % 2)
}

fn pairs(folder: &Path) -> Vec<Pair> {
    let put = |name: &str, text: String| fs::write(folder.join(name), text).unwrap();
    put("held-out.csv", rows(|at| if at == 3 { usual(3) } else { format!("9.{at},1,{}", at % 2) }));
    let test = || vec!["--test".to_owned(), format!("csv:{}", folder.join("held-out.csv").display())];
    // The square of such a feature is infinite, and so is every gradient of it.
    let mse = || vec!["--loss".to_owned(), "mse".to_owned()];
    let some = |is_bad: fn(usize) -> bool| {
        rows(move |at| if is_bad(at) { format!("3e38,3e38,{}", at % 2) } else { usual(at) })
    };
    vec![
        Pair {
            name: "one class",
            model: "two",
            warned: rows(|at| format!("0.{},1,1", at % 9)),
            other: rows(|at| format!("0.{},1,{}", at % 9, u8::from(at > 0))),
            flags: vec![],
            words: &["every training row has the label 1"],
        },
        Pair {
            name: "unit of labels",
            model: "one",
            warned: rows(|at| format!("0.{},1,{}", at % 9, if at % 2 == 0 || at == 1 { 250_000 } else { 3 })),
            other: rows(|at| format!("0.{},1,{}", at % 9, if at % 2 == 0 { 250_000 } else { 3 })),
            flags: mse(),
            words: &["--loss mse: most labels are above 1000 in size", "--scale LABEL=MEAN,STD"],
        },
        Pair {
            name: "equal rows",
            model: "two",
            warned: rows(usual),
            other: rows(|at| if at == 3 { "0.5,0.5,1".into() } else { usual(at) }),
            flags: [test(), vec!["--test-metrics".into(), "none".into()]].concat(),
            words: &["held-out rows are equal to training rows"],
        },
        Pair {
            name: "declared size",
            model: "two",
            warned: rows(usual),
            other: rows(usual).lines().take(150).map(|line| line.to_owned() + "\n").collect(),
            flags: ["--dataset-size", "100", "--delta", "3.2e-3"].map(String::from).to_vec(),
            words: &["below the number of samples"],
        },
        Pair {
            name: "no finite gradient",
            model: "one",
            warned: some(|_| true),
            other: some(|at| at != 0),
            flags: mse(),
            words: &["before the first step: ", "step 1: none of the", "so the model is noise alone"],
        },
        Pair {
            name: "some without",
            model: "one",
            warned: some(|at| at % 9 == 0),
            other: rows(usual),
            flags: mse(),
            words: &["samples drawn had no finite gradient and added nothing"],
        },
    ]
}

/// The stored texts of a run: standard error and output, events, and all public files.
struct Kept(String);

/// Returns the run of `data`, with a seed, so that neighbours have the same noise.
fn command(folder: &Path, out: &Path, data: &Path, model: &str, flags: &[String]) -> Command {
    let data = format!("csv:{}", data.display());
    let model = folder.join(model).with_extension("onnx").display().to_string();
    let command = train(&model, &data, out, &["--seed", "1", "--epochs", "1"]);
    let own: Vec<_> = command.get_args().map(|arg| arg.to_owned()).filter(|arg| arg != "--quiet").collect();
    let mut loud = damper();
    loud.args(own).args(flags).env_remove("CI");
    if !flags.iter().any(|flag| flag == "--delta") {
        loud.args(["--delta", "1e-4"]);
    }
    loud
}

fn kept(folder: &Path, data: &Path, model: &str, flags: &[String], more: &[&str]) -> (Kept, PathBuf) {
    let out = folder.join("run");
    let events = folder.join("events.jsonl");
    let _ = (fs::remove_dir_all(&out), fs::remove_file(&events));
    let mut command = command(folder, &out, data, model, flags);
    let output = command.arg("--events").arg(&events).args(more).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let mut text = stderr(&output) + &String::from_utf8(output.stdout).unwrap() + &fs::read_to_string(events).unwrap();
    let mut files: Vec<PathBuf> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|kind| kind != "onnx")) {
        text += &format!("{}:\n{}", file.display(), fs::read_to_string(file).unwrap());
    }
    (Kept(text), out)
}

/// Masks numbers and digests, which are released values or times.
fn masked(text: &str, data: &Path) -> String {
    let text = text.replace(&data.display().to_string(), "DATA");
    let words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '-' | '+'));
    let masked = words.map(|word| {
        let is_number = word.chars().any(|c| c.is_ascii_digit());
        if is_number {
            format!("#{}", word.chars().last().filter(|c| !c.is_ascii_alphanumeric()).unwrap_or(' '))
        } else {
            word.to_owned()
        }
    });
    masked.collect()
}

// Stored texts of a run do not depend on warnings about rows.
#[test]
fn kept_texts_are_equal_for_neighbours() {
    let (guard, _) = folder();
    let folder = guard.path();
    linear(folder, "two", &[2], 2);
    linear(folder, "one", &[2], 1);
    for pair in pairs(folder) {
        for more in [&[][..], &["--json"], &["--quiet"]] {
            let texts = [&pair.warned, &pair.other].map(|rows| {
                let data = folder.join("data.csv");
                fs::write(&data, rows).unwrap();
                let (Kept(text), _) = kept(folder, &data, pair.model, &pair.flags, more);
                for word in pair.words.iter().chain(&[MARK]) {
                    assert!(!text.contains(word), "{}: `{word}` is kept: {text}", pair.name);
                }
                let lines: Vec<String> = masked(&text, &data)
                    .lines()
                    .filter(|line| !line.starts_with("step #"))
                    .map(str::to_owned)
                    .collect();
                lines.join("\n")
            });
            assert_eq!(texts[0], texts[1], "{}", pair.name);
        }
    }
}

// A row without a finite gradient and a null row give the same bits everywhere except in the private folder.
#[test]
fn rows_without_gradient_are_null_rows() {
    let (guard, _) = folder();
    let folder = guard.path();
    linear(folder, "two", &[2], 2);
    linear(folder, "one", &[2], 1);
    let with = |row: &str| rows(|at| if at == 17 { row.to_owned() } else { usual(at) });
    let data = folder.join("data.csv");
    let flags = ["--on-bad-row", "drop", "--loss", "mse"].map(String::from);
    let runs = ["3e38,3e38,1", "nan,1,1"].map(|row| {
        fs::write(&data, with(row)).unwrap();
        let (_, out) = kept(folder, &data, "one", &flags, &[]);
        let count = fs::read_to_string(out.join("checkpoint/non-finite.json")).ok();
        let report = json_of(&out.join("report.json"));
        (fs::read(out.join("model.onnx")).unwrap(), report["params_digest"].clone(), count)
    });
    assert!(runs[0].0 == runs[1].0 && runs[0].1 == runs[1].1);
    let count: serde_json::Value = serde_json::from_str(runs[0].2.as_ref().unwrap()).unwrap();
    assert!(count["non_finite"].as_u64() > Some(0), "{count}");
    // A null row has no gradient to count.
    assert_eq!(runs[1].2, None);
}

fn json_of(file: &Path) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

// The count in the private folder is exact, on each path, with several workers, for views and after a stop.
#[test]
fn counts_are_exact_on_every_path() {
    let (guard, _) = folder();
    let folder = guard.path();
    linear(folder, "two", &[2], 2);
    linear(folder, "one", &[2], 1);
    let data = folder.join("data.csv");
    fs::write(&data, rows(|at| if at % 4 == 0 { "3e38,3e38,1".into() } else { usual(at) })).unwrap();
    let usual = ["--sampler", "shuffled", "--batch-size", "50"];
    for flags in [
        &[][..],
        &["--workers", "3"],
        &["--noise", "continuous"],
        &["--noise", "continuous", "--readout", "clipped-sum"],
        &["--noise", "continuous", "--readout", "clipped-sum", "--workers", "2", "--physical-batch", "7"],
        &["--method", "doppler"],
        &["--clip-rule", "quantile"],
        &["--not-private"],
    ] {
        let out = folder.join("run");
        let _ = fs::remove_dir_all(&out);
        let data = format!("csv:{}", data.display());
        let mut command = damper();
        command.args([
            "train",
            folder.join("one.onnx").to_str().unwrap(),
            "--data",
            &data,
            "--out",
            out.to_str().unwrap(),
        ]);
        command
            .args(["--lr", "0.1", "--epochs", "2", "--backend", "tract", "--quiet", "--seed", "5", "--loss", "mse"])
            .args(usual)
            .args(flags);
        if flags != ["--not-private"] {
            command.args(["--noise-multiplier", "4", "--delta", "1e-4"]);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{flags:?}: {}", stderr(&output));
        // Two passes over 200 samples. 50 of them have no gradient.
        let count = json_of(&out.join("checkpoint/non-finite.json"));
        assert_eq!(
            (&count["steps"], &count["drawn"], &count["non_finite"]),
            (&8.into(), &400.into(), &100.into()),
            "{flags:?}"
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(out.join("checkpoint/non-finite.json")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}

/// Returns the output of `command` on a terminal, or `None` if no terminal can be created.
fn on_terminal(command: &Command, job: Option<&str>) -> Option<String> {
    let quoted = |text: &std::ffi::OsStr| format!("'{}'", text.to_str().unwrap());
    let words: Vec<String> = [command.get_program()].into_iter().chain(command.get_args()).map(quoted).collect();
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--flush", "--command", &words.join(" "), "/dev/null"]);
    script.env("SHELL", "/bin/sh").env("TERM", "xterm").env_remove("CI").env_remove("ORT_DYLIB_PATH");
    script.envs(job.map(|job| ("CI", job))).current_dir(command.get_current_dir().unwrap());
    let output = script.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

// Each warning about rows is shown on an interactive terminal, with its mark. It is not shown with --quiet or --json,
// or on a job's terminal.
#[test]
fn terminals_show_warnings_of_rows() {
    let (guard, out) = folder();
    let folder = guard.path();
    linear(folder, "two", &[2], 2);
    linear(folder, "one", &[2], 1);
    if !Command::new("script").arg("--version").output().is_ok_and(|output| output.status.success()) {
        damper_testing::skip("script", "there is no `script`, which makes a terminal");
        return;
    }
    for pair in pairs(folder) {
        for (more, job, is_shown) in
            [(&[][..], None, true), (&["--quiet"], None, false), (&["--json"], None, false), (&[], Some("true"), false)]
        {
            let data = folder.join("data.csv");
            fs::write(&data, &pair.warned).unwrap();
            let _ = fs::remove_dir_all(&out);
            let mut command = command(folder, &out, &data, pair.model, &pair.flags);
            let Some(screen) = on_terminal(command.args(more), job) else { continue };
            for word in pair.words {
                assert_eq!(screen.contains(word), is_shown, "{} {more:?}: `{word}` in {screen}", pair.name);
            }
            assert_eq!(screen.contains(&format!("warning {MARK}: ")), is_shown, "{screen}");
        }
    }
    // Comparisons and audits follow the same rule.
    let data = folder.join("data.csv");
    fs::write(&data, rows(|at| format!("0.{},1,1", at % 9))).unwrap();
    let train = command(folder, &out, &data, "two", &[]);
    let mut audit = damper();
    let args: Vec<_> = train.get_args().skip(1).map(|arg| arg.to_owned()).collect();
    audit.args(["audit", "neighbours", "--steps", "1"]).args(args);
    for job in [None, Some("true")] {
        let _ = fs::remove_dir_all(&out);
        let Some(screen) = on_terminal(&audit, job) else { continue };
        assert_eq!(screen.contains("every training row"), job.is_none(), "{screen}");
    }
    let _ = fs::remove_dir_all(&out);
    let output = audit.output().unwrap();
    assert!(output.status.success() && !stderr(&output).contains("every training row"), "{}", stderr(&output));
    let file = folder.join("compare.toml");
    fs::write(
        &file,
        format!(
            "model = \"{0}/two.onnx\"\ndata = \"csv:{0}/data.csv\"\ntest = 0.2\ndelta = 1e-4\nbatch-size = 50\nepochs = 1\n\
             backend = \"tract\"\nworkers = 1\nnoise-multiplier = 2\nseeds = [1]\n[method.dp-sgd]\nlr = 0.1\n",
            folder.display()
        ),
    )
    .unwrap();
    let mut compare = damper();
    compare.arg("compare").arg(&file).arg("--out").arg(&out).env_remove("CI");
    for job in [None, Some("true")] {
        let _ = fs::remove_dir_all(&out);
        let Some(screen) = on_terminal(&compare, job) else { continue };
        assert_eq!(screen.contains("every training row"), job.is_none(), "{screen}");
    }
    let _ = fs::remove_dir_all(&out);
    let output = compare.output().unwrap();
    assert!(output.status.success() && !stderr(&output).contains("every training row"), "{}", stderr(&output));
    assert!(json(&compare.arg("--json").output().unwrap()).is_object());
}
