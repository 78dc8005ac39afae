//! Everything that is fixed before the first step: the graphs, the rate, the noise and the privacy cost.

use crate::engine::worker::ParamLayout;
use crate::plan::check::check_settings;
use crate::plan::graphs::frozen::frozen;
use crate::plan::graphs::{as_read, clipped, initial, physical_batch, whole};
use crate::plan::model::Model;
use crate::plan::price::price;
use crate::plan::read::{InputFiles, ModelAndData, check_label_scale, read};
use crate::plan::run::HeldOutChoice;
use crate::plan::terms::Price;
use crate::plan::warnings::{data as of_data, released_noise, settings};
use crate::state::recording;
use crate::{NetworkFacts, Run, TrainConfig, TrainError};
use damper_data::{Dataset, TestSource};
use damper_edit::init;
use damper_onnx::SettingError;
use damper_onnx::graph::DType;
use damper_onnx::graph::TensorData;
use std::mem;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Reads, checks, derives and calibrates. Does not release or write anything.
///
/// # Errors
///
/// A setting, the model or the data is wrong. The message names it and the fix.
pub fn prepare(source: &InputFiles, config: TrainConfig) -> Result<Run, TrainError> {
    prepare_on(source, config, Ok)
}

/// Runs [`prepare`] on a part of the data: the samples that `change` selects without looking at them.
///
/// # Errors
///
/// Those of [`prepare`] and of `change`.
pub fn prepare_on(
    source: &InputFiles,
    config: TrainConfig,
    change: impl FnOnce(Dataset) -> Result<Dataset, TrainError>,
) -> Result<Run, TrainError> {
    let mut inputs = RunInputs::read(source, &config)?;
    inputs.read.data = change(inputs.read.data)?;
    inputs.prepare(config)
}

/// The model and the data of a run, as read. Their public sizes may still determine its configuration.
#[derive(Debug)]
pub struct RunInputs<'a> {
    source: &'a InputFiles,
    read: ModelAndData,
}

impl<'a> RunInputs<'a> {
    /// Reads the model and the data for a run with settings like those of `config`, which are checked first.
    ///
    /// # Errors
    ///
    /// A setting, the model or the data is wrong. The message names it and the fix.
    pub fn read(source: &'a InputFiles, config: &TrainConfig) -> Result<Self, TrainError> {
        damper_core::self_test()?;
        check_config(source, config)?;
        let mut of_run = source.clone();
        // Features that released constants scale are rounded after scaling.
        of_run.data_options.unrounded = config.normalize_private.is_some();
        let read = read(&of_run, Some(config.backend))?;
        check_label_scale(&read.model, &source.data_options, &read.data)?;
        Ok(Self { source, read })
    }

    /// Returns the number of training samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.read.data.train.len() as u64
    }

    /// Returns the facts about the network that determine defaults.
    #[must_use]
    pub fn network(&self) -> NetworkFacts {
        let ModelAndData { model, adapted, graph, opaque, grad, .. } = &self.read;
        let model = adapted.as_ref().map_or(model, |adapted| &adapted.model);
        let trained = graph.parameters.iter().filter(|parameter| parameter.trained);
        NetworkFacts {
            params: ParamLayout::new(grad).dim(),
            fan_in: init::fan_in(model, trained.map(|one| (one.name.as_str(), one.initial.shape.as_slice()))),
            takes_integers: opaque
                .as_ref()
                .map_or(&grad.inputs, |part| &part.inputs)
                .iter()
                .any(|input| matches!(input.dtype, DType::I64 | DType::I32)),
        }
    }

    /// Checks the settings, derives and calibrates, as [`prepare`].
    ///
    /// # Errors
    ///
    /// Those of [`prepare`].
    pub fn prepare(self, mut config: TrainConfig) -> Result<Run, TrainError> {
        let Self { source, read } = self;
        let ModelAndData { model: onnx, adapted, warnings: of_model, init_seed, mut graph, opaque, grad, derive, data } =
            read;
        check_config(source, &config)?;
        let (frozen, rest) = frozen(&graph, &derive, &config, opaque.is_some())?.unzip();
        if opaque.is_some() {
            config.cache_frozen.get_or_insert(u64::MAX);
        }
        let differentiated = rest.as_ref().unwrap_or(&graph);
        let clipped = clipped(differentiated, &source.derive, &config)?;
        let grad = match (whole(differentiated, &source.derive, &config)?, &rest) {
            (Some(whole), _) => whole,
            (None, Some(rest)) => damper_grad::derive(rest, &as_read(&source.derive))?,
            (None, None) => grad,
        };
        drop(rest);

        let mut priced = price(&mut config, data.train.len() as u64, ParamLayout::new(&grad).dim())?;
        let of_noise = released_noise::all(&config, &data.train)?;
        check_data(&config, &data)?;
        let cost = clipped.as_ref().unwrap_or(&grad).cost;
        let rows = |cost| physical_batch(config.physical_batch, config.memory, cost);
        // Both parts use the same physical batch.
        let of_frozen = frozen.as_ref().map(|part| rows(part.cost)).transpose()?;
        let physical_batch = of_frozen.into_iter().fold(rows(cost)?, NonZeroUsize::min);
        let mut warnings = mem::take(&mut priced.warnings);
        let price = Price::new(&config, priced, &derive.loss, data.test.is_some())?;
        warnings.public.extend(of_noise);
        warnings.public.extend(settings::simulation(&config));
        warnings.public.extend(of_model);
        warnings.public.extend(settings::of_method(&config, &grad));
        warnings.public.extend(settings::of_price(&price));
        warnings.public.extend(settings::of_held_out(&config, &source.data_options));
        warnings.of_data.extend(of_data::all(&data)?);

        let params = initial(&graph, &grad);
        // Drops one copy of all parameters for the whole run.
        graph.parameters.iter_mut().filter(|p| p.trained).for_each(|p| p.initial.data = TensorData::F32(vec![].into()));
        let held_out = HeldOutChoice {
            of_training_file: matches!(source.data_options.test, Some(TestSource::Fraction(_))),
            are_stratified: source.data_options.stratify,
        };
        let model = Model { onnx, adapted, init_seed, graph, grad, clipped, derive, params, physical_batch };
        let (model, data) = (Arc::new(model), Arc::new(data));
        let run = Run {
            config,
            model,
            data,
            held_out,
            price,
            warnings,
            frozen: opaque.into_iter().chain(frozen).map(Arc::new).collect(),
            normalize: None,
            data_digest: None,
        };
        recording::check(&run)?;
        Ok(run)
    }
}

/// Returns an error for settings that do not fit each other.
fn check_config(source: &InputFiles, config: &TrainConfig) -> Result<(), TrainError> {
    check_settings(source.data_options.test.as_ref(), config)?;
    config.method.check(&config.optimizer)
}

/// Returns an error for settings that do not fit the shapes of the data.
fn check_data(config: &TrainConfig, data: &Dataset) -> Result<(), TrainError> {
    if let Some(augment) = &config.augment {
        augment.check(&data.train)?;
    }
    if let (Some(patience), None) = (config.stop_early, &data.test) {
        let problem = "the data has no held-out samples to evaluate on; add `test`, or leave it out";
        return Err(SettingError::new("stop_early", patience, problem).into());
    }
    Ok(())
}
