//! One command from each kind of data to a private model, with checks that it is trained on that data.

#[path = "good_data/parquet.rs"]
mod parquet;

use super::data_files::*;
use super::{json, run, stderr};
use damper::data::{DataOptions, Dataset, InputShape, LabelKind, Labels, load};
use damper::graph::DType;
use serde_json::Value;
use sha2::Digest;
use std::fs;
use std::path::Path;
use std::process::Output;

/// Runs `damper train` for two epochs, with ε.
fn trained(folder: &Path, model: &str, data: &str, extra: &[&str]) -> Output {
    let model = folder.join(format!("{model}.onnx"));
    let out = folder.join("run");
    let _ = fs::remove_dir_all(&out);
    let common = [
        "--epsilon",
        "3",
        "--delta",
        "1e-3",
        "--batch-size",
        "16",
        "--epochs",
        "2",
        "--lr",
        "0.1",
        "--backend",
        "tract",
    ];
    let mut args = vec!["train", model.to_str().unwrap(), "--data", data, "--out", out.to_str().unwrap()];
    args.extend(common.iter().chain(&["--quiet", "--json"]).chain(extra));
    run(&args)
}

/// Returns the report of a run that must succeed.
#[track_caller]
fn report(folder: &Path, model: &str, data: &str, extra: &[&str]) -> Value {
    let report = json(&trained(folder, model, data, extra));
    assert!(report["epsilon"].as_f64().unwrap() <= 3.0);
    assert!(folder.join("run/model.onnx").is_file());
    report
}

fn inputs(shape: &[usize]) -> Vec<InputShape> {
    vec![InputShape { name: "x".into(), shape: shape.to_vec(), dtype: DType::F32, rows: None }]
}

fn options(shape: &[usize], classes: usize) -> DataOptions {
    DataOptions {
        inputs: inputs(shape),
        labels: LabelKind::Classes { classes: Some(classes), shape: Some(vec![]) },
        ..DataOptions::default()
    }
}

fn classes(data: &Dataset) -> &[i64] {
    match data.train.labels() {
        Labels::Classes { values, .. } => values,
        other => panic!("{other:?}"),
    }
}

fn spec(kind: &str, path: &Path) -> String {
    format!("{kind}:{}", path.display())
}

#[test]
fn image_folder_trains_a_private_model() {
    let guard = tempfile::tempdir().unwrap();
    let folder = guard.path();
    linear(folder, "rgb", &[3, 8, 8], 2);
    for split in ["train", "test"] {
        for (class, name) in ["cat", "dog"].into_iter().enumerate() {
            let place = folder.join("pets").join(split).join(name);
            fs::create_dir_all(&place).unwrap();
            for at in 0..40 {
                let seed = (2 * at + class) as u8 + if split == "test" { 100 } else { 0 };
                fs::write(place.join(format!("{at:02}.png")), png(8, 8, [1, 3, 4][at % 3], seed)).unwrap();
            }
            fs::write(place.join("90.jpg"), jpeg()).unwrap();
            fs::write(place.join(".hidden"), "not an image").unwrap();
        }
    }
    let data = spec("images", &folder.join("pets"));
    let found = report(folder, "rgb", &data, &["--normalize", "0.5,0.4,0.3:0.2,0.2,0.1"]);
    assert_eq!((&found["privacy"]["samples"], &found["held_out"]["samples"]), (&82.into(), &82.into()));

    let read = load(&data, &options(&[3, 8, 8], 2)).unwrap();
    assert_eq!(classes(&read), [vec![0; 41], vec![1; 41]].concat());
    let row = |index: usize| &read.train.features()[0].floats()[index * 192..][..192];
    // Grey is repeated, colours are in planes, alpha is dropped, and the JPEG file has one grey.
    assert_eq!((row(0)[5], row(0)[64 + 5]), (5.0 / 255.0, 5.0 / 255.0));
    assert_eq!((row(1)[1], row(1)[64 + 1]), ((62 + 3) as f32 / 255.0, (62 + 4) as f32 / 255.0));
    assert_eq!((row(2)[1], row(2)[64 + 1]), ((124 + 4) as f32 / 255.0, (124 + 5) as f32 / 255.0));
    assert!(row(40).iter().all(|value| (value * 255.0 - 133.0).abs() < 1.5), "{:?}", row(40));
    // The opposite order, by public names, and colours as grey.
    let names = DataOptions { classes: Some(vec!["dog".into(), "cat".into()]), ..options(&[8, 8], 2) };
    let read = load(&spec("folder", &folder.join("pets/train")), &names).unwrap();
    assert_eq!((classes(&read)[0], read.train.features()[0].shape.len()), (1, 2));
}

