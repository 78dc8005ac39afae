//! Values computed from parameters, folded tables, and constants in nodes.

use super::*;

// A value computed from parameters, not only moved, is trained in this form, and a warning names it.
#[test]
fn computed_weights_are_named() {
    let model = |value: &str, from: &str| {
        let reads = call("y", "aten.linear.default", "%x, %p_fc_weight");
        Sketch::new(18, &[N, 4])
            .weight(value, &[4, 3])
            .folded(value, from)
            .signature(&[("PARAMETER", "fc.weight"), ("PARAMETER", "fc.gain"), ("BUFFER", "index")])
            .called("MatMul", &["x", value], "y", &reads)
            .returns(&["y"])
    };
    let sums: String = (0..20).map(|at| format!(", 'val_{at}'")).collect();
    let standardised = format!("['fc.weight', 'getitem_3'{sums}]");
    for (value, from, is_computed) in [
        ("val_0", "['fc.weight']", false),
        ("view", "['fc.weight', 'getitem_3', 'val_1', 'val_2']", false),
        ("val_0", "['fc.weight', 'index', 'slice_1', 'add_2']", false),
        ("mul_3", "['fc.weight']", true),
        ("exp", "['fc.weight']", true),
        ("view", "['fc.weight', 'linalg_vector_norm_1']", true),
        ("val_0", "['fc.gain', 'fc.weight']", true),
        ("view", &standardised, true),
    ] {
        let model = read(&model(value, from));
        let warnings = Graph::from_model(&model, &GraphOptions::default()).unwrap().warnings;
        let named = warnings.iter().any(|line| line.contains("as the exporter computed it"));
        assert_eq!(named, is_computed, "{value} {from}: {warnings:?}");
        assert_eq!(names(&model).contains(&"fc.weight".to_string()), !is_computed, "{value} {from}");
    }
}

// If the exporter recorded it, a table may be looked up at any positions, not only at square positions.
#[test]
fn a_recorded_table_may_have_any_places() {
    let number = |flat: usize| 0.1 * ((flat / 6 * 31 + (flat % 6) / 2 * 17) % 23) as f32 - 0.7;
    let model = Sketch::new(18, &[N, 2, 2, 3])
        .tensor("index", &[2, 2, 3], &(0..12).map(number).collect::<Vec<_>>())
        .folded("index", "['attn.table', 'attn.places']")
        .signature(&[("PARAMETER", "attn.table"), ("BUFFER", "attn.places")])
        .called("Add", &["x", "index"], "s", &call("s", "aten.add.Tensor", "%x, %index"))
        .called("Softmax", &["s"], "y", &call("y", "aten.softmax.int", "%s"))
        .returns(&["y"]);
    assert_eq!(trained(&model), [("attn.table".to_string(), 6)]);
    computes_the_same(&model);
}

// A class token that the exporter expanded to the batch is one token, even if it is zero. A scale of 1 keeps its shape.
#[test]
fn expanded_token_is_one_token() {
    let model = |op: &str, number: &dyn Fn(usize) -> f32| {
        let whole: Vec<f32> = (0..8).map(number).collect();
        let mut model = Sketch::new(18, &[2, 1, 4])
            .tensor("expand", &[2, 1, 4], &whole)
            .folded("expand", "['token']")
            .signature(&[("PARAMETER", "token")])
            .called(op, &["expand", "x"], "y", &call("y", "aten.cat.default", "%expand, %x"))
            .returns(&["y"]);
        if op == "Concat" {
            model.graph.as_mut().unwrap().node[0].attribute = vec![onnx::make_attr_int("axis", 1)];
        }
        model
    };
    for scale in [0.3, 0.0] {
        let model = model("Concat", &|at| scale * (at % 4) as f32);
        assert_eq!(trained(&model), [("token".to_string(), 4)]);
        let all = all(&model, &GraphOptions::default());
        assert_eq!(all.iter().find(|one| one.trained).unwrap().shape, [1, 1, 4]);
    }
    assert_eq!(trained(&model("Mul", &|_| 1.0)), [("token".to_string(), 8)]);
    // The same holds for zeros under another name.
    let mut zeros = model("Concat", &|_| 0.0);
    let graph = zeros.graph.as_mut().unwrap();
    graph.initializer[0].name = "val_0".into();
    graph.value_info[0].name = "val_0".into();
    graph.node[0].input[0] = "val_0".into();
    assert_eq!(trained(&zeros), [("token".to_string(), 8)]);
}

