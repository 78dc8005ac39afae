//! Compares the readouts: norms and clipped sums with f64 results from the `per-sample` readout, and several points
//! with one point at a time.

use std::num::NonZeroUsize;

use super::builder::Case;
use damper_grad::{GradGraph, Readout};
use damper_testing::Random;

use super::run::{Feed, Runner, largest_tensor};
use super::{BATCH, emit, feeds, sample, to_f64};

/// Tolerance of a sum against f64, relative to the largest entry of the sum of magnitudes. The same holds for norms.
const CLOSE: f64 = 1e-5;

/// Creates a runner for a graph.
pub type Make = fn(&GradGraph, usize) -> Option<Runner>;

/// Runners of tract, and of onnxruntime if it is available.
pub const BACKENDS: [Make; 2] = [|grad, n| Some(Runner::tract(grad, n)), Runner::ort];

/// Gradients of a batch from the `per-sample` readout, in f64.
pub struct PerSample {
    /// Entries `[parameter][sample][entry]`.
    grads: Vec<Vec<Vec<f64>>>,
}

impl PerSample {
    /// Entries `[parameter][sample][entry]` from another source.
    pub fn recorded(grads: Vec<Vec<Vec<f64>>>) -> Self {
        Self { grads }
    }

    fn new(grad: &GradGraph, outputs: &[Vec<f32>]) -> Self {
        let first = grad.outputs.len() - grad.parameters.len();
        let rows = |output: &Vec<f32>| (0..BATCH).map(|i| to_f64(sample(output, i, BATCH))).collect();
        Self { grads: outputs[first..].iter().map(rows).collect() }
    }

    fn norm(&self, i: usize) -> f64 {
        self.grads.iter().flat_map(|parameter| &parameter[i]).map(|g| g * g).sum::<f64>().sqrt()
    }

    /// For each parameter the sum over the samples weighted by `factors`, and the sum of magnitudes.
    fn sum(&self, factors: &[f64]) -> Vec<(Vec<f64>, Vec<f64>)> {
        let of = |parameter: &Vec<Vec<f64>>| {
            let width = parameter[0].len();
            let (mut sum, mut magnitude) = (vec![0.0; width], vec![0.0; width]);
            for (row, factor) in parameter.iter().zip(factors).filter(|(_, factor)| **factor != 0.0) {
                for (k, g) in row.iter().enumerate() {
                    sum[k] += factor * g;
                    magnitude[k] += (factor * g).abs();
                }
            }
            (sum, magnitude)
        };
        self.grads.iter().map(of).collect()
    }
}

fn check_close(got: &[f64], want: &[f64], scale: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (k, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= CLOSE * scale + 1e-9, "{what}: entry {k} is {g}, not {w}");
    }
}

fn largest(v: &[f64]) -> f64 {
    v.iter().fold(0.0, |m: f64, v| m.max(v.abs()))
}

fn with(case: &Case, readout: Readout, points: usize) -> Case {
    let mut case = case.clone();
    case.options.readout = readout;
    case.options.points = NonZeroUsize::new(points).unwrap();
    case
}

/// The case with the `norms` readout.
pub fn norms(case: &Case) -> Case {
    with(case, Readout::Norms, 1)
}

/// Clip between the norms, and weights with a row of weight 0.
fn clip_of(norms: &[f64]) -> f64 {
    let mut sorted = norms.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = (sorted[1] + sorted[2]) / 2.0;
    f64::from(if middle > 0.0 { middle as f32 } else { 1.0 })
}

const WEIGHTS: [f32; BATCH] = [1.0, 1.0, 0.0, 1.0];

fn factors(norms: &[f64], clip: f64) -> Vec<f64> {
    norms.iter().zip(WEIGHTS).map(|(norm, weight)| f64::from(weight) * (clip / norm).min(1.0)).collect()
}

