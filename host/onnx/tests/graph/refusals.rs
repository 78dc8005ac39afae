//! Errors and their messages.

use super::*;
use damper_onnx::{make_attr_int as int, make_attr_ints as ints};

pub(super) fn mixes(model: &ModelProto) -> String {
    match graph(model) {
        Err(GraphError::Mixes { node, op, reason, remedy }) => {
            assert!(!remedy.is_empty() && !reason.contains('\n'));
            format!("{node} ({op}): {reason}")
        }
        other => panic!("not refused for mixing samples: {other:?}"),
    }
}

// The error for BatchNormalization names its replacement.
#[test]
fn batch_norm_error_names_replacement() {
    let model = Sketch::new(17, &[N, 4, 3])
        .weight("s", &[4])
        .node("BatchNormalization", &["x", "s", "s", "s", "s"], "y", &[])
        .returns(&["y"]);
    assert_eq!(
        refusal(&model),
        "node 'y' (BatchNormalization): it is trained on statistics of the whole batch, so every sample's gradient \
         depends on the others; replace it on the way with `fix`, or for good with damper fix, or by torch.nn.GroupNorm in the source"
    );
}

// The error for an unknown operator differs from that for a known unsupported operator.
#[test]
fn unknown_operator_has_own_error() {
    let model = Sketch::new(17, &[N, 4]).weight("w", &[4]).node("Det", &["x"], "m", &[]);
    assert_eq!(
        refusal(&model.scaled("m")),
        "node 'm': operator Det has no rule (it reads 'x' [N, 4]); replace it by operators that have \
         one, or export the model without it"
    );
    let mut foreign = Sketch::new(17, &[N, 4]).node("Relu", &["x"], "m", &[]).scaled("m");
    foreign.graph.as_mut().unwrap().node[0].domain = "com.example".into();
    assert!(refusal(&foreign).starts_with("node 'm': operator com.example.Relu has no rule (it reads 'x' [N, 4])"));
}

// Inputs are float32, float64 or int64, and no other type reaches a backend. Before, int32 and bool inputs failed only
// after the data were read.
#[test]
fn inputs_are_floats_or_integers() {
    let cast = |dtype| {
        let input = Sketch { opset: 17, graph: Default::default() }.data("x", dtype, &[N, 4]);
        input.node("Cast", &["x"], "h", &[int("to", 1)]).scaled("h")
    };
    for dtype in [DType::F32, DType::F64, DType::I32, DType::I64, DType::Bool] {
        assert!(graph(&cast(dtype)).is_ok(), "{dtype:?}");
    }
    let of_type = |number: i32, op: &str| {
        let mut model = cast(DType::I64);
        let node = &mut model.graph.as_mut().unwrap().node[0];
        node.op_type = op.into();
        let kind = model.graph.as_mut().unwrap().input[0].r#type.as_mut().unwrap();
        let Some(onnx::pb::type_proto::Value::TensorType(tensor)) = &mut kind.value else { panic!() };
        tensor.elem_type = number;
        model
    };
    // Small integers that are cast become int64. Arithmetic on them would wrap around.
    for (number, name) in [(2, "uint8"), (3, "int8"), (4, "uint16"), (5, "int16"), (12, "uint32")] {
        assert!(graph(&of_type(number, "Cast")).is_ok(), "{name}");
        assert!(refusal(&of_type(number, "Neg")).contains(&format!("elements of type {name}; export")), "{name}");
    }
    assert!(refusal(&of_type(13, "Cast")).contains("elements of type uint64; export"));
}

// An unsupported node is accepted if no output needs it.
#[test]
fn unused_node_may_be_unsupported() {
    let model = Sketch::new(17, &[N, 4]).node("NonZero", &["x"], "unused", &[]).node("Relu", &["x"], "h", &[]);
    assert!(graph(&model.scaled("h")).is_ok());
}

