//! Results from factors equal those from the gradients.

use super::*;
use crate::lookup::checked;
use crate::readout::{ClipInputs, ParamGrad, Readout, clipped_sum, strategies};
use damper_onnx::TensorRef;
use damper_onnx::graph::DType;
use damper_onnx::pb::{GraphProto, ModelProto, OperatorSetIdProto, ValueInfoProto};
use damper_onnx::{Dim, TensorSpec};
use damper_onnx::{Extent, make_value_info};
use damper_runtime::{Backend, Choice, SessionSpec, open};
use damper_testing::Random;

/// Batch size.
const N: usize = 4;

/// Test graph: an emitter, and inputs with their values.
struct Bench {
    em: Emitter,
    inputs: Vec<(Var, Values)>,
    random: Random,
}

enum Values {
    Float(Vec<f32>),
    Int(Vec<i64>),
}

impl Bench {
    fn new(opset: i64) -> Self {
        Self { em: Emitter::new(opset), inputs: vec![], random: Random(0) }
    }

    fn uniform(&mut self) -> f32 {
        self.random.signed()
    }

    fn input(&mut self, dtype: DType, shape: &[usize], values: Values) -> Var {
        let name = format!("x{}", self.inputs.len()).into();
        let var = Var { name, dtype, shape: [&[1], shape].concat(), batch: Some(BATCH_FIRST) };
        self.em.read_batch_size_from(var.clone());
        self.inputs.push((var.clone(), values));
        var
    }

    /// Input of random floats `[N, *shape]`.
    fn floats(&mut self, shape: &[usize]) -> Var {
        let values = (0..N * shape.iter().product::<usize>()).map(|_| self.uniform()).collect();
        self.input(DType::F32, shape, Values::Float(values))
    }

    /// Rows of a table of `extent`, `[N, T]`. Negative indices count from the end.
    fn rows(&mut self, positions: usize, extent: usize) -> FactorSide {
        let values = (0..N * positions).map(|_| (self.uniform() * extent as f32) as i64).collect();
        let ids = self.input(DType::I64, &[positions], Values::Int(values));
        let ids = checked(&mut self.em, &ids, extent).index;
        FactorSide::indices(&mut self.em, &ids, extent, DType::F32)
    }

    /// Runs on `backend`. Each output has `true` if its first axis is the samples.
    fn run(&self, em: Emitter, backend: &dyn Backend, outputs: &[(&Var, bool)]) -> Vec<Vec<f64>> {
        let spec = |var: &Var, batched: bool| TensorSpec {
            name: var.name.to_string(),
            dtype: var.dtype,
            shape: var
                .shape
                .iter()
                .enumerate()
                .map(|(i, &d)| if batched && i == 0 { Dim::Batch } else { Dim::Fixed(d) })
                .collect(),
        };
        let inputs: Vec<TensorSpec> = self.inputs.iter().map(|(var, _)| spec(var, true)).collect();
        let outputs: Vec<TensorSpec> = outputs.iter().map(|&(var, batched)| spec(var, batched)).collect();
        let info = |spec: &TensorSpec| -> ValueInfoProto {
            let extent = |dim: &Dim| if let Dim::Fixed(d) = dim { Extent::Fixed(*d) } else { Extent::Batch };
            make_value_info(&spec.name, spec.dtype, &spec.shape.iter().map(extent).collect::<Vec<_>>())
        };
        let version = em.opset;
        let (node, initializer, _) = em.finish();
        let graph = GraphProto {
            name: "factors".into(),
            node,
            initializer,
            input: inputs.iter().map(info).collect(),
            output: outputs.iter().map(info).collect(),
            ..Default::default()
        };
        let model = ModelProto {
            ir_version: 8,
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version }],
            graph: Some(graph),
            ..Default::default()
        };
        let plan = SessionSpec { batch: N, threads: 1, inputs, outputs };
        let mut session = backend.load(&model, &plan).unwrap_or_else(|error| panic!("{error}"));
        let fed: Vec<TensorRef<'_>> = self
            .inputs
            .iter()
            .map(|(_, values)| match values {
                Values::Float(values) => TensorRef::F32(values),
                Values::Int(values) => TensorRef::I64(values),
            })
            .collect();
        let mut read = vec![];
        let as_f64 = |output: &&[f32]| output.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
        session.run(&fed, &mut |outputs| read = outputs.iter().map(as_f64).collect()).unwrap();
        read
    }
}

fn close(got: f64, want: f64, scale: f64, what: &str) {
    assert!((got - want).abs() <= 1e-5 * scale, "{what}: {got}, not {want}");
}

