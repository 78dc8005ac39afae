//! Weights that are tied, or equal by chance.

use super::*;

/// `[rows, columns]` of distinct values, or the transpose.
fn numbers(rows: usize, columns: usize, transposed: bool) -> Vec<f32> {
    let at = |flat: usize| if transposed { flat % rows * columns + flat / rows } else { flat };
    (0..rows * columns).map(|flat| 0.5 + at(flat) as f32).collect()
}

/// Lookup in an embedding matrix, and a product with its transpose as constant folding stores it.
pub(super) fn language_model(copy: &str) -> ModelProto {
    Sketch::new(17, &[N, 8])
        .tensor("embedding.weight", &[8, 3], &numbers(8, 3, false))
        .tensor(copy, &[3, 8], &numbers(8, 3, true))
        .node("MatMul", &["x", "embedding.weight"], "h", &[])
        .node("MatMul", &["h", copy], "y", &[])
        .returns(&["y"])
}

// A tied weight that constant folding stored transposed is one parameter.
#[test]
fn transposed_tied_weight_is_one_parameter() {
    let model = language_model("onnx::MatMul_30");
    let graph = graph(&model).unwrap();
    let names: Vec<&str> = graph.trained().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["embedding.weight"]);
    let ops: Vec<&str> = graph.nodes.iter().map(|node| node.op.as_str()).collect();
    assert_eq!(ops, ["Transpose", "MatMul", "MatMul"]);
    let because = "not trained: tied to 'embedding.weight', transposed; `untie` 'onnx::MatMul_30' if it is not";
    assert_eq!(reason(&model, "onnx::MatMul_30"), (false, because.to_string()));
    // The trained model contains it once.
    let tied = retie(&model, &GraphOptions::default()).unwrap();
    let trained = write_trained(&tied, &[("embedding.weight", &[2.0; 24])]).unwrap();
    let stored: Vec<_> = trained.graph.as_ref().unwrap().initializer.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(stored, ["embedding.weight"]);
    super::graph(&trained).unwrap();
}

#[test]
fn a_tie_is_taken_apart_on_request() {
    let model = language_model("val_9");
    let untied = GraphOptions { untie: vec!["val_9".into()], ..GraphOptions::default() };
    let graph = Graph::from_model(&model, &untied).unwrap();
    let names: Vec<&str> = graph.trained().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["embedding.weight", "val_9"]);
    assert_eq!(
        Graph::from_model(&model, &options(&[], &["val_9"])).unwrap_err().to_string(),
        "`freeze` 'val_9': matches 'val_9', which is tied to 'embedding.weight'; name that one, or take them apart with \
         `untie` 'val_9'"
    );
    let frozen = GraphOptions { freeze: vec!["val_9".into()], ..untied };
    assert_eq!(Graph::from_model(&model, &frozen).unwrap().trained().count(), 1);
}

// Equal values without evidence of a tie do not tie parameters.
#[test]
fn coincidental_equality_ties_nothing() {
    let two = |a: Vec<f32>, b: Vec<f32>, names: [&str; 2]| {
        let side = a.len().isqrt();
        let model = Sketch::new(17, &[N, side])
            .tensor(names[0], &[side, side], &a)
            .tensor(names[1], &[side, side], &b)
            .node("MatMul", &["x", names[0]], "h", &[])
            .node("MatMul", &["h", names[1]], "y", &[])
            .returns(&["y"]);
        graph(&model).unwrap().trained().count()
    };
    let eye: Vec<f32> = (0..36).map(|flat| if flat % 7 == 0 { 1.0 } else { 0.0 }).collect();
    assert_eq!(two(eye.clone(), eye, ["a", "val_9"]), 2);
    assert_eq!(two(vec![0.5; 36], vec![0.5; 36], ["a", "val_9"]), 2);
    // Too few values.
    assert_eq!(two(numbers(3, 3, false), numbers(3, 3, true), ["a", "val_9"]), 2);
    // Layers copied before training.
    assert_eq!(two(numbers(6, 6, false), numbers(6, 6, false), ["a.0.weight", "a.1.weight"]), 2);
    assert_eq!(two(numbers(6, 6, false), numbers(6, 6, true), ["a.0.weight", "b.weight"]), 1);
    assert_eq!(two(numbers(6, 6, false), numbers(6, 6, false), ["a.weight", "onnx::MatMul_7"]), 1);
}

// The node scope separates a folded layer that is applied twice from a copy of it.
#[test]
fn scope_separates_repeated_layer_from_copy() {
    let model = |second: &str| {
        Sketch::new(17, &[N, 6])
            .tensor("onnx::MatMul_5", &[6, 6], &numbers(6, 6, false))
            .node("Identity", &["onnx::MatMul_5"], "onnx::MatMul_7", &[])
            .node("MatMul", &["x", "onnx::MatMul_5"], "/layers.0/linear/MatMul", &[])
            .node("MatMul", &["/layers.0/linear/MatMul", "onnx::MatMul_7"], second, &[])
            .returns(&[second])
    };
    let trained = |model: &ModelProto, options: &GraphOptions| {
        let graph = Graph::from_model(model, options).unwrap();
        graph.trained().map(|p| p.name.clone()).collect::<Vec<_>>()
    };
    let (twice, copied) = (model("/layers.0/linear/MatMul_1"), model("/layers.1/linear/MatMul"));
    let given = GraphOptions::default();
    assert_eq!(trained(&twice, &given), ["onnx::MatMul_5"]);
    assert_eq!(trained(&copied, &given), ["onnx::MatMul_5", "onnx::MatMul_7"]);
    let tie = GraphOptions { tie: vec!["onnx::*".into()], ..given.clone() };
    assert_eq!(trained(&copied, &tie), ["onnx::MatMul_5"]);
    let untie = GraphOptions { untie: vec!["*_7".into()], ..tie };
    assert_eq!(trained(&twice, &untie), ["onnx::MatMul_5", "onnx::MatMul_7"]);
}

// A weight with several readers is one parameter unless it is untied.
#[test]
fn shared_weight_is_one_unless_untied() {
    let model = Sketch::new(17, &[N, 6])
        .tensor("w", &[6, 6], &numbers(6, 6, false))
        .tensor("b", &[6], &[0.0; 6])
        .node("MatMul", &["x", "w"], "first", &[])
        .node("Add", &["first", "b"], "biased", &[])
        .node("MatMul", &["biased", "w"], "second", &[])
        .node("Add", &["second", "b"], "y", &[])
        .returns(&["y"]);
    let trained = |options: &GraphOptions| {
        let graph = Graph::from_model(&model, options).unwrap();
        graph.trained().map(|p| p.name.clone()).collect::<Vec<_>>()
    };
    // The products show that the sums also belong to one layer.
    assert_eq!(trained(&GraphOptions::default()), ["w", "b"]);
    let untie = GraphOptions { untie: vec!["*".into()], ..GraphOptions::default() };
    assert_eq!(trained(&untie), ["w", "w::second", "b", "b::y"]);
    let because =
        "trained: weight of MatMul 'first'; 2 nodes read it: `untie` 'w' if they are layers with equal values";
    assert_eq!(reason(&model, "w"), (true, because.to_string()));
}
