//! `damper gradients`: the exact gradients of samples, against PyTorch and closed forms.

use super::data_files::linear;
use super::npz::NpzArchive;
use super::{DIGITS, MLP, damper, run, stderr};
use damper::graph::DType;
use damper::onnx::{self, Extent};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Tolerance of an entry, relative to the largest entry of that parameter's gradient of that sample.
const CLOSE: f64 = 1e-5;

/// Reads an array of a file.
fn array(file: &Path, name: &str) -> (Vec<u64>, Vec<f32>) {
    let mut archive = NpzArchive::open(file).unwrap();
    let array = archive.by_name(name).unwrap().unwrap_or_else(|| panic!("{}: no array '{name}'", file.display()));
    (array.shape().to_vec(), array.into_vec().unwrap())
}

/// Returns `damper gradients` of `model` on `data`, by tract if no backend is given.
fn gradients(model: &str, data: &str, out: &Path, extra: &[&str]) -> Command {
    let mut command = damper();
    command.args(["gradients", model, "--data", data, "--out"]).arg(out).args(extra);
    if !extra.contains(&"--backend") {
        command.args(["--backend", "tract"]);
    }
    command
}

/// Runs a command that must succeed, and returns its answer.
#[track_caller]
fn written(model: &str, data: &str, out: &Path, extra: &[&str]) -> String {
    let output = gradients(model, data, out, extra).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Compares two arrays, sample by sample.
#[track_caller]
fn assert_close(name: &str, found: &(Vec<u64>, Vec<f32>), wanted: &(Vec<u64>, Vec<f32>)) {
    assert_eq!(found.0, wanted.0, "{name}");
    let width = found.1.len() / found.0[0] as usize;
    for (row, (found, wanted)) in found.1.chunks(width).zip(wanted.1.chunks(width)).enumerate() {
        let largest = wanted.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
        for (x, y) in found.iter().zip(wanted) {
            let off = (f64::from(*x) - f64::from(*y)).abs();
            assert!(off <= CLOSE * f64::from(largest), "{name}, sample {row}: {x}, not {y}");
        }
    }
}

// Each backend's gradients and losses match PyTorch's, under the initializers' names.
#[test]
fn files_match_pytorch() {
    let folder = tempfile::tempdir().unwrap();
    let library = std::env::var_os("ORT_DYLIB_PATH");
    if library.is_none() {
        damper_testing::skip("ort", "ORT_DYLIB_PATH names no onnxruntime");
    }
    for (model, vectors, loss) in [
        ("digits-linear", "digits-linear", "softmax-cross-entropy"),
        ("digits-mlp", "digits-mlp.mse", "mse"),
        ("digits-mlp", "digits-mlp.bce-with-logits", "bce-with-logits"),
        ("digits-cnn", "digits-cnn", "softmax-cross-entropy"),
        ("digits-cnn-groupnorm", "digits-cnn-groupnorm", "softmax-cross-entropy"),
        ("mnist-cnn", "mnist-cnn", "softmax-cross-entropy"),
    ] {
        let expected = format!("onnx-models/vectors/{vectors}.npz");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(&expected);
        let names: Vec<String> = NpzArchive::open(&file).unwrap().array_names().collect();
        for backend in [Some("tract"), Some("portable"), library.as_ref().map(|_| "ort")].into_iter().flatten() {
            let out = folder.path().join(format!("{vectors}.{backend}.npz"));
            let mut command = gradients(
                &format!("onnx-models/{model}.onnx"),
                &format!("npz:{expected}"),
                &out,
                &["--loss", loss, "--backend", backend, "--physical-batch", "2"],
            );
            if let Some(library) = &library {
                command.env("ORT_DYLIB_PATH", library);
            }
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
            let answer = String::from_utf8(output.stdout).unwrap();
            assert!(answer.contains("NOT PRIVATE") && answer.contains("as secret as the data"), "{answer}");
            let mut arrays = 1;
            for name in names.iter().filter_map(|name| name.strip_prefix("grad.")) {
                let found = array(&out, &format!("grad/{name}"));
                assert_close(
                    &format!("{vectors} on {backend}: {name}"),
                    &found,
                    &array(&file, &format!("grad.{name}")),
                );
                arrays += 1;
            }
            assert_close(vectors, &array(&out, "loss"), &array(&file, "loss"));
            assert_eq!(NpzArchive::open(&out).unwrap().array_names().count(), arrays);
        }
    }
}

// The bytes do not depend on the workers, and patterns select the arrays. Only its owner can read the file.
#[test]
fn file_is_private_and_same_for_workers() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    written(MLP, DIGITS, &at("one.npz"), &["--workers", "1"]);
    written(MLP, DIGITS, &at("three.npz"), &["--workers", "3"]);
    assert!(fs::read(at("one.npz")).unwrap() == fs::read(at("three.npz")).unwrap());
    assert_eq!(array(&at("one.npz"), "grad/fc1.weight").0, [1437, 32, 64]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(at("one.npz")).unwrap().permissions().mode() & 0o777, 0o600);
    }
    written(MLP, DIGITS, &at("some.npz"), &["--only", "fc2*", "--train-size", "20"]);
    let mut names: Vec<String> = NpzArchive::open(at("some.npz")).unwrap().array_names().collect();
    names.sort();
    assert_eq!(names, ["grad/fc2.bias", "grad/fc2.weight", "loss"]);
    // The first samples have the same bits.
    let (all, some) = (array(&at("one.npz"), "grad/fc2.weight"), array(&at("some.npz"), "grad/fc2.weight"));
    assert_eq!(some.0, [20, 10, 32]);
    assert!(all.1.iter().zip(&some.1).all(|(x, y)| x.to_bits() == y.to_bits()));
}

