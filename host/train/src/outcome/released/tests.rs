//! Gradients of adapters follow from those of the merged weights by the chain rule.

use crate::engine::worker::plan;
use damper_edit::LoraOptions;
use damper_edit::init::Loaded;
use damper_edit::lora::{Lora, load};
use damper_grad::{DeriveOptions, GradGraph, Loss, Readout, derive};
use damper_onnx::TensorRef;
use damper_onnx::graph::{Graph, GraphOptions};
use damper_runtime::{Choice, open};
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::Path;

const ROWS: usize = 3;
const RANK: usize = 2;

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| (((at + seed) * 7919 + 13) % 1009) as f32 / 504.5 - 1.0).collect()
}

/// Returns each row's gradients by parameter name.
fn gradients(grad: &GradGraph, params: &HashMap<String, Vec<f32>>) -> Vec<HashMap<String, Vec<f32>>> {
    let (model, plan) = plan(grad, &["dp.grad."], NonZeroUsize::new(ROWS).unwrap());
    let mut session = open(Choice::Tract).unwrap().load(&model, &plan).unwrap();
    let x = numbers(grad.inputs[0].elements(ROWS), 5);
    let labels: Vec<i64> = (0..ROWS as i64).collect();
    let mut inputs = vec![TensorRef::F32(&x), TensorRef::I64(&labels)];
    inputs.extend(grad.parameters.iter().map(|spec| TensorRef::F32(&params[&spec.name])));
    let mut found = vec![HashMap::new(); ROWS];
    session
        .run(&inputs, &mut |outputs| {
            for (output, spec) in outputs.iter().zip(&plan.outputs) {
                let width = output.len() / ROWS;
                let name = spec.name.strip_prefix("dp.grad.").unwrap();
                for (row, found) in found.iter_mut().enumerate() {
                    found.insert(name.to_owned(), output[row * width..][..width].to_vec());
                }
            }
        })
        .unwrap();
    found
}

/// By the chain rule, with the gradient `G` of the merged weight, `[in, out]`: the gradient of `A` is `s G Bᵀ`, and
/// that of `B` is `s Aᵀ G`.
#[test]
fn gradients_follow_from_the_merged_weights() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../onnx-models/digits-mlp.onnx");
    let options = GraphOptions::default();
    let lora = LoraOptions { rank: NonZeroUsize::new(RANK).unwrap(), alpha: Some(3.0), targets: vec!["*".into()] };
    let lora = Lora { options: lora, keep: false };
    let (Loaded { model, .. }, adapted) = load(&path, Some(7).into(), &options, &lora).unwrap();
    let derived = DeriveOptions { readout: Readout::PerSample, ..DeriveOptions::new(Loss::SoftmaxCrossEntropy) };
    let graph = Graph::from_model(&adapted.model, &adapted.options(&options)).unwrap();
    let grad = derive(&graph, &derived).unwrap();
    let values: HashMap<String, Vec<f32>> = grad
        .parameters
        .iter()
        .enumerate()
        .map(|(seed, spec)| {
            (spec.name.clone(), numbers(spec.elements(1), 100 * seed).iter().map(|x| 0.2 * x).collect())
        })
        .collect();
    // The frozen weights do not have gradients.
    let mut names: Vec<String> = values.keys().cloned().collect();
    let mut expected = adapted.adapters.names();
    names.sort();
    expected.sort();
    assert_eq!(names, expected);
    assert!(!adapted.adapters.list.is_empty());
    let found = gradients(&grad, &values);

    let parts: Vec<(&str, &[f32])> = values.iter().map(|(name, values)| (name.as_str(), &values[..])).collect();
    let merged = adapted.adapters.merged(&model, &parts).unwrap();
    let plain = derive(&Graph::from_model(&model, &options).unwrap(), &derived).unwrap();
    let graph = Graph::from_model(&model, &options).unwrap();
    let mut params: HashMap<String, Vec<f32>> = graph
        .trained()
        .map(|parameter| (parameter.name.clone(), parameter.initial.as_f32().unwrap().to_vec()))
        .collect();
    params.extend(merged);
    let whole = gradients(&plain, &params);
    let scale = adapted.adapters.scale() as f32;
    for (found, whole) in found.iter().zip(&whole) {
        for adapter in &adapted.adapters.list {
            let (a, b, g) = (&values[&adapter.down], &values[&adapter.up], &whole[&adapter.weight]);
            let at = |input: usize, output: usize| {
                g[if adapter.transposed { output * adapter.inputs + input } else { input * adapter.outputs + output }]
            };
            let of_a = (0..adapter.inputs).flat_map(|input| (0..RANK).map(move |r| (input, r))).map(|(input, r)| {
                scale
                    * (0..adapter.outputs)
                        .map(|output| at(input, output) * b[r * adapter.outputs + output])
                        .sum::<f32>()
            });
            let of_b =
                (0..RANK).flat_map(|r| (0..adapter.outputs).map(move |output| (r, output))).map(|(r, output)| {
                    scale * (0..adapter.inputs).map(|input| at(input, output) * a[input * RANK + r]).sum::<f32>()
                });
            for (name, exact) in [(&adapter.down, of_a.collect::<Vec<_>>()), (&adapter.up, of_b.collect())] {
                let largest = exact.iter().fold(1e-3f32, |most, x| most.max(x.abs()));
                assert_eq!(found[name].len(), exact.len());
                for (found, exact) in found[name].iter().zip(&exact) {
                    assert!((found - exact).abs() <= 1e-5 * largest, "{name}: {found} {exact}");
                }
            }
        }
    }
}