/// Cached pixels serve the next run as long as the images are the same.
#[test]
fn image_cache_gives_the_same_bits() {
    let guard = tempfile::tempdir().unwrap();
    let folder = guard.path();
    linear(folder, "rgb", &[3, 8, 8], 2);
    for (class, name) in ["cat", "dog"].into_iter().enumerate() {
        fs::create_dir_all(folder.join("pets").join(name)).unwrap();
        for at in 0..200 {
            let file = folder.join("pets").join(name).join(format!("{at:03}.png"));
            fs::write(file, png(8, 8, 3, (2 * at + class) as u8)).unwrap();
        }
    }
    let cache = folder.join("made/cache");
    let digest = |flags: &[&str]| {
        let flags = [&["--seed", "1"], flags].concat();
        report(folder, "rgb", &spec("images", &folder.join("pets")), &flags)["params_digest"].clone()
    };
    let cached = || digest(&["--image-cache", cache.to_str().unwrap()]);
    let wanted = digest(&[]);
    assert_eq!((cached(), cached()), (wanted.clone(), wanted.clone()));
    let files = || -> Vec<_> { fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path()).collect() };
    // 400 images in blocks of 256.
    assert_eq!(files().len(), 2);
    #[cfg(unix)]
    for (path, mode) in files().into_iter().map(|file| (file, 0o600)).chain([(cache.clone(), 0o700)]) {
        let found = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
        assert_eq!(found & 0o777, mode, "{}", path.display());
    }
    // A damaged file is decoded again. A complete file is read.
    let file = files().remove(0);
    let bytes = fs::read(&file).unwrap();
    for wrong in [&bytes[..100], &[&[bytes[0] ^ 1], &bytes[1..]].concat()] {
        fs::write(&file, wrong).unwrap();
        assert_eq!(cached(), wanted);
        assert!(fs::read(&file).unwrap() == bytes);
    }
    let mut other = bytes[..bytes.len() - 32].to_vec();
    other.fill(9);
    other.extend(sha2::Sha256::digest(&other));
    fs::write(&file, &other).unwrap();
    assert_ne!(cached(), wanted);
    fs::write(&file, &bytes).unwrap();
    fs::write(folder.join("pets/cat/007.png"), png(8, 8, 3, 200)).unwrap();
    assert_eq!(cached(), digest(&[]));
    assert_eq!(files().len(), 3);
    let file = folder.join("rgb.onnx");
    let refused =
        trained(folder, "rgb", &spec("images", &folder.join("pets")), &["--image-cache", file.to_str().unwrap()]);
    assert!(stderr(&refused).contains("cannot hold the decoded images") && stderr(&refused).contains("--image-cache"));
}