// A dropped bad row has the gradient 0 and the loss NaN, and the others are unchanged.
#[test]
fn dropped_row_has_no_gradient() {
    let folder = tempfile::tempdir().unwrap();
    linear(folder.path(), "m", &[2], 2);
    let lines = |bad: bool| -> String {
        (0..200).map(|i| if bad && i == 7 { "nan,1,0\n".into() } else { format!("{},1,{}\n", i % 5, i % 2) }).collect()
    };
    let model = folder.path().join("m.onnx");
    let mut found = vec![];
    for bad in [false, true] {
        let (data, out) = (folder.path().join("d.csv"), folder.path().join("g.npz"));
        fs::write(&data, lines(bad)).unwrap();
        written(model.to_str().unwrap(), &format!("csv:{}", data.display()), &out, &["--on-bad-row", "drop"]);
        found.push((array(&out, "grad/fc.weight").1, array(&out, "loss").1));
    }
    let [(grads, losses), (of_dropped, losses_of_dropped)] = &found[..] else { panic!("two files") };
    for row in 0..200 {
        let grad = &of_dropped[row * 4..][..4];
        if row == 7 {
            assert!(grad == [0.0; 4] && losses_of_dropped[row].is_nan());
        } else {
            assert!(grad == &grads[row * 4..][..4] && losses_of_dropped[row] == losses[row]);
        }
    }
}

