//! Random networks of all operators with a rule. Tests per-sample gradients in f64 against finite differences of the
//! reference interpreter. Tests the other readouts in f64 against the per-sample gradients. In f32, tests the
//! independence of the samples on each backend.
//!
//! A seed always gives the same network. Some hundreds run by default. For a fuzz run of thousands:
//!
//!     DAMPER_RANDOM_NETWORKS=5000 cargo test --release -p damper-grad --test random
//!
//! For a single network, with its contents printed: `DAMPER_RANDOM_SEED=17`.

mod contraction;
mod double;
mod draw;
mod elementwise;
mod layout;
mod net;
mod network;
mod readouts;
#[path = "../rules/reference.rs"]
mod reference;
#[expect(dead_code, reason = "the tests of the rules run more of it")]
#[path = "../rules/run.rs"]
mod run;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use damper_grad::{DeriveOptions, GradGraph, Loss, derive};
use damper_onnx::graph::{DType, Graph, GraphOptions};
use damper_onnx::pb::ModelProto;
use draw::SplitMix;
use net::VOCABULARY;
use network::{Op, network};
use run::{Feed, Runner, extents, specs};

/// Number of networks in a test run.
const NETWORKS: u64 = 420;
/// Networks of longer runs that once failed.
const FOUND: [u64; 1] = [2455];
/// Batch size.
const BATCH: usize = 3;
/// Maximum number of coordinates of one parameter that are compared.
const PROBES: usize = 6;
/// Number of networks that the portable backend rejected.
static REFUSED: AtomicU64 = AtomicU64::new(0);
/// Operators without a portable kernel. They are drawn rarely.
const NOT_PORTABLE: [&str; 9] = ["Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh", "TopK"];
/// Tolerance of a gradient in f64 against the finite difference, relative to the largest entry of the sample's
/// gradient.
const CLOSE: f64 = 1e-6;

fn feeds(grad: &GradGraph, graph: &Graph, loss: &Loss, seed: u64) -> Vec<Feed> {
    let mut draw = SplitMix::new(!seed);
    let data = grad.inputs.len() + grad.labels.iter().len();
    let feed = |(i, spec): (usize, &damper_onnx::TensorSpec)| {
        let len = extents(spec, BATCH).iter().product();
        if i >= data {
            let parameter = graph.trained().find(|parameter| parameter.name == spec.name).unwrap();
            return Feed::Float(parameter.initial.as_f32().unwrap().to_vec());
        }
        let classes = graph.values[graph.outputs[0].0].shape[1];
        match (&*spec.name, spec.dtype, loss) {
            ("dp.labels", DType::I64, _) => Feed::Int((0..len).map(|_| draw.below(classes) as i64).collect()),
            (_, DType::I64, _) => Feed::Int((0..len).map(|_| draw.below(VOCABULARY) as i64).collect()),
            ("dp.labels", _, Loss::BceWithLogits) => Feed::Float((0..len).map(|_| draw.below(2) as f32).collect()),
            _ => Feed::Float((0..len).map(|_| draw.unit()).collect()),
        }
    };
    specs(grad).iter().enumerate().map(feed).collect()
}

fn row(feed: &Feed, row: usize) -> Vec<f64> {
    match feed.select(&[row], BATCH) {
        Feed::Float(v) => v.iter().map(|&v| f64::from(v)).collect(),
        Feed::Int(v) => v.iter().map(|&v| v as f64).collect(),
    }
}

