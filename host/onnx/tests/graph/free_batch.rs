//! Models with a fixed batch, rewritten for any batch. tract runs both, and the rows must be equal.

use super::*;
use damper_onnx::graph::free_batch;
use damper_onnx::make_attr_int as int;

/// Model for any batch.
fn freed(model: &ModelProto) -> ModelProto {
    free_batch(model, &graph(model).unwrap(), &GraphOptions::default()).unwrap().expect("the batch is fixed")
}

/// Runs `model` with its own batch size, and its rewritten form with others. The first rows must be equal, and samples
/// must not affect each other.
fn check(model: &ModelProto, batch: usize) {
    let (own, free) = (graph(model).unwrap(), freed(model));
    let other = graph(&free).unwrap();
    assert_eq!(free_batch(&free, &other, &GraphOptions::default()), Ok(None));
    let wanted = ["y".to_string()];
    let fixed = run(model, &own, batch, usize::MAX, &wanted).remove(0).1;
    for n in [1, batch, batch + 3] {
        let (shape, rows) = run(&free, &other, n, usize::MAX, &wanted).remove(0);
        assert_eq!(shape[0], n);
        let width = rows.len() / n;
        let both = batch.min(n) * width;
        assert_eq!(rows[..both], fixed[..both], "batch {n}");
    }
    examine(&free, &other, batch + 3);
}

#[test]
fn targets_of_reshapes_are_freed() {
    let model = Sketch::new(17, &[4, 2, 3])
        .weight("w", &[6, 5])
        .ints("flat", &[4, 6])
        .ints("again", &[4, 5])
        .ints("wide", &[4, 1, 5])
        .node("Reshape", &["x", "flat"], "f", &[])
        .node("MatMul", &["f", "w"], "h", &[])
        // Changes nothing, and also contains the batch size.
        .node("Reshape", &["h", "again"], "same", &[])
        .node("Reshape", &["same", "wide"], "spread", &[])
        .node("Tanh", &["spread"], "t", &[])
        .node("Identity", &["t"], "y", &[])
        .returns(&["y"]);
    check(&model, 4);
}

#[test]
fn a_class_token_goes_to_every_sample() {
    let model = Sketch::new(17, &[1, 4, 3])
        .weight("w", &[3, 3])
        .weight("token", &[1, 1, 3])
        .ints("target", &[1, 1, 3])
        .node("MatMul", &["x", "w"], "h", &[])
        .node("Expand", &["token", "target"], "first", &[])
        .node("Concat", &["first", "h"], "y", &[int("axis", 1)])
        .returns(&["y"]);
    check(&model, 1);
}

#[test]
fn a_batch_that_stays_fixed_is_told() {
    // A slice that keeps all of four samples would drop the fifth.
    let model = Sketch::new(17, &[4, 3])
        .weight("w", &[3, 3])
        .ints("zero", &[0])
        .ints("four", &[4])
        .node("Slice", &["x", "zero", "four", "zero"], "all", &[])
        .node("MatMul", &["all", "w"], "y", &[])
        .returns(&["y"]);
    let reason = free_batch(&model, &graph(&model).unwrap(), &GraphOptions::default()).unwrap_err();
    assert!(reason.contains("'all' (Slice)"), "{reason}");
    let symbolic = Sketch::new(17, &[N, 3]).weight("w", &[3, 3]).node("MatMul", &["x", "w"], "y", &[]).returns(&["y"]);
    assert_eq!(free_batch(&symbolic, &graph(&symbolic).unwrap(), &GraphOptions::default()), Ok(None));
}