#[test]
fn cifar_archive_trains_a_private_model() {
    let guard = tempfile::tempdir().unwrap();
    let folder = guard.path();
    linear(folder, "cifar", &[3, 32, 32], 10);
    let archive = |end: &str, batch: &dyn Fn(usize) -> Vec<u8>| {
        let name = |name: &str| format!("cifar-10-batches/{name}{end}");
        let names =
            [name("data_batch_2"), name("data_batch_1"), name("test_batch"), "cifar-10-batches/readme.html".into()];
        let batches = [batch(30), batch(50), batch(20), b"<html>".to_vec()];
        let files: Vec<(&str, Vec<u8>)> = names.iter().map(String::as_str).zip(batches).collect();
        tar(&files)
    };
    let binary = folder.join("cifar-10-binary.tar.gz");
    fs::write(&binary, gz(&archive(".bin", &cifar_binary))).unwrap();
    let python = folder.join("cifar-10-python.tar");
    fs::write(&python, archive("", &cifar_pickle)).unwrap();
    let found = report(folder, "cifar", &spec("cifar", &binary), &[]);
    assert_eq!((&found["privacy"]["samples"], &found["held_out"]["samples"]), (&80.into(), &20.into()));
    let read = |path: &Path| load(&spec("cifar", path), &options(&[3, 32, 32], 10)).unwrap();
    let (from_binary, from_python) = (read(&binary), read(&python));
    assert_eq!(from_binary, from_python);
    assert_eq!(classes(&from_binary)[48..52], [8, 9, 0, 1]);
    let digest = found["params_digest"].clone();
    assert_ne!(digest, Value::Null);
    // The unpacked folder, and rows that are read from a file for each step, give the same result.
    for (name, bytes) in
        [("data_batch_1", cifar_pickle(50)), ("data_batch_2", cifar_pickle(30)), ("test_batch", cifar_pickle(20))]
    {
        fs::create_dir_all(folder.join("py")).unwrap();
        fs::write(folder.join("py").join(name), bytes).unwrap();
    }
    assert_eq!(read(&folder.join("py")), from_binary);
    let stored = DataOptions { data_memory: Some(1000), ..options(&[3, 32, 32], 10) };
    let stored = load(&spec("cifar", &binary), &stored).unwrap();
    assert!(stored.train.features()[0].floats().is_empty());
    assert_eq!(stored.train.in_memory().unwrap(), from_binary.train);
}

#[test]
fn semicolon_csv_trains_a_private_model() {
    let guard = tempfile::tempdir().unwrap();
    let folder = guard.path();
    linear(folder, "table", &[4], 3);
    let row = |at: usize| {
        format!(
            "{};\"{}\";{};\"a {}; b\"\n",
            at as f32 / 9.0,
            ["red", "blue"][at % 2],
            at % 40,
            ["cat", "cow", "dog"][at % 3]
        )
    };
    let rows: String = (0..120).map(row).collect();
    let text = format!("size;colour;age;kind\n{rows}");
    fs::write(folder.join("t.csv"), &text).unwrap();
    fs::write(folder.join("t.csv.gz"), gz(text.as_bytes())).unwrap();
    fs::write(folder.join("classes.txt"), "a cat; b\na cow; b\na dog; b\n").unwrap();
    let list = folder.join("classes.txt");
    let flags = [
        "--delimiter",
        ";",
        "--classes",
        list.to_str().unwrap(),
        "--categories",
        "colour=blue,red",
        "--scale",
        "age=20,10",
        "--test",
        "0.25",
        "--test-metrics",
        "none",
        "--seed",
        "3",
    ];
    let found = report(folder, "table", &spec("csv", &folder.join("t.csv")), &flags);
    assert_eq!((&found["privacy"]["samples"], &found["held_out"]["samples"]), (&90.into(), &30.into()));
    let zipped = report(folder, "table", &spec("csv", &folder.join("t.csv.gz")), &flags);
    assert_eq!(zipped["params_digest"], found["params_digest"]);
    // Another seed holds out other rows, and so does a split by class.
    let other =
        report(folder, "table", &spec("csv", &folder.join("t.csv")), &[&flags[..], &["--split-seed", "1"]].concat());
    assert_ne!(other["params_digest"], found["params_digest"]);
    let by_class = report(
        folder,
        "table",
        &spec("csv", &folder.join("t.csv")),
        &[&flags[..], &["--stratify", "public-classes"]].concat(),
    );
    assert_ne!(by_class["params_digest"], found["params_digest"]);
    assert!(by_class["privacy"]["neighbours"].to_string().contains("the class of each are public"), "{by_class}");
    assert!(by_class["warnings"].to_string().contains("the class of every row is taken to be public"));
}

