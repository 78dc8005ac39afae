//! Inputs that would silently give a wrong model. Each is frozen, converted, warned about or rejected.

use super::{DIGITS, assert_refused, damper, folder, json, run, stderr, train};
use damper::graph::DType;
use damper::onnx::pb::{GraphProto, ModelProto, OperatorSetIdProto, tensor_proto::DataType};
use damper::onnx::{self, Extent, Tensor, TensorData};
use std::fs;
use std::path::{Path, PathBuf};

/// A model under construction: `x` [N, 64], and the added nodes.
#[derive(Clone, Default)]
pub(super) struct Sketch(GraphProto);

impl Sketch {
    pub(super) fn new() -> Self {
        Self::default().input("x", DType::F32, &[64])
    }

    pub(super) fn input(mut self, name: &str, dtype: DType, shape: &[usize]) -> Self {
        let shape: Vec<Extent> =
            [Extent::Batch].into_iter().chain(shape.iter().map(|&extent| Extent::Fixed(extent))).collect();
        self.0.input.push(onnx::make_value_info(name, dtype, &shape));
        self
    }

    /// Adds a weight of small numbers, all different and non-zero.
    pub(super) fn weight(self, name: &str, shape: &[usize]) -> Self {
        let count: usize = shape.iter().product();
        let data: Vec<f32> = (0..count).map(|at| ((at * 37 + 11) % 613) as f32 / 2000.0 + 0.01).collect();
        self.tensor(name, shape, TensorData::F32(data.into()))
    }

    pub(super) fn tensor(mut self, name: &str, shape: &[usize], data: TensorData) -> Self {
        self.0.initializer.push(onnx::make_tensor(name, &Tensor { shape: shape.to_vec(), data }));
        self
    }

    pub(super) fn node(mut self, op: &str, inputs: &[&str], output: &str) -> Self {
        self.0.node.push(onnx::make_node(op, &format!("node_{output}"), inputs, &[output], vec![]));
        self
    }

    /// Adds `(x - mean) / std`, and a layer with the output `h` [N, 10].
    fn normalised() -> Self {
        Self::new()
            .weight("mean", &[64])
            .weight("std", &[64])
            .weight("fc.weight", &[64, 10])
            .weight("fc.bias", &[10])
            .node("Sub", &["x", "mean"], "centred")
            .node("Div", &["centred", "std"], "normal")
            .node("Gemm", &["normal", "fc.weight", "fc.bias"], "h")
    }

    fn model(mut self, output: &str) -> ModelProto {
        self.0.output = vec![onnx::make_value_info(output, DType::F32, &[Extent::Batch, Extent::Fixed(10)])];
        self.0.name = "sketch".into();
        ModelProto {
            ir_version: 8,
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 17 }],
            graph: Some(self.0),
            ..ModelProto::default()
        }
    }

    /// Writes the model to `folder`, with the output `output`.
    pub(super) fn write(self, folder: &Path, output: &str) -> String {
        write(folder, &self.model(output))
    }
}

