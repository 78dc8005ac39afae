//! All rules, all losses and some complete networks. Tests gradients against finite differences, the backends against
//! each other, and the independence of the samples.

mod builder;
mod cases;
mod losses;
mod masked;
mod nets;
mod pieces;
mod placement;
mod pytorch;
mod readouts;
mod reference;
mod rewritten;
mod run;
mod special;
mod wide;

use builder::Case;
use cases::CASES;
use damper_grad::{GradGraph, Loss, derive};
use damper_onnx::graph::{DType, TensorData};
use damper_testing::Random;
use run::{Feed, Runner, extents, specs};
use std::collections::HashSet;

/// Batch size of the cases.
const BATCH: usize = 4;
/// Maximum number of coordinates of one parameter that are compared with finite differences.
const PROBES: usize = 16;

/// Tolerance between two results, relative to the largest entry of the tensor.
#[derive(Clone, Copy)]
enum Closeness {
    /// Two f32 computations of the same formula.
    Backends,
    /// An f32 computation against central differences in f64.
    FiniteDifference,
}

impl Closeness {
    fn bound(self) -> f64 {
        match self {
            Closeness::Backends => 1e-5,
            Closeness::FiniteDifference => 2e-5,
        }
    }

    fn check(self, got: &[f64], want: &[f64], what: &str) {
        assert_eq!(got.len(), want.len(), "{what}");
        let largest = want.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        for (i, (g, w)) in got.iter().zip(want).enumerate() {
            assert!((g - w).abs() <= self.bound() * largest + 1e-7, "{what}: entry {i} is {g}, not {w}");
        }
    }
}

fn classes(case: &Case) -> usize {
    let shape = &case.graph.values[case.graph.outputs[0].0].shape;
    let axis = case.options.class_axis.unwrap_or(-1).rem_euclid(shape.len() as i64) as usize;
    shape[axis]
}

/// Inputs, labels and the parameters' values at one point for a batch of `n`.
fn feeds(case: &Case, grad: &GradGraph, n: usize, seed: u64) -> Vec<Feed> {
    let mut draw = Random(seed);
    let data = grad.inputs.len() + grad.labels.iter().len();
    let mut trained = case.graph.parameters.iter().filter(|p| p.trained);
    let parameters = data..data + grad.parameters.len();
    specs(grad)
        .iter()
        .enumerate()
        .take(parameters.end)
        .map(|(i, spec)| {
            let len = extents(spec, n).iter().product::<usize>();
            if parameters.contains(&i) {
                let TensorData::F32(values) = &trained.next().unwrap().initial.data else { panic!("f32 parameters") };
                return Feed::Float(values.to_vec());
            }
            if spec.dtype == DType::I64 && i < grad.inputs.len() {
                // Indices into any table of four rows, sometimes counted from the end.
                let id = |i: usize, u: f32| if i % 7 == 2 { -1 } else { ((u + 1.0) * 2.0) as i64 };
                return Feed::Int((0..len).map(|i| id(i, draw.signed())).collect());
            }
            match (spec.dtype, &case.options.loss) {
                // Texts of several lengths, with repeats. One is too long.
                (DType::I64, Loss::Ctc) if spec.name == "dp.labels" => {
                    let (places, classes) = (len / n, classes(case) as i64);
                    let text = |row: usize| (row * 2 + 1) % (places + 1);
                    let label = |i: usize| 1 + (i / 2) as i64 % (classes - 1);
                    Feed::Int((0..len).map(|i| if i % places < text(i / places) { label(i) } else { -100 }).collect())
                }
                (DType::I64, _) => {
                    let classes = classes(case);
                    let label = |i: usize, u: f32| {
                        if case.options.class_axis.is_some() && i % 5 == 3 {
                            -100
                        } else {
                            ((u + 1.0) / 2.0 * classes as f32) as i64
                        }
                    };
                    Feed::Int((0..len).map(|i| label(i, draw.signed())).collect())
                }
                (_, Loss::BceWithLogits) if spec.name == "dp.labels" => {
                    let label = |i: usize, u: f32| match (i % 5, i % 3) {
                        (3, _) => -100.0,
                        (_, 1) => (u + 1.0) / 2.0,
                        _ => f32::from(u8::from(u > 0.0)),
                    };
                    Feed::Float((0..len).map(|i| label(i, draw.signed())).collect())
                }
                _ => Feed::Float((0..len).map(|_| draw.signed()).collect()),
            }
        })
        .collect()
}