// Reductions and normalisations over samples are errors.
#[test]
fn reductions_over_samples_are_errors() {
    let one = |op: &str, attributes: &[AttributeProto]| {
        mixes(&Sketch::new(17, &[N, 4]).node(op, &["x"], "h", attributes).scaled("h"))
    };
    assert_eq!(one("Softmax", &[int("axis", 0)]), "h (Softmax): it normalises along axis 0, which holds the samples");
    assert_eq!(
        one("LogSoftmax", &[int("axis", -2)]),
        "h (LogSoftmax): it normalises along axis 0, which holds the samples"
    );
    assert_eq!(one("ReduceMean", &[ints("axes", &[0])]), "h (ReduceMean): it reduces over the batch axis 0");
    assert_eq!(one("ReduceMean", &[]), "h (ReduceMean): it reduces over all axes, the batch too");
    assert_eq!(one("ReduceSum", &[]), "h (ReduceSum): it reduces over all axes, the batch too");
}

// Products that contract or cross samples are errors.
#[test]
fn products_across_samples_are_errors() {
    let base = || Sketch::new(17, &[N, 4]).weight("w", &[4, 4]);
    let turned = || base().node("Transpose", &["x"], "t", &[]);
    assert_eq!(
        mixes(&turned().node("MatMul", &["t", "x"], "h", &[]).scaled("h")),
        "h (MatMul): the product sums over the samples of 't'"
    );
    assert_eq!(
        mixes(&turned().node("MatMul", &["x", "t"], "h", &[]).scaled("h")),
        "h (MatMul): it multiplies every sample of 'x' with every sample of 't'"
    );
    assert_eq!(
        mixes(&base().node("Gemm", &["x", "w"], "h", &[int("transA", 1)]).scaled("h")),
        "h (Gemm): the product sums over the samples of 'x'"
    );
    assert_eq!(
        mixes(&base().node("Gemm", &["x", "x"], "h", &[int("transB", 1)]).scaled("h")),
        "h (Gemm): it multiplies every sample of 'x' with every sample of 'x'"
    );
    // All samples in one row is valid ONNX, but every feature of every sample meets the weight.
    let row = base().ints("row", &[1, -1]).node("Reshape", &["x", "row"], "r", &[]);
    assert_eq!(
        mixes(&row.node("Gemm", &["r", "w"], "h", &[]).scaled("h")),
        "h (Gemm): the product sums over the samples of 'r'"
    );
}

// Samples that meet by broadcasting are an error.
#[test]
fn broadcast_across_samples_is_error() {
    let model = Sketch::new(17, &[N, 4])
        .ints("front", &[0])
        .ints("middle", &[1])
        .node("Unsqueeze", &["x", "front"], "a", &[])
        .node("Unsqueeze", &["x", "middle"], "b", &[])
        .node("Sub", &["a", "b"], "h", &[]);
    assert_eq!(
        mixes(&model.scaled("h")),
        "h (Sub): 'a' has its samples along axis 1 of the result and 'b' along axis 0"
    );
    let grouped = Sketch::new(17, &[N, 4])
        .ints("rows", &[-1, 2])
        .node("Transpose", &["x"], "t", &[])
        .node("Reshape", &["t", "rows"], "other", &[])
        .scaled("other");
    assert!(mixes(&grouped).starts_with("other (Reshape): it reshapes [4, N] so that"));
}

// A constant with a row for each sample is an error.
#[test]
fn constant_row_per_sample_is_error() {
    for shape in [&[3, 4][..], &[1, 3, 4]] {
        let model = Sketch::new(17, &[N, 4]).weight("rows", shape).node("Add", &["x", "rows"], "h", &[]);
        let axis = shape.len() - 2;
        assert_eq!(
            mixes(&model.scaled("h")),
            format!("h (Add): 'rows' {shape:?} has different rows along the batch axis {axis}")
        );
    }
}

