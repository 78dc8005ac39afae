//! Runs that train low-rank adapters beside frozen weights: the model with adapters is trained, and the model without them is released.

use crate::init::{InitError, Loaded, load_with_any_seed, uniform};
use damper_onnx::graph::{GraphOptions, retie};
use damper_onnx::pb::ModelProto;
use damper_onnx::{Adapters, LoraOptions, SettingError, add_adapters};
use std::path::Path;

/// The adapters that were asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct Lora {
    /// Rank, alpha and weights.
    pub options: LoraOptions,
    /// True if the trained model keeps the adapters, instead of weights that they are merged into.
    pub keep: bool,
}

/// A model with adapters.
#[derive(Clone, PartialEq, Debug)]
pub struct Adapted {
    /// The model with them.
    pub model: ModelProto,
    /// The adapters that were added.
    pub adapters: Adapters,
    /// [`Lora::keep`].
    pub keep: bool,
}

impl Adapted {
    /// The options with which the model is read: the adapters are trained.
    #[must_use]
    pub fn options(&self, options: &GraphOptions) -> GraphOptions {
        GraphOptions { adapters: self.adapters.names(), ..options.clone() }
    }

    /// The options with which the model without adapters is read: of given parameters `train` then names none.
    #[must_use]
    pub fn plain_options(&self, options: &GraphOptions) -> GraphOptions {
        let train = if options.parameter.is_empty() { options.train.clone() } else { vec![] };
        GraphOptions { train, ..options.clone() }
    }
}

/// Reads the model in `path`, makes the values that it leaves out, and adds adapters. `seed`, or 0, is that of both. An adapter's `A` is
/// uniform within 1/√inputs of 0, and its `B` is 0.
///
/// # Errors
///
/// As [`init::load`](crate::init::load), or no adapter can be added.
pub fn load(
    path: &Path,
    seed: Option<u64>,
    options: &GraphOptions,
    lora: &Lora,
) -> Result<(Loaded, Adapted), InitError> {
    if !options.only.is_empty() {
        let problem = "`lora` trains its adapters, and of the rest what `train` names; use that";
        return Err(SettingError::new("only", "", problem).into());
    }
    if !options.untie.is_empty() {
        let problem = "`lora` adapts a weight for all its uses; leave one of them out";
        return Err(SettingError::new("untie", "", problem).into());
    }
    let Loaded { model, mut warnings, .. } = load_with_any_seed(path, seed)?;
    let model = retie(&model, options)?.into_owned();
    let seed = seed.unwrap_or(0);
    let initial =
        |name: &str, inputs: usize, length: usize| uniform(seed, name, 1.0 / (inputs.max(1) as f64).sqrt(), length);
    let (adapted, adapters) = add_adapters(&model, &lora.options, &initial)?;
    warnings.extend(adapters.notes.iter().cloned());
    let adapted = Adapted { model: adapted, adapters, keep: lora.keep };
    Ok((Loaded { model, init_seed: Some(seed), warnings }, adapted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::plan;
    use damper_grad::{DeriveOptions, GradGraph, Loss, Readout, derive};
    use damper_onnx::TensorRef;
    use damper_onnx::graph::Graph;
    use damper_runtime::{Choice, open};
    use std::collections::HashMap;
    use std::num::NonZeroUsize;

    const ROWS: usize = 3;
    const RANK: usize = 2;

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|at| (((at + seed) * 7919 + 13) % 1009) as f32 / 504.5 - 1.0).collect()
    }

    /// Each row's gradients by the parameters' names.
    fn gradients(grad: &GradGraph, params: &HashMap<String, Vec<f32>>) -> Vec<HashMap<String, Vec<f32>>> {
        let (bytes, plan) = plan(grad, &["dp.grad."], NonZeroUsize::new(ROWS).unwrap());
        let mut session = open(Choice::Tract).unwrap().load(&bytes, &plan).unwrap();
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

    /// By the chain rule from the gradient `G` of the merged weight, `[in, out]`: that of `A` is `s G Bᵀ`, and that of `B` is `s Aᵀ G`.
    #[test]
    fn gradients_follow_from_the_merged_weights() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../onnx-models/digits-mlp.onnx");
        let options = GraphOptions::default();
        let lora = LoraOptions { rank: NonZeroUsize::new(RANK).unwrap(), alpha: Some(3.0), targets: vec!["*".into()] };
        let lora = Lora { options: lora, keep: false };
        let (Loaded { model, .. }, adapted) = load(&path, Some(7), &options, &lora).unwrap();
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
        // The frozen weights have no gradient.
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
                    g[if adapter.transposed {
                        output * adapter.inputs + input
                    } else {
                        input * adapter.outputs + output
                    }]
                };
                let of_a =
                    (0..adapter.inputs).flat_map(|input| (0..RANK).map(move |r| (input, r))).map(|(input, r)| {
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

    #[test]
    fn adapters_start_from_the_public_seed() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../onnx-models/digits-mlp.onnx");
        let lora = LoraOptions { rank: NonZeroUsize::new(RANK).unwrap(), alpha: None, targets: vec!["*".into()] };
        let lora = Lora { options: lora, keep: false };
        let with = |seed| load(&path, seed, &GraphOptions::default(), &lora).unwrap();
        let (loaded, adapted) = with(None);
        assert_eq!((loaded.init_seed, with(Some(0)).1, with(None).1), (Some(0), adapted.clone(), adapted.clone()));
        assert!(with(Some(1)).1 != adapted);
        // Of given parameters, `train` names those that are trained beside the adapters.
        let names = |graph: &Graph| graph.trained().map(|parameter| parameter.name.clone()).collect::<Vec<_>>();
        let given = GraphOptions {
            parameter: ["fc1.weight", "fc2.weight", "fc2.bias"].map(String::from).into(),
            train: vec!["*bias".into()],
            ..GraphOptions::default()
        };
        let (_, adapted) = load(&path, None, &given, &lora).unwrap();
        let mut found = names(&Graph::from_model(&adapted.model, &adapted.options(&given)).unwrap());
        found.sort();
        let expected = ["fc1.weight.lora_A", "fc1.weight.lora_B", "fc2.bias", "fc2.weight.lora_A", "fc2.weight.lora_B"];
        assert_eq!(found, expected);
        assert!(Graph::from_model(&loaded.model, &given).unwrap_err().to_string().contains("`parameter` names all"));
        let only = GraphOptions { only: vec!["*".into()], ..GraphOptions::default() };
        assert!(load(&path, None, &only, &lora).unwrap_err().to_string().starts_with("`only`: `lora` trains"));
    }
}
