//! Parameters as in the source, by the record of PyTorch's exporters.

use super::*;
use damper_onnx::graph::{Initializer, initializers, retie};
use damper_onnx::pb::StringStringEntryProto;
use damper_onnx::{decode, encode};

mod constants;

const CALL: &str = "pkg.torch.onnx.fx_node";

fn entry(key: &str, value: &str) -> StringStringEntryProto {
    StringStringEntryProto { key: key.into(), value: value.into() }
}

/// Text of a call: `layer_norm` of `aten.layer_norm.default(%x, %p_a)`.
fn call(output: &str, target: &str, arguments: &str) -> String {
    format!("%{output} : [num_users=1] = call_function[target=torch.ops.{target}](args = ({arguments}), kwargs = {{}})")
}

impl Sketch {
    /// Adds a node of the dynamo exporter that belongs to a call.
    fn called(mut self, op: &str, inputs: &[&str], output: &str, call: &str) -> Sketch {
        let name = format!("node_{output}");
        let mut node = onnx::make_node(op, &name, inputs, &[output], vec![]);
        node.metadata_props = vec![entry(CALL, call)];
        self.graph.node.push(node);
        self
    }

    /// Adds a node of the TorchScript exporter with the name `name`, including its path.
    fn at(mut self, name: &str, op: &str, inputs: &[&str], output: &str) -> Sketch {
        self.graph.node.push(onnx::make_node(op, name, inputs, &[output], vec![]));
        self
    }

    /// Adds a metadata entry to an initializer.
    fn says(mut self, name: &str, key: &str, value: &str) -> Sketch {
        let mut info = onnx::make_value_info(name, DType::F32, &[]);
        info.metadata_props = vec![entry(key, value)];
        self.graph.value_info.push(info);
        self
    }

    fn folded(self, name: &str, from: &str) -> Sketch {
        self.says(name, "pkg.onnxscript.optimizer.folded_from", from)
    }

    /// Adds the source's tensors: `("PARAMETER", "fc.weight")`.
    fn signature(mut self, tensors: &[(&str, &str)]) -> Sketch {
        let line = |(kind, name): &(&str, &str)| {
            let prefix = if *kind == "PARAMETER" { 'p' } else { 'b' };
            format!("{prefix}_{}: {kind} target='{name}'\n", name.replace('.', "_"))
        };
        let text: String = tensors.iter().map(line).collect();
        self.graph
            .metadata_props
            .push(entry("pkg.torch.export.ExportedProgram.graph_signature", &format!("\n# inputs\n{text}")));
        self
    }
}

/// The model after encoding and decoding.
fn read(model: &ModelProto) -> ModelProto {
    decode("model.onnx", &encode(model)).unwrap()
}

fn all(model: &ModelProto, options: &GraphOptions) -> Vec<Initializer> {
    initializers(&read(model), options).unwrap()
}

/// Names and sizes of the trained parameters, in alphabetical order.
fn trained(model: &ModelProto) -> Vec<(String, usize)> {
    let trained = all(model, &GraphOptions::default()).into_iter().filter(|one| one.trained);
    let mut found: Vec<_> = trained.map(|one| (one.name, one.shape.iter().product())).collect();
    found.sort();
    found
}

fn names(model: &ModelProto) -> Vec<String> {
    trained(model).into_iter().map(|(name, _)| name).collect()
}

/// Checks in tract that restoring the model does not change its outputs.
fn computes_the_same(model: &ModelProto) {
    let restored = read(model);
    let built = Graph::from_model(&restored, &GraphOptions::default()).unwrap();
    let outputs: Vec<String> = built.outputs.iter().map(|id| built.value(*id).name.clone()).collect();
    assert_eq!(run(model, &built, 3, 0, &outputs), run(&restored, &built, 3, 0, &outputs));
    // Decoding again gives the same model.
    assert_eq!(read(&restored), restored);
}

