//! Properties of every backend, on models built by hand.

mod sums;
mod uneven_pads;

use super::*;
use damper_onnx::graph::DType;
use damper_onnx::{Dim, Extent, TensorRef, TensorSpec, make_value_info, pb};
use damper_testing::Random;

/// Skips a test that needs onnxruntime. The printed reason omits the searched locations.
pub(crate) fn skip(error: &BackendError) {
    damper_testing::skip("ort", error.0.split(" (").next().unwrap_or_default());
}

/// All available backends. Prints the reason if onnxruntime is missing.
fn backends() -> Vec<Box<dyn Backend>> {
    let mut all = vec![open(Choice::Tract).unwrap(), open(Choice::Portable).unwrap()];
    match open(Choice::Ort) {
        Ok(ort) => all.extend([ort, open(Choice::OrtStandard).unwrap()]),
        Err(error) => skip(&error),
    }
    all
}

fn spec(name: &str, shape: &[Dim]) -> TensorSpec {
    TensorSpec { name: name.into(), dtype: DType::F32, shape: shape.to_vec() }
}

fn labels(name: &str) -> TensorSpec {
    TensorSpec { name: name.into(), dtype: DType::I64, shape: vec![Dim::Batch] }
}

fn value(spec: &TensorSpec) -> pb::ValueInfoProto {
    let extent = |dim: &Dim| match dim {
        Dim::Batch => Extent::Batch,
        Dim::Fixed(extent) => Extent::Fixed(*extent),
    };
    make_value_info(&spec.name, spec.dtype, &spec.shape.iter().map(extent).collect::<Vec<_>>())
}

