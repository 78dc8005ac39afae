//! Each bad input is an error of one line, and no files remain.

use super::{DIGITS, MLP, assert_refused, damper, folder, json, refused, run, stderr, train};
use damper::onnx;
use std::fs;
use std::path::Path;

/// Encodes IDX: magic number, extents, bytes.
fn idx(magic: u32, extents: &[u32], bytes: &[u8]) -> Vec<u8> {
    let header = [magic].into_iter().chain(extents.iter().copied()).flat_map(u32::to_be_bytes);
    header.chain(bytes.iter().copied()).collect()
}

/// Writes 20 black images of `side` × `side` pixels, and labels.
fn write_idx(folder: &Path, side: u32, labels: &[u8]) {
    let pixels = vec![0; (20 * side * side) as usize];
    fs::write(folder.join("train-images-idx3-ubyte"), idx(0x803, &[20, side, side], &pixels)).unwrap();
    fs::write(folder.join("train-labels-idx1-ubyte"), idx(0x801, &[20], labels)).unwrap();
}

// The error for invalid data names its file.
#[test]
fn invalid_data_error_names_file() {
    type Spoil = fn(&Path);
    let cases: &[(&str, Spoil)] = &[
        ("train-images-idx3-ubyte", |images| {
            let bytes = fs::read(images).unwrap();
            fs::write(images, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("train-images-idx3-ubyte", |images| fs::write(images, b"").unwrap()),
        ("train-images-idx3-ubyte", |images| fs::write(images, idx(0x12345, &[20, 8, 8], &[0; 1280])).unwrap()),
        ("train-images-idx3-ubyte", |images| fs::write(images, b"PK\x03\x04 not what it says").unwrap()),
        ("train-labels-idx1-ubyte", |images| {
            fs::remove_file(images.with_file_name("train-labels-idx1-ubyte")).unwrap();
        }),
    ];
    for (culprit, spoil) in cases {
        let (folder, out) = folder();
        write_idx(folder.path(), 8, &[3; 20]);
        spoil(&folder.path().join("train-images-idx3-ubyte"));
        let data = format!("idx:{}", folder.path().display());
        refused(train(MLP, &data, &out, &[]), &out, &[culprit]);
    }
}

// Samples that do not fit the model are an error.
#[test]
fn shape_mismatch_is_error() {
    let (folder, out) = folder();
    write_idx(folder.path(), 7, &[3; 20]);
    let data = format!("idx:{}", folder.path().display());
    refused(train(MLP, &data, &out, &[]), &out, &["train-images-idx3-ubyte", "64"]);
}

// The error for a label out of range names its row.
#[test]
fn bad_label_error_names_row() {
    let (folder, out) = folder();
    let mut labels = [3; 20];
    labels[7] = 10;
    write_idx(folder.path(), 8, &labels);
    let data = format!("idx:{}", folder.path().display());
    refused(
        train(MLP, &data, &out, &[]),
        &out,
        &["train-labels-idx1-ubyte", "row 7", "10", "train a model with more outputs"],
    );
}

// The error for a non-finite feature names the file and the flag to drop the row.
#[test]
fn non_finite_feature_error_names_fix() {
    let (folder, out) = folder();
    let file = folder.path().join("table.csv");
    let row = |first: &str| format!("{first}{},1\n", ",0".repeat(63));
    fs::write(&file, [row("0"), row("1"), row("nan"), row("2")].concat()).unwrap();
    let data = format!("csv:{}", file.display());
    refused(train(MLP, &data, &out, &[]), &out, &["table.csv", "--on-bad-row drop"]);
}

#[test]
fn unknown_data_kind_or_path_is_error() {
    let (_folder, out) = folder();
    refused(train(MLP, "idx:no/such/folder", &out, &[]), &out, &["no/such/folder"]);
    refused(train(MLP, "tape:reel", &out, &[]), &out, &["tape", "idx, csv, npz"]);
    refused(train(MLP, "digits", &out, &[]), &out, &["KIND:PATH"]);
}

// The error for a model that cannot be trained names the operator or the flag.
#[test]
fn untrainable_model_error_names_fix() {
    let cases: &[(&str, &[&str])] = &[
        ("batchnorm.torchscript.onnx", &["BatchNormalization", "GroupNorm"]),
        ("batchnorm.dynamo.onnx", &["BatchNormalization", "GroupNorm"]),
        ("no-parameters.dynamo.onnx", &["--train"]),
        ("dynamic-axis.dynamo.onnx", &["--shape"]),
    ];
    for (model, words) in cases {
        let (folder, out) = folder();
        let path = format!("onnx-models/exports/{model}");
        refused(train(&path, DIGITS, &out, &[]), &out, words);
        refused(train(&path, DIGITS, &out, &[]), &out, &[model]);
        let derived = folder.path().join("grad.onnx");
        let mut command = damper();
        command.args(["derive", &path, "-o"]).arg(&derived);
        refused(command, &derived, words);
    }
}

// The error for an unknown operator names its node.
#[test]
fn unknown_operator_error_names_node() {
    let (folder, out) = folder();
    let mut model = onnx::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(MLP)).unwrap();
    let node = model.graph.as_mut().unwrap().node.iter_mut().find(|node| node.op_type == "Tanh").unwrap();
    node.op_type = "Frobnicate".into();
    node.name = "odd".into();
    let file = folder.path().join("odd-model.onnx");
    fs::write(&file, onnx::encode(&model)).unwrap();
    refused(train(file.to_str().unwrap(), DIGITS, &out, &[]), &out, &["odd-model.onnx", "'odd'", "Frobnicate"]);
}

#[test]
fn a_file_that_is_no_model_is_refused() {
    let (folder, out) = folder();
    refused(train("no/such.onnx", DIGITS, &out, &[]), &out, &["no/such.onnx", "check the path"]);
    let whole = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(MLP)).unwrap();
    for (name, bytes) in [("empty.onnx", &b""[..]), ("text.onnx", b"this is text"), ("half.onnx", &whole[..5000])] {
        let file = folder.path().join(name);
        fs::write(&file, bytes).unwrap();
        refused(train(file.to_str().unwrap(), DIGITS, &out, &[]), &out, &[name]);
    }
}

// The error for a number out of range names its flag.
#[test]
fn out_of_range_number_error_names_flag() {
    let (_folder, out) = folder();
    let cases: &[(&[&str], &[&str])] = &[
        (&["--epsilon", "0", "--delta", "1e-5"], &["--epsilon 0"]),
        (&["--epsilon", "-1", "--delta", "1e-5"], &["--epsilon -1"]),
        (&["--epsilon", "nan", "--delta", "1e-5"], &["--epsilon"]),
        (&["--epsilon", "1e-9", "--delta", "1e-5"], &["--epsilon", "raise"]),
        (&["--epsilon", "3", "--delta", "1"], &["--delta 1"]),
        (&["--epsilon", "3", "--delta", "0"], &["--delta 0"]),
        (&["--epsilon", "3", "--delta", "1e-3"], &["--delta 0.001", "--allow-large-delta"]),
        (&["--noise-multiplier", "0"], &["--noise-multiplier"]),
        (&["--noise-multiplier", "-2"], &["--noise-multiplier"]),
        (&["--dataset-size", "32"], &["--batch-size 64", "--dataset-size"]),
        (&["--epochs", "0"], &["--epochs 0"]),
        (&["--epochs", "inf"], &["--epochs inf"]),
        (&["--clip", "0"], &["--clip"]),
        (&["--clip", "nan"], &["--clip"]),
        (&["--grid-bits", "99"], &["--grid-bits"]),
        (&["--momentum", "1"], &["--momentum"]),
        (&["--nesterov"], &["--nesterov", "--momentum"]),
        (&["--optimizer", "adam", "--momentum", "0.9"], &["--momentum", "adam"]),
        (&["--optimizer", "adam", "--betas", "0.9,1"], &["--betas"]),
        (&["--galore", "4", "--adagrad-norm", "20,1e-5"], &["--galore", "--adagrad-norm"]),
        (&["--test", "0.2"], &["--test"]),
        (&["--train", "no.such.*"], &["--train 'no.such.*'"]),
        (&["--output", "no-such-output"], &["no-such-output"]),
        (&["--train-size", "9999"], &["--train-size 9999"]),
    ];
    for (extra, words) in cases {
        refused(train(MLP, DIGITS, &out, extra), &out, words);
    }
}

// The error for an invalid projection names the expected format.
#[test]
fn invalid_projection_error_names_format() {
    let (_folder, out) = folder();
    let cases = [
        ("0", "RANK"),
        ("four", "RANK"),
        ("4,0", "EVERY"),
        ("4,200,0", "SCALE"),
        ("4,200,nan", "SCALE"),
        ("4,200,1,1", "RANK,EVERY,SCALE"),
    ];
    for (value, word) in cases {
        let output = train(MLP, DIGITS, &out, &["--galore", value]).output().unwrap();
        let message = stderr(&output);
        assert!(!output.status.success() && message.contains("--galore") && message.contains(word), "{message}");
        assert!(!out.exists());
    }
}

// The accounting commands reject numbers out of range.
#[test]
fn accounting_rejects_invalid_numbers() {
    let epsilon = |s: &str, q: &str, t: &str, d: &str| {
        run(&["epsilon", "--noise-multiplier", s, "--sampling-rate", q, "--steps", t, "--delta", d])
    };
    assert_refused(&epsilon("0", "0.01", "100", "1e-5"), &["--noise-multiplier"]);
    assert_refused(&epsilon("-1", "0.01", "100", "1e-5"), &["--noise-multiplier"]);
    assert_refused(&epsilon("1", "1.5", "100", "1e-5"), &["--sampling-rate 1.5"]);
    assert_refused(&epsilon("1", "0", "100", "1e-5"), &["--sampling-rate 0"]);
    assert_refused(&epsilon("1", "0.01", "0", "1e-5"), &["--steps"]);
    assert_refused(&epsilon("1", "0.01", "100", "1"), &["--delta 1"]);
    assert_refused(&epsilon("1", "0.01", "100", "-0.1"), &["--delta -0.1"]);
    let calibrate =
        |e: &str| run(&["calibrate", "--epsilon", e, "--sampling-rate", "0.01", "--steps", "100", "--delta", "1e-5"]);
    assert_refused(&calibrate("0"), &["--epsilon 0"]);
    assert_refused(&calibrate("-3"), &["--epsilon -3"]);
    assert_refused(&calibrate("inf"), &["--epsilon"]);
    let drawn = |args: &[&str]| run(&[&["calibrate", "--delta", "1e-5", "--steps", "100"], args].concat());
    assert_refused(
        &drawn(&["--noise-multiplier", "1", "--samples", "50", "--batch-size", "60"]),
        &["--batch-size 60", "50"],
    );
    assert_refused(
        &drawn(&["--noise-multiplier", "0.5", "--samples", "50", "--epsilon", "0.01"]),
        &["--epsilon 0.01", "an expected batch of one sample"],
    );
    assert_refused(&drawn(&["--epsilon", "1", "--samples", "50"]), &["leave out exactly one", "--batch-size"]);
}

// The error for an unknown accountant lists the known accountants.
#[test]
fn unknown_accountant_error_lists_known() {
    let output = run(&[
        "epsilon",
        "--noise-multiplier",
        "1",
        "--sampling-rate",
        "1",
        "--steps",
        "1",
        "--delta",
        "1e-5",
        "--accountant",
        "prv",
    ]);
    assert_eq!(output.status.code(), Some(2));
    assert!(super::stderr(&output).contains("pld, rdp"));
}

// An unknown readout or number of points is an error.
#[test]
fn unknown_readout_or_points_is_error() {
    let (folder, run_out) = folder();
    let out = folder.path().join("grad.onnx");
    for (flag, value, word) in [("--readout", "sums", "clipped-sum"), ("--points", "0", "0")] {
        let output = run(&["derive", MLP, flag, value, "-o", out.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2));
        assert!(super::stderr(&output).contains(word) && !out.exists());
    }
    refused(train(MLP, DIGITS, &run_out, &["--readout", "clipped-sum"]), &run_out, &["--noise continuous"]);
    refused(train(MLP, DIGITS, &run_out, &["--readout", "norms"]), &run_out, &["clipped-sum"]);
}

// An existing output folder keeps its files.
#[test]
fn existing_output_folder_is_kept() {
    let (folder, out) = folder();
    fs::create_dir(&out).unwrap();
    fs::write(out.join("thesis.txt"), "mine").unwrap();
    let output = train(MLP, DIGITS, &out, &[]).output().unwrap();
    assert_refused(&output, &[out.to_str().unwrap(), "--out"]);
    assert_eq!(fs::read_to_string(out.join("thesis.txt")).unwrap(), "mine");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 1);

    let file = folder.path().join("file");
    fs::write(&file, "mine").unwrap();
    for path in [file.clone(), file.join("run")] {
        assert_refused(&train(MLP, DIGITS, &path, &[]).output().unwrap(), &["file", "--out"]);
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[cfg(unix)]
#[test]
fn unwritable_output_folder_is_error() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, out) = folder();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(folder.path().join("probe"), "").is_ok() {
        damper_testing::skip("user", "this user may write everywhere");
        return;
    }
    refused(train(MLP, DIGITS, &out, &[]), &out, &[out.to_str().unwrap(), "permissions"]);
}