// A layer on a constant: a table of coordinates, or learned queries. It is trained, and a warning names it.
#[test]
fn constant_in_place_of_data_is_named() {
    let model = Sketch::new(17, &[N, 3])
        .weight("coordinates", &[2, 4])
        .weight("mlp.weight", &[4, 3])
        .at("/mlp/MatMul", "MatMul", &["coordinates", "mlp.weight"], "table")
        .at("/MatMul", "Einsum", &["x", "table"], "y");
    let mut model = model.returns(&["y"]);
    let equation = onnx::make_attr_string("equation", "ni,ji->nj");
    model.graph.as_mut().unwrap().node[1].attribute = vec![equation];
    assert_eq!(names(&model), ["coordinates", "mlp.weight"]);
    let warnings = Graph::from_model(&read(&model), &GraphOptions::default()).unwrap().warnings;
    assert!(warnings[0].starts_with("'coordinates': trained, though it may be a constant"), "{warnings:?}");
}

// Two nodes of a call read the same weight: its shape, and its values.
#[test]
fn weight_of_two_nodes_of_a_call_is_trained() {
    let reads = call("y", "aten.linear.default", "%x, %p_fc_weight");
    let model = Sketch::new(18, &[N, 4])
        .weight("fc.weight", &[4, 3])
        .weight("val_2", &[4])
        .signature(&[("PARAMETER", "fc.weight")])
        .called("Shape", &["fc.weight"], "val_0", &reads)
        .called("MatMul", &["x", "fc.weight"], "y", &reads)
        .returns(&["y"]);
    assert_eq!(names(&model), ["fc.weight"]);
    computes_the_same(&model);
}

// Optimizers keep `folded_from` and drop the signature. Then a weight may have been a parameter.
#[test]
fn record_without_signature_decides_nothing() {
    let model = Sketch::new(18, &[N, 4])
        .weight("val_19", &[4, 3])
        .folded("val_19", "['attn.in_proj_weight', 'val_12']")
        .called("MatMul", &["x", "val_19"], "y", &call("y", "aten.matmul.default", "%x, %t"))
        .returns(&["y"]);
    assert_eq!(names(&model), ["val_19"]);
}

// Tensors that paddle2onnx named after calls are constants.
#[test]
fn names_of_paddle_calls_are_invented() {
    let model = |name: &str| {
        Sketch::new(17, &[N, 4])
            .weight("linear_0.w_0", &[4, 3])
            .tensor(name, &[1], &[0.0])
            .at("MatMul.0", "MatMul", &["x", "linear_0.w_0"], "h")
            .at("Add.0", "Add", &["h", name], "y")
            .returns(&["y"])
    };
    assert_eq!(names(&model("p2o.pd_op.full.2.0")), names(&model("full")));
    assert_eq!(names(&model("p2o.bias")), ["linear_0.w_0", "p2o.bias"]);
}

// A bias along the channels of a convolution is a bias, although a softmax follows.
#[test]
fn convolution_bias_is_trained() {
    let model = |shape: &[usize]| {
        let mut model = Sketch::new(17, &[N, 2, 5])
            .weight("kernel", &[3, 2, 1])
            .weight("const_fold_opt__176", shape)
            .at("conv1d/BiasAdd", "Conv", &["x", "kernel"], "h")
            .at("conv1d/Add", "Add", &["h", "const_fold_opt__176"], "s")
            .at("Softmax", "Softmax", &["s"], "y")
            .returns(&["y"]);
        model.graph.as_mut().unwrap().node[2].attribute = vec![onnx::make_attr_int("axis", 1)];
        model
    };
    assert_eq!(names(&model(&[1, 3, 1])), ["const_fold_opt__176", "kernel"]);
    // A table of scores is not a bias, and neither are values along another axis than the channels.
    for shape in [[1, 3, 5], [1, 2, 1], [2, 1, 1]] {
        assert_eq!(names(&model(&shape)), ["kernel"], "{shape:?}");
    }
}

// A warning names a constant that a layer reads as its weight. It is trained on request.
#[test]
fn constant_weights_are_named() {
    let head = onnx::make_tensor_f32("", &[3, 2], &[0.5, 0.25, -0.5, 1.0, 0.125, 2.0]);
    let mut model = Sketch::new(17, &[N, 4])
        .weight("fc.weight", &[4, 3])
        .at("/fc/MatMul", "MatMul", &["x", "fc.weight"], "h")
        .at("/Constant", "Constant", &[], "/Constant_output_0")
        .at("/MatMul", "MatMul", &["h", "/Constant_output_0"], "y")
        .returns(&["y"]);
    model.graph.as_mut().unwrap().node[1].attribute = vec![onnx::make_attr_tensor("value", head)];
    let graph = Graph::from_model(&read(&model), &GraphOptions::default()).unwrap();
    let warned = |line: &String| line.starts_with("'/Constant_output_0': not trained, for they are constants");
    assert!(graph.warnings.iter().any(warned), "{:?}", graph.warnings);
    assert_eq!(names(&model), ["fc.weight"]);
    let asked = GraphOptions { train: vec!["/Constant_output_0".into()], ..GraphOptions::default() };
    let graph = Graph::from_model(&read(&model), &asked).unwrap();
    assert_eq!(graph.trained().count(), 2);
    assert!(!graph.warnings.iter().any(warned), "{:?}", graph.warnings);
}