/// Compares squared norms and weighted sums of the factors that `build` creates with their gradients. Returns the
/// gradients.
fn check(name: &str, opset: i64, build: impl Fn(&mut Bench) -> FactoredGrad) -> Vec<f64> {
    let mut gradients = vec![];
    let backends = [Choice::Tract, Choice::Ort].map(|choice| open(choice).ok());
    for backend in backends.into_iter().flatten() {
        let what = format!("{name} on {}", backend.name());
        let mut bench = Bench::new(opset);
        let factors = build(&mut bench);
        let weight = bench.floats(&[]);
        let mut em = std::mem::replace(&mut bench.em, Emitter::new(opset));
        let zero = em.scalar(DType::F32, -0.2);
        let keep = em.compare("Greater", &weight, &zero);
        let zero = em.scalar(DType::F32, 0.0);
        let weight = em.choose(&keep, &weight, &zero);
        let each = factors.materialise(&mut em);
        let (square, bound) = norm_squared(&mut em, &factors);
        let sum = weighted_sum(&mut em, &factors, &keep, &weight);
        assert_eq!((&each.shape[1..], &sum.shape[..]), (&factors.shape()[..], &factors.shape()[..]));
        let outputs = [(&each, true), (&square, true), (&bound, true), (&sum, false), (&weight, true)];
        let [each, square, bound, sum, weight] = &bench.run(em, backend.as_ref(), &outputs)[..] else {
            unreachable!("five outputs");
        };
        let width = each.len() / N;
        let mut want = vec![0.0; width];
        for (i, row) in each.chunks(width).enumerate() {
            let exact: f64 = row.iter().map(|g| g * g).sum();
            close(square[i], exact, bound[i], &what);
            assert!(bound[i] >= exact * (1.0 - 1e-5), "{what}: {} for {exact}", bound[i]);
            want.iter_mut().zip(row).for_each(|(sum, g)| *sum += weight[i] * g);
        }
        let scale = each.iter().fold(0.0f64, |m, g| m.max(g.abs()));
        assert!(
            sum.iter().zip(&want).all(|(got, want)| (got - want).abs() <= 1e-5 * scale),
            "{what}: {sum:?} {want:?}"
        );
        gradients = each.clone();
    }
    gradients
}

// Factored norms and sums match materialised gradients.
#[test]
fn norms_and_sums_match_gradients() {
    check("one position", 17, |b| {
        FactoredGrad::new(FactorSide::positions_first(b.floats(&[1, 5])), FactorSide::positions_last(b.floats(&[3, 1])))
    });
    check("positions in both layouts", 17, |b| {
        FactoredGrad::new(FactorSide::positions_first(b.floats(&[6, 5])), FactorSide::positions_last(b.floats(&[3, 6])))
    });
    check("groups", 17, |b| {
        FactoredGrad::new(
            FactorSide::positions_first(b.floats(&[6, 2, 5])),
            FactorSide::positions_last(b.floats(&[2, 3, 6])),
        )
    });
    check("groups at one position", 17, |b| {
        FactoredGrad::new(
            FactorSide::positions_first(b.floats(&[1, 2, 5])),
            FactorSide::positions_first(b.floats(&[1, 2, 3])),
        )
    });
    check("several uses under views", 17, |b| {
        let one = FactoredGrad::new(
            FactorSide::positions_first(b.floats(&[6, 8])),
            FactorSide::positions_last(b.floats(&[3, 6])),
        );
        let two = FactoredGrad::new(
            FactorSide::positions_last(b.floats(&[8, 2])),
            FactorSide::positions_last(b.floats(&[3, 2])),
        );
        let view = |f: FactoredGrad| f.reshape(&[2, 4, 3]).transpose(&[2, 0, 1]).reshape(&[6, 4]);
        view(one).join(&view(two)).expect("of one form")
    });
}

/// Embedding lookup as indices, and the same matrix as an output layer.
fn tied(b: &mut Bench, transposed: bool) -> FactoredGrad {
    let embedding = FactoredGrad::new(b.rows(6, 7), FactorSide::positions_first(b.floats(&[6, 5])));
    let scores = b.floats(&[7, 3]);
    let hidden = b.floats(&[3, 5]);
    let output = FactoredGrad::new(FactorSide::positions_last(scores), FactorSide::positions_first(hidden));
    let more = FactoredGrad::new(
        FactorSide::positions_first(b.floats(&[2, 7])),
        FactorSide::positions_last(b.floats(&[5, 2])),
    );
    let again = FactoredGrad::new(b.rows(2, 7), FactorSide::positions_last(b.floats(&[5, 2])));
    let all = [&output, &again, &more].into_iter().fold(embedding, |all, next| all.join(next).expect("of one form"));
    if transposed { all.transpose(&[1, 0]) } else { all }
}

// The gradient of an embedding that is tied to the output layer is the sum of both uses.
#[test]
fn tied_embedding_sums_blocks() {
    for transposed in [false, true] {
        // From opset 16 on, indices stay indices. Before, they become unit vectors.
        let [kept, one_hot] = [17, 13].map(|opset| check("tied", opset, |b| tied(b, transposed)));
        assert_eq!(kept.len(), one_hot.len());
        assert!(kept.iter().zip(&one_hot).all(|(a, b)| (a - b).abs() < 1e-5));
    }
}