/// Two norms and a product with equal values that the exporter merged, with a constant among them.
fn merged() -> ModelProto {
    let norm =
        |at: &str, x: &str| call(at, "aten.layer_norm.default", &format!("%{x}, [4], %p_{at}_weight, %p_{at}_bias"));
    Sketch::new(18, &[N, 3, 4])
        .tensor("a.weight", &[4], &[1.0; 4])
        .tensor("a.bias", &[4], &[0.0; 4])
        .weight("val_0", &[4, 4])
        .folded("val_0", "['fc.weight']")
        .signature(&[
            ("PARAMETER", "a.weight"),
            ("PARAMETER", "a.bias"),
            ("PARAMETER", "fc.weight"),
            ("PARAMETER", "fc.bias"),
            ("PARAMETER", "b.weight"),
            ("PARAMETER", "b.bias"),
        ])
        .called("LayerNormalization", &["x", "a.weight", "a.bias"], "a", &norm("a", "x"))
        .called("MatMul", &["a", "val_0"], "val_1", &call("fc", "aten.linear.default", "%a, %p_fc_weight, %p_fc_bias"))
        .called("Add", &["val_1", "a.bias"], "fc", &call("fc", "aten.linear.default", "%a, %p_fc_weight, %p_fc_bias"))
        .called("LayerNormalization", &["fc", "a.weight", "a.bias"], "b", &norm("b", "fc"))
        .called("Add", &["b", "a.bias"], "y", &call("y", "aten.add.Tensor", "%b, %fc"))
        .returns(&["y"])
}

// Each layer's scale and bias gets its name, although the exporter stored one tensor of equal value. A tensor that no
// call names is a constant.
#[test]
fn merged_initializers_are_taken_apart() {
    let model = merged();
    let expected = [("a.bias", 4), ("a.weight", 4), ("b.bias", 4), ("b.weight", 4), ("fc.bias", 4), ("fc.weight", 16)];
    assert_eq!(trained(&model), expected.map(|(name, size)| (name.to_string(), size)));
    let constant = all(&model, &GraphOptions::default()).into_iter().find(|one| one.name == "a.bias/constant").unwrap();
    assert_eq!((constant.trained, &*constant.reason), (false, "not trained: a buffer or a constant of the source"));
    computes_the_same(&model);
    // The decisions are certain, so there is nothing to warn of.
    assert_eq!(Graph::from_model(&read(&model), &GraphOptions::default()).unwrap().warnings, Vec::<String>::new());
}

// A zero bias that the exporter dropped is restored. A layer without a bias stays without.
#[test]
fn dropped_biases_are_restored() {
    let model = Sketch::new(18, &[N, 4])
        .weight("a.weight", &[4, 3])
        .weight("b.weight", &[3, 2])
        .signature(&[("PARAMETER", "a.weight"), ("PARAMETER", "a.bias"), ("PARAMETER", "b.weight")])
        .called("Gemm", &["x", "a.weight"], "a", &call("a", "aten.linear.default", "%x, %p_a_weight, %p_a_bias"))
        .called("Gemm", &["a", "b.weight"], "y", &call("y", "aten.linear.default", "%a, %p_b_weight"))
        .returns(&["y"]);
    assert_eq!(trained(&model), [("a.bias", 3), ("a.weight", 12), ("b.weight", 6)].map(|(n, s)| (n.to_string(), s)));
    computes_the_same(&model);
}

/// Square weight of equal values, folded for each of two uses, and looked up.
fn shared(value: f32) -> ModelProto {
    let linear = |output: &str, x: &str| call(output, "aten.linear.default", &format!("%{x}, %p_table_weight"));
    Sketch::new(18, &[N, 4])
        .tensor("table.weight", &[4, 4], &[value; 16])
        .tensor("val_0", &[4, 4], &[value; 16])
        .tensor("val_1", &[4, 4], &[value; 16])
        .folded("val_0", "['table.weight']")
        .folded("val_1", "['table.weight']")
        .signature(&[("PARAMETER", "table.weight")])
        .called("MatMul", &["x", "table.weight"], "h", &call("h", "aten.mm.default", "%x, %p_table_weight"))
        .called("MatMul", &["h", "val_0"], "i", &linear("i", "h"))
        .called("MatMul", &["i", "val_1"], "y", &linear("y", "i"))
        .returns(&["y"])
}