fn write(folder: &Path, model: &ModelProto) -> String {
    let file = folder.join("sketch.onnx");
    fs::write(&file, onnx::encode(model)).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Returns an initializer's values in a model file.
pub(super) fn values(model: &Path, name: &str) -> Vec<f32> {
    let graph = onnx::load(model).unwrap().graph.unwrap();
    let tensor = graph.initializer.iter().find(|tensor| tensor.name == name).unwrap();
    onnx::decode_tensor(tensor).unwrap().as_f32().unwrap().to_vec()
}

/// Returns the warnings of `damper inspect`.
pub(super) fn inspected(model: &str, extra: &[&str]) -> Vec<String> {
    let found = json(&run(&[&["inspect", model, "--json"], extra].concat()));
    found["warnings"].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect()
}

/// Returns the warnings of `damper train` on the digits, and the trained model.
fn trained(model: &str, out: &Path, extra: &[&str]) -> (Vec<String>, PathBuf) {
    let output = train(model, DIGITS, out, extra).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = stderr(&output);
    let warnings = lines.lines().filter_map(|line| line.strip_prefix("warning: ")).map(str::to_owned).collect();
    (warnings, out.join("model.onnx"))
}

#[track_caller]
pub(super) fn named(warnings: &[String], words: &[&str]) {
    let found = warnings.iter().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(found, "{words:?} are not in one line of {warnings:#?}");
}

#[test]
fn buffers_of_the_input_are_kept() {
    let (folder, out) = folder();
    let model = Sketch::normalised().write(folder.path(), "h");
    let (warnings, result) = trained(&model, &out, &[]);
    for name in ["mean", "std"] {
        assert_eq!(values(Path::new(&model), name), values(&result, name), "{name}");
    }
    assert_ne!(values(Path::new(&model), "fc.weight"), values(&result, "fc.weight"));
    let words = ["'mean', 'std': not trained", "--train"];
    named(&warnings, &words);
    named(&inspected(&model, &[]), &words);
    let text = String::from_utf8(run(&["inspect", &model]).stdout).unwrap();
    assert!(text.contains("it only shifts or scales the input 'x' (Sub 'node_centred')"), "{text}");
    let (warnings, result) = trained(&model, &folder.path().join("all"), &["--train", "mean", "--train", "std"]);
    assert_ne!(values(Path::new(&model), "std"), values(&result, "std"));
    // Few noisy steps may learn nothing.
    assert!(warnings.iter().all(|line| line.starts_with("the held-out loss ")), "{warnings:?}");
}

/// Encodes an array of an .npz file, of little-endian numbers.
fn array(kind: &str, shape: &[usize], bytes: Vec<u8>) -> Vec<u8> {
    let shape: String = shape.iter().map(|extent| format!("{extent},")).collect();
    let head = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    let head = format!("{head:<117}\n");
    let length = (head.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00".to_vec(), length.to_vec(), head.into_bytes(), bytes].concat()
}

/// Writes 640 samples with the inputs `x` and `target`.
fn write_npz(folder: &Path) -> String {
    use std::io::Write as _;
    let file = folder.join("data.npz");
    let mut zip = zip::ZipWriter::new(fs::File::create(&file).unwrap());
    let x = (0..640 * 64).flat_map(|at: u32| ((at % 17) as f32 / 16.0).to_le_bytes()).collect();
    let target = (0..640i64).flat_map(|at| (at % 10).to_le_bytes()).collect();
    for (name, array) in [("x", array("<f4", &[640, 64], x)), ("target", array("<i8", &[640, 1], target))] {
        zip.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(&array).unwrap();
    }
    zip.finish().unwrap();
    format!("npz:{}", file.display())
}

#[test]
fn class_weights_of_a_loss_are_kept() {
    let (folder, out) = folder();
    let mut sketch = Sketch::normalised()
        .input("target", DType::I64, &[1])
        .weight("loss.weight", &[10])
        .tensor("flat", &[1], TensorData::I64(vec![-1]))
        .node("LogSoftmax", &["h"], "logarithms")
        .node("GatherElements", &["logarithms", "target"], "chosen")
        .node("Gather", &["loss.weight", "target"], "weights")
        .node("Mul", &["chosen", "weights"], "weighted")
        .node("Neg", &["weighted"], "negative")
        .node("Reshape", &["negative", "flat"], "loss");
    sketch.0.node.iter_mut().find(|node| node.op_type == "GatherElements").unwrap().attribute =
        vec![onnx::make_attr_int("axis", 1)];
    let mut model = sketch.model("loss");
    model.graph.as_mut().unwrap().output = vec![onnx::make_value_info("loss", DType::F32, &[Extent::Batch])];
    let model = write(folder.path(), &model);
    let words = ["'loss.weight': not trained, for it weights the loss", "--train"];
    named(&inspected(&model, &["--loss", "output:loss"]), &words);
    let data = write_npz(folder.path());
    let output = train(&model, &data, &out, &["--loss", "output:loss", "--epochs", "0.5"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let warnings: Vec<String> = stderr(&output).lines().map(str::to_owned).collect();
    named(&warnings, &words);
    let result = out.join("model.onnx");
    assert_eq!(values(Path::new(&model), "loss.weight"), values(&result, "loss.weight"));
    assert_ne!(values(Path::new(&model), "fc.weight"), values(&result, "fc.weight"));
}

/// A product of one-hot labels with a vector looks up the weight of a class. With a matrix it embeds an input.
#[test]
fn class_weights_by_one_hot_labels_are_kept() {
    let (folder, out) = folder();
    let sketch = Sketch::normalised()
        .input("target", DType::I64, &[1])
        .weight("loss.weight", &[10, 1])
        .tensor("flat", &[1], TensorData::I64(vec![-1]))
        .tensor("classes", &[1], TensorData::I64(vec![10]))
        .tensor("off_on", &[2], TensorData::F32(vec![0.0, 1.0].into()))
        .tensor("axis", &[1], TensorData::I64(vec![1]))
        .node("LogSoftmax", &["h"], "logarithms")
        .node("Reshape", &["target", "flat"], "flat_target")
        .node("OneHot", &["flat_target", "classes", "off_on"], "one_hot")
        .node("Mul", &["one_hot", "logarithms"], "chosen")
        .node("ReduceSum", &["chosen", "axis"], "likelihood")
        .node("MatMul", &["one_hot", "loss.weight"], "weights")
        .node("Mul", &["likelihood", "weights"], "weighted")
        .node("Neg", &["weighted"], "negative")
        .node("Reshape", &["negative", "flat"], "loss");
    let mut model = sketch.model("loss");
    model.graph.as_mut().unwrap().output = vec![onnx::make_value_info("loss", DType::F32, &[Extent::Batch])];
    let model = write(folder.path(), &model);
    named(
        &inspected(&model, &["--loss", "output:loss"]),
        &["'loss.weight'", "not trained, for it weights the loss", "--train"],
    );
    let data = write_npz(folder.path());
    let output = train(&model, &data, &out, &["--loss", "output:loss", "--epochs", "0.5"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let result = out.join("model.onnx");
    assert_eq!(values(Path::new(&model), "loss.weight"), values(&result, "loss.weight"));
    assert_ne!(values(Path::new(&model), "fc.weight"), values(&result, "fc.weight"));
}

#[test]
fn softmax_before_its_loss_is_named() {
    let (folder, out) = folder();
    let layer = || Sketch::new().weight("w", &[64, 10]).node("MatMul", &["x", "w"], "h");
    let softmax = layer().node("Softmax", &["h"], "p").write(folder.path(), "p");
    let words = ["node 'node_p' (Softmax): feeds --loss softmax-cross-entropy", "logits"];
    named(&inspected(&softmax, &[]), &words);
    named(&trained(&softmax, &out, &[]).0, &words);
    assert!(inspected(&softmax, &["--loss", "mse"]).is_empty());
    let sigmoid = layer().node("Sigmoid", &["h"], "p").write(folder.path(), "p");
    named(
        &inspected(&sigmoid, &["--loss", "bce-with-logits"]),
        &["node 'node_p' (Sigmoid): feeds --loss bce-with-logits"],
    );
    let logarithms = layer().node("LogSoftmax", &["h"], "p").write(folder.path(), "p");
    assert!(inspected(&logarithms, &[]).is_empty());
    named(&inspected(&logarithms, &["--loss", "bce-with-logits"]), &["(LogSoftmax)"]);
}

#[test]
fn constant_predictions_are_named() {
    let (folder, out) = folder();
    let model = Sketch::new()
        .weight("bias", &[1, 10])
        .tensor("zero", &[1], TensorData::I64(vec![0]))
        .tensor("ten", &[1], TensorData::I64(vec![10]))
        .node("Shape", &["x"], "shape")
        .node("Gather", &["shape", "zero"], "samples")
        .node("Concat", &["samples", "ten"], "target")
        .node("Tanh", &["bias"], "squashed")
        .node("Expand", &["squashed", "target"], "y");
    let mut model = model.model("y");
    let concat = model.graph.as_mut().unwrap().node.iter_mut().find(|node| node.op_type == "Concat").unwrap();
    concat.attribute = vec![onnx::make_attr_int("axis", 0)];
    let model = write(folder.path(), &model);
    let words = ["output 'y': constant, for it does not depend on the input"];
    named(&inspected(&model, &[]), &words);
    named(&trained(&model, &out, &[]).0, &words);
}

#[test]
fn a_run_that_diverges_stops() {
    let (folder, out) = folder();
    let model = Sketch::new()
        .weight("v", &[64, 64])
        .weight("w", &[64, 10])
        .node("MatMul", &["x", "v"], "g")
        .node("MatMul", &["g", "w"], "h")
        .write(folder.path(), "h");
    // The second has finite parameters, and no finite loss.
    for (lr, words) in
        [("1e30", "step 1: a released parameter is infinite"), ("1e18", "step 5: the held-out loss is infinite")]
    {
        let out = out.with_extension(lr);
        let mut command = damper();
        command.args([
            "train",
            &model,
            "--data",
            DIGITS,
            "--noise-multiplier",
            "1",
            "--clip",
            "100",
            "--batch-size",
            "64",
        ]);
        command
            .args(["--epochs", "0.2", "--lr", lr, "--workers", "1", "--backend", "tract", "--quiet", "--out"])
            .arg(&out);
        let output = command.output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with(&format!("warning: --lr {lr}: ")) && lines[0].contains("beyond sense"), "{said}");
        let error = lines.last().unwrap();
        assert!(error.starts_with("error: step ") && error.contains(words), "{said}");
        assert!(error.contains("lower --lr") && error.contains("paid steps count"), "{said}");
        assert!(out.join("checkpoint/ledger.json").is_file() && !out.join("model.onnx").exists());
        let found = json(&damper().arg("epsilon").arg(&out).arg("--json").output().unwrap());
        assert_eq!(found["finished"], false);
        assert!(found["steps"].as_u64().unwrap() >= 1);
    }
}

#[test]
fn what_dynamo_loses_is_named() {
    let (folder, out) = folder();
    let merged = "onnx-models/exports/merged-norms.dynamo.onnx";
    let words = ["'val_22::node_Mul_45'", "merged by the exporter", "--tie"];
    named(&inspected(merged, &[]), &words);
    named(&trained(merged, &out, &[]).0, &words);
    let bare = Sketch::new().weight("fc.weight", &[64, 10]).node("Gemm", &["x", "fc.weight"], "linear");
    let bare = bare.write(folder.path(), "linear");
    let words = ["'fc.weight': the layer has no bias in the file", "dynamo=True"];
    named(&inspected(&bare, &[]), &words);
    named(&trained(&bare, &folder.path().join("bare"), &[]).0, &words);
}

#[test]
fn the_result_of_a_fixed_batch_takes_any() {
    for exporter in ["torchscript", "dynamo"] {
        let (_folder, out) = folder();
        let model = format!("onnx-models/exports/fixed-batch-4.{exporter}.onnx");
        let (warnings, result) = trained(&model, &out, &[]);
        assert!(!warnings.iter().any(|line| line.contains("fixes the batch")), "{warnings:?}");
        let text = fs::read(&result).unwrap();
        let written = onnx::decode("m", &text).unwrap().graph.unwrap();
        for info in written.input.iter().take(1).chain(&written.output) {
            let first = format!("{:?}", info.r#type.as_ref().unwrap());
            assert!(first.contains("DimParam(\"batch\")"), "{first}");
        }
        let again = String::from_utf8(run(&["inspect", result.to_str().unwrap()]).stdout).unwrap();
        assert!(again.contains("can be trained"), "{again}");
    }
    // A look-up that the exporter folded for one sample is not available for others.
    let fixed = "onnx-models/exports/foreign/distilbert.opset20.fixed.dynamo.onnx";
    named(&inspected(fixed, &[]), &["the export fixes the batch, and the trained model keeps it", "symbolic batch"]);
}

#[test]
fn only_trains_what_it_names() {
    let (folder, out) = folder();
    let model = Sketch::normalised().write(folder.path(), "h");
    let (_, result) = trained(&model, &out, &["--only", "*.bias"]);
    for name in ["mean", "std", "fc.weight", "fc.bias"] {
        let same = values(Path::new(&model), name) == values(&result, name);
        assert_eq!(same, name != "fc.bias", "{name}");
    }
    let text = String::from_utf8(run(&["inspect", &model, "--only", "*.bias"]).stdout).unwrap();
    assert!(text.contains("--only does not name it") && text.contains("--only '*.bias'"), "{text}");
}

#[test]
fn other_floats_are_converted_and_said_so() {
    let (folder, _) = folder();
    for (data_type, name) in
        [(DataType::Float16, "float16"), (DataType::Bfloat16, "bfloat16"), (DataType::Double, "float64")]
    {
        let mut model = Sketch::normalised().model("h");
        let graph = model.graph.as_mut().unwrap();
        for tensor in &mut graph.initializer {
            let data = onnx::decode_tensor(tensor).unwrap().as_f32().unwrap().to_vec();
            tensor.data_type = data_type as i32;
            tensor.raw_data = match data_type {
                DataType::Double => data.iter().flat_map(|&x| f64::from(x).to_le_bytes()).collect(),
                // The upper half of a float32.
                DataType::Bfloat16 => data.iter().flat_map(|&x| ((x.to_bits() >> 16) as u16).to_le_bytes()).collect(),
                // 0.5, which has few bits.
                _ => data.iter().flat_map(|_| 0x3800u16.to_le_bytes()).collect(),
            };
        }
        for info in graph.input.iter_mut().chain(&mut graph.output) {
            let onnx::pb::type_proto::Value::TensorType(tensor) = info.r#type.as_mut().unwrap().value.as_mut().unwrap();
            tensor.elem_type = data_type as i32;
        }
        let model = write(folder.path(), &model);
        let words = [&*format!("its {name} numbers are converted to float32")];
        named(&inspected(&model, &[]), &words);
        let (warnings, result) = trained(&model, &folder.path().join(name), &[]);
        named(&warnings, &words);
        let written = onnx::load(&result).unwrap().graph.unwrap();
        assert!(written.initializer.iter().all(|tensor| tensor.data_type == DataType::Float as i32), "{name}");
    }
}

#[test]
fn a_weak_epsilon_is_named() {
    let (_folder, out) = folder();
    let weak = ["--epsilon", "50", "--delta", "1e-5"];
    named(&trained(super::MLP, &out, &weak).0, &["epsilon ", "hardly a guarantee"]);
}

#[test]
fn errors_come_as_json_too() {
    let cases: [(&[&str], i32, &str); 3] = [
        (&["inspect", "no/such.onnx", "--json"], 1, "no/such.onnx: "),
        (&["inspect", "--json"], 2, "the following required arguments were not provided"),
        (&["epsilon", "--json", "--sigma", "1"], 2, "unexpected argument '--sigma' found"),
    ];
    for (args, code, start) in cases {
        let output = run(args);
        assert_eq!(output.status.code(), Some(code));
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let message = answer["error"].as_str().unwrap();
        assert!(message.starts_with(start), "{message}");
        assert_eq!(answer.as_object().unwrap().len(), 1);
        assert!(stderr(&output).starts_with(&format!("error: {start}")), "{}", stderr(&output));
    }
}

#[test]
fn paths_of_a_run_file_are_beside_it() {
    let (folder, _) = folder();
    Sketch::normalised().write(folder.path(), "h");
    let digits = Path::new(env!("CARGO_MANIFEST_DIR")).join("../onnx-models/digits");
    fs::create_dir(folder.path().join("digits")).unwrap();
    for entry in fs::read_dir(digits).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
        fs::copy(entry.path(), folder.path().join("digits").join(entry.file_name())).unwrap();
    }
    let file = folder.path().join("run.toml");
    let text = "model = \"sketch.onnx\"\ndata = \"idx:digits\"\nout = \"result\"\nnoise-multiplier = 1.0\nbatch-size = 64\n\
                epochs = 0.1\nlr = 0.5\nbackend = \"tract\"\nworkers = 1\nquiet = true\n";
    fs::write(&file, text).unwrap();
    let output = run(&["train", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(folder.path().join("result/model.onnx").is_file());
    let missing = folder.path().join("other.toml");
    assert_refused(&run(&["train", missing.to_str().unwrap()]), &["other.toml: there is no such file"]);
}