fn row(feed: &Feed, row: usize, n: usize) -> Vec<f64> {
    match feed.select(&[row], n) {
        Feed::Float(v) => v.iter().map(|&v| f64::from(v)).collect(),
        Feed::Int(v) => v.iter().map(|&v| v as f64).collect(),
    }
}

fn to_f64(v: &[f32]) -> Vec<f64> {
    v.iter().map(|&v| f64::from(v)).collect()
}

/// Part of a batch's output that belongs to sample `i`.
fn sample(output: &[f32], i: usize, n: usize) -> &[f32] {
    let width = output.len() / n;
    &output[i * width..(i + 1) * width]
}

fn emit(case: &Case) -> GradGraph {
    derive(&case.graph, &case.options).unwrap_or_else(|derive_error| panic!("{}: {derive_error}", case.name))
}

fn check_against_finite_differences(case: &Case) {
    let grad = emit(case);
    let feeds = feeds(case, &grad, BATCH, 1);
    let outputs = Runner::tract(&grad, BATCH).run(&grad, &feeds, BATCH);
    let first_grad = grad.outputs.len() - grad.parameters.len();
    let params: Vec<Vec<f64>> = case
        .graph
        .parameters
        .iter()
        .map(|p| match &p.initial.data {
            TensorData::F32(v) => to_f64(v),
            _ => panic!("f32 parameters"),
        })
        .collect();
    for i in [0, BATCH - 1] {
        let inputs: Vec<Vec<f64>> = (0..grad.inputs.len()).map(|k| row(&feeds[k], i, BATCH)).collect();
        let label = grad.labels.as_ref().map_or(vec![], |_| row(&feeds[grad.inputs.len()], i, BATCH));
        let loss = |params: &[Vec<f64>]| reference::loss(&case.graph, &case.options, &inputs, &label, params);
        let what = format!("{}, sample {i}, loss", case.name);
        Closeness::FiniteDifference.check(&[f64::from(outputs[0][i])], &[loss(&params)], &what);
        let trained = case.graph.parameters.iter().enumerate().filter(|(_, p)| p.trained);
        for (slot, (index, parameter)) in trained.enumerate() {
            let got = to_f64(sample(&outputs[first_grad + slot], i, BATCH));
            let stride = got.len().div_ceil(PROBES);
            let probes: Vec<usize> = (0..got.len()).step_by(stride).collect();
            let central = |k: usize| {
                let mut moved = params.clone();
                let step = 1e-5;
                moved[index][k] += step;
                let up = loss(&moved);
                moved[index][k] -= 2.0 * step;
                (up - loss(&moved)) / (2.0 * step)
            };
            let want: Vec<f64> = probes.iter().map(|&k| central(k)).collect();
            let got: Vec<f64> = probes.iter().map(|&k| got[k]).collect();
            let what = format!("{}, sample {i}, gradient of {}", case.name, parameter.name);
            Closeness::FiniteDifference.check(&got, &want, &what);
        }
    }
}

fn check_backends_agree(case: &Case) {
    let grad = emit(case);
    let feeds = feeds(case, &grad, BATCH, 2);
    let ours = Runner::tract(&grad, BATCH).run(&grad, &feeds, BATCH);
    for mut runner in Runner::portable(&grad, BATCH).into_iter().chain(Runner::ort(&grad, BATCH)) {
        let theirs = runner.run(&grad, &feeds, BATCH);
        for ((spec, a), b) in grad.outputs.iter().zip(&ours).zip(&theirs) {
            Closeness::Backends.check(&to_f64(a), &to_f64(b), &format!("{}, {}", case.name, spec.name));
        }
    }
}