// Copies of one origin are one weight, whatever their values. A folded copy has another layout.
#[test]
fn copies_of_one_origin_are_one_weight() {
    for value in [0.0, 0.5] {
        let model = shared(value);
        assert_eq!(trained(&model), [("table.weight".to_string(), 16)]);
        let tied = retie(&read(&model), &GraphOptions::default()).unwrap().into_owned();
        let exchanges = tied.graph.unwrap().node.iter().filter(|node| node.op_type == "Transpose").count();
        assert_eq!(exchanges, 2);
    }
    // Untied copies have the origin's name followed by their own.
    for pattern in ["table.weight/*", "val_*"] {
        let options = GraphOptions { untie: vec![pattern.into()], ..GraphOptions::default() };
        let count = all(&shared(0.5), &options).into_iter().filter(|one| one.trained).count();
        assert_eq!(count, 3, "{pattern}");
    }
}

// Two parts of one parameter stay two, and get its name.
#[test]
fn pieces_of_one_parameter_stay_apart() {
    let model = Sketch::new(18, &[N, 4])
        .weight("val_0", &[4, 3])
        .tensor("val_1", &[3, 4], &[0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0])
        .folded("val_0", "['pair']")
        .folded("val_1", "['pair', 'val_9']")
        .signature(&[("PARAMETER", "pair")])
        .called("MatMul", &["x", "val_0"], "h", &call("h", "aten.matmul.default", "%x, %permute"))
        .called("MatMul", &["h", "val_1"], "y", &call("y", "aten.matmul.default", "%h, %permute_1"))
        .returns(&["y"]);
    assert_eq!(names(&model), ["pair/val_0", "pair/val_1"]);
}

// A buffer is never a parameter. A parameter is trained even if it only scales an input.
#[test]
fn the_record_decides_what_is_trained() {
    let model = Sketch::new(18, &[N, 4])
        .weight("mean", &[4])
        .weight("gain", &[4])
        .weight("val_0", &[4])
        .folded("val_0", "['mean', 'val_7']")
        .signature(&[("BUFFER", "mean"), ("PARAMETER", "gain")])
        .called("Mul", &["x", "gain"], "g", &call("g", "aten.mul.Tensor", "%x, %p_gain"))
        .called("Tanh", &["g"], "t", &call("t", "aten.tanh.default", "%g"))
        .called("Mul", &["t", "mean"], "h", &call("h", "aten.mul.Tensor", "%t, %b_mean"))
        .called("Mul", &["h", "val_0"], "y", &call("y", "aten.mul.Tensor", "%h, %val_0"))
        .returns(&["y"]);
    assert_eq!(names(&model), ["gain"]);
    let options = GraphOptions { train: vec!["mean".into()], ..GraphOptions::default() };
    assert_eq!(all(&model, &options).into_iter().filter(|one| one.trained).count(), 2);
}

