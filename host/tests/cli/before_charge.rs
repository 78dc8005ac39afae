//! Public facts that end a run are detected before anything is charged. No ledger and no folder remain.

use super::data_files::linear;
use super::silent::{Sketch, inspected, named, values};
use super::{DIGITS, MLP, assert_refused, damper, folder, refused, run, stderr, train, warnings};
use damper::graph::DType;
use damper::onnx::TensorData;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A weight of 64 by 10 and a bias of 10, with `bad` at one position.
fn layer(in_weight: bool, is_gemm: bool, bad: f32) -> Sketch {
    let numbers = |count: usize, damaged: bool| {
        let mut numbers: Vec<f32> = (0..count).map(|at| ((at * 37 + 11) % 613) as f32 / 2000.0 - 0.15).collect();
        if damaged {
            numbers[7] = bad;
        }
        TensorData::F32(numbers.into())
    };
    let sketch = Sketch::new().tensor("fc.weight", &[64, 10], numbers(640, in_weight)).tensor(
        "fc.bias",
        &[10],
        numbers(10, !in_weight),
    );
    if is_gemm {
        sketch.node("Gemm", &["x", "fc.weight", "fc.bias"], "h")
    } else {
        sketch.node("MatMul", &["x", "fc.weight"], "product").node("Add", &["product", "fc.bias"], "h")
    }
}

// Weights with NaN, an infinity or a value with an infinite square are rejected. None of them is frozen as a mask.
#[test]
fn damaged_weights_are_refused() {
    let (folder, out) = folder();
    for in_weight in [true, false] {
        for is_gemm in [true, false] {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e20] {
                let model = layer(in_weight, is_gemm, bad).write(folder.path(), "h");
                let name = if in_weight { "'fc.weight'" } else { "'fc.bias'" };
                let is = format!("element 7 is {bad}");
                refused(train(&model, DIGITS, &out, &[]), &out, &["sketch.onnx: ", name, &is, "repair"]);
                named(&inspected(&model, &[]), &[name, &is]);
            }
        }
    }
}

/// `x` as 8 by 8, with `mask` added before a softmax over rows, and a layer after it.
fn masked(shape: &[usize], mask: Vec<f32>) -> Sketch {
    Sketch::new()
        .tensor("square", &[3], TensorData::I64(vec![-1, 8, 8]))
        .tensor("flat", &[2], TensorData::I64(vec![-1, 64]))
        .tensor("attention.mask", shape, TensorData::F32(mask.into()))
        .weight("fc.weight", &[64, 10])
        .weight("fc.bias", &[10])
        .node("Reshape", &["x", "square"], "scores")
        .node("Add", &["scores", "attention.mask"], "left")
        .node("Softmax", &["left"], "shares")
        .node("Reshape", &["shares", "flat"], "flattened")
        .node("Gemm", &["flattened", "fc.weight", "fc.bias"], "h")
}

// A mask of minus infinities is frozen and valid. A mask that may be a weight is frozen and named.
#[test]
fn masks_are_frozen_and_train() {
    let (folder, out) = folder();
    let places = || (0..64).map(|at| (at / 8, at % 8));
    let causal: Vec<f32> = places().map(|(row, column)| if column > row { f32::NEG_INFINITY } else { 0.0 }).collect();
    let by_distance: Vec<f32> = places()
        .map(|(row, column)| if column > row { f32::NEG_INFINITY } else { -0.5 * (row - column) as f32 })
        .collect();
    for (at, mask) in [causal, by_distance].into_iter().enumerate() {
        let model = masked(&[8, 8], mask).write(folder.path(), "h");
        assert!(inspected(&model, &[]).is_empty(), "{:?}", inspected(&model, &[]));
        let out = out.with_extension(at.to_string());
        let output = train(&model, DIGITS, &out, &[]).output().unwrap();
        assert!(output.status.success() && warnings(&output).is_empty(), "{}", stderr(&output));
        let [before, after] = [Path::new(&model), &out.join("model.onnx")].map(|file| values(file, "attention.mask"));
        assert_eq!(before, after);
    }
    let mut key = vec![0.0; 8];
    key[7] = f32::NEG_INFINITY;
    let model = masked(&[8], key).write(folder.path(), "h");
    named(&inspected(&model, &[]), &["'attention.mask': not trained, for it looks like a mask", "--train", "--freeze"]);
    assert!(inspected(&model, &["--freeze", "attention.mask"]).is_empty());
    // It is rejected as a weight, and so is a mask with NaN.
    refused(
        train(&model, DIGITS, &out, &["--train", "attention.mask"]),
        &out,
        &["'attention.mask'", "-inf", "--freeze"],
    );
    let mut broken = vec![0.0; 64];
    broken[3] = f32::NAN;
    let model = masked(&[8, 8], broken).write(folder.path(), "h");
    refused(train(&model, DIGITS, &out, &[]), &out, &["'attention.mask'", "element 3 is NaN"]);
}