/// Fails at the first difference above the tolerance, and describes it.
fn check_against_finite_differences(graph: &Graph, options: &DeriveOptions, feeds: &[Feed]) -> Result<(), String> {
    let wide = double::widened(graph);
    let grad = derive(&wide, options).map_err(|derive_error| format!("in f64: {derive_error}"))?;
    let outputs = double::run(&grad, feeds, BATCH);
    let data = grad.inputs.len() + grad.labels.iter().len();
    readouts::check(&wide, options, feeds, data, BATCH, &outputs)?;
    let params: Vec<Vec<f64>> =
        graph.parameters.iter().map(|p| p.initial.as_f32().unwrap().iter().map(|&v| f64::from(v)).collect()).collect();
    for sample in [0, BATCH - 1] {
        let inputs: Vec<Vec<f64>> = (0..grad.inputs.len()).map(|k| row(&feeds[k], sample)).collect();
        let label = if data > grad.inputs.len() { row(&feeds[data - 1], sample) } else { vec![] };
        let loss = |params: &[Vec<f64>]| reference::loss(graph, options, &inputs, &label, params);
        let (got, want) = (outputs["dp.loss"].data[sample], loss(&params));
        // A normalisation of nearly equal values loses digits.
        let near = (got - want).abs() <= 1e-8 * want.abs().max(1.0);
        if !near {
            return Err(format!("sample {sample}: the loss is {got}, not {want}"));
        }
        let mine = |name: &str, len: usize| match outputs.get(&format!("dp.grad.{name}")) {
            Some(all) => all.data[sample * len..][..len].to_vec(),
            None => vec![0.0; len],
        };
        let trained = || graph.parameters.iter().enumerate().filter(|(_, p)| p.trained);
        let largest = trained().flat_map(|(i, p)| mine(&p.name, params[i].len())).fold(0.0f64, |m, v| v.abs().max(m));
        for (index, parameter) in trained() {
            let got = mine(&parameter.name, params[index].len());
            for k in (0..got.len()).step_by(got.len().div_ceil(PROBES)) {
                // A kink between the two points invalidates a difference. A smaller step avoids it.
                let differences = [1e-5, 1e-6, 1e-7].map(|step| {
                    let mut moved = params.clone();
                    moved[index][k] = params[index][k] + step;
                    let up = loss(&moved);
                    moved[index][k] = params[index][k] - step;
                    (up - loss(&moved)) / (2.0 * step)
                });
                let near = |want: &f64| (got[k] - want).abs() <= CLOSE * largest.max(1e-2);
                if !differences.iter().any(near) {
                    return Err(format!(
                        "sample {sample}: entry {k} of the gradient of {} is {}, and finite differences are {differences:?}",
                        parameter.name, got[k]
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Reordered rows give the same bits in the new order.
fn check_independence(grad: &GradGraph, feeds: &[Feed], runner: &mut Runner) -> Result<(), String> {
    let data = grad.inputs.len() + grad.labels.iter().len();
    let base = runner.run(grad, feeds, BATCH);
    let rows = [2, 0, 0];
    let moved: Vec<Feed> =
        feeds.iter().enumerate().map(|(k, f)| if k < data { f.select(&rows, BATCH) } else { f.clone() }).collect();
    let again = runner.run(grad, &moved, BATCH);
    for ((spec, a), b) in grad.outputs.iter().zip(&base).zip(&again) {
        let width = a.len() / BATCH;
        for (to, from) in rows.into_iter().enumerate() {
            // The maximum of 0 and −0 may be either, depending on their order. The grid drops the sign of a zero.
            let bits = |v: &[f32], row: usize| {
                v[row * width..][..width].iter().map(|v| (v + 0.0).to_bits()).collect::<Vec<_>>()
            };
            if bits(a, from) != bits(b, to) {
                return Err(format!("{}: row {from} has other bits as row {to}", spec.name));
            }
        }
    }
    Ok(())
}

/// Compares the outputs of two runtimes within rounding, relative to the largest entry of the output and of all
/// outputs.
fn check_near(grad: &GradGraph, got: &[Vec<f32>], want: &[Vec<f32>]) -> Result<(), String> {
    let largest = |values: &[f32]| values.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let all = want.iter().map(|want| largest(want)).filter(|x| x.is_finite()).fold(0.0f32, f32::max);
    for ((spec, got), want) in grad.outputs.iter().zip(got).zip(want) {
        let bound = 1e-3 * largest(want) + 1e-4 * all;
        for (got, want) in got.iter().zip(want) {
            let near = (got - want).abs() <= bound || got.is_nan() && want.is_nan() || got == want;
            // If one overflows, the other need not.
            if !near && want.is_finite() {
                return Err(format!("{}: {got}, and tract has {want}", spec.name));
            }
        }
    }
    Ok(())
}

/// Recomputed activations keep their bits. Not tested on tract, which rewrites both graphs differently.
fn check_checkpointed(
    grad: &GradGraph,
    again: &GradGraph,
    feeds: &[Feed],
    runner: [&mut Runner; 2],
) -> Result<(), String> {
    let [plain, checkpointed] = runner;
    let outputs = plain.run(grad, feeds, BATCH);
    for ((spec, a), b) in grad.outputs.iter().zip(&outputs).zip(&checkpointed.run(again, feeds, BATCH)) {
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        if bits(a) != bits(b) {
            return Err(format!("{}: other bits where activations are computed again", spec.name));
        }
    }
    Ok(())
}

/// Frozen weights: in one of four networks, about a third of the weights, but never the last bias.
fn frozen(model: &ModelProto, seed: u64) -> Vec<String> {
    let mut draw = SplitMix::new(seed.wrapping_add(1 << 32));
    if !draw.one_in(4) {
        return vec![];
    }
    let initializers = model.graph.iter().flat_map(|graph| &graph.initializer);
    let mut weights: Vec<String> = initializers.map(|t| t.name.clone()).filter(|name| name.starts_with('w')).collect();
    weights.pop();
    weights.retain(|_| draw.one_in(3));
    weights
}

/// Options, graph and gradient graph of the network.
fn derived(seed: u64) -> Result<(DeriveOptions, Graph, GradGraph), String> {
    let network = network(seed);
    let choice = GraphOptions { freeze: frozen(&network.model, seed), ..GraphOptions::default() };
    let graph = Graph::from_model(&network.model, &choice).map_err(|error| error.to_string())?;
    let grad = derive(&graph, &network.options).map_err(|derive_error| derive_error.to_string())?;
    Ok((network.options, graph, grad))
}

fn check(seed: u64) -> Result<(), String> {
    let (options, graph, grad) = derived(seed)?;
    let feeds = feeds(&grad, &graph, &options.loss, seed);
    check_against_finite_differences(&graph, &options, &feeds)?;
    let mut tract = Runner::tract(&grad, BATCH);
    check_independence(&grad, &feeds, &mut tract).map_err(|error| format!("tract: {error}"))?;
    let again = derive(&graph, &DeriveOptions { checkpoint_activations: true, ..options.clone() });
    let again = again.map_err(|derive_error| derive_error.to_string())?;
    match Runner::portable(&grad, BATCH) {
        Ok(mut portable) => {
            let mut checkpointed = Runner::portable(&again, BATCH)?;
            check_checkpointed(&grad, &again, &feeds, [&mut portable, &mut checkpointed])
                .and_then(|()| check_independence(&grad, &feeds, &mut portable))
                .and_then(|()| check_near(&grad, &portable.run(&grad, &feeds, BATCH), &tract.run(&grad, &feeds, BATCH)))
                .map_err(|error| format!("portable: {error}"))?;
        }
        Err(_) if network(seed).ops.iter().any(|op| NOT_PORTABLE.contains(&op.as_str())) => {}
        Err(refusal) if refusal.contains("portable kernel") => {
            REFUSED.fetch_add(1, Ordering::Relaxed);
        }
        Err(error) => return Err(error),
    }
    match (Runner::ort(&grad, BATCH), Runner::ort(&again, BATCH)) {
        (Some(mut ort), Some(mut checkpointed)) => check_independence(&grad, &feeds, &mut ort)
            .and_then(|()| check_checkpointed(&grad, &again, &feeds, [&mut ort, &mut checkpointed]))
            .map_err(|error| format!("onnxruntime: {error}")),
        _ => Ok(()),
    }
}

fn environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a whole number")))
}

#[test]
fn gradients_match_finite_differences() {
    if let Some(seed) = environment("DAMPER_RANDOM_SEED") {
        let models = [network(seed).model, derived(seed).unwrap().2.standard_model()];
        for node in models.into_iter().flat_map(|model| model.graph.unwrap().node) {
            println!("{:?} = {} {:?} {:?}", node.output, node.op_type, node.input, node.attribute);
        }
        check(seed).unwrap();
        return;
    }
    let count = environment("DAMPER_RANDOM_NETWORKS").unwrap_or(NETWORKS);
    let seeds: Vec<u64> = (0..count).chain(FOUND).collect();
    let next = AtomicUsize::new(0);
    let check_next = || {
        let mut failed = BTreeMap::new();
        while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = std::panic::catch_unwind(|| check(seed));
            let outcome = outcome.unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                Err(format!("panic: {}", text.unwrap_or_else(|| "without a text".into())))
            });
            if let Err(error) = outcome {
                failed.insert(seed, error);
            }
        }
        failed
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let failed: BTreeMap<u64, String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(check_next)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let refused = REFUSED.load(Ordering::Relaxed);
    println!("the portable backend refused {refused} of {count} networks");
    let list: Vec<String> = failed.iter().take(40).map(|(seed, error)| format!("seed {seed}: {error}")).collect();
    assert!(failed.is_empty(), "{} of {count} networks failed:\n{}", failed.len(), list.join("\n"));
    assert!(refused * 10 <= count, "the portable backend refused {refused} of {count} networks");
}

#[test]
fn every_operator_with_a_rule_is_drawn() {
    let drawn: BTreeSet<String> = (0..NETWORKS).flat_map(|seed| network(seed).ops).collect();
    let missing: Vec<&str> = damper_grad::rules().filter(|op| !drawn.contains(*op)).collect();
    assert!(missing.is_empty(), "never drawn in {NETWORKS} networks: {missing:?}");
}