// TorchScript's weights get the names of the modules that read them. A weight with two readers in one module is one
// parameter.
#[test]
fn torchscript_weight_is_named_after_module() {
    let model = Sketch::new(17, &[N, 5, 6])
        .weight("onnx::MatMul_8", &[6, 6])
        .weight("fc.bias", &[6])
        .tensor("ln.weight", &[6], &[1.0; 6])
        .tensor("ln.bias", &[6], &[0.0; 6])
        .weight("onnx::MatMul_9", &[6, 4])
        .at("Identity_1", "Identity", &["onnx::MatMul_8"], "onnx::MatMul_10")
        .at("/fc/MatMul", "MatMul", &["x", "onnx::MatMul_8"], "/fc/MatMul_output_0")
        .at("/fc/Add", "Add", &["fc.bias", "/fc/MatMul_output_0"], "/fc/Add_output_0")
        .at("/ln/LayerNormalization", "LayerNormalization", &["/fc/Add_output_0", "ln.weight", "ln.bias"], "/ln/y")
        .at("/fc_1/MatMul", "MatMul", &["/ln/y", "onnx::MatMul_10"], "/fc_1/MatMul_output_0")
        .at("/fc_1/Add", "Add", &["fc.bias", "/fc_1/MatMul_output_0"], "/fc_1/Add_output_0")
        .at(
            "/ln_1/LayerNormalization",
            "LayerNormalization",
            &["/fc_1/Add_output_0", "ln.weight", "ln.bias"],
            "/ln_1/y",
        )
        .at("/heads/heads.0/query/MatMul", "MatMul", &["/ln_1/y", "onnx::MatMul_9"], "y")
        .returns(&["y"]);
    assert_eq!(names(&model), ["fc.bias", "fc.weight", "heads.0.query.weight", "ln.bias", "ln.weight"]);
    assert_eq!(Graph::from_model(&read(&model), &GraphOptions::default()).unwrap().warnings, Vec::<String>::new());
    computes_the_same(&model);
    // Patterns may use the name in the source or in the file.
    for pattern in ["*query*", "onnx::MatMul_9"] {
        let options = GraphOptions { only: vec![pattern.into()], ..GraphOptions::default() };
        let only: Vec<_> = all(&model, &options).into_iter().filter(|one| one.trained).map(|one| one.name).collect();
        assert_eq!(only, ["heads.0.query.weight"], "{pattern}");
    }
    let none = GraphOptions { freeze: vec!["*positions*".into()], ..GraphOptions::default() };
    assert!(initializers(&read(&model), &none).unwrap_err().to_string().contains("matches no initializer"));
}

/// The same values twice under exporters' names, in modules `first` and `second`.
fn twice(first: &str, second: &str) -> ModelProto {
    Sketch::new(17, &[N, 6])
        .weight("onnx::MatMul_8", &[6, 6])
        .weight("onnx::MatMul_9", &[6, 6])
        .at(&format!("/{first}/MatMul"), "MatMul", &["x", "onnx::MatMul_8"], "h")
        .at("/Tanh", "Tanh", &["h"], "t")
        .at(&format!("/{second}/MatMul"), "MatMul", &["t", "onnx::MatMul_9"], "y")
        .returns(&["y"])
}

// Equal weights of one module are one parameter. Those of two modules may be copies, and a warning names them.
#[test]
fn equal_weights_are_one_or_named() {
    assert_eq!(names(&twice("layer.0/fc", "layer.0_1/fc")), ["layer.0.fc.weight"]);
    assert_eq!(names(&twice("fc", "fc_1")), ["fc.weight"]);
    let copies = twice("layer.0/fc", "layer.1/fc");
    assert_eq!(names(&copies), ["layer.0.fc.weight", "layer.1.fc.weight"]);
    let warnings = Graph::from_model(&read(&copies), &GraphOptions::default()).unwrap().warnings;
    let [line] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert!(
        line.starts_with("'layer.0.fc.weight', 'layer.1.fc.weight': trained apart from weights of equal values"),
        "{line}"
    );
}

/// A bias of scores `[1, heads, places, places]`, folded into the file.
fn scores(bias: &[f32], heads: usize, places: usize) -> ModelProto {
    Sketch::new(17, &[N, heads, places, 3])
        .weight("key.weight", &[3, places])
        .tensor("onnx::Add_7", &[1, heads, places, places], bias)
        .at("/attn/MatMul", "MatMul", &["x", "key.weight"], "s")
        .at("/attn/Add", "Add", &["s", "onnx::Add_7"], "b")
        .at("/attn/Softmax", "Softmax", &["b"], "y")
        .returns(&["y"])
}

// A folded lookup of relative positions becomes a table again, with each value trained once.
#[test]
fn folded_tables_are_tables_again() {
    let places = 4;
    for heads in [1, 2] {
        let number = |head: usize, row: usize, column: usize| {
            0.1 * ((head * 31 + (row + places - column) * 17) % 23) as f32 - 0.7
        };
        let flat = (0..heads * places * places).map(|at| number(at / 16, at / 4 % 4, at % 4));
        let model = scores(&flat.collect::<Vec<_>>(), heads, places);
        assert_eq!(trained(&model), [("attn.table".to_string(), heads * 7), ("key.weight".to_string(), 12)]);
        computes_the_same(&model);
    }
}

