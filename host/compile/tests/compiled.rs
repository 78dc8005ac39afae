//! Compiled networks, shipped and random. Each crate's own test compares its gradient with the bits of the portable
//! backend, and a step of streamed gradients with a step of stored gradients. Cargo builds the crates offline.
//!
//! - `DAMPER_COMPILED_ON` lists targets, separated by spaces, on which the networks also run. The command in
//!   `DAMPER_CROSS` (default `cargo`) builds them.
//! - `DAMPER_COMPILED_SAMPLE` is the number of networks that boards run, from the end of the list.
//! - `DAMPER_COMPILED_SEED` is the seed of the first random network (default 0).
//! - `DAMPER_COMPILED_MODELS` is a folder for the models with their gradients. `torch_gradients.py` compares them with
//!   PyTorch.

#[path = "compiled/board.rs"]
mod board;
#[path = "../../grad/tests/random/contraction.rs"]
mod contraction;
#[path = "../../grad/tests/random/draw.rs"]
mod draw;
#[path = "../../grad/tests/random/elementwise.rs"]
mod elementwise;
#[path = "compiled/integers.rs"]
mod integers;
#[path = "../../grad/tests/random/layout.rs"]
mod layout;
#[path = "compiled/models.rs"]
mod models;
#[expect(dead_code, reason = "the tests of the gradients read more of a network")]
#[path = "../../grad/tests/random/net.rs"]
mod net;
#[path = "../../grad/tests/random/network.rs"]
mod network;
#[path = "compiled/recurrent.rs"]
mod recurrent;

use damper_compile::{CompileError, CompileOptions, Compiled, CompiledFile, Language, compile};
use damper_grad::{DeriveOptions, Loss, Readout, derive};
use damper_onnx::graph::{DType, Graph, GraphOptions};
use damper_onnx::pb::{GraphProto, ModelProto, OperatorSetIdProto};
use damper_onnx::{Extent, load, make_attr_int, make_attr_ints, make_node, make_tensor_f32, make_value_info};
use damper_testing::Random;
use network::Op;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Number of random networks that are compiled.
const RANDOM: usize = 18;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn compiled(
    name: &str,
    model: &ModelProto,
    graph_options: &GraphOptions,
    options: &DeriveOptions,
    to: CompileOptions,
) -> Result<Compiled, CompileError> {
    let graph = Graph::from_model(model, graph_options).unwrap();
    let grad = derive(
        &graph,
        &DeriveOptions { readout: Readout::Factored { positions: false, groups: true }, ..options.clone() },
    )
    .unwrap();
    let compiled = compile(&graph, &grad, &CompileOptions { name: name.into(), ..to })?;
    models::write(name, (model, graph_options), options, &grad, &compiled);
    Ok(compiled)
}

fn shipped(file: &str, only: &[&str], loss: Loss, to: CompileOptions) -> Result<Compiled, CompileError> {
    let model = load(&root().join("onnx-models").join(file)).unwrap();
    let only: Vec<String> = only.iter().map(|pattern| (*pattern).to_owned()).collect();
    let graph = GraphOptions { only: only.clone(), ..GraphOptions::default() };
    let name = format!("{file} {only:?} {loss:?}").replace('"', "");
    compiled(&name, &model, &graph, &DeriveOptions::new(loss), to)
}