/// Checks norms and clipped sums of `case` against `want`. Its inputs are `feeds` and those that the readouts add.
pub fn check_against(case: &Case, points: usize, feeds: &[Feed], want: &PerSample, make: Make, floor: f64) {
    let norms: Vec<f64> = (0..BATCH).map(|i| want.norm(i)).collect();
    let clip = clip_of(&norms);
    let scale = largest(&norms).max(floor);
    let grad = emit(&with(case, Readout::Norms, points));
    let Some(mut runner) = make(&grad, BATCH) else {
        return;
    };
    let outputs = runner.run(&grad, feeds, BATCH);
    assert_eq!(grad.outputs.last().unwrap().name, "dp.norm");
    check_close(&to_f64(outputs.last().unwrap()), &norms, scale, &format!("{}, norms", case.name));

    let grad = emit(&with(case, Readout::ClippedSum, points));
    let mut runner = make(&grad, BATCH).expect("it was there");
    let fed = [feeds, &[Feed::Float(vec![clip as f32]), Feed::Float(WEIGHTS.to_vec())]].concat();
    let outputs = runner.run(&grad, &fed, BATCH);
    let first = grad.outputs.len() - grad.parameters.len();
    assert_eq!(grad.outputs[first - 1].name, "dp.norm");
    check_close(&to_f64(&outputs[first - 1]), &norms, scale, &format!("{}, norms beside the sum", case.name));
    let sums = want.sum(&factors(&norms, clip));
    for ((spec, got), (sum, magnitude)) in grad.outputs[first..].iter().zip(&outputs[first..]).zip(&sums) {
        assert!(spec.name.starts_with("dp.sum."), "{}", spec.name);
        let scale = largest(magnitude).max(floor);
        check_close(&to_f64(got), sum, scale, &format!("{}, {}", case.name, spec.name));
    }
}

/// Checks norms and clipped sums against the `per-sample` gradients.
pub fn check_norms_and_sums(case: &Case) {
    for make in BACKENDS {
        let grad = emit(case);
        let feeds = feeds(case, &grad, BATCH, 5);
        let Some(mut runner) = make(&grad, BATCH) else {
            continue;
        };
        let want = PerSample::new(&grad, &runner.run(&grad, &feeds, BATCH));
        check_against(case, 1, &feeds, &want, make, 0.0);
    }
}

/// Rows with non-finite values, and rows of weight 0, do not change any bit of the sum of the others.
pub fn check_masks(case: &Case) {
    for make in BACKENDS {
        let grad = emit(&with(case, Readout::ClippedSum, 1));
        let Some(mut runner) = make(&grad, BATCH) else {
            continue;
        };
        let clean = feeds(case, &grad, BATCH, 6);
        let first = grad.outputs.len() - grad.parameters.len();
        let mut run = |feeds: &[Feed], weights: [f32; BATCH]| {
            let fed = [feeds, &[Feed::Float(vec![0.5]), Feed::Float(weights.to_vec())]].concat();
            let outputs = runner.run(&grad, &fed, BATCH);
            (outputs[first - 1].clone(), outputs[first..].to_vec())
        };
        let (_, want) = run(&clean, [1.0, 0.0, 1.0, 1.0]);
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut poisoned = clean.clone();
            for feed in &mut poisoned[..grad.inputs.len()] {
                if let Feed::Float(values) = feed {
                    let width = values.len() / BATCH;
                    values[width..2 * width].fill(bad);
                }
            }
            let (norms, left_out) = run(&poisoned, [1.0, 0.0, 1.0, 1.0]);
            assert!(left_out == want, "{}: {bad} in a row of weight 0", case.name);
            if norms[1].is_finite() {
                continue;
            }
            let (_, masked) = run(&poisoned, [1.0; BATCH]);
            assert!(masked == want, "{}: {bad} in a row of weight 1", case.name);
        }
    }
}