fn node(op: &str, inputs: &[&str], output: &str, ints: &[(&str, &[i64])]) -> pb::NodeProto {
    pb::NodeProto {
        name: format!("node_{output}"),
        op_type: op.into(),
        input: inputs.iter().map(|name| name.to_string()).collect(),
        output: vec![output.into()],
        attribute: ints
            .iter()
            .map(|(name, ints)| pb::AttributeProto {
                name: name.to_string(),
                r#type: pb::attribute_proto::AttributeType::Ints as i32,
                ints: ints.to_vec(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

fn model(inputs: &[TensorSpec], outputs: &[TensorSpec], nodes: Vec<pb::NodeProto>) -> pb::ModelProto {
    pb::ModelProto {
        ir_version: 8,
        opset_import: vec![pb::OperatorSetIdProto { domain: String::new(), version: 17 }],
        graph: Some(pb::GraphProto {
            name: "g".into(),
            node: nodes,
            input: inputs.iter().map(value).collect(),
            output: outputs.iter().map(value).collect(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn plan(batch: usize, inputs: Vec<TensorSpec>, outputs: Vec<TensorSpec>) -> SessionSpec {
    SessionSpec { batch, threads: 1, inputs, outputs }
}

/// Small multiples of 1/64 with both signs. They are exact in f32 and differ for each `seed`.
fn values(seed: u64, len: usize) -> Vec<f32> {
    let mut random = Random(seed);
    (0..len).map(|_| (random.below(256) as f32 - 128.0) / 64.0).collect()
}

const N: usize = 6;
const SAMPLE: usize = 2 * 7 * 7;
const CONV: usize = 5 * 2 * 3 * 3;
const DENSE: usize = 5 * 7 * 7 * 3;

/// `logits = reshape(tanh(conv(x, w))) · v`, `out = logits − mean over classes`: `x [N,2,7,7]`, `w [5,2,3,3]`,
/// `v [245,3]`.
fn conv_matmul() -> (pb::ModelProto, SessionSpec) {
    use Dim::{Batch, Fixed};
    let inputs = vec![
        spec("x", &[Batch, Fixed(2), Fixed(7), Fixed(7)]),
        spec("w", &[Fixed(5), Fixed(2), Fixed(3), Fixed(3)]),
        spec("v", &[Fixed(245), Fixed(3)]),
    ];
    let outputs = vec![spec("h", &[Batch, Fixed(5), Fixed(7), Fixed(7)]), spec("out", &[Batch, Fixed(3)])];
    let mut flatten = node("Flatten", &["h"], "flat", &[]);
    flatten.attribute.push(pb::AttributeProto {
        name: "axis".into(),
        r#type: pb::attribute_proto::AttributeType::Int as i32,
        i: 1,
        ..Default::default()
    });
    let nodes = vec![
        node("Conv", &["x", "w"], "c", &[("pads", &[1, 1, 1, 1]), ("kernel_shape", &[3, 3])]),
        node("Tanh", &["c"], "h", &[]),
        flatten,
        node("MatMul", &["flat", "v"], "logits", &[]),
        node("ReduceMean", &["logits"], "mean", &[("axes", &[1])]),
        node("Sub", &["logits", "mean"], "out", &[]),
    ];
    (model(&inputs, &outputs, nodes), plan(N, inputs, outputs))
}

fn run(session: &mut dyn Session, inputs: &[TensorRef<'_>]) -> Vec<Vec<f32>> {
    let mut outputs = Vec::new();
    session.run(inputs, &mut |slices| outputs = slices.iter().map(|slice| slice.to_vec()).collect()).unwrap();
    outputs
}

/// Padded 3×3 convolution, tanh, product, centring: plain loops in f64.
fn reference(x: &[f32], w: &[f32], v: &[f32]) -> Vec<f64> {
    let mut out = Vec::new();
    for n in 0..N {
        let mut logits = [0.0f64; 3];
        for (channel, row, column) in
            (0..5).flat_map(|c| (0..7i64).flat_map(move |i| (0..7i64).map(move |j| (c, i, j))))
        {
            let mut sum = 0.0;
            for (d, k, l) in (0..2).flat_map(|d| (0..3i64).flat_map(move |k| (0..3i64).map(move |l| (d, k, l)))) {
                let (i, j) = (row + k - 1, column + l - 1);
                if (0..7).contains(&i) && (0..7).contains(&j) {
                    sum += f64::from(x[n * SAMPLE + d * 49 + (i * 7 + j) as usize])
                        * f64::from(w[channel * 18 + d * 9 + (k * 3 + l) as usize]);
                }
            }
            for (class, logit) in logits.iter_mut().enumerate() {
                *logit += sum.tanh() * f64::from(v[(channel * 49 + (row * 7 + column) as usize) * 3 + class]);
            }
        }
        let mean = (logits[0] + logits[1] + logits[2]) / 3.0;
        out.extend(logits.map(|logit| logit - mean));
    }
    out
}

// Every backend computes the same values as plain loops.
#[test]
fn backends_match_plain_loops() {
    let (graph, plan) = conv_matmul();
    for backend in backends() {
        let mut session = backend.load(&graph, &plan).unwrap();
        for step in 0..3 {
            let (x, w, v) = (values(step, N * SAMPLE), values(step + 10, CONV), values(step + 20, DENSE));
            let outputs = run(session.as_mut(), &[TensorRef::F32(&x), TensorRef::F32(&w), TensorRef::F32(&v)]);
            assert_eq!(outputs[0].len(), N * 245);
            for (got, expected) in outputs[1].iter().zip(reference(&x, &w, &v)) {
                let error = (f64::from(*got) - expected).abs();
                assert!(error < 1e-4, "{}: {got} against {expected}", backend.name());
            }
        }
    }
}

#[test]
fn outputs_come_in_the_order_of_the_plan() {
    let (graph, mut plan) = conv_matmul();
    let (x, w, v) = (values(1, N * SAMPLE), values(2, CONV), values(3, DENSE));
    for backend in backends() {
        plan.outputs.sort_by(|a, b| a.name.cmp(&b.name));
        let mut session = backend.load(&graph, &plan).unwrap();
        let sorted = run(session.as_mut(), &[TensorRef::F32(&x), TensorRef::F32(&w), TensorRef::F32(&v)]);
        plan.outputs.reverse();
        plan.inputs.swap(0, 2);
        let mut session = backend.load(&graph, &plan).unwrap();
        let reversed = run(session.as_mut(), &[TensorRef::F32(&v), TensorRef::F32(&w), TensorRef::F32(&x)]);
        plan.inputs.swap(0, 2);
        assert_eq!(sorted[0], reversed[1]);
        assert_eq!(sorted[1], reversed[0]);
    }
}

// The bits of a sample do not depend on its row or on other samples.
#[test]
fn sample_bits_ignore_row_and_neighbours() {
    let (graph, plan) = conv_matmul();
    let (w, v) = (values(7, CONV), values(8, DENSE));
    let sample = values(9, SAMPLE);
    for backend in backends() {
        let mut session = backend.load(&graph, &plan).unwrap();
        let mut seen: Option<Vec<u32>> = None;
        for row in 0..N {
            for neighbours in [100, 200] {
                let mut x = values(neighbours, N * SAMPLE);
                x[row * SAMPLE..][..SAMPLE].copy_from_slice(&sample);
                let outputs = run(session.as_mut(), &[TensorRef::F32(&x), TensorRef::F32(&w), TensorRef::F32(&v)]);
                let own: Vec<u32> = outputs[0][row * 245..][..245]
                    .iter()
                    .chain(&outputs[1][row * 3..][..3])
                    .map(|value| value.to_bits())
                    .collect();
                assert_eq!(*seen.get_or_insert_with(|| own.clone()), own, "{} row {row}", backend.name());
            }
        }
    }
}

// Two sessions and two runs give the same bits.
#[test]
fn sessions_and_runs_repeat_bits() {
    let (graph, plan) = conv_matmul();
    let (x, w, v) = (values(1, N * SAMPLE), values(2, CONV), values(3, DENSE));
    for backend in backends() {
        let mut one = backend.load(&graph, &plan).unwrap();
        let mut two = backend.load(&graph, &plan).unwrap();
        let inputs = [TensorRef::F32(&x), TensorRef::F32(&w), TensorRef::F32(&v)];
        let first = run(one.as_mut(), &inputs);
        assert_eq!(first, run(two.as_mut(), &inputs));
        assert_eq!(first, run(one.as_mut(), &inputs));
    }
}

#[test]
fn integer_labels_reach_the_model() {
    let inputs = vec![spec("table", &[Dim::Fixed(4), Dim::Fixed(2)]), labels("dp.labels")];
    let outputs = vec![spec("rows", &[Dim::Batch, Dim::Fixed(2)])];
    let graph = model(&inputs, &outputs, vec![node("Gather", &["table", "dp.labels"], "rows", &[])]);
    let plan = plan(3, inputs, outputs);
    for backend in backends() {
        let mut session = backend.load(&graph, &plan).unwrap();
        let table = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
        let outputs = run(session.as_mut(), &[TensorRef::F32(&table), TensorRef::I64(&[3, 0, 2])]);
        assert_eq!(outputs[0], [6.0, 7.0, 0.0, 1.0, 4.0, 5.0]);
    }
}

#[test]
fn sessions_work_on_other_threads() {
    let (graph, plan) = conv_matmul();
    let (x, w, v) = (values(1, N * SAMPLE), values(2, CONV), values(3, DENSE));
    for backend in backends() {
        let inputs = [TensorRef::F32(&x), TensorRef::F32(&w), TensorRef::F32(&v)];
        let here = run(backend.load(&graph, &plan).unwrap().as_mut(), &inputs);
        let mut sessions = [backend.load(&graph, &plan).unwrap(), backend.load(&graph, &plan).unwrap()];
        std::thread::scope(|scope| {
            for session in &mut sessions {
                scope.spawn(|| assert_eq!(run(session.as_mut(), &inputs), here));
            }
        });
    }
}

// A session uses the kept inputs of the call, whatever was kept before at any address.
#[test]
fn kept_inputs_are_those_given() {
    let (graph, plan) = conv_matmul();
    for backend in backends() {
        let mut session = backend.load(&graph, &plan).unwrap();
        let mut other = backend.load(&graph, &plan).unwrap();
        let (mut w, mut v) = (values(2, CONV), values(3, DENSE));
        for step in 0..3 {
            let kept = KeptInputs::new(vec![TensorRef::F32(&w), TensorRef::F32(&v)]);
            for chunk in 0..3 {
                let x = values(10 * step + chunk, N * SAMPLE);
                let want = run(other.as_mut(), &[TensorRef::F32(&x), TensorRef::F32(&w), TensorRef::F32(&v)]);
                let before = [TensorRef::F32(&x)];
                let inputs = Inputs { before: &before, kept: &kept, after: &[] };
                let mut got = Vec::new();
                session.run_kept(inputs, &mut |made| got = made.iter().map(|x| x.to_vec()).collect()).unwrap();
                assert_eq!(got, want, "{}", backend.name());
            }
            // The next values have the addresses of the last values.
            w.iter_mut().chain(&mut v).for_each(|x| *x *= -0.5);
        }
    }
}

// If a runtime rejects a model, the error names the node.
#[test]
fn rejected_model_error_names_node() {
    let inputs = vec![spec("x", &[Dim::Batch, Dim::Fixed(4)])];
    let outputs = vec![spec("y", &[Dim::Batch, Dim::Fixed(4)])];
    let unknown = model(&inputs, &outputs, vec![node("Frobnicate", &["x"], "y", &[])]);
    let crooked = model(&inputs, &outputs, vec![node("MatMul", &["x", "x"], "y", &[])]);
    let plan = plan(3, inputs, outputs);
    for backend in backends() {
        for (graph, culprits) in [(&unknown, ["Frobnicate", "node_y"]), (&crooked, ["MatMul", "node_y"])] {
            let message = backend.load(graph, &plan).err().unwrap().to_string();
            assert!(culprits.iter().any(|name| message.contains(name)), "{}: {message}", backend.name());
            assert!(!message.contains('\n'));
        }
    }
}

#[test]
fn model_without_graph_is_error() {
    let (_, plan) = conv_matmul();
    for backend in backends() {
        let message = backend.load(&pb::ModelProto::default(), &plan).err().unwrap().to_string();
        assert!(message.contains("no graph") && !message.contains('\n'), "{message}");
    }
}

// If a plan does not fit the model, the error names the tensor.
#[test]
fn plan_mismatch_error_names_tensor() {
    let (graph, plan) = conv_matmul();
    for backend in backends() {
        let refusal = |change: &dyn Fn(&mut SessionSpec)| {
            let mut plan = plan.clone();
            change(&mut plan);
            backend.load(&graph, &plan).err().unwrap().to_string()
        };
        assert!(refusal(&|plan| plan.inputs[1].name = "missing".into()).contains("'w'"));
        assert!(refusal(&|plan| plan.inputs.push(spec("extra", &[]))).contains("'extra'"));
        assert!(refusal(&|plan| plan.inputs[0].dtype = DType::I64).contains("'x'"));
        assert!(refusal(&|plan| plan.inputs[0].dtype = DType::F64).contains("'x'"));
        assert!(refusal(&|plan| plan.outputs[0].name = "missing".into()).contains("'missing'"));
        assert!(refusal(&|plan| plan.batch = 0).contains("at least one row"));
        assert!(refusal(&|plan| plan.inputs[0].shape[1] = Dim::Fixed(3)).contains("'x'"));
        assert!(refusal(&|plan| plan.outputs[1].shape[1] = Dim::Fixed(4)).contains("'out'"));
    }
}

// Wrong inputs are errors, and the session still works.
#[test]
fn wrong_input_error_keeps_session() {
    let (graph, plan) = conv_matmul();
    let (x, w, v) = (values(1, N * SAMPLE), values(2, CONV), values(3, DENSE));
    for backend in backends() {
        let mut session = backend.load(&graph, &plan).unwrap();
        let good = [TensorRef::F32(&x), TensorRef::F32(&w), TensorRef::F32(&v)];
        let before = run(session.as_mut(), &good);
        let mut refusal = |inputs: &[TensorRef<'_>]| {
            session.run(inputs, &mut |_| panic!("read what was not computed")).unwrap_err().to_string()
        };
        assert!(refusal(&good[..2]).contains("2 inputs"));
        assert!(refusal(&[TensorRef::F32(&x[1..]), good[1], good[2]]).contains("'x'"));
        assert!(refusal(&[good[0], TensorRef::I64(&[0; CONV]), good[2]]).contains("'w'"));
        assert!(refusal(&[good[0], good[1], TensorRef::F32(&[])]).contains("'v'"));
        assert_eq!(run(session.as_mut(), &good), before);
    }
}

#[test]
fn every_backend_says_what_it_is() {
    for backend in backends() {
        let of_name = [("tract", "tract"), ("ort", "onnxruntime"), ("portable", "the same bits on every target")];
        let (_, words) = of_name.iter().find(|(name, _)| *name == backend.name()).unwrap();
        assert!(backend.version().starts_with(|first: char| first.is_ascii_digit()), "{}", backend.version());
        assert!(backend.note().contains(words));
    }
}

#[test]
fn cuda_runs_or_says_what_is_missing() {
    if let Err(error) = open(Choice::Ort) {
        skip(&error);
        return;
    }
    match open(Choice::Cuda) {
        Ok(backend) => assert_eq!((backend.name(), backend.operators()), ("cuda", Operators::Standard)),
        Err(error) => {
            let message = error.to_string();
            let names_remedy = message.contains("onnxruntime-gpu") && message.contains("`backend` ort");
            assert!(names_remedy || message.contains("set NVIDIA_TF32_OVERRIDE=0"), "{message}");
            assert!(!message.contains('\n'));
        }
    }
}

/// `out = expand(x) · w`, with `x [N,4,1]` expanded to `[N,4,8]`. tract's optimizer drops the `Expand`, so the product
/// sums one position instead of eight.
#[test]
fn self_test_detects_optimizer_fault() {
    use Dim::{Batch, Fixed};
    let inputs = vec![spec("x", &[Batch, Fixed(4), Fixed(1)]), spec("w", &[Batch, Fixed(8), Fixed(3)])];
    let outputs = vec![spec("dp.grad.w", &[Batch, Fixed(4), Fixed(3)])];
    let target = node("Constant", &[], "target", &[("value_ints", &[1, 4, 8])]);
    let nodes = vec![target, node("Expand", &["x", "target"], "e", &[]), node("MatMul", &["e", "w"], "dp.grad.w", &[])];
    let (x, w) = (values(1, N * 4), values(2, N * 24));
    let spoilt = (model(&inputs, &outputs, nodes), plan(N, inputs, outputs));
    let message =
        tract::Tract::new().self_test(&spoilt.0, &spoilt.1, &[TensorRef::F32(&x), TensorRef::F32(&w)]).unwrap_err().0;
    assert!(message.contains("another gradient of 'w'") && message.contains("`backend` ort"), "{message}");
    let (graph, plan) = conv_matmul();
    let (x, w, v) = (values(1, N * SAMPLE), values(2, CONV), values(3, DENSE));
    for backend in backends() {
        backend.self_test(&graph, &plan, &[TensorRef::F32(&x), TensorRef::F32(&w), TensorRef::F32(&v)]).unwrap();
    }
}

/// Set if a test runs this test program again, to have its own process.
const CHILD: &str = "DAMPER_TEST_CHILD";

// If the user names a library that does not load, no other backend replaces it.
#[test]
fn named_library_has_no_fallback() {
    if std::env::var_os(CHILD).is_some() {
        for choice in [Choice::Auto, Choice::Ort, Choice::Cuda] {
            let message = open(choice).err().unwrap().to_string();
            assert!(message.contains("ORT_DYLIB_PATH") && message.contains("/nonexistent/lib.so"), "{message}");
        }
        assert_eq!(open(Choice::Tract).unwrap().name(), "tract");
        return;
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", damper_testing::test_name(named_library_has_no_fallback)])
        .env(CHILD, "1")
        .env("ORT_DYLIB_PATH", "/nonexistent/lib.so")
        .output()
        .unwrap();
    damper_testing::assert_one_passed(&child);
}

// Without a library, `auto` selects tract and reports it.
#[test]
fn auto_reports_fallback_to_tract() {
    if std::env::var_os(CHILD).is_some() {
        match open(Choice::Ort) {
            Ok(backend) => damper_testing::skip("no-ort", backend.note()),
            Err(error) => {
                let message = error.to_string();
                assert!(message.contains("pip install onnxruntime") && message.contains("looked in"), "{message}");
                let auto = open(Choice::Auto).unwrap();
                assert_eq!(auto.name(), "tract");
                assert!(auto.note().contains("`backend` ort says why"), "{}", auto.note());
            }
        }
        return;
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", damper_testing::test_name(auto_reports_fallback_to_tract)])
        .env(CHILD, "1")
        .env("PATH", "")
        .env_remove("ORT_DYLIB_PATH")
        .env_remove("VIRTUAL_ENV")
        .env_remove("LD_LIBRARY_PATH")
        .output()
        .unwrap();
    damper_testing::assert_one_passed(&child);
}

#[test]
fn backend_names_match_command_line() {
    assert_eq!("cuda".parse::<Choice>().unwrap(), Choice::Cuda);
    assert_eq!("auto".parse::<Choice>().unwrap(), Choice::Auto);
    assert!("gpu".parse::<Choice>().unwrap_err().to_string().contains("auto, tract, portable, ort or cuda"));
}