// Masks, distance slopes and zeros added to scores are not weights, and a warning names them.
#[test]
fn constants_of_scores_are_not_trained() {
    let at = |flat: usize| (flat / 16, flat / 4 % 4, flat % 4);
    let mask = |flat: usize| if (at(flat).1 < 2) == (at(flat).2 < 2) { 0.0f32 } else { -100.0 };
    let slopes = |flat: usize| -(at(flat).1.abs_diff(at(flat).2) as f32) * 0.5f32.powi(at(flat).0 as i32 + 1);
    for bias in [&mask as &dyn Fn(usize) -> f32, &slopes, &|_| 0.0] {
        let model = scores(&(0..32).map(bias).collect::<Vec<_>>(), 2, 4);
        assert_eq!(names(&model), ["key.weight"]);
        let warnings = Graph::from_model(&read(&model), &GraphOptions::default()).unwrap().warnings;
        assert!(
            warnings[0].starts_with("'onnx::Add_7': not trained, for it is added to scores or outputs"),
            "{warnings:?}"
        );
        let asked = GraphOptions { train: vec!["onnx::Add_7".into()], ..GraphOptions::default() };
        assert_eq!(all(&model, &asked).into_iter().filter(|one| one.trained).count(), 2);
    }
}

// A buffer added to outputs is not a weight. A layer's bias is.
#[test]
fn buffer_added_to_outputs_is_not_trained() {
    let model = |shape: &[usize]| {
        Sketch::new(17, &[N, 3])
            .weight("head.weight", &[3, 4])
            .weight("net.own", shape)
            .at("/head/MatMul", "MatMul", &["x", "head.weight"], "h")
            .at("/Add", "Add", &["h", "net.own"], "y")
            .returns(&["y"])
    };
    assert_eq!(names(&model(&[4])), ["head.weight", "net.own"]);
    assert_eq!(names(&model(&[1, 4])), ["head.weight"]);
}

// The key bias in a folded bias of query, key and value is a buffer of zeros.
#[test]
fn zeros_between_biases_are_a_constant() {
    let bias = [0.5, 0.75, 0.0, 0.0, -0.5, 1.0];
    let model = Sketch::new(17, &[N, 3])
        .weight("onnx::MatMul_3", &[3, 6])
        .tensor("onnx::Add_4", &[6], &bias)
        .at("/attn/MatMul", "MatMul", &["x", "onnx::MatMul_3"], "h")
        .at("/attn/Add", "Add", &["h", "onnx::Add_4"], "y")
        .returns(&["y"]);
    assert_eq!(
        trained(&model),
        [("attn.bias.query", 2), ("attn.bias.value", 2), ("attn.weight", 18)].map(|(n, s)| (n.to_string(), s))
    );
    computes_the_same(&model);
    // With the record, all of them may be zeros.
    let model = Sketch::new(18, &[N, 3])
        .weight("fc", &[3, 6])
        .tensor("cat", &[6], &[0.0; 6])
        .folded("cat", "['attn.k_bias', 'attn.q_bias', 'attn.v_bias']")
        .signature(&[
            ("PARAMETER", "fc"),
            ("PARAMETER", "attn.q_bias"),
            ("BUFFER", "attn.k_bias"),
            ("PARAMETER", "attn.v_bias"),
        ])
        .called("MatMul", &["x", "fc"], "h", &call("h", "aten.linear.default", "%x, %p_fc, %cat"))
        .called("Add", &["h", "cat"], "y", &call("h", "aten.linear.default", "%x, %p_fc, %cat"))
        .returns(&["y"]);
    assert_eq!(names(&model), ["attn.q_bias", "attn.v_bias", "fc"]);
    computes_the_same(&model);
}
