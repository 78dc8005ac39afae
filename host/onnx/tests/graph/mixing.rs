//! Random networks without regard to samples. In accepted networks every released output depends only on its own
//! sample. Extents are few and equal to the batch size that some exports fix, so that constants and targets match it by
//! chance.

use super::*;
use damper_grad::{DeriveOptions, GradGraph, Loss, derive};
use damper_onnx::TensorRef;
use damper_onnx::{make_attr_int as int, make_attr_ints, make_attr_string};
use damper_runtime::{Backend, Choice, SessionSpec, open};
use damper_testing::Random;

/// Batch size.
const BATCH: usize = 3;
/// Number of networks.
const SEEDS: u64 = 250;

struct Draw(Random);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0.below(n)
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// Axis, counted from either end.
    fn axis(&mut self) -> i64 {
        self.below(6) as i64 - 2
    }
}

/// Adds a node `name` with data inputs from `values` and integer inputs from `ints`. Returns true if its output is
/// integers.
fn grown(sketch: Sketch, draw: &mut Draw, name: &str, values: &[String], ints: &[String]) -> (Sketch, bool) {
    let (x, other, number, second) = (draw.pick(values), draw.pick(values), draw.pick(ints), draw.pick(ints));
    let (x, other, number, second) = (x.as_str(), other.as_str(), number.as_str(), second.as_str());
    let axis = int("axis", draw.axis());
    let keep = int("keepdims", draw.below(2) as i64);
    let node =
        |op: &str, inputs: &[&str], attributes: &[AttributeProto]| sketch.clone().node(op, inputs, name, attributes);
    let made = match draw.below(40) {
        0..=4 => node("Reshape", &[x, number], &[]),
        5..=6 => {
            let perm = draw.pick(&[vec![1, 0], vec![1, 0, 2], vec![0, 2, 1], vec![2, 0, 1], vec![1, 2, 0, 3]]);
            node("Transpose", &[x], &[make_attr_ints("perm", &perm)])
        }
        7 => node("Flatten", &[x], &[axis]),
        8..=9 => node("Gather", &[x, number], &[axis]),
        10 => node("GatherND", &[x, number], &[int("batch_dims", draw.below(2) as i64)]),
        11 => node("GatherElements", &[x, number], &[axis]),
        12 => node("Slice", &[x, "zero", number, second], &[]),
        13 => node("Concat", &[x, other], &[axis]),
        14 => node("Softmax", &[x], &[axis]),
        15 => node("ReduceSum", &[x, number], &[keep]),
        16 => node("ReduceMax", &[x], &[make_attr_ints("axes", &[draw.axis()]), keep]),
        17..=19 => node("Add", &[x, other], &[]),
        20..=21 => node("MatMul", &[x, other], &[]),
        22 => node("Expand", &[x, number], &[]),
        23 => node("Tile", &[x, number], &[]),
        24 => node("CumSum", &[x, number], &[]),
        25 => node("Trilu", &[x], &[]),
        26 => node("LayerNormalization", &[x, "three"], &[axis]),
        27 => node("Squeeze", &[x, number], &[]),
        28 => node("Unsqueeze", &[x, number], &[]),
        29 => {
            let equation =
                draw.pick(&["ij,jk->ik", "nij,njk->nik", "nij,nkj->nik", "ij,kj->ik", "nij->nji", "nij,ij->nj"]);
            let inputs: &[&str] = if equation.contains(',') { &[x, other] } else { &[x] };
            node("Einsum", inputs, &[make_attr_string("equation", equation)])
        }
        30 => node("Pad", &[x, number], &[]),
        31 => node("Gemm", &[x, other], &[int("transA", draw.below(2) as i64), int("transB", draw.below(2) as i64)]),
        32 => node("LpNormalization", &[x], &[axis]),
        33 => node("MeanVarianceNormalization", &[x], &[make_attr_ints("axes", &[draw.axis(), draw.axis()])]),
        // Integers from here on.
        34 => return (node("Shape", &[x], &[int("start", draw.axis())]), true),
        35 => return (node("Concat", &[number, second], &[axis]), true),
        36 => return (node("Range", &["nought", number, "one"], &[]), true),
        37 => return (node(draw.pick(&["Mul", "Add", "Div", "Max"]), &[number, second], &[]), true),
        38 => return (node("Gather", &[number, second], &[int("axis", 0)]), true),
        _ => return (node(draw.pick(&["Unsqueeze", "Expand", "Reshape"]), &[number, second], &[]), true),
    };
    (made, false)
}