fn bits(v: &[f32]) -> Vec<u32> {
    v.iter().map(|v| v.to_bits()).collect()
}

fn check_samples_are_independent(case: &Case) {
    check_samples_are_independent_in::<BATCH>(case, &mut |grad, n| Some(Runner::tract(grad, n)));
}

/// On onnxruntime with an odd number of rows, because its kernels for full SIMD vectors and for the remainder differ.
fn check_samples_are_independent_on_ort(case: &Case) {
    check_samples_are_independent_in::<5>(case, &mut Runner::ort);
}

fn check_samples_are_independent_in<const BATCH: usize>(
    case: &Case,
    make: &mut dyn FnMut(&GradGraph, usize) -> Option<Runner>,
) {
    let grad = emit(case);
    let data = grad.inputs.len() + grad.labels.iter().len();
    let base = feeds(case, &grad, BATCH, 3);
    let other = feeds(case, &grad, BATCH, 4);
    let Some(mut runner) = make(&grad, BATCH) else {
        return;
    };
    let outputs = runner.run(&grad, &base, BATCH);
    // Rows of `base`. Row `from` comes from `other` if it is BATCH or more.
    let mut run_rows = |rows: &[usize]| {
        let pick = |(k, feed): (usize, &Feed)| {
            if k >= data {
                return feed.clone();
            }
            let both = match (feed, &other[k]) {
                (Feed::Float(a), Feed::Float(b)) => Feed::Float([&a[..], b].concat()),
                (Feed::Int(a), Feed::Int(b)) => Feed::Int([&a[..], b].concat()),
                _ => unreachable!("the same input has the same type"),
            };
            both.select(rows, 2 * BATCH)
        };
        runner.run(&grad, &base.iter().enumerate().map(pick).collect::<Vec<_>>(), BATCH)
    };
    let one_changed = std::array::from_fn(|row| if row == 2 { BATCH + 2 } else { row });
    let moved = std::array::from_fn(|row| (row + BATCH - 1) % BATCH);
    let reversed = std::array::from_fn(|row| BATCH - 1 - row);
    let repeated: [usize; BATCH] = [1; BATCH];
    for rows in [one_changed, moved, reversed, repeated] {
        let again = run_rows(&rows);
        for (k, spec) in grad.outputs.iter().enumerate() {
            if spec.shape.first() != Some(&damper_onnx::Dim::Batch) {
                continue;
            }
            for (to, &from) in rows.iter().enumerate().filter(|&(_, &from)| from < BATCH) {
                let (a, b) = (sample(&outputs[k], from, BATCH), sample(&again[k], to, BATCH));
                assert!(bits(a) == bits(b), "{}, {}: rows {rows:?}, row {to}", case.name, spec.name);
            }
        }
    }
    // Non-finite values affect only their own row.
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        const SPOILT: usize = 2;
        let mut spoilt = base.clone();
        for feed in &mut spoilt[..data] {
            if let Feed::Float(values) = feed {
                let width = values.len() / BATCH;
                values[SPOILT * width..(SPOILT + 1) * width].fill(bad);
            }
        }
        let again = runner.run(&grad, &spoilt, BATCH);
        for ((spec, before), after) in grad.outputs.iter().zip(&outputs).zip(&again) {
            if spec.shape.first() != Some(&damper_onnx::Dim::Batch) {
                continue;
            }
            for i in (0..BATCH).filter(|&i| i != SPOILT) {
                let (a, b) = (sample(before, i, BATCH), sample(after, i, BATCH));
                assert!(bits(a) == bits(b), "{}, {}: row {i} with {bad} in row {SPOILT}", case.name, spec.name);
            }
        }
    }
    // A batch of one has the same values.
    let mut alone = make(&grad, 1).expect("it was there for the batch");
    for i in 0..BATCH {
        let one: Vec<Feed> =
            base.iter().enumerate().map(|(k, f)| if k < data { f.select(&[i], BATCH) } else { f.clone() }).collect();
        for ((spec, a), b) in grad.outputs.iter().zip(&outputs).zip(alone.run(&grad, &one, 1)) {
            if spec.shape.first() == Some(&damper_onnx::Dim::Batch) {
                let what = format!("{}, {}, sample {i} alone", case.name, spec.name);
                Closeness::Backends.check(&to_f64(sample(a, i, BATCH)), &to_f64(&b), &what);
            }
        }
    }
}