// The gradient of an embedding scatters its rows to their indices.
#[test]
fn embedding_gradient_scatters_rows() {
    let build = |b: &mut Bench| FactoredGrad::new(b.rows(6, 7), FactorSide::positions_first(b.floats(&[6, 5])));
    let mut bench = Bench::new(17);
    build(&mut bench);
    let [(_, Values::Int(ids)), (_, Values::Float(rows))] = &bench.inputs[..] else { unreachable!("two inputs") };
    let mut want = vec![0.0; N * 7 * 5];
    for (at, (id, row)) in ids.iter().zip(rows.chunks(5)).enumerate() {
        for (k, value) in row.iter().enumerate() {
            want[(at / 6 * 7 + id.rem_euclid(7) as usize) * 5 + k] += f64::from(*value);
        }
    }
    for opset in [13, 16, 21] {
        let got = check("embedding", opset, build);
        assert!(got.iter().zip(&want).all(|(got, want)| (got - want).abs() < 1e-5), "{got:?} {want:?}");
    }
}

// The cost model prefers Gram matrices for wide layers, and materialised gradients for narrow layers.
#[test]
fn gram_is_cheaper_only_for_wide_layers() {
    let costs = |left: &[usize], right: &[usize], sum: bool| {
        let mut b = Bench::new(17);
        let sides = [left, right].map(|shape| FactorSide::positions_first(b.floats(shape)));
        let [left, right] = sides;
        Costs::of(&FactoredGrad::new(left, right), sum)
    };
    for sum in [false, true] {
        for (positions, rows, columns) in [(1, 40, 48), (3, 64, 48), (16, 512, 512), (64, 3072, 768)] {
            let costs = costs(&[positions, rows], &[positions, columns], sum);
            assert!(costs.gram < costs.materialised, "{positions} {rows} {columns} {costs:?}");
        }
        for (positions, rows, columns) in [(5, 3, 4), (64, 16, 27), (1024, 64, 576), (1, 1, 1)] {
            let costs = costs(&[positions, rows], &[positions, columns], sum);
            assert!(costs.materialised < costs.gram, "{positions} {rows} {columns} {costs:?}");
        }
    }
}

/// Norm in f64 of one sample's contribution to the sum clipped to `clip`. Its `positions` positions have vectors of
/// `width` entries that cancel except for a fraction `rest`. `scales` are the magnitudes of the left and right factor.
fn share(backend: &dyn Backend, clip: f64, (positions, width): (usize, usize), rest: f32, scales: (f32, f32)) -> f64 {
    let mut bench = Bench::new(17);
    let mut side = |scale: f32, flips: bool| {
        let line: Vec<f32> = (0..width).map(|_| 1.0 + 0.15 * (bench.uniform() + 1.0)).collect();
        let mut values = Vec::new();
        for at in 0..N * positions {
            let sign = if flips && at % 2 == 1 { -scale } else { scale };
            values.extend(line.iter().map(|x| sign * x * (1.0 + rest * bench.uniform())));
        }
        FactorSide::positions_first(bench.input(DType::F32, &[positions, width], Values::Float(values)))
    };
    let factors = FactoredGrad::new(side(scales.0, true), side(scales.1, false));
    let weight = bench.input(DType::F32, &[], Values::Float(vec![1.0, 0.0, 0.0, 0.0]));
    let mut em = std::mem::replace(&mut bench.em, Emitter::new(17));
    let bounds = ClipInputs { clip: em.scalar(DType::F32, clip), weight };
    let shape = factors.shape();
    let costs = Costs::of(&factors, true);
    assert!(costs.gram < costs.materialised, "the norm is taken by Gram matrices");
    let reads = [ParamGrad { grad: Grad::Factored(factors), dtype: DType::F32, shape }];
    let strategies = strategies(&reads, Readout::ClippedSum);
    let (_, sums) = clipped_sum(&mut em, &reads, &strategies, &bounds);
    let sum = &bench.run(em, backend, &[(&sums[0], false)])[0];
    sum.iter().map(|x| x * x).sum::<f64>().sqrt()
}

// A sample adds at most the clipping threshold, even if its positions cancel.
#[test]
fn cancellation_stays_within_clip() {
    const CLIP: f64 = 1e-6;
    for backend in [Choice::Tract, Choice::Ort].map(|choice| open(choice).ok()).into_iter().flatten() {
        for sizes in [(2, 64), (2, 2048), (4, 256), (4, 2048), (8, 512)] {
            for rest in [1e-5, 1e-4, 3e-4, 1e-3, 1e-2] {
                let share = share(backend.as_ref(), CLIP, sizes, rest, (1.0, 1.0));
                assert!(share > 0.0 && share <= CLIP, "{share} of {sizes:?}, {rest} on {}", backend.name());
            }
        }
    }
}

// A sample adds at most the clipping threshold, even if the squares of a factor underflow.
#[test]
fn underflow_stays_within_clip() {
    const CLIP: f64 = 1e-8;
    for backend in [Choice::Tract, Choice::Ort].map(|choice| open(choice).ok()).into_iter().flatten() {
        for scales in [(1e-22, 1e17), (1e17, 1e-22), (1e-20, 1e16), (1e-5, 1e-5)] {
            let share = share(backend.as_ref(), CLIP, (4, 256), 0.1, scales);
            assert!(share > 0.0 && share <= CLIP, "{share} of {scales:?} on {}", backend.name());
        }
    }
}