fn write(folder: &Path, files: &[CompiledFile]) {
    for file in files {
        let path = folder.join(&file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Cargo rebuilds only files that are written.
        if fs::read(&path).ok().as_ref() != Some(&file.bytes) {
            fs::write(path, &file.bytes).unwrap();
        }
    }
}

fn cargo_run(cargo: &OsStr, arguments: &[&str], folder: &Path, target: &Path) -> String {
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(folder).env("CARGO_TARGET_DIR", target);
    let output = command.env_remove("RUSTFLAGS").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Returns a network with one-dimensional convolutions, as for sensor data.
fn line_network(random: &mut Random) -> ModelProto {
    let (channels, length) = (1 + random.below(3), 24 + random.below(16));
    let mut initializers = vec![];
    let mut parameter = |name: &str, shape: &[usize]| {
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| random.signed() * 0.4).collect();
        initializers.push(make_tensor_f32(name, shape, &values));
    };
    parameter("w1", &[4, channels, 5]);
    parameter("b1", &[4]);
    parameter("w2", &[6, 2, 3]);
    let first = (length + 2 - 5) / 2 + 1;
    let second = (first / 2 - 3) + 1;
    parameter("w3", &[3, 6 * second]);
    parameter("b3", &[3]);
    let ints = make_attr_ints;
    let node = vec![
        make_node("Conv", "conv1", &["x", "w1", "b1"], &["c1"], vec![ints("strides", &[2]), ints("pads", &[1, 1])]),
        make_node("Relu", "relu", &["c1"], &["r1"], vec![]),
        make_node("MaxPool", "pool", &["r1"], &["p1"], vec![ints("kernel_shape", &[2]), ints("strides", &[2])]),
        make_node("Conv", "conv2", &["p1", "w2"], &["c2"], vec![make_attr_int("group", 2)]),
        make_node("Tanh", "tanh", &["c2"], &["t2"], vec![]),
        make_node("Flatten", "flatten", &["t2"], &["f"], vec![]),
        make_node("Gemm", "dense", &["f", "w3", "b3"], &["y"], vec![make_attr_int("transB", 1)]),
    ];
    let info = |name: &str, shape: &[usize]| {
        let extents = [Extent::Batch].into_iter().chain(shape.iter().map(|extent| Extent::Fixed(*extent)));
        make_value_info(name, DType::F32, &extents.collect::<Vec<_>>())
    };
    let graph = GraphProto {
        node,
        input: vec![info("x", &[channels, length])],
        output: vec![info("y", &[3])],
        initializer: initializers,
        ..GraphProto::default()
    };
    of_graph(graph)
}

/// Returns the model of `graph`, of operator set 17.
fn of_graph(graph: GraphProto) -> ModelProto {
    ModelProto {
        ir_version: 8,
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 17 }],
        graph: Some(graph),
        ..ModelProto::default()
    }
}

/// Compiles shipped and random networks with the options `to`.
fn networks(to: &CompileOptions) -> Vec<Compiled> {
    let mut networks = vec![];
    for (file, only, loss) in [
        ("digits-linear.onnx", &[][..], Loss::SoftmaxCrossEntropy),
        ("digits-mlp.onnx", &[], Loss::SoftmaxCrossEntropy),
        ("digits-mlp.onnx", &["fc2*"], Loss::Mse),
        ("digits-mlp.onnx", &[], Loss::BceWithLogits),
        ("digits-cnn.onnx", &[], Loss::SoftmaxCrossEntropy),
        ("digits-cnn-groupnorm.onnx", &[], Loss::SoftmaxCrossEntropy),
        ("mnist-cnn.onnx", &["fc*"], Loss::SoftmaxCrossEntropy),
        ("exports/digits-cnn.dynamo.onnx", &["conv*"], Loss::SoftmaxCrossEntropy),
        ("exports/reshaped.torchscript.onnx", &[], Loss::SoftmaxCrossEntropy),
        ("exports/foreign/keras-cnn.opset15.tf2onnx.onnx", &[], Loss::SoftmaxCrossEntropy),
    ] {
        networks.push(shipped(file, only, loss, to.clone()).unwrap());
    }
    let mut random = Random(21);
    for _ in 0..4 {
        let model = line_network(&mut random);
        let options = DeriveOptions::new(Loss::SoftmaxCrossEntropy);
        let name = format!("line {}", networks.len());
        networks.push(compiled(&name, &model, &GraphOptions::default(), &options, to.clone()).unwrap());
    }
    networks.extend(integers::networks(&mut random, to));
    networks.extend(recurrent::networks(to));
    let first = std::env::var("DAMPER_COMPILED_SEED").map_or(0, |seed| seed.parse().unwrap());
    let (mut seed, mut refused) = (first, 0);
    let count = networks.len() + RANDOM;
    while networks.len() < count {
        let network = network::network(seed);
        let name = format!("random-{seed}");
        match compiled(&name, &network.model, &GraphOptions::default(), &network.options, to.clone()) {
            Ok(compiled) => networks.push(compiled),
            Err(error) => {
                assert!(error.to_string().contains("node '"), "{error}");
                refused += 1;
            }
        }
        seed += 1;
    }
    assert!(networks.len() >= 30 && refused * 4 <= RANDOM, "{refused} of {seed} random networks are refused");
    networks
}

/// Returns the networks that boards run: the last `DAMPER_COMPILED_SAMPLE`, which are random, or all by default.
fn sample(networks: &[Compiled]) -> &[Compiled] {
    let count = std::env::var("DAMPER_COMPILED_SAMPLE").map_or(networks.len(), |count| count.parse().unwrap());
    &networks[networks.len() - count.min(networks.len())..]
}