/// All cases, named after their operator, loss or network.
fn all_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (op, of_rule) in CASES {
        for mut case in of_rule() {
            case.name = format!("{op}: {}", case.name);
            cases.push(case);
        }
    }
    cases.extend(losses::cases());
    cases.extend(nets::cases());
    cases.extend(rewritten::cases());
    cases.extend(pieces::cases());
    cases
}

/// Runs `check` on every case, and reports all failures.
fn for_each(check: fn(&Case)) {
    for_each_of(all_cases(), check);
}

fn for_each_of(cases: Vec<Case>, check: fn(&Case)) {
    let failed: Vec<&str> = cases
        .iter()
        .filter(|case| std::panic::catch_unwind(|| check(case)).is_err())
        .map(|case| case.name.as_str())
        .collect();
    assert!(failed.is_empty(), "{} of {} failed: {failed:#?}", failed.len(), cases.len());
}

/// All cases, including those in which gradients are never materialised.
fn readout_cases() -> Vec<Case> {
    all_cases().into_iter().chain(wide::cases()).collect()
}

/// Runs `check` on readouts. It uses the first case of each rule and every third of the others, since each has several
/// graphs on two backends. With `DAMPER_RULES=all` it uses all cases.
fn for_each_readout(check: fn(&Case)) {
    let is_all = std::env::var("DAMPER_RULES").is_ok_and(|which| which == "all");
    let mut rules = HashSet::new();
    let mut is_first = |case: &Case| case.name.split_once(": ").is_some_and(|(op, _)| rules.insert(op.to_owned()));
    let chosen = readout_cases().into_iter().enumerate().filter(|(at, case)| is_first(case) || is_all || at % 3 == 0);
    for_each_of(chosen.map(|(_, case)| case).collect(), check);
}

#[test]
fn cost_of_every_net_is_counted() {
    for case in nets::cases() {
        let cost = derive(&case.graph, &case.options).unwrap().cost;
        assert!(cost.sample_bytes > 0 && cost.fixed_bytes > 0, "{}: {cost:?}", case.name);
    }
}

#[test]
fn every_rule_has_cases() {
    assert_eq!(CASES.iter().map(|(op, _)| *op).collect::<Vec<_>>(), damper_grad::rules().collect::<Vec<_>>());
    for (op, of_rule) in CASES {
        assert!(!of_rule().is_empty(), "{op}");
    }
}

// An operator that is rewritten to others computes the same values.
#[test]
fn rewritten_operator_keeps_values() {
    for rewritten in rewritten::models() {
        let grad = emit(&rewritten.case());
        let feeds = feeds(&rewritten.case(), &grad, BATCH, 5);
        let ours = Runner::tract(&grad, BATCH).run(&grad, &feeds, BATCH);
        let at = grad.outputs.iter().position(|spec| spec.name == "y").unwrap();
        let Some(theirs) = run::original(&rewritten.original(), &grad, &feeds, BATCH) else {
            return;
        };
        Closeness::Backends.check(&to_f64(&ours[at]), &to_f64(&theirs), &rewritten.name);
    }
}

#[test]
fn gradients_match_finite_differences() {
    for_each(check_against_finite_differences);
}

#[test]
fn backends_agree_on_every_gradient() {
    for_each(check_backends_agree);
}