#[test]
fn selecting_and_joining_samples_is_refused() {
    let base = || Sketch::new(17, &[N, 4]).int("zero", 0).ints("starts", &[0]).ints("ends", &[2]).ints("axes", &[0]);
    assert_eq!(
        mixes(&base().node("Slice", &["x", "starts", "ends", "axes"], "h", &[]).scaled("h")),
        "h (Slice): it selects samples along the batch axis 0"
    );
    assert_eq!(
        mixes(&base().node("Gather", &["x", "zero"], "h", &[int("axis", 0)]).scaled("h")),
        "h (Gather): it picks samples along the batch axis 0"
    );
    assert_eq!(
        mixes(&base().node("Concat", &["x", "x"], "h", &[int("axis", 0)]).scaled("h")),
        "h (Concat): it joins batches along axis 0, which holds the samples"
    );
}

// The number of samples never reaches arithmetic on data.
#[test]
fn batch_size_in_arithmetic_is_error() {
    let model = Sketch::new(17, &[N, 4])
        .int("zero", 0)
        .node("Shape", &["x"], "shape", &[])
        .node("Gather", &["shape", "zero"], "n", &[])
        .node("Cast", &["n"], "count", &[int("to", 1)])
        .node("Div", &["x", "count"], "h", &[])
        .scaled("h");
    assert_eq!(
        mixes(&model),
        "count (Cast): it turns the number of samples into a float, so every sample's result would depend on it"
    );
}

// A reshape without a proven batch axis is an error.
#[test]
fn reshape_without_batch_is_error() {
    let reshape = |x: &[usize], target: &[i64]| {
        mixes(&Sketch::new(17, x).ints("t", target).node("Reshape", &["x", "t"], "h", &[]).scaled("h"))
    };
    assert_eq!(reshape(&[N, 4], &[8, 2]), "h (Reshape): the target [8, 2] of [N, 4] has no entry for the batch");
    assert_eq!(
        reshape(&[N, 4], &[2, -1]),
        "h (Reshape): it reshapes [N, 4] so that a sample's elements leave their place"
    );
    assert_eq!(
        reshape(&[6, 4], &[4, 6]),
        "h (Reshape): no entry of the target [4, 6] of [N, 4] is proven to be the batch"
    );
    let remedy =
        refusal(&Sketch::new(17, &[N, 4]).ints("t", &[8, 2]).node("Reshape", &["x", "t"], "h", &[]).scaled("h"));
    assert!(remedy.contains("dynamic_axes=") && remedy.contains("dynamic_shapes="), "{remedy}");
    let squeezed = Sketch::new(17, &[1, 4]).ints("a", &[0]).node("Squeeze", &["x", "a"], "h", &[]).scaled("h");
    assert_eq!(mixes(&squeezed), "h (Squeeze): it removes axis 0, which holds the samples");
}

// Convolutions and norms need the batch in front.
#[test]
fn conv_and_norm_need_batch_first() {
    let turned = || Sketch::new(17, &[N, 4, 5]).node("Transpose", &["x"], "t", &[ints("perm", &[1, 0, 2])]);
    let conv = turned().weight("w", &[2, 1, 3]).node("Conv", &["t", "w"], "h", &[]);
    assert_eq!(mixes(&conv.scaled("h")), "h (Conv): the samples of 't' lie along axis 1, over which it sums");
    let norm = turned().weight("s", &[1]).node("InstanceNormalization", &["t", "s", "s"], "h", &[]);
    assert_eq!(
        mixes(&norm.scaled("h")),
        "h (InstanceNormalization): it normalises along axis 1, which holds the samples of 't'"
    );
}

#[test]
fn dropout_in_training_mode_is_refused() {
    let mut sketch = Sketch::new(17, &[N, 4]).tensor("ratio", &[], &[0.5]);
    let truth = Tensor { shape: vec![], data: TensorData::Bool(vec![true]) };
    sketch.graph.initializer.push(onnx::make_tensor("training", &truth));
    assert_eq!(
        refusal(&sketch.node("Dropout", &["x", "ratio", "training"], "h", &[]).scaled("h")),
        "node 'h' (Dropout): it is in training mode, so it drops elements at random outside the run's seed; export in \
         evaluation mode (model.eval(), or training=torch.onnx.TrainingMode.EVAL)"
    );
}