#[test]
fn npy_arrays_train_and_channels_move() {
    let guard = tempfile::tempdir().unwrap();
    let folder = guard.path();
    linear(folder, "rgb", &[3, 8, 8], 2);
    let numbers: Vec<f32> = (0..100 * 192).map(|at| (at % 23) as f32 / 23.0).collect();
    // The same images with their channels first, and last.
    let bytes = |values: Vec<f32>| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let last: Vec<f32> = (0..100)
        .flat_map(|image| (0..192).map(move |at| image * 192 + at % 3 * 64 + at / 3))
        .map(|at| numbers[at])
        .collect();
    fs::write(folder.join("first.npy"), npy("<f4", &[100, 3, 8, 8], &bytes(numbers))).unwrap();
    fs::write(folder.join("last.npy"), npy("<f4", &[100, 8, 8, 3], &bytes(last))).unwrap();
    fs::write(folder.join("y.npy"), npy_labels(100, 2)).unwrap();
    let labels = folder.join("y.npy");
    let digest = |file: &str, flags: &[&str]| {
        let flags = [&["--labels", labels.to_str().unwrap(), "--seed", "1"], flags].concat();
        let first = report(folder, "rgb", &spec("npy", &folder.join(file)), &flags)["params_digest"].clone();
        // Rows in a file give the same bits.
        let flags = [&flags[..], &["--data-memory", "1", "--cache", folder.to_str().unwrap()]].concat();
        assert_eq!(report(folder, "rgb", &spec("npy", &folder.join(file)), &flags)["params_digest"], first);
        first
    };
    assert_eq!(digest("first.npy", &[]), digest("last.npy", &["--layout", "nhwc"]));
    let names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names.len(), 5, "nothing of the cache is left: {names:?}");
    let output =
        trained(folder, "rgb", &spec("npy", &folder.join("last.npy")), &["--labels", labels.to_str().unwrap()]);
    assert!(stderr(&output).contains("give --layout nhwc"), "{}", stderr(&output));
}

/// 10^6 rows of 300 bytes are 1.2 GB as floats. They are read from a file for each step, within 1 GiB of memory.
#[cfg(target_os = "linux")]
#[test]
fn million_rows_train_within_a_gibibyte() {
    const ROWS: usize = 1_000_000;
    let guard = tempfile::tempdir().unwrap();
    let folder = guard.path();
    linear(folder, "wide", &[3, 10, 10], 2);
    let header = npy("|u1", &[ROWS, 3, 10, 10], &[]);
    let mut file = std::io::BufWriter::new(fs::File::create(folder.join("x.npy")).unwrap());
    std::io::Write::write_all(&mut file, &header).unwrap();
    let row: Vec<u8> = (0..=255).cycle().take(1000).collect();
    for at in 0..ROWS {
        std::io::Write::write_all(&mut file, &row[at % 256..][..300]).unwrap();
    }
    drop(file);
    fs::write(folder.join("y.npy"), npy_labels(ROWS, 2)).unwrap();
    let script = "ulimit -v 1048576; exec \"$@\"";
    let path = |name: &str| folder.join(name).display().to_string();
    let output = std::process::Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_damper"), "train", &path("wide.onnx")])
        .args(["--data", &format!("npy:{}", path("x.npy")), "--labels", &path("y.npy"), "--out", &path("run")])
        .args(["--cache", folder.to_str().unwrap(), "--test", "0.1", "--test-metrics", "none", "--json", "--quiet"])
        .args(["--epsilon", "3", "--delta", "1e-7", "--batch-size", "1000", "--epochs", "0.005", "--lr", "0.1"])
        .args(["--backend", "tract", "--workers", "1"])
        .output()
        .unwrap();
    let found = json(&output);
    assert_eq!((&found["privacy"]["samples"], &found["steps"]), (&900_000.into(), &5.into()));
}