// A network without finite gradients is detected on synthetic samples, and the warning is public: no row of the data
// affects it.
#[test]
fn no_made_up_gradient_is_a_warning() {
    let (folder, out) = folder();
    let sketch = Sketch::new()
        .weight("fc.weight", &[64, 10])
        .weight("fc.bias", &[10])
        .node("Abs", &["x"], "size")
        .node("Neg", &["size"], "below")
        .node("Sqrt", &["below"], "root")
        .node("Gemm", &["root", "fc.weight", "fc.bias"], "h");
    let model = sketch.write(folder.path(), "h");
    let output = train(&model, DIGITS, &out, &["--test-metrics", "none"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("warning: no made-up sample has a finite gradient"), "{}", stderr(&output));
}

// A public list that is longer than the model permits is an error, whatever the rows contain.
#[test]
fn lists_are_held_against_the_model() {
    let (folder, out) = folder();
    linear(folder.path(), "two", &[2], 2);
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(at("names.csv"), "a,b,y\n".to_owned() + &"1,2,cat\n3,4,dog\n".repeat(60)).unwrap();
    let data = format!("csv:{}", at("names.csv"));
    let flags = ["--classes", "cat,dog,cow"];
    refused(train(&at("two.onnx"), &data, &out, &flags), &out, &["--classes", "3 classes", "has 2"]);

    let table = Sketch::default()
        .input("ids", DType::I64, &[2])
        .weight("table", &[4, 5])
        .weight("fc.weight", &[10, 10])
        .weight("fc.bias", &[10])
        .tensor("flat", &[2], TensorData::I64(vec![-1, 10]))
        .tensor("offset", &[1], TensorData::I64(vec![2]));
    let rest = |sketch: Sketch, ids: &str| {
        sketch.node("Gather", &["table", ids], "vectors").node("Reshape", &["vectors", "flat"], "flattened").node(
            "Gemm",
            &["flattened", "fc.weight", "fc.bias"],
            "h",
        )
    };
    let model = rest(table.clone(), "ids").write(folder.path(), "h");
    fs::write(at("ids.csv"), "a,b,y\n".to_owned() + &"red,0,1\nblue,1,0\n".repeat(60)).unwrap();
    let data = format!("csv:{}", at("ids.csv"));
    let list = ["--categories", "a=red,blue,green,grey,black"];
    refused(train(&model, &data, &out, &list), &out, &["--categories a", "lists 5 values", "rows 0 to 3"]);

    // Ids with an added constant are checked on the remaining rows.
    let model = rest(table.node("Add", &["ids", "offset"], "moved"), "moved").write(folder.path(), "h");
    fs::write(at("moved.csv"), "a,b,y\n".to_owned() + &"0,1,1\n1,0,0\n".repeat(60) + "1,2,0\n").unwrap();
    let data = format!("csv:{}", at("moved.csv"));
    refused(train(&model, &data, &out, &[]), &out, &["line 122", "a feature is 2", "rows 0 to 1"]);
    fs::write(at("moved.csv"), "a,b,y\n".to_owned() + &"0,1,1\n1,0,0\n".repeat(60)).unwrap();
    assert!(train(&model, &data, &out, &[]).output().unwrap().status.success());
}

/// Runs `script` in a shell with its own mount namespace. `$1` is the folder for a small disk, and `$2` and others are
/// the command.
fn in_namespace(script: &str, disk: &Path, run: &Command) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]).arg(disk).arg(run.get_program());
    command.args(run.get_args()).current_dir(run.get_current_dir().unwrap()).env_remove("ORT_DYLIB_PATH");
    command
}