// An error about the whole model names the fix.
#[test]
fn model_level_error_names_fix() {
    let model = |opset| Sketch::new(opset, &[N, 4]).node("Relu", &["x"], "h", &[]).scaled("h");
    for opset in [0, 6, 25] {
        assert_eq!(
            refusal(&model(opset)),
            format!(
                "the model uses operator set {opset}, and 7 to 24 are supported; export it with \
                 torch.onnx.export(..., opset_version=17) or dynamo=True and opset_version=18"
            )
        );
    }
    let untrained = Sketch::new(17, &[N, 4]).node("Relu", &["x"], "y", &[]).returns(&["y"]);
    assert_eq!(
        refusal(&untrained),
        "the model 'sketch' has no trainable initializer; export it with export_params=True and \
         keep_initializers_as_inputs=False, or choose some with `train` PATTERN (damper inspect lists them)"
    );
    let reserved = Sketch::new(17, &[N, 4]).weight("dp.w", &[4]).node("Mul", &["x", "dp.w"], "y", &[]).returns(&["y"]);
    assert_eq!(
        refusal(&reserved),
        "the model uses the name 'dp.w', and names that begin with 'dp.' are damper's own; rename it"
    );
    let unequal = Sketch::new(17, &[N, 4]).input("z", &[1, 4]).node("Add", &["x", "z"], "h", &[]).scaled("h");
    assert_eq!(
        refusal(&unequal),
        "input 'x' has a symbolic batch and input 'z' has a batch of 1; export all inputs with a symbolic batch on axis \
         0 (dynamic_axes, or dynamic_shapes with dynamo=True)"
    );
}

// A rewritten node does not use the name of another value.
#[test]
fn rewrite_rejects_taken_value_name() {
    let equation = damper_onnx::make_attr_string("equation", "ni,ij->nj");
    let model = |name: &str| {
        let sketch = Sketch::new(17, &[N, 3]).weight("w", &[3, 3]).int(name, 1);
        sketch.node("Einsum", &["x", "w"], "y", std::slice::from_ref(&equation)).returns(&["y"])
    };
    assert!(graph(&model("y/other")).is_ok());
    let text = refusal(&model("y/1"));
    assert!(text.contains("'y/1'") && text.contains("'y' (Einsum)") && text.contains("rename"), "{text}");
}

// Axes are read only from the location that the opset defines.
#[test]
fn axes_are_read_per_operator_set() {
    // A runtime that reads the other location would sum over the samples.
    let axes = |axis: i64| [damper_onnx::make_attr_ints("axes", &[axis])];
    let both = |opset: i64, op: &str, inputs: &[&str]| {
        let sketch = Sketch::new(opset, &[N, 3]).ints("one", &[1]);
        refusal(&sketch.node(op, inputs, "h", &axes(0)).scaled("h"))
    };
    assert!(both(17, "ReduceSum", &["x", "one"]).contains("its axes are an attribute"));
    assert!(both(17, "ReduceSum", &["x"]).contains("its axes are an attribute"));
    assert!(both(18, "ReduceMean", &["x"]).contains("its axes are an attribute"));
    assert!(both(17, "ReduceMean", &["x", "one"]).contains("its axes are an attribute"));
    assert!(graph(&Sketch::new(17, &[N, 3]).node("ReduceMean", &["x"], "h", &axes(1)).scaled("h")).is_ok());
}

// An integer divisor must be a positive constant, so that no sample can abort the run.
#[test]
fn integer_divisor_is_positive_constant() {
    let model = |op: &str, divisor: &str| {
        let sketch = Sketch::new(17, &[N, 3]).ids("ids", &[N, 3]).int("two", 2).int("zero", 0).int("minus", -1);
        let sketch = sketch.node(op, &["ids", divisor], "q", &[]);
        sketch.node("Cast", &["q"], "f", &[damper_onnx::make_attr_int("to", 1)]).node("Add", &["x", "f"], "h", &[])
    };
    for op in ["Div", "Mod"] {
        assert!(graph(&model(op, "two").scaled("h")).is_ok());
        for divisor in ["zero", "minus", "ids"] {
            assert!(refusal(&model(op, divisor).scaled("h")).contains("would end the run"), "{op} {divisor}");
        }
    }
}
