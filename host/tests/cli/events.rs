//! `--events` and `--tensorboard`: events of a run for programs.

use super::{DIGITS, MLP, assert_refused, folder, json, stderr, train};
use serde_json::Value;
use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

fn events(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn events_tell_a_run_from_begin_to_end() {
    let (guard, out) = folder();
    let (file, board) = (guard.path().join("log.jsonl"), guard.path().join("board"));
    let [file_name, board_name] = [&file, &board].map(|path| path.to_str().unwrap().to_owned());
    let extra = ["--events", &file_name, "--tensorboard", &board_name, "--epochs", "2", "--eval-every", "1", "--json"];
    let report = json(&train(MLP, DIGITS, &out, &extra).output().unwrap());
    let found = events(&fs::read_to_string(&file).unwrap());
    let kinds: Vec<&str> = found.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], kinds[1], *kinds.last().unwrap()), ("begin", "backend", "end"), "{kinds:?}");
    let of = |kind: &str| found.iter().filter(|event| event["event"] == kind).cloned().collect::<Vec<_>>();
    let (steps, evaluations) = (of("step"), of("evaluation"));
    assert_eq!((steps.len(), evaluations.len(), of("error").len()), (20, 3, 0));
    let epsilons: Vec<f64> = steps.iter().map(|step| step["epsilon"].as_f64().unwrap()).collect();
    assert!(epsilons.windows(2).all(|pair| pair[0] <= pair[1]), "{epsilons:?}");
    assert_eq!(of("end")[0]["epsilon"], report["epsilon"]);
    assert_eq!(evaluations[2]["loss"], report["test_loss"]);
    // Only numbers that progress may show.
    let keys = |event: &Value| event.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&steps[0]), ["event", "step", "steps", "epsilon", "seconds"]);
    assert_eq!(keys(&evaluations[0]), ["event", "step", "epoch", "epsilon", "loss", "accuracy"]);
    // A file in TensorBoard's format, with a record of each.
    let files: Vec<_> = fs::read_dir(&board).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() == 1 && files[0].file_name().unwrap().to_str().unwrap().contains("tfevents"), "{files:?}");
    let mut bytes = &fs::read(&files[0]).unwrap()[..];
    let mut records = 0;
    while let Some((length, _)) = bytes.split_first_chunk() {
        bytes = &bytes[16 + u64::from_le_bytes(*length) as usize..];
        records += 1;
    }
    assert_eq!(records, 1 + 20 + 3);
}

/// A folder has the name `metrics.csv`, so the first evaluation cannot be written.
#[test]
fn events_tell_why_a_run_failed() {
    let (guard, out) = folder();
    let file = guard.path().join("log.jsonl");
    let extra = ["--events", file.to_str().unwrap(), "--epochs", "20", "--eval-every", "1", "--checkpoint-every", "0"];
    let mut child = train(MLP, DIGITS, &out, &extra).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    while !out.join("checkpoint/state-b").exists() {
        assert!(child.try_wait().unwrap().is_none());
        sleep(Duration::from_millis(2));
    }
    let _ = fs::remove_file(out.join("metrics.csv"));
    fs::create_dir(out.join("metrics.csv")).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let found = events(&fs::read_to_string(&file).unwrap());
    let last = found.last().unwrap();
    assert_eq!(last["event"], "error");
    assert!(last["message"].as_str().unwrap().contains("metrics.csv"), "{last}");
    assert!(stderr(&output).contains("go on with damper train --resume"));
}

#[test]
fn unwritable_events_are_error() {
    let (guard, out) = folder();
    let folder = guard.path().to_str().unwrap();
    let output = train(MLP, DIGITS, &out, &["--events", folder]).output().unwrap();
    assert_refused(&output, &["--events", "name another file"]);
    assert!(!out.exists(), "nothing was paid");
}

#[test]
fn early_stop_ends_a_run_and_costs_its_plan() {
    let (guard, out) = folder();
    // Evaluate after each step: five evaluations without an improvement come soon.
    let long = ["--epochs", "40", "--eval-every", "0.05", "--seed", "3", "--json"];
    let whole = json(&train(MLP, DIGITS, &guard.path().join("whole"), &long).output().unwrap());
    let report = json(&train(MLP, DIGITS, &out, &[&long[..], &["--stop-early", "5"]].concat()).output().unwrap());
    for key in ["epsilon", "steps", "sampling_rate"] {
        assert_eq!(report[key], whole[key], "{key}");
    }
    assert_ne!(report["params_digest"], whole["params_digest"]);
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("ended early") && warnings.contains("all 899 planned steps"), "{warnings}");
    // Steps taken and charged, ε of both, and the best evaluation, as in metrics.csv.
    let early = &report["early_stop"];
    let rows: Vec<(u64, f64)> = fs::read_to_string(out.join("metrics.csv"))
        .unwrap()
        .lines()
        .filter(|line| !line.starts_with('#'))
        .skip(1)
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            (cells[0].parse().unwrap(), cells[2].parse().unwrap())
        })
        .collect();
    let (last, epsilon) = *rows.last().unwrap();
    assert_eq!((early["steps_taken"].as_u64(), early["steps_charged"].as_u64()), (Some(last), Some(899)));
    assert!((early["epsilon_of_taken"].as_f64().unwrap() / epsilon - 1.0).abs() < 1e-3, "{early} {epsilon}");
    assert!(early["epsilon_of_taken"].as_f64() < report["epsilon"].as_f64());
    assert_eq!(early["best_step"].as_u64(), Some(rows[rows.len() - 6].0));
    assert!(early["covered"].as_str().unwrap().starts_with("not covered"), "{early}");
    assert!(whole.get("early_stop").is_none());
    // The best parameters are in a separate model. A complete run does not have this model.
    assert_eq!(early["best_model"], "model-best.onnx");
    assert_ne!(fs::read(out.join("model-best.onnx")).unwrap(), fs::read(out.join("model.onnx")).unwrap());
    assert!(!guard.path().join("whole/model-best.onnx").exists());
    assert!(!guard.path().join("whole/checkpoint/best-params.bin").exists());
    let command = report["command"].to_string();
    assert!(command.contains("--stop-early") && command.contains("--lr"), "{command}");
    let metrics = fs::read_to_string(out.join("metrics.csv")).unwrap();
    assert!(metrics.lines().count() < 300, "{metrics}");
    for (extra, words) in [
        (&["--stop-early", "5"][..], ["--stop-early", "add --eval-every"]),
        (&["--stop-early", "5", "--eval-every", "1", "--test-metrics", "none"], ["--stop-early", "--test-metrics"]),
    ] {
        assert_refused(&train(MLP, DIGITS, &guard.path().join("refused"), extra).output().unwrap(), &words);
    }
}