/// Runs `damper train` under `sh`, after `setup`, into `run` in `folder`. Also returns a listing of its private folder.
#[cfg(unix)]
fn under_shell(shell: &[&str], setup: &str, folder: &Path) -> (std::process::Output, String) {
    let train = train(MLP, DIGITS, &folder.join("run"), &["--no-checkpoint"]);
    let script = format!("{setup}; folder=$1; shift; \"$@\"; code=$?; ls -A \"$folder/run/checkpoint\"; exit $code");
    let mut output = std::process::Command::new(shell[0])
        .args(&shell[1..])
        .args(["sh", "-c", &script, "sh"])
        .arg(folder)
        .arg(train.get_program())
        .args(train.get_args())
        .current_dir(train.get_current_dir().unwrap())
        .output()
        .unwrap();
    let listed = String::from_utf8(std::mem::take(&mut output.stdout)).unwrap();
    (output, listed)
}

#[cfg(unix)]
#[test]
fn failed_write_keeps_ledger() {
    let (folder, out) = folder();
    // A limit of a few blocks on the file size, with its signal ignored. The ledger fits, and the model does not.
    let (output, listed) = under_shell(&["env"], "trap '' XFSZ; ulimit -f 8", folder.path());
    assert_refused(&output, &["model.onnx", "--out", "unfinished", "damper epsilon"]);
    assert_eq!(listed, "ledger.json\nplan.json\n");
    let found = json(&damper().arg("epsilon").arg(&out).arg("--json").output().unwrap());
    assert_eq!((&found["finished"], &found["steps"]), (&false.into(), &5.into()), "{found}");
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_is_found_before_the_ledger() {
    let (folder, _) = folder();
    if !damper_testing::may_mount(folder.path()) {
        damper_testing::skip("mount", "this user may not mount a small disk");
        return;
    }
    let mount = "mount -t tmpfs -o size=16k tmpfs \"$1\"";
    let (output, listed) = under_shell(&["unshare", "-Urm"], mount, folder.path());
    // Detected before the first step: nothing is charged, and no files remain.
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.starts_with("error: ") && said.contains("its disk has 13 kB free, and the run writes about"),
        "{said}"
    );
    assert!(said.contains("free some space") && !said.contains("unfinished") && listed.is_empty(), "{said} {listed}");
}

#[test]
fn a_run_file_at_fault_is_named() {
    let (folder, out) = folder();
    let file = folder.path().join("run.toml");
    let path = file.to_str().unwrap();
    let cases = [
        ("epsilon = ", "line 1"),
        ("model = \"m.onnx\"\nepsilom = 3.0\n", "epsilom"),
        ("[privacy]\nepsilon = 3.0\n", "privacy"),
        ("lr = 0.5\n", "model ="),
    ];
    for (text, word) in cases {
        fs::write(&file, text).unwrap();
        let flags = if text.starts_with("lr") { &[][..] } else { &["--lr", "0.5"][..] };
        let mut command = damper();
        command.args(["train", path, "--data", DIGITS, "--noise-multiplier", "1"]);
        command.args(["--batch-size", "64", "--epochs", "1", "--out"]).arg(&out).args(flags);
        refused(command, &out, &["run.toml", word]);
    }
}