/// Random network of accepted nodes.
fn network(draw: &mut Draw) -> ModelProto {
    let batch = draw.pick(&[N, N, 1, BATCH]);
    let shape = draw.pick(&[vec![batch, 3], vec![batch, 3, 3], vec![batch, 2, 3], vec![batch, 3, 1, 3]]);
    let mut sketch = Sketch::new(17, &shape).weight("three", &[3]).weight("square", &[3, 3]).weight("row", &[1, 3]);
    sketch = sketch.int("nought", 0).int("one", 1).ints("zero", &[0]);
    let mut ints: Vec<String> = vec!["zero".into(), "one".into()];
    let lists: [&[i64]; 12] = [
        &[1],
        &[2],
        &[-1],
        &[3, 3],
        &[3, -1],
        &[-1, 3],
        &[0, -1],
        &[-1, 3, 3],
        &[0, 3, -1],
        &[3, 1, 3],
        &[0, 1, 2],
        &[1, 0],
    ];
    for (at, list) in lists.iter().enumerate() {
        sketch = sketch.ints(&format!("list{at}"), list);
        ints.push(format!("list{at}"));
    }
    // The batch size in shape arithmetic.
    sketch = sketch.node("Shape", &["x"], "extents", &[]).node("Gather", &["extents", "nought"], "n", &[]);
    ints.extend(["n", "n", "extents"].map(String::from));
    let mut values: Vec<String> = ["x", "three", "square", "row"].map(String::from).to_vec();
    for at in 0..30 {
        let name = format!("v{at}");
        let (made, is_integer) = grown(sketch.clone(), draw, &name, &values, &ints);
        // Errors in integers appear when data is computed with them.
        if is_integer {
            (sketch, _) = (made, ints.push(name));
        } else if graph(
            &made
                .clone()
                .node("Mul", &[&name, "one.float"], "y", &[])
                .tensor("one.float", &[1], &[1.5])
                .returns(&["y"]),
        )
        .is_ok()
        {
            (sketch, _) = (made, values.push(name));
        }
    }
    // Longest output that depends on the samples.
    let length = |name: &&String| {
        let graph = graph(&sketch.clone().scaled(name)).ok()?;
        graph.value(graph.outputs[0]).batch.map(|_| graph.nodes.len())
    };
    let last = values.iter().max_by_key(length).expect("the input is one");
    sketch.clone().scaled(last)
}

/// Released outputs of each sample.
fn released(grad: &GradGraph, graph: &Graph, x: &[f32], backend: &dyn Backend) -> Result<Vec<Vec<f32>>, String> {
    let outputs: Vec<_> = grad.outputs.iter().filter(|spec| spec.name.starts_with("dp.")).cloned().collect();
    let labels = vec![0.25; grad.labels.as_ref().map_or(0, |spec| spec.elements(BATCH))];
    let plan = SessionSpec { batch: BATCH, threads: 1, inputs: grad.feeds(), outputs };
    let mut session = backend.load(&grad.model, &plan).map_err(|error| error.to_string())?;
    let mut inputs = vec![TensorRef::F32(x), TensorRef::F32(&labels)];
    inputs.extend(graph.trained().map(|parameter| TensorRef::F32(parameter.initial.as_f32().unwrap())));
    let mut read = vec![];
    let keep = &mut |outputs: &[&[f32]]| read = outputs.iter().map(|output| output.to_vec()).collect();
    session.run(&inputs, keep).map_err(|error| error.to_string())?;
    Ok(read)
}

// In every accepted model, samples do not affect each other.
#[test]
fn accepted_models_keep_samples_apart() {
    let backends: Vec<_> = [Choice::Tract, Choice::Ort].iter().filter_map(|choice| open(*choice).ok()).collect();
    let (mut ran, mut nodes) = (0, 0);
    for seed in 0..SEEDS {
        let model = network(&mut Draw(Random(seed)));
        let graph = graph(&model).unwrap();
        let Ok(grad) = derive(&graph, &DeriveOptions::new(Loss::Mse)) else { continue };
        let width: usize = graph.value(graph.inputs[0]).shape.iter().product();
        let x: Vec<f32> = (0..BATCH * width).map(|i| ((i * 29 + 7) % 31) as f32 / 31.0 + 0.1).collect();
        for backend in &backends {
            let Ok(before) = released(&grad, &graph, &x, backend.as_ref()) else { continue };
            ran += 1;
            nodes += graph.nodes.len();
            for (changed, value) in (0..BATCH).flat_map(|changed| [(changed, 0.7), (changed, f32::NAN)]) {
                let mut moved = x.clone();
                moved[changed * width..(changed + 1) * width].iter_mut().for_each(|x| *x = value - *x);
                let after = released(&grad, &graph, &moved, backend.as_ref()).unwrap();
                for (before, after) in before.iter().zip(&after) {
                    let rows = before.len() / BATCH;
                    for sample in (0..BATCH).filter(|&sample| sample != changed) {
                        let bits =
                            |of: &[f32]| of[sample * rows..][..rows].iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                        assert!(
                            bits(before) == bits(after),
                            "seed {seed}, {}: sample {changed} reaches {sample} in\n{graph}",
                            backend.name()
                        );
                    }
                }
            }
        }
    }
    assert!(ran > 200 && nodes > 600, "{ran} runs of {nodes} nodes");
}