/// Builds all networks at once: the tests of one crate include the tests of every network.
#[test]
fn networks_have_portable_bits() {
    let networks = networks(&CompileOptions { damper: Some(root()), ..CompileOptions::default() });
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled");
    let (mut dependencies, mut tests) = (String::new(), String::new());
    for (at, compiled) in networks.iter().enumerate() {
        let crate_folder = folder.join(format!("networks/n{at}"));
        write(&crate_folder, &compiled.files);
        let text = fs::read_to_string(crate_folder.join("Cargo.toml")).unwrap();
        let package = text.split('"').nth(1).unwrap();
        let module = package.replace('-', "_");
        // The test imports the crate by its name, which several crates may share.
        dependencies += &format!("n{at} = {{ path = \"{}\", package = \"{package}\" }}\n", crate_folder.display());
        let test = fs::read_to_string(crate_folder.join("tests/same_bits.rs")).unwrap();
        let test = test.replace(&format!("use {module}::"), &format!("use n{at}::"));
        fs::write(crate_folder.join("tests/of_all.rs"), test).unwrap();
        tests += &format!("#[path = \"../networks/n{at}/tests/of_all.rs\"]\nmod n{at};\n");
    }
    fs::create_dir_all(folder.join("tests")).unwrap();
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("src/lib.rs"), "").unwrap();
    fs::write(folder.join("Cargo.toml"), format!("{ALL}{dependencies}")).unwrap();
    fs::write(folder.join("tests/all.rs"), tests).unwrap();
    let target = folder.join("target");
    let passed = format!("test result: ok. {} passed; 0 failed", 2 * networks.len());
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let said = cargo_run(&cargo, &["test", "--offline", "--quiet"], &folder, &target);
    assert!(said.contains(&passed), "{said}");

    let cross = std::env::var_os("DAMPER_CROSS").unwrap_or(cargo);
    let mut record = String::from(RECORD);
    for on in std::env::var("DAMPER_COMPILED_ON").unwrap_or_default().split_whitespace() {
        if !on.contains("-none-") {
            let said = cargo_run(&cross, &["test", "--offline", "--quiet", "--target", on], &folder, &target);
            assert!(said.contains(&passed), "{on}: {said}");
        } else {
            let board = folder.join("board");
            let sample = sample(&networks);
            let first = networks.len() - sample.len();
            let dependencies: String = dependencies.split_inclusive('\n').skip(first).collect();
            write(&board, &board::program(&root(), sample, first, &dependencies));
            cargo_run(&cross, &["build", "--release", "--target", on], &board, &target);
            board::run(&root(), on, &target.join(on).join("release/board"));
        }
        let count = if on.contains("-none-") { sample(&networks).len() } else { networks.len() };
        println!("{count} networks have the host's bits on {on}");
        record += &format!("| {on} | {count} |\n");
    }
    if let Some(path) = std::env::var_os("DAMPER_COMPILED_RECORD") {
        let head = Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(root()).output().unwrap();
        record += &format!("\nCommit {}.\n", String::from_utf8_lossy(&head.stdout).trim());
        fs::write(path, record).unwrap();
    }
}