/// The optimizer of tract drops an `Expand` before a matrix product, even with other operators in between. If the
/// product contracts the expanded axis, the sum then has only one position. This is not an error, but another gradient.
#[test]
fn an_expand_is_of_a_constant_or_of_indices() {
    for_each_of(readout_cases(), |case| {
        let graph = emit(case).standard_model().graph.unwrap();
        let constants: Vec<&String> = graph.initializer.iter().map(|tensor| &tensor.name).collect();
        for node in graph.node.iter().filter(|node| node.op_type == "Expand" && !constants.contains(&&node.input[0])) {
            for user in graph.node.iter().filter(|user| user.input.contains(&node.output[0])) {
                let takes_indices = user.op_type.ends_with("Elements") && user.input[1] == node.output[0];
                assert!(takes_indices, "{}: {} reads an Expand", case.name, user.name);
            }
        }
    });
}

// The gradient of a sample depends only on that sample.
#[test]
fn gradient_depends_on_own_sample() {
    for_each(check_samples_are_independent);
}

// The gradient of a sample depends only on that sample, on onnxruntime.
#[test]
fn gradient_depends_on_own_sample_on_ort() {
    for_each(check_samples_are_independent_on_ort);
}

// Norms and clipped sums match the per-sample gradients.
#[test]
fn norms_and_clipped_sums_match_gradients() {
    for_each_readout(readouts::check_norms_and_sums);
}

#[test]
fn masked_row_adds_nothing() {
    for_each_readout(readouts::check_masks);
}

// Gradients at several points are combined before the readout.
#[test]
fn eval_points_combine_before_readout() {
    for_each_readout(readouts::check_points);
}

#[test]
fn a_wide_layers_gradients_are_never_formed() {
    // A parameter that is also used directly has a dense gradient.
    let cases = wide::cases().into_iter().filter(|case| !case.name.contains("dense uses"));
    for_each_of(cases.collect(), readouts::check_never_formed);
}

#[test]
fn one_point_is_no_points() {
    for_each_readout(readouts::check_one_point);
}

// The norm of a sample depends only on that sample.
#[test]
fn norm_depends_on_own_sample() {
    for_each_readout(|case| check_samples_are_independent(&readouts::norms(case)));
}

// The norm of a sample depends only on that sample, on onnxruntime.
#[test]
fn norm_depends_on_own_sample_on_ort() {
    for_each_readout(|case| check_samples_are_independent_on_ort(&readouts::norms(case)));
}

// An index outside the embedding matrix makes only that sample non-finite.
#[test]
fn out_of_range_index_affects_one_sample() {
    const SPOILT: usize = 2;
    let (_, of_rule) = CASES.iter().find(|(op, _)| *op == "Gather").unwrap();
    let case = of_rule().into_iter().find(|case| case.name == "an embedding of tokens").unwrap();
    let grad = emit(&case);
    let base = feeds(&case, &grad, BATCH, 5);
    let portable = Runner::portable(&grad, BATCH).expect("an embedding has portable kernels");
    for mut runner in
        [Some(Runner::tract(&grad, BATCH)), Some(portable), Runner::ort(&grad, BATCH)].into_iter().flatten()
    {
        let before = runner.run(&grad, &base, BATCH);
        for id in [5, -6, i64::MAX, i64::MIN] {
            let mut moved = base.clone();
            let Feed::Int(ids) = &mut moved[0] else { panic!("the first input is the tokens") };
            let width = ids.len() / BATCH;
            ids[SPOILT * width] = id;
            let after = runner.run(&grad, &moved, BATCH);
            for ((spec, before), after) in grad.outputs.iter().zip(&before).zip(&after) {
                for i in 0..BATCH {
                    let (was, is) = (sample(before, i, BATCH), sample(after, i, BATCH));
                    if i == SPOILT {
                        assert!(is.iter().any(|v| v.is_nan()), "{} with {id}", spec.name);
                    } else {
                        assert!(bits(was) == bits(is), "{} of sample {i} with {id}", spec.name);
                    }
                }
            }
        }
    }
}
