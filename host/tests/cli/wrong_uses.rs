//! Wrong uses of the command, with their exact exit code and message.
//!
//! A line of a table is CODE, ARGUMENTS and MESSAGE, separated by tabs. `#` starts a heading. Arguments are separated
//! by spaces. The first word may stand for more:
//!
//! - `T`: `train` of the MLP on the digits, with each required flag that is missing, except those of the noise.
//! - `M MODEL`: the same with another model, and noise.
//! - `O DIR`: the same with another `--out`, and noise.
//!
//! `MLP` is that model, and `{dir}` a folder with the files below. The message is the text on standard error before the
//! usage, on one line.

use super::{DIGITS, MLP, run, stderr};
use std::fs;
use std::path::Path;
use std::thread;

/// A crate with its own cases adds a table.
const TABLES: [(&str, &str); 1] = [("wrong_uses.tsv", include_str!("wrong_uses.tsv"))];

/// Number of threads that run commands.
const THREADS: usize = 4;

/// Files of a case: names and contents.
const FILES: [(&str, &str); 10] = [
    ("empty.onnx", ""),
    ("text.onnx", "this is text"),
    ("run.yaml", "lr: 1\n"),
    ("config.json", "{}"),
    ("broken.toml", "epsilon = \n"),
    ("unknown.toml", "epsilom = 3.0\n"),
    ("dashes.toml", "batch_size = 3\n"),
    ("value.toml", "lr = \"fast\"\n"),
    ("self.toml", "lr = 0.5\n"),
    ("table.toml", "[privacy]\nepsilon = 3.0\n"),
];

fn write_files(folder: &Path) {
    for (name, text) in FILES {
        fs::write(folder.join(name), text).unwrap();
    }
    let whole = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(MLP)).unwrap();
    fs::write(folder.join("half.onnx"), &whole[..5000]).unwrap();
}

/// Expands the arguments of a line.
fn expanded(line: &str) -> Vec<String> {
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    let own: Vec<&str> = rest.split(' ').filter(|word| !word.is_empty()).collect();
    let noise = ["--noise-multiplier", "1"];
    let (model, out, own) = match first {
        "T" => (MLP, "{dir}/run", own),
        "M" => (own[0], "{dir}/run", noise.to_vec()),
        "O" => (MLP, own[0], noise.to_vec()),
        _ => {
            let words = line.split(' ').map(|word| if word == "MLP" { MLP } else { word });
            return words.map(str::to_owned).collect();
        }
    };
    let usual = [("--data", DIGITS), ("--out", out), ("--batch-size", "64"), ("--epochs", "1"), ("--lr", "0.5")];
    let missing = usual.into_iter().filter(|(flag, _)| !own.contains(flag)).flat_map(|(flag, value)| [flag, value]);
    let words: Vec<&str> = ["train", model].into_iter().chain(missing).chain(own.iter().copied()).collect();
    words.into_iter().map(str::to_owned).collect()
}

/// Returns the failure of the line of `table`, if any.
fn fault(table: &str, line: &str) -> Option<String> {
    let columns: Vec<&str> = line.split('\t').collect();
    let &[code, arguments, message] = columns.as_slice() else {
        return Some(format!("{table}: {line}: three columns"));
    };
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    let dir = folder.path().to_str().unwrap();
    let arguments: Vec<String> = expanded(arguments).iter().map(|word| word.replace("{dir}", dir)).collect();
    let output = run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let text = stderr(&output).replace(dir, "{dir}");
    let text = text.split("\n\nUsage").next().and_then(|text| text.split("\n\nFor more").next()).unwrap_or_default();
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = said.strip_prefix("error: ").unwrap_or(&said);
    let found = output.status.code().unwrap_or(-1).to_string();
    let is_right = found == code && said == message && output.stdout.is_empty() && !folder.path().join("run").exists();
    (!is_right).then(|| format!("{table}: {line}\n  gave {found}\t{said}"))
}

#[test]
fn each_wrong_use_has_its_message() {
    let lines: Vec<(&str, &str)> = TABLES
        .iter()
        .flat_map(|(name, text)| text.lines().map(move |line| (*name, line)))
        .filter(|(_, line)| !line.starts_with('#'))
        .collect();
    assert!(lines.len() >= 120, "{}", lines.len());
    let faults: Vec<String> = thread::scope(|scope| {
        let of_thread = |first: usize| lines.iter().skip(first).step_by(THREADS);
        let threads: Vec<_> = (0..THREADS)
            .map(|first| {
                scope.spawn(move || of_thread(first).filter_map(|(table, line)| fault(table, line)).collect::<Vec<_>>())
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