fn npy(kind: &str, shape: &[usize], bytes: Vec<u8>) -> Vec<u8> {
    let shape: String = shape.iter().map(|extent| format!("{extent},")).collect();
    let head = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    let head = format!("{head:<117}\n");
    let length = (head.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00".to_vec(), length.to_vec(), head.into_bytes(), bytes].concat()
}

// Inputs come from arrays with their names, and labels from `labels`: y = a·W + b∘v, (1/3) Σ (y − t)², in closed form.
#[test]
fn named_inputs_match_closed_form() {
    const N: usize = 7;
    let folder = tempfile::tempdir().unwrap();
    let weights: Vec<f32> = (0..6).map(|i| i as f32 / 4.0 - 0.5).collect();
    let v = [0.5f32, -1.0, 2.0];
    let fixed = |extent| [Extent::Batch, Extent::Fixed(extent)];
    let graph = onnx::pb::GraphProto {
        name: "pair".into(),
        node: vec![
            onnx::make_node("MatMul", "first", &["left", "w"], &["product"], vec![]),
            onnx::make_node("Mul", "second", &["right", "v"], &["scaled"], vec![]),
            onnx::make_node("Add", "sum", &["product", "scaled"], &["out"], vec![]),
        ],
        initializer: vec![onnx::make_tensor_f32("w", &[2, 3], &weights), onnx::make_tensor_f32("v", &[3], &v)],
        input: vec![
            onnx::make_value_info("left", DType::F32, &fixed(2)),
            onnx::make_value_info("right", DType::F32, &fixed(3)),
        ],
        output: vec![onnx::make_value_info("out", DType::F32, &fixed(3))],
        ..Default::default()
    };
    let opset = onnx::pb::OperatorSetIdProto { version: 17, ..Default::default() };
    let model =
        onnx::pb::ModelProto { ir_version: 8, opset_import: vec![opset], graph: Some(graph), ..Default::default() };
    let at = |name: &str| folder.path().join(name);
    fs::write(at("pair.onnx"), onnx::encode(&model)).unwrap();

    let numbers = |count: usize, step: f32| (0..count).map(|i| ((i * 5 % 11) as f32 - 5.0) * step).collect::<Vec<_>>();
    let (left, right, target) = (numbers(2 * N, 0.3), numbers(3 * N, 0.2), numbers(3 * N, 0.1));
    let mut zip = zip::ZipWriter::new(fs::File::create(at("d.npz")).unwrap());
    for (name, width, values) in [("right", 3, &right), ("labels", 3, &target), ("left", 2, &left)] {
        zip.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        zip.write_all(&npy("<f4", &[N, width], bytes)).unwrap();
    }
    zip.finish().unwrap();
    let (model, data) = (at("pair.onnx"), format!("npz:{}", at("d.npz").display()));
    let flags = ["--loss", "mse", "--only", "w", "--only", "v", "--physical-batch", "4"];
    written(model.to_str().unwrap(), &data, &at("g.npz"), &flags);

    let (mut of_w, mut of_v, mut losses) = (vec![], vec![], vec![]);
    for ((a, b), t) in left.chunks(2).zip(right.chunks(3)).zip(target.chunks(3)) {
        let off: Vec<f32> = (0..3).map(|j| a[0] * weights[j] + a[1] * weights[3 + j] + b[j] * v[j] - t[j]).collect();
        losses.push(off.iter().map(|off| off * off).sum::<f32>() / 3.0);
        of_w.extend(a.iter().flat_map(|a| off.iter().map(move |off| 2.0 / 3.0 * off * a)));
        of_v.extend(off.iter().zip(b).map(|(off, b)| 2.0 / 3.0 * off * b));
    }
    let n = N as u64;
    assert_close("w", &array(&at("g.npz"), "grad/w"), &(vec![n, 2, 3], of_w));
    assert_close("v", &array(&at("g.npz"), "grad/v"), &(vec![n, 3], of_v));
    assert_close("loss", &array(&at("g.npz"), "loss"), &(vec![n], losses));
    // Training reads the same file.
    let trained = run(&[
        &["train", model.to_str().unwrap(), "--data", &data, "--out", at("run").to_str().unwrap()][..],
        &["--noise-multiplier", "1", "--batch-size", "4", "--epochs", "1", "--lr", "0.1", "--quiet"],
        &["--delta", "1e-3", "--backend", "tract"],
        &flags,
    ]
    .concat());
    assert!(trained.status.success(), "{}", stderr(&trained));
}

// Ctrl-C leaves no new file, and keeps an existing file.
#[cfg(unix)]
#[test]
fn stopped_command_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("g.npz");
    let files = || fs::read_dir(folder.path()).unwrap().count();
    for before in [None, Some("precious")] {
        before.iter().for_each(|text| fs::write(&out, text).unwrap());
        let flags = ["--workers", "1", "--physical-batch", "1"];
        let mut command = gradients("onnx-models/digits-cnn-groupnorm.onnx", DIGITS, &out, &flags);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let started = Instant::now();
        while files() == before.iter().len() {
            assert!(started.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none());
            sleep(Duration::from_millis(1));
        }
        assert!(Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_eq!(files(), before.iter().len(), "nothing is left");
        before.iter().for_each(|text| assert_eq!(fs::read_to_string(&out).unwrap(), *text));
    }
}