/// Gradients combined over three points equal the combination of three runs. Loss and outputs are those at point 0.
pub fn check_points(case: &Case) {
    const POINTS: usize = 3;
    const MIX: [f32; POINTS] = [0.75, -0.5, 1.25];
    let grad = emit(case);
    let feeds = feeds(case, &grad, BATCH, 7);
    let data = feeds.len() - grad.parameters.len();
    let mut draw = Random(8);
    let mut at = |point: usize| -> Vec<Feed> {
        let moved = |feed: &Feed| match feed {
            Feed::Float(values) => {
                Feed::Float(values.iter().map(|v| v + 0.05 * point as f32 * draw.signed()).collect())
            }
            Feed::Int(_) => unreachable!("parameters are floats"),
        };
        feeds[data..].iter().map(moved).collect()
    };
    let points: Vec<Vec<Feed>> = (0..POINTS).map(&mut at).collect();
    let all: Vec<Feed> =
        feeds[..data].iter().chain(points.iter().flatten()).cloned().chain([Feed::Float(MIX.to_vec())]).collect();
    for make in BACKENDS {
        let Some(mut single) = make(&grad, BATCH) else {
            continue;
        };
        let runs: Vec<Vec<Vec<f32>>> =
            points.iter().map(|point| single.run(&grad, &[&feeds[..data], point].concat(), BATCH)).collect();
        let each: Vec<PerSample> = runs.iter().map(|outputs| PerSample::new(&grad, outputs)).collect();
        let mut want = PerSample { grads: vec![] };
        let mut floor: f64 = 0.0;
        for parameter in 0..grad.parameters.len() {
            let mixed = |i: usize| -> Vec<f64> {
                let width = each[0].grads[parameter][i].len();
                let entry = |k: usize| (0..POINTS).map(|p| f64::from(MIX[p]) * each[p].grads[parameter][i][k]).sum();
                (0..width).map(entry).collect()
            };
            want.grads.push((0..BATCH).map(mixed).collect());
            let magnitude = each.iter().flat_map(|point| point.grads[parameter].iter().map(|row| largest(row)));
            floor = magnitude.fold(floor, f64::max);
        }
        let several = emit(&with(case, Readout::PerSample, POINTS));
        let outputs = make(&several, BATCH).expect("it was there").run(&several, &all, BATCH);
        let first = several.outputs.len() - several.parameters.len();
        for (k, spec) in several.outputs[..first].iter().enumerate() {
            let want = to_f64(&runs[0][k]);
            check_close(&to_f64(&outputs[k]), &want, largest(&want), &format!("{}, {}", case.name, spec.name));
        }
        for (parameter, spec) in several.outputs[first..].iter().enumerate() {
            let want: Vec<f64> = want.grads[parameter].concat();
            check_close(&to_f64(&outputs[first + parameter]), &want, floor, &format!("{}, {}", case.name, spec.name));
        }
        check_against(case, POINTS, &all, &want, make, floor);
    }
}

/// No tensor with all samples' gradients is computed.
pub fn check_never_formed(case: &Case) {
    let parameters = case.graph.parameters.iter().filter(|p| p.trained);
    let widest = parameters.map(|p| p.initial.shape.iter().product::<usize>()).max().expect("one is trained");
    for (readout, formed) in [(Readout::PerSample, true), (Readout::Norms, false), (Readout::ClippedSum, false)] {
        let largest = largest_tensor(&emit(&with(case, readout, 1)), BATCH);
        assert_eq!(largest >= BATCH * widest, formed, "{}: {largest} elements, {readout:?}", case.name);
    }
}

/// With one point, parameters keep their names, and nothing is combined.
pub fn check_one_point(case: &Case) {
    for readout in [Readout::PerSample, Readout::Norms, Readout::ClippedSum] {
        let one = emit(&with(case, readout, 1));
        assert!(one.mix.is_none() && one.feeds().iter().all(|spec| !spec.name.contains('@')));
    }
}