// A full disk is an error with sizes before the first step, also for the disk of the recording.
#[cfg(target_os = "linux")]
#[test]
fn full_disks_are_named_before_the_charge() {
    let (folder, _) = folder();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let on_disk = |size: &str, run: &Command| {
        let script = format!(
            "mount -t tmpfs -o size={size} tmpfs \"$1\" || exit 9; disk=$1; shift; \"$@\"; code=$?; ls \"$disk\"; exit $code"
        );
        in_namespace(&script, &disk, run).output().unwrap()
    };
    let inside = disk.join("run");
    let usual = train(MLP, DIGITS, &inside, &["--noise-multiplier", "1"]);
    if on_disk("64m", &usual).status.code() == Some(9) {
        damper_testing::skip("mount", "no mount namespace can be made here");
        return;
    }
    let output = on_disk("64k", &usual);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let words = ["its disk has ", " free, and the run writes about ", "(model ", "checkpoint ", "name another --out"];
    assert!(said.lines().count() == 1 && words.iter().all(|word| said.contains(word)), "{said}");
    assert!(output.stdout.is_empty(), "something was left: {}", String::from_utf8_lossy(&output.stdout));

    let pack = disk.join("run.pack");
    let mut recorded = train(MLP, DIGITS, &folder.path().join("beside"), &["--record-limit", "1000000000"]);
    recorded.arg("--record").arg(&pack);
    let output = on_disk("1m", &recorded);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("recording ") && said.contains("name another --record"), "{said}");
    assert!(!folder.path().join("beside").exists());
}

/// Sets an onnxruntime library that does not exist.
fn without_runtime(command: &mut Command) -> &mut Command {
    command.env("ORT_DYLIB_PATH", "/nonexistent/libonnxruntime.so")
}

// A canary audit charges all steps at once, but only after the backend was tried.
#[test]
fn audit_without_backend_pays_nothing() {
    let (_folder, out) = folder();
    let run = train(MLP, DIGITS, &out, &["--backend", "ort"]);
    let mut command = damper();
    let args = run.get_args().skip(1).collect::<Vec<_>>();
    // The helper sets its own backend first. Remove it, because the flag may be given only once.
    let args = args.iter().enumerate().filter(|(at, _)| {
        let is_own = |at: usize| args.get(at).is_some_and(|arg| *arg == "--backend") && args[at + 1] == "tract";
        !(is_own(*at) || at > &0 && is_own(at - 1))
    });
    command.args(["audit", "canary"]).args(args.map(|(_, arg)| arg));
    let output = without_runtime(&mut command).output().unwrap();
    assert_refused(&output, &["onnxruntime"]);
    assert!(!out.exists());
}

const COMPARED: &str = "\
model = \"onnx-models/digits-mlp.onnx\"
data = \"idx:onnx-models/digits\"
delta = 1e-5
batch-size = 128
epochs = 1
backend = \"ort\"
workers = 1
epsilon = 3
seeds = 1
samples = 1437
[method.dp-sgd]
lr = [0.05, 1]
";

// Runs of a comparison, and a search that is charged as a whole, are charged only after their settings were tried.
#[test]
fn comparisons_without_backend_pay_nothing() {
    let (folder, out) = folder();
    let file = folder.path().join("compare.toml");
    let budget = folder.path().join("budget.json");
    fs::write(&file, COMPARED).unwrap();
    let path = budget.to_str().unwrap();
    assert!(run(&["budget", path, "--create", "digits", "--delta", "1e-5"]).status.success());
    for extra in [&[][..], &["--tune-private", "geometric:0.3"]] {
        let mut command = damper();
        command.arg("compare").arg(&file).arg("--out").arg(&out).args(["--quiet", "--budget", path]).args(extra);
        let output = without_runtime(&mut command).output().unwrap();
        assert!(!output.status.success() && stderr(&output).contains("onnxruntime"), "{}", stderr(&output));
        assert!(!out.exists(), "{extra:?} left a folder");
        let left = super::json(&run(&["budget", path, "--json"]));
        assert_eq!(left["epsilon"].as_f64(), Some(0.0), "{left}");
    }
}