/// With scaled labels, predictions and losses are in the labels' own unit. The use of the first line is printed.
#[test]
fn scaled_labels_keep_their_unit() {
    let guard = tempfile::tempdir().unwrap();
    let folder = guard.path();
    linear(folder, "single", &[2], 1);
    let sample = |at: usize| ((at % 10) as f32 / 10.0, (at % 7) as f32 / 7.0);
    let price = |at: usize| 250_000.0 + 100_000.0 * f64::from(sample(at).0) - 50_000.0 * f64::from(sample(at).1);
    let rows = |from: usize, to: usize| -> String {
        (from..to).map(|at| format!("{},{},{}\r\n", sample(at).0, sample(at).1, price(at))).collect()
    };
    fs::write(folder.join("train.csv"), format!("a,b,price\r\n{}", rows(0, 400))).unwrap();
    fs::write(folder.join("test.csv"), format!("a,b,price\r\n{}", rows(401, 500))).unwrap();
    let test = spec("csv", &folder.join("test.csv"));
    let flags = ["--loss", "mse", "--scale", "price=250000,100000", "--test", &test];
    let found = report(folder, "single", &spec("csv", &folder.join("train.csv")), &flags);
    assert_eq!(found["training"]["label_scale"], "250000,100000");
    let model = damper::onnx::load(&folder.join("run/model.onnx")).unwrap();
    assert!(
        model.metadata_props.iter().any(|entry| entry.key == "damper.label_scale" && entry.value == "250000,100000")
    );
    let graph = model.graph.as_ref().unwrap();
    let tensor = |name: &str| graph.initializer.iter().find(|tensor| tensor.name == name).unwrap();
    let values = |name: &str| damper::onnx::decode_tensor(tensor(name)).unwrap().as_f32().unwrap().to_vec();
    let (weights, bias) = (values("fc.weight"), values("fc.bias"));
    // Evaluate the file with another runtime than the trainer's.
    let spec_of = |name: &str, width| damper::onnx::TensorSpec {
        name: name.into(),
        dtype: DType::F32,
        shape: vec![damper::onnx::Dim::Batch, damper::onnx::Dim::Fixed(width)],
    };
    let plan = damper::runtime::SessionSpec {
        batch: 1,
        threads: 1,
        inputs: vec![spec_of("x", 2)],
        outputs: vec![spec_of("logits", 1)],
    };
    let backend = damper::runtime::open(damper::runtime::Choice::Tract).unwrap();
    let mut session = backend.load(&damper::onnx::load(&folder.join("run/model.onnx")).unwrap(), &plan).unwrap();
    let mut loss = 0.0;
    for at in 401..500 {
        let (a, b) = sample(at);
        let by_hand = 250_000.0 + 1e5 * f64::from(a * weights[0] + b * weights[1] + bias[0]);
        let mut given = 0.0;
        let before = [damper::onnx::TensorRef::F32(&[a, b])];
        let kept = damper::runtime::KeptInputs::new(vec![]);
        let inputs = damper::runtime::Inputs { before: &before, kept: &kept, after: &[] };
        session.run_kept(inputs, &mut |outputs| given = f64::from(outputs[0][0])).unwrap();
        assert!((given - by_hand).abs() < 1.0, "{given} {by_hand}");
        loss += (by_hand - price(at)).powi(2) / 99.0;
    }
    let told = found["test_loss"].as_f64().unwrap();
    assert!((told / loss - 1.0).abs() < 1e-3, "{told} {loss}");
    // Further training on scaled labels would scale twice.
    fs::copy(folder.join("run/model.onnx"), folder.join("again.onnx")).unwrap();
    let output = trained(folder, "again", &spec("csv", &folder.join("train.csv")), &flags);
    let message = stderr(&output);
    assert!(
        message.contains("--scale price=250000,100000: the model was trained on labels scaled by 250000,100000"),
        "{message}"
    );
    assert!(message.contains("its output is in their unit; to go on with it give --scale price=0,1"), "{message}");
    // As in the message.
    let own = ["--loss", "mse", "--scale", "price=0,1", "--test", &test, "--clip", "1e5"];
    let output = trained(folder, "again", &spec("csv", &folder.join("train.csv")), &own);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// The decision on the first line is printed before the run, but not with --quiet.
#[test]
fn use_of_the_first_line_is_said() {
    let guard = tempfile::tempdir().unwrap();
    let folder = guard.path();
    linear(folder, "two", &[2], 2);
    let model = folder.join("two.onnx");
    for (first, header, wanted) in [
        ("", "yes", "the first line names the columns (--header yes): '1', '2', '0'; label '0'"),
        ("", "no", "the first line is a row, and columns are numbered from 0 (--header no): '0', '1', '2'; label '2'"),
        ("a,b,y\n", "", "the first line names the columns (--header yes): 'a', 'b', 'y'; label 'y'"),
    ] {
        let file = folder.join("t.csv");
        fs::write(&file, format!("{first}{}", "1,2,0\n3,4,1\n".repeat(60))).unwrap();
        let (data, out) = (spec("csv", &file), folder.join("run"));
        let _ = fs::remove_dir_all(&out);
        let mut args = vec!["train", model.to_str().unwrap(), "--data", &data, "--out", out.to_str().unwrap()];
        args.extend("--epsilon 3 --delta 1e-3 --batch-size 16 --epochs 1 --lr 0.1 --backend tract".split(' '));
        if !header.is_empty() {
            args.extend(["--header", header]);
        }
        let output = run(&args);
        let said = stderr(&output);
        assert!(output.status.success() && said.contains(&format!("t.csv: {wanted}")), "{said}");
    }
}

/// The server's model cannot store the scale of a device's labels.
#[test]
fn devices_scale_no_labels() {
    let guard = tempfile::tempdir().unwrap();
    let folder = guard.path();
    linear(folder, "single", &[2], 1);
    fs::write(folder.join("t.csv"), format!("a,b,price\n{}", "1,2,0.5\n3,4,1.5\n".repeat(60))).unwrap();
    let at = |name: &str| folder.join(name).display().to_string();
    let (model, file, data) = (at("single.onnx"), at("plan.json"), format!("csv:{}", at("t.csv")));
    let flags = "--loss mse --columns a,b,price --rounds 2 --devices 2 --batch-size 8 --sampling-rate 0.1 --noise-multiplier 1 --delta 1e-5 \
                 --simulation --json";
    let args: Vec<&str> =
        ["federation", "plan", &model, "--out", &file].into_iter().chain(flags.split_whitespace()).collect();
    let output = run(&args);
    assert!(output.status.success(), "{}", stderr(&output));
    let update = |scale: &str| {
        let (ledger, out) = (at(&format!("ledger-{scale}")), at("1.upd"));
        let own = "--loss mse --device 1 --round 0 --seed 5 --backend portable --workers 1".split(' ');
        let files = [
            "federation",
            "update",
            &file,
            &model,
            "--data",
            &data,
            "--ledger",
            &ledger,
            "--out",
            &out,
            "--scale",
            scale,
        ];
        run(&files.into_iter().chain(own).collect::<Vec<_>>())
    };
    let output = update("price=1,2");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("--scale 1,2: the server's model cannot undo a scale of labels"),
        "{}",
        stderr(&output)
    );
    let output = update("price=0,1");
    assert!(output.status.success(), "{}", stderr(&output));
}