/// C99 sources compile without warnings against the static library. All networks have the recorded bits with the host's
/// compiler.
#[test]
fn c_has_portable_bits() {
    let Ok(gcc) = Command::new("gcc").arg("--version").output() else {
        return damper_testing::skip("gcc", format_args!("there is no gcc"));
    };
    assert!(gcc.status.success());
    let (capi, folder) = (root().join("capi"), Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled-c"));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    cargo_run(&cargo, &["build", "--locked", "--release"], &capi, &capi.join("target"));
    let to = CompileOptions { language: Language::C, ..CompileOptions::default() };
    // A network that stores the gradient.
    let stored = CompileOptions { memory: Some(1 << 20), ..to.clone() };
    let stored = shipped("digits-mlp.onnx", &[], Loss::SoftmaxCrossEntropy, stored).unwrap();
    assert!(stored.figures.is_stored);
    for (at, compiled) in networks(&to).iter().chain([&stored]).enumerate() {
        let folder = folder.join(at.to_string());
        let _ = fs::remove_dir_all(&folder);
        write(&folder, &compiled.files);
        let sources = compiled.files.iter().map(|file| &file.path).filter(|path| path.ends_with(".c"));
        let mut command = Command::new("gcc");
        command.args(["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O1", "-I"]).arg(capi.join("include"));
        command.args(sources).arg(capi.join("target/release/libdamper_capi.a")).args(["-lm", "-o", "test"]);
        for command in [command.current_dir(&folder), &mut Command::new(folder.join("test"))] {
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {}: {said}", folder.display(), output.status);
        }
    }
}

// The plan fits the limit. If none does, the message has the sizes.
#[test]
fn memory_picks_a_plan() {
    let plan = |memory| {
        let to = CompileOptions { memory, ..CompileOptions::default() };
        shipped("digits-cnn.onnx", &[], Loss::SoftmaxCrossEntropy, to)
    };
    let figures = plan(None).unwrap().figures;
    let (vector, least) = (4 * figures.params, 8 * figures.params + figures.memory);
    assert!(!figures.is_stored && !plan(Some(least)).unwrap().figures.is_stored);
    assert!(!plan(Some(least + vector - 1)).unwrap().figures.is_stored);
    assert!(plan(Some(least + vector)).unwrap().figures.is_stored);
    let error = plan(Some(least - 1)).unwrap_err().to_string();
    for part in [&*format!("needs {least} bytes"), &format!("{} are given", least - 1), "of node '"] {
        assert!(error.contains(part), "{error}");
    }
}

const RECORD: &str = "# Compiled networks on other targets

Written by `.ci/long compiled`; do not edit. Networks of `host/compile/tests/compiled.rs`, shipped and random ones, whose gradient has the bits of the
host's portable backend there, under QEMU. On a system the crate's own tests run, with a step of streamed gradients too.

| target | networks |
| --- | ---: |
";

const ALL: &str = "[workspace]
exclude = [\"networks\"]

[package]
name = \"all\"
version = \"0.1.0\"
edition = \"2024\"

[profile.dev]
opt-level = 1
debug = false

[dependencies]
";

// A crate with copies of its dependencies builds unedited in a separate folder. Its tests pass without warnings.
#[test]
fn crate_builds_unedited() {
    let folder = tempfile::tempdir().unwrap();
    let compiled = shipped("digits-mlp.onnx", &[], Loss::SoftmaxCrossEntropy, CompileOptions::default()).unwrap();
    write(folder.path(), &compiled.files);
    for file in ["src/lib.rs", "src/kernels.rs", "src/shapes.rs", "src/constants.rs"] {
        let text = fs::read_to_string(folder.path().join(file)).unwrap();
        for word in ["std::", "alloc::", "extern crate"] {
            assert!(!text.contains(word), "{file} has {word}");
        }
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "--offline"]).current_dir(folder.path());
    command.env("CARGO_TARGET_DIR", folder.path().join("target")).env_remove("RUSTFLAGS");
    let output = command.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("2 passed"), "{said}");
    assert!(!said.contains("warning"), "{said}");
}

// The error for an operator without a portable kernel names the node. It omits the advice that applies to other
// commands.
#[test]
fn refusal_names_the_node() {
    let mut model = line_network(&mut Random(1));
    let graph = model.graph.as_mut().unwrap();
    // A convolution over three axes has no portable kernel.
    graph.node[0] = make_node("Conv", "volume", &["x", "w1", "b1"], &["c1"], vec![]);
    graph.node.truncate(1);
    graph.node.push(make_node("GlobalAveragePool", "mean", &["c1"], &["m"], vec![]));
    graph.node.push(make_node("Flatten", "flatten", &["m"], &["y"], vec![]));
    let dims = |shape: &[usize]| -> Vec<Extent> {
        [Extent::Batch].into_iter().chain(shape.iter().map(|extent| Extent::Fixed(*extent))).collect()
    };
    graph.input = vec![make_value_info("x", DType::F32, &dims(&[2, 4, 4, 4]))];
    graph.output = vec![make_value_info("y", DType::F32, &dims(&[3]))];
    graph.initializer =
        vec![make_tensor_f32("w1", &[3, 2, 2, 2, 2], &[0.1; 48]), make_tensor_f32("b1", &[3], &[0.0; 3])];
    let options = DeriveOptions::new(Loss::SoftmaxCrossEntropy);
    let error = compiled("volume", &model, &GraphOptions::default(), &options, CompileOptions::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("cannot run node 'volume' (Conv)") && !error.contains("backend"), "{error}");
}
