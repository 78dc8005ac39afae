//! Compares the other readouts of a network in f64 with its `per-sample` gradients.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use damper_grad::{DeriveOptions, Readout, derive};
use damper_onnx::graph::Graph;

use super::double;
use super::reference::Array;
use super::run::Feed;

/// Tolerance relative to the largest entry. A norm by Gram matrices is the root of a sum that loses half the digits.
const CLOSE: f64 = 1e-7;

type Outputs = BTreeMap<String, Array>;

/// Weights of the two evaluation points.
const MIX: [f32; 2] = [0.75, -1.25];

/// Checks norms, clipped sums and gradients at two points of `wide`. Its inputs are `feeds`, with the parameters from
/// index `data` on.
pub fn check(
    wide: &Graph,
    options: &DeriveOptions,
    feeds: &[Feed],
    data: usize,
    samples: usize,
    per_sample: &Outputs,
) -> Result<(), String> {
    let names: Vec<&str> = wide.trained().map(|p| &*p.name).collect();
    bounded(wide, options, feeds, samples, &names, per_sample)?;

    let moved = |feed: &Feed| match feed {
        Feed::Float(values) => Feed::Float(values.iter().map(|v| 0.875 * v + 0.0625).collect()),
        Feed::Int(_) => unreachable!("parameters are floats"),
    };
    let there: Vec<Feed> = feeds[data..].iter().map(moved).collect();
    let at_there = run(wide, options, Readout::PerSample, 1, &[&feeds[..data], &there].concat(), samples)?;
    let mut mixed = Outputs::new();
    for name in &names {
        let key = format!("dp.grad.{name}");
        let (here, there) = (&per_sample[&key], &at_there[&key]);
        let pairs = here.data.iter().zip(&there.data);
        let entries = pairs.map(|(h, t)| f64::from(MIX[0]) * h + f64::from(MIX[1]) * t).collect();
        mixed.insert(key, Array::new(&here.shape, entries));
    }
    let both = [feeds, &there, &[Feed::Float(MIX.to_vec())]].concat();
    let got = run(wide, options, Readout::PerSample, 2, &both, samples)?;
    let largest = largest(names.iter().flat_map(|name| &at_there[&format!("dp.grad.{name}")].data))
        + self::largest(names.iter().flat_map(|name| &per_sample[&format!("dp.grad.{name}")].data));
    for (key, want) in &mixed {
        close(&got[key].data, &want.data, largest, &format!("two points, {key}"))?;
    }
    close(&got["dp.loss"].data, &per_sample["dp.loss"].data, 1.0, "two points, the loss")?;
    // The same two points, clipped.
    options_at(options, 2, |options| bounded(wide, options, &both, samples, &names, &mixed))
}

/// Checks norms and clipped sums against the gradients `want`.
fn bounded(
    wide: &Graph,
    options: &DeriveOptions,
    feeds: &[Feed],
    samples: usize,
    names: &[&str],
    want: &Outputs,
) -> Result<(), String> {
    let points = options.points.get();
    let row = |name: &str, sample: usize| {
        let data = &want[&format!("dp.grad.{name}")].data;
        let width = data.len() / samples;
        &data[sample * width..][..width]
    };
    let norm = |sample: usize| names.iter().flat_map(|name| row(name, sample)).map(|g| g * g).sum::<f64>().sqrt();
    let norms: Vec<f64> = (0..samples).map(norm).collect();
    let largest = largest(&norms).max(1e-2);
    let got = run(wide, options, Readout::Norms, points, feeds, samples)?;
    close(&got["dp.norm"].data, &norms, largest, &format!("norms at {points}"))?;

    // A clip between two norms, and one sample with weight 0.
    let clip = ((norms[0] + norms[1]) / 2.0).max(1e-3) as f32;
    let weights: Vec<f32> = (0..samples).map(|sample| f32::from(sample != 1)).collect();
    let fed = [feeds, &[Feed::Float(vec![clip]), Feed::Float(weights.clone())]].concat();
    let got = run(wide, options, Readout::ClippedSum, points, &fed, samples)?;
    close(&got["dp.norm"].data, &norms, largest, &format!("norms beside the sum at {points}"))?;
    for name in names {
        let mut sum = vec![0.0; row(name, 0).len()];
        for sample in (0..samples).filter(|&sample| weights[sample] > 0.0) {
            let factor = (f64::from(clip) / norms[sample]).min(1.0);
            sum.iter_mut().zip(row(name, sample)).for_each(|(sum, g)| *sum += factor * g);
        }
        close(&got[&format!("dp.sum.{name}")].data, &sum, largest, &format!("clipped sum of {name} at {points}"))?;
    }
    Ok(())
}

fn options_at<T>(options: &DeriveOptions, points: usize, with: impl FnOnce(&DeriveOptions) -> T) -> T {
    let mut options = options.clone();
    options.points = NonZeroUsize::new(points).expect("some points");
    with(&options)
}

fn run(
    wide: &Graph,
    options: &DeriveOptions,
    readout: Readout,
    points: usize,
    feeds: &[Feed],
    samples: usize,
) -> Result<Outputs, String> {
    options_at(options, points, |options| {
        let options = DeriveOptions { readout, ..options.clone() };
        let grad = derive(wide, &options).map_err(|derive_error| format!("{readout:?} at {points}: {derive_error}"))?;
        Ok(double::run(&grad, feeds, samples))
    })
}

fn largest<'a>(values: impl IntoIterator<Item = &'a f64>) -> f64 {
    values.into_iter().fold(0.0, |largest: f64, v| largest.max(v.abs()))
}

fn close(got: &[f64], want: &[f64], scale: f64, what: &str) -> Result<(), String> {
    assert_eq!(got.len(), want.len(), "{what}");
    let near = |(g, w): (&f64, &f64)| (g - w).abs() <= CLOSE * scale;
    let far = got.iter().zip(want).position(|pair| !near(pair));
    far.map_or(Ok(()), |k| Err(format!("{what}: entry {k} is {}, not {}", got[k], want[k])))
}
