//! Figures of a trained model on other samples.

use crate::engine::frozen;
use crate::engine::worker::ParamLayout;
use crate::outcome::class_metrics::ClassMetrics;
use crate::outcome::evaluate::Evaluator;
use crate::outcome::r_squared::r_squared_of;
use crate::{Budget, InputFiles, Method, Run, TrainConfig, TrainError, prepare};
use damper_data::Split;
use damper_edit::init::InitError;
use damper_onnx::{label_scale, load, normalize};
use damper_runtime::{Choice, open};
use serde::Serialize;

/// Exact functions of the evaluated samples, which no ε covers.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figures {
    /// Number of samples.
    pub samples: usize,
    /// Mean loss, in the unit of the labels.
    pub loss: f64,
    /// Accuracy, 0 to 1. `None` if the loss has no classes.
    pub accuracy: Option<f64>,
    /// R². `None` unless a mean squared error compares one number.
    pub r_squared: Option<f64>,
    /// Figures by class. `None` if the loss has no classes, or too many.
    pub by_class: Option<ClassMetrics>,
}

/// Returns the figures of the trained model in `source` on its data: on the held-out samples if the data have some,
/// otherwise on all. The constants that the model's metadata record for its inputs apply to the samples.
///
/// # Errors
///
/// The model or the data are wrong, or the backend is absent or fails.
pub fn figures(source: &InputFiles, backend: Choice) -> Result<Figures, TrainError> {
    let mut source = source.clone();
    {
        let model = load(&source.model).map_err(InitError::from)?;
        if let Some(released) = normalize(&model) {
            source.data_options.normalize = Some(released.parse()?);
        }
        source.data_options.unscaled_labels = label_scale(&model).is_some();
    }
    // Only the forward pass runs, so no setting of the training counts.
    let config =
        TrainConfig { backend, ..TrainConfig::new(Budget::NotPrivate, 1e-5, 1, 1.0, Method::dp_sgd(1.0, 1.0)) };
    let run = prepare(&source, config)?;
    let split = run.data.test.as_ref().unwrap_or(&run.data.train);
    let found = exact_figures(&run, &run.model.params, split)?;
    if found.loss.is_finite() {
        return Ok(found);
    }
    let problem = "the mean loss of these samples is infinite or not a number; correct the samples or the labels";
    Err(TrainError::Run(problem.into()))
}

/// Returns the figures of `run` with `params` on `split`.
///
/// # Errors
///
/// The backend is absent or fails.
pub fn exact_figures(run: &Run, params: &[f32], split: &Split) -> Result<Figures, TrainError> {
    let backend = open(run.config.backend)?;
    let layout = ParamLayout::new(&run.model.grad);
    let samples = (0..split.len()).filter(|row| !split.is_null(*row)).count();
    let r_squared = |loss| r_squared_of(run, split, loss);
    let stored = frozen::of_split(run, backend.as_ref(), split)?;
    let split = stored.as_ref().unwrap_or(split);
    let mut evaluator = Evaluator::new(backend.as_ref(), run, split)?;
    let (loss, accuracy) = evaluator.evaluate(split, &layout, params)?;
    let by_class = evaluator.class_metrics(split, &layout, params)?;
    let by_class = by_class.map(|figures| figures.named(run.data.names.classes.as_deref()));
    Ok(Figures { samples, loss, accuracy, r_squared: r_squared(loss), by_class })
}
