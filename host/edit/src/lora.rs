//! Runs that train low-rank adapters next to frozen weights. The model with adapters is trained, and the model without
//! them is released.

use crate::init::{InitError, LoadOptions, Loaded, load_with_any_seed, uniform};
use crate::{Adapters, LoraOptions, add_adapters};
use damper_onnx::SettingError;
use damper_onnx::graph::{GraphOptions, retie};
use damper_onnx::pb::ModelProto;
use std::path::Path;

/// Requested adapters.
#[derive(Clone, PartialEq, Debug)]
pub struct Lora {
    /// Rank, alpha and weights.
    pub options: LoraOptions,
    /// True if the trained model keeps the adapters instead of merging them into the weights.
    pub keep: bool,
}

/// Model with adapters.
#[derive(Clone, PartialEq, Debug)]
pub struct Adapted {
    /// Model with the adapters.
    pub model: ModelProto,
    /// Adapters that were added.
    pub adapters: Adapters,
    /// See [`Lora::keep`].
    pub keep: bool,
}

impl Adapted {
    /// Options for reading the model with trained adapters.
    #[must_use]
    pub fn options(&self, options: &GraphOptions) -> GraphOptions {
        GraphOptions { adapters: self.adapters.names(), ..options.clone() }
    }

    /// Options for reading the model without adapters. With explicit parameters, `train` is then empty.
    #[must_use]
    pub fn plain_options(&self, options: &GraphOptions) -> GraphOptions {
        let train = if options.parameter.is_empty() { options.train.clone() } else { vec![] };
        GraphOptions { train, ..options.clone() }
    }
}

/// Reads the model in `path`, generates the values that it omits, and adds adapters. Both use the seed of `of_file`, or
/// 0. The `A` of an adapter is uniform within ±1/√inputs, and its `B` is 0.
///
/// # Errors
///
/// Fails like [`init::load`](crate::init::load), or if no adapter can be added.
pub fn load(
    path: &Path,
    of_file: LoadOptions,
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
    let Loaded { model, mut warnings, .. } = load_with_any_seed(path, of_file)?;
    let model = retie(&model, options)?.into_owned();
    let seed = of_file.seed.unwrap_or(0);
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
    use damper_onnx::graph::Graph;
    use std::num::NonZeroUsize;

    #[test]
    fn adapters_start_from_the_public_seed() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../onnx-models/digits-mlp.onnx");
        let lora = LoraOptions { rank: NonZeroUsize::new(2).unwrap(), alpha: None, targets: vec!["*".into()] };
        let lora = Lora { options: lora, keep: false };
        let with = |seed: Option<u64>| load(&path, seed.into(), &GraphOptions::default(), &lora).unwrap();
        let (loaded, adapted) = with(None);
        assert_eq!((loaded.init_seed, with(Some(0)).1, with(None).1), (Some(0), adapted.clone(), adapted.clone()));
        assert!(with(Some(1)).1 != adapted);
        // With explicit parameters, `train` names those that are trained in addition to the adapters.
        let names = |graph: &Graph| graph.trained().map(|parameter| parameter.name.clone()).collect::<Vec<_>>();
        let given = GraphOptions {
            parameter: ["fc1.weight", "fc2.weight", "fc2.bias"].map(String::from).into(),
            train: vec!["*bias".into()],
            ..GraphOptions::default()
        };
        let (_, adapted) = load(&path, LoadOptions::default(), &given, &lora).unwrap();
        let mut found = names(&Graph::from_model(&adapted.model, &adapted.options(&given)).unwrap());
        found.sort();
        let expected = ["fc1.weight.lora_A", "fc1.weight.lora_B", "fc2.bias", "fc2.weight.lora_A", "fc2.weight.lora_B"];
        assert_eq!(found, expected);
        assert!(Graph::from_model(&loaded.model, &given).unwrap_err().to_string().contains("`parameter` names all"));
        let only = GraphOptions { only: vec!["*".into()], ..GraphOptions::default() };
        assert!(
            load(&path, LoadOptions::default(), &only, &lora)
                .unwrap_err()
                .to_string()
                .starts_with("`only`: `lora` trains")
        );
    }
}
