//! `damper compile` and `damper export`. The tests of `damper-compile` build the output.

use super::npz::NpzArchive;
use super::{damper, stderr};
use std::fs;
use std::path::Path;

const CNN: &str = "onnx-models/digits-cnn.onnx";

/// Runs a command that must succeed, and returns its answer.
#[track_caller]
fn run(args: &[&str]) -> String {
    let output = damper().args(args).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn floats(file: &Path) -> Vec<f32> {
    let words = fs::read(file).unwrap();
    words.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()
}

// The gradient that a crate's test expects has the bits of `damper gradients --backend portable` at the same sample.
#[test]
fn recorded_gradient_is_that_of_gradients() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let said = run(&["compile", CNN, "--out", at("network").to_str().unwrap()]);
    assert!(said.contains("2730 trained parameters"), "{said}");
    // The sample of the test, as on its page.
    let pixels: Vec<String> = (0..64).map(|pixel| format!("{}", (pixel * 37 % 101) as f32 / 101.0)).collect();
    let names: Vec<String> = (0..64).map(|pixel| format!("p{pixel}")).collect();
    fs::write(at("one.csv"), format!("{},label\n{},0\n", names.join(","), pixels.join(","))).unwrap();
    let data = format!("csv:{}", at("one.csv").display());
    run(&["gradients", CNN, "--data", &data, "--backend", "portable", "--out", at("one.npz").to_str().unwrap()]);
    let mut archive = NpzArchive::open(at("one.npz")).unwrap();
    let mut whole: Vec<f32> = vec![];
    for name in ["conv.weight", "conv.bias", "fc.weight", "fc.bias"] {
        whole.extend(archive.by_name(&format!("grad/{name}")).unwrap().unwrap().into_vec::<f32>().unwrap());
    }
    let recorded = floats(&at("network/tests/gradient.f32"));
    assert!(recorded.iter().any(|x| *x != 0.0) && recorded.len() == 2730);
    assert!(whole.iter().map(|x| x.to_bits()).eq(recorded.iter().map(|x| x.to_bits())));
}

// Frozen parameters are constants. A non-empty folder is left unchanged, and no files remain after an error.
#[test]
fn folders_are_whole_or_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("last");
    let said = run(&["compile", CNN, "--only", "fc*", "--name", "last layer", "--out", out.to_str().unwrap()]);
    assert!(said.contains("2570 trained parameters"), "{said}");
    assert!(fs::read_to_string(out.join("Cargo.toml")).unwrap().contains("name = \"last-layer\""));
    assert!(fs::metadata(out.join("src/constants.f32")).unwrap().len() >= 4 * 160);
    for (arguments, problem) in [
        (&[CNN][..], "is there and no empty folder; name another --out"),
        (&["onnx-models/exports/batchnorm.dynamo.onnx"][..], "BatchNormalization"),
        (&[CNN, "--only", "nothing*"][..], "--only"),
    ] {
        let target = if problem.contains("--out") { out.clone() } else { folder.path().join("other") };
        let output = damper().arg("compile").args(arguments).arg("--out").arg(&target).output().unwrap();
        assert!(!output.status.success() && stderr(&output).contains(problem), "{}", stderr(&output));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

// C files, planned for a memory size. If a network does not fit, the error names what takes the memory.
#[test]
fn c_is_planned_for_a_size() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("c");
    run(&["compile", CNN, "--target", "c", "--memory", "64K", "--out", out.to_str().unwrap()]);
    assert!(fs::read_to_string(out.join("digits_cnn.h")).unwrap().contains("float grad[2730];"));
    let none = folder.path().join("none");
    let output = damper().args(["compile", CNN, "--memory", "32K", "--out"]).arg(&none).output().unwrap();
    let said = stderr(&output);
    assert!(!output.status.success() && said.contains("needs 35459 bytes of memory and 32768 are given"), "{said}");
    assert!(!none.exists());
}

// `export` writes a device's parameters into the model, and changes no others.
#[test]
fn export_puts_params_into_model() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let trained: Vec<f32> = (0..2570).map(|at| at as f32 * 0.25 - 100.0).collect();
    let bytes: Vec<u8> = trained.iter().flat_map(|x| x.to_le_bytes()).collect();
    fs::write(at("device.f32"), &bytes).unwrap();
    run(&["export", CNN, "--only", "fc*", "--params", &at("device.f32"), "--out", &at("trained.onnx")]);
    run(&["compile", &at("trained.onnx"), "--out", &at("again")]);
    run(&["compile", CNN, "--out", &at("before")]);
    let (again, before) =
        (floats(Path::new(&at("again/src/params.f32"))), floats(Path::new(&at("before/src/params.f32"))));
    assert!(again[..160] == before[..160] && again[160..] == trained);
    let refused = |params: &str, problem: &str| {
        let arguments = ["export", CNN, "--only", "fc*", "--params", params, "--out", &at("none.onnx")];
        let output = damper().args(arguments).output().unwrap();
        assert!(!output.status.success() && stderr(&output).contains(problem), "{}", stderr(&output));
        assert!(!Path::new(&at("none.onnx")).exists());
    };
    fs::write(at("short.f32"), &bytes[4..]).unwrap();
    refused(&at("short.f32"), "has 10276 bytes where 2570 trained parameters take 10280");
    fs::write(at("nan.f32"), [&bytes[4..], &f32::NAN.to_le_bytes()].concat()).unwrap();
    refused(&at("nan.f32"), "parameter 2569 is NaN");
    refused(&at("missing.f32"), "missing.f32");
}
